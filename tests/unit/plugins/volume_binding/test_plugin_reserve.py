import asyncio
import json
from typing import Any

import pytest

from builders import NOW, Json, encode, node, pod
from storage import DRIVER, claim, drop, on_nodes, put, storage_class, using, volume
from tidelock.framework.api import Code, Handle, PatchKind, Status
from tidelock.framework.pod_claims import claim_not_found
from tidelock.model.pods import Pod
from tidelock.plugins.volume_binding.plugin import VolumeBinding
from unit.plugins.scene import Judgement, Scene

HOST = "kubernetes.io/hostname"


class Api:
    """Answers and records patches as an API server does. Every write has a newer version."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, Json]] = []
        self.version = 100
        self.progress: asyncio.Queue[None] = asyncio.Queue()

    async def patch(self, path: str, body: Any, *, kind: PatchKind = "merge") -> bytes:
        assert kind == "merge"
        self.patches.append((path, json.loads(json.dumps(body))))
        self.version += 1
        self.progress.put_nowait(None)
        return encode({"metadata": {"name": "x", "resourceVersion": str(self.version)}})

    async def get(self, path: str) -> bytes:
        raise AssertionError(path)

    async def create(self, path: str, body: object) -> bytes:
        raise AssertionError(path, body)

    async def replace(self, path: str, body: object) -> bytes:
        raise AssertionError(path, body)

    async def delete(self, path: str, *, uid: str | None = None) -> bytes:
        raise AssertionError(path, uid)


class Binding:
    """One VolumeBinding over a small cluster with an API."""

    def __init__(self, **args: Any) -> None:
        self.scene = Scene(*(node(name, labels={HOST: name}) for name in ("node-a", "node-b")))
        self.objects = self.scene.objects
        self.api = Api()
        handle = Handle(self.scene.ledger.plugin_view, self.scene.cache, self.objects, self.api)
        self.plugin = VolumeBinding(handle, args)
        put(self.objects, storage_class(), storage_class("fast", provisioner=DRIVER))

    def judge(self, wanting: Pod) -> Judgement:
        return self.scene.judging(self.plugin, wanting)

    def reserve(self, wanting: Pod, node_name: str) -> Judgement:
        judged = self.judge(wanting)
        assert node_name in judged.fitting
        assert self.plugin.reserve(judged.state, wanting, node_name, NOW).ok
        self.scene.cache.assume(wanting, node_name)
        return judged

    def unreserve(self, judged: Judgement, node_name: str) -> None:
        self.scene.cache.forget(judged.pod.uid)
        self.plugin.unreserve(judged.state, judged.pod, node_name, NOW)

    def start(self, judged: Judgement, node_name: str) -> "asyncio.Task[Status]":
        return asyncio.create_task(self.plugin.pre_bind(judged.state, judged.pod, node_name))

    async def until_written(self, count: int = 1) -> None:
        """Wait until this many patches have been answered and the writer has continued."""
        for _ in range(count):
            await self.api.progress.get()
        await asyncio.sleep(0)


def failure(text: str) -> Status:
    return Status(Code.ERROR, (f"binding volumes: {text}",))


def wanting(name: str, *claims: str) -> Pod:
    return pod(name, **using(*claims))


def local(name: str, *nodes: str, **fields: Any) -> Any:
    return volume(name, affinity=on_nodes(*nodes), **fields)


def test_two_pods_decided_in_a_row_never_take_the_same_volume() -> None:
    binding = Binding()
    put(binding.objects, claim("one"), claim("two"), claim("three"))
    put(binding.objects, local("a-1", "node-a"), local("a-2", "node-a"))
    binding.reserve(wanting("p", "one"), "node-a")
    binding.reserve(wanting("q", "two"), "node-a")
    assert binding.judge(wanting("r", "three")).fitting == set()


def test_unreserve_undoes_the_assumption() -> None:
    binding = Binding()
    put(binding.objects, claim("one"), claim("two"), local("a-1", "node-a"))
    judged = binding.reserve(wanting("p", "one"), "node-a")
    assert binding.judge(wanting("q", "two")).fitting == set()

    for _ in range(2):
        binding.unreserve(judged, "node-a")
    assert binding.judge(wanting("q", "two")).fitting == {"node-a"}


def test_pods_that_share_a_claim_share_the_assumption_until_the_last_unreserve() -> None:
    binding = Binding()
    put(binding.objects, claim("shared"), claim("other"))
    put(binding.objects, local("a-1", "node-a"), local("b-1", "node-b"))
    first = binding.reserve(wanting("p", "shared"), "node-a")
    assert binding.judge(wanting("q", "shared")).fitting == {"node-a"}, "only where the claim will be bound"
    second = binding.reserve(wanting("q", "shared"), "node-a")

    binding.unreserve(first, "node-a")
    assert binding.judge(wanting("r", "other")).fitting == {"node-b"}
    binding.unreserve(second, "node-a")
    assert binding.judge(wanting("r", "other")).fitting == {"node-a", "node-b"}


def test_a_claim_with_a_volume_to_provision_is_assumed_on_the_node() -> None:
    binding = Binding()
    put(binding.objects, claim("shared", storage_class="fast"))
    judged = binding.reserve(wanting("p", "shared"), "node-b")
    assert binding.judge(wanting("q", "shared")).fitting == {"node-b"}

    binding.unreserve(judged, "node-b")
    assert binding.judge(wanting("q", "shared")).fitting == {"node-a", "node-b"}


def test_values_from_the_api_server_take_precedence_over_an_assumption() -> None:
    binding = Binding()
    put(binding.objects, claim("one"), claim("two"), local("a-1", "node-a"))
    binding.reserve(wanting("p", "one"), "node-a")
    put(binding.objects, local("a-1", "node-a", version=2, labels={"touched": "yes"}))
    assert binding.judge(wanting("q", "two")).fitting == set(), "an unrelated change ends no assumption"

    put(binding.objects, local("a-1", "node-a", version=3, claimed_by="two"))
    assert binding.judge(wanting("q", "two")).fitting == {"node-a"}
    put(binding.objects, local("a-1", "node-a", version=4))
    assert binding.judge(wanting("q", "one")).fitting == {"node-a"}, "the assumption is not made again"


def test_an_assumption_ends_with_its_object() -> None:
    binding = Binding()
    put(binding.objects, claim("one"), claim("two"), local("a-1", "node-a"))
    binding.reserve(wanting("p", "one"), "node-a")
    drop(binding.objects, local("a-1", "node-a"))
    put(binding.objects, local("a-1", "node-a"))
    assert binding.judge(wanting("q", "two")).fitting == {"node-a"}


async def test_pre_bind_sets_a_volume_aside_and_waits_for_its_claim() -> None:
    binding = Binding()
    put(binding.objects, claim("one", version=7), local("a-1", "node-a", version=9))
    judged = binding.reserve(wanting("p", "one"), "node-a")
    task = binding.start(judged, "node-a")
    await binding.until_written()

    assert binding.api.patches == [
        (
            "/api/v1/persistentvolumes/a-1",
            {
                "metadata": {
                    "uid": "uid-a-1",
                    "resourceVersion": "9",
                    "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
                },
                "spec": {
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "namespace": "shop",
                        "name": "one",
                        "uid": "uid-one",
                        "resourceVersion": "7",
                    }
                },
            },
        )
    ]
    put(binding.objects, local("a-1", "node-a", version=101, claimed_by="one"))
    put(binding.objects, claim("one", volume="a-1", completed=False, version=102))
    await asyncio.sleep(0)
    assert not task.done()
    put(binding.objects, claim("one", volume="a-1", version=103))
    assert (await task).ok


async def test_pre_bind_requests_a_volume_and_waits_for_it() -> None:
    binding = Binding()
    put(binding.objects, claim("one", storage_class="fast", version=7))
    judged = binding.reserve(wanting("p", "one"), "node-b")
    task = binding.start(judged, "node-b")
    await binding.until_written()

    annotations = {"volume.kubernetes.io/selected-node": "node-b"}
    metadata = {"uid": "uid-one", "resourceVersion": "7", "annotations": annotations}
    path = "/api/v1/namespaces/shop/persistentvolumeclaims/one"
    assert binding.api.patches == [(path, {"metadata": metadata})]

    fields: Json = {"storage_class": "fast", "selected_node": "node-b", "volume": "made"}
    put(binding.objects, claim("one", version=102, **fields))
    await asyncio.sleep(0)
    assert not task.done(), "the volume is not known yet"
    put(binding.objects, local("made", "node-b", claimed_by="one", storage_class="fast"))
    assert (await task).ok


async def test_values_that_are_written_already_are_not_written_again() -> None:
    binding = Binding()
    put(binding.objects, claim("one"), local("a-1", "node-a", claimed_by="one"))
    put(binding.objects, claim("two", storage_class="fast", selected_node="node-a"))
    judged = binding.reserve(wanting("p", "one", "two"), "node-a")
    task = binding.start(judged, "node-a")
    await asyncio.sleep(0)
    put(binding.objects, claim("one", volume="a-1", version=2))
    put(
        binding.objects,
        claim("two", storage_class="fast", selected_node="node-a", volume="a-2", version=3),
        local("a-2", "node-a", claimed_by="two"),
    )
    assert (await task).ok
    assert binding.api.patches == []


async def test_a_volume_that_a_user_set_aside_gets_no_annotation_of_the_controller() -> None:
    binding = Binding()
    put(binding.objects, claim("one"), local("a-1", "node-a", claimed_by="one", claim_uid=""))
    judged = binding.reserve(wanting("p", "one"), "node-a")
    task = binding.start(judged, "node-a")
    await binding.until_written()
    assert binding.api.patches[0][1]["metadata"]["annotations"] == {}
    assert binding.api.patches[0][1]["spec"]["claimRef"]["uid"] == "uid-one"
    put(binding.objects, local("a-1", "node-a", claimed_by="one", version=101))
    put(binding.objects, claim("one", volume="a-1", version=102))
    assert (await task).ok


@pytest.mark.parametrize(
    ("happens", "text"),
    [
        (
            lambda o: put(o, local("a-1", "node-a", version=102)),
            'ClaimRef got reset for pv "a-1"',
        ),
        (
            lambda o: put(o, local("a-1", "node-b", version=102, claimed_by="one")),
            'pv "a-1" node affinity doesn\'t match node "node-a": no matching NodeSelectorTerms',
        ),
        (lambda o: drop(o, local("a-1")), 'failed to check binding: persistentvolume "a-1" not found'),
        (
            lambda o: drop(o, claim("one")),
            'failed to check binding: persistentvolumeclaim "shop/one" not found',
        ),
    ],
)
async def test_a_failed_static_binding_is_reported(happens: Any, text: str) -> None:
    binding = Binding()
    put(binding.objects, claim("one"), local("a-1", "node-a"))
    judged = binding.reserve(wanting("p", "one"), "node-a")
    task = binding.start(judged, "node-a")
    await binding.until_written()
    put(binding.objects, local("a-1", "node-a", version=101, claimed_by="one"))
    happens(binding.objects)
    assert await task == failure(text)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, 'provisioning failed for PVC "one"'),
        ({"selected_node": "node-a"}, 'provisioning failed for PVC "one"'),
        (
            {"selected_node": "node-b", "volume": "made"},
            'pv "made" node affinity doesn\'t match node "node-b": no matching NodeSelectorTerms',
        ),
        (None, 'failed to check provisioning pvc: persistentvolumeclaim "shop/one" not found'),
    ],
)
async def test_a_failed_provisioning_is_reported(fields: Json | None, text: str) -> None:
    binding = Binding()
    put(binding.objects, claim("one", storage_class="fast"), local("made", "node-a", claimed_by="one"))
    judged = binding.reserve(wanting("p", "one"), "node-b")
    task = binding.start(judged, "node-b")
    await binding.until_written()
    if fields is None:
        drop(binding.objects, claim("one"))
    else:
        put(binding.objects, claim("one", storage_class="fast", version=102, **fields))
    assert await task == failure(text)


async def test_updates_from_before_the_write_are_ignored() -> None:
    binding = Binding()
    put(binding.objects, claim("one", storage_class="fast"))
    judged = binding.reserve(wanting("p", "one"), "node-b")
    task = binding.start(judged, "node-b")
    await binding.until_written()
    put(binding.objects, claim("one", storage_class="fast", version=100))
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not binding.plugin._binder._waiting


async def test_the_removal_of_the_pod_or_node_ends_the_wait() -> None:
    binding = Binding()
    put(binding.objects, claim("one", storage_class="fast"), claim("two", storage_class="fast"))
    first = binding.reserve(wanting("p", "one"), "node-a")
    second = binding.reserve(wanting("q", "two"), "node-b")
    tasks = binding.start(first, "node-a"), binding.start(second, "node-b")
    await binding.until_written(2)
    binding.scene.cache.remove("uid-p")
    binding.scene.cache.drop_node("node-b")
    for name in ("one", "two"):
        put(binding.objects, claim(name, storage_class="fast", version=100))

    assert [await task for task in tasks] == [
        failure('pod does not exist any more: pod "p" not found'),
        failure('failed to get node "node-b": node "node-b" not found'),
    ]


async def test_the_wait_has_a_timeout() -> None:
    binding = Binding(bindTimeoutSeconds=0)
    put(binding.objects, claim("one", storage_class="fast"))
    judged = binding.reserve(wanting("p", "one"), "node-a")
    status = await binding.plugin.pre_bind(judged.state, judged.pod, "node-a")
    assert status == failure("context deadline exceeded")
    assert not binding.plugin._binder._waiting


async def test_a_written_volume_is_not_given_to_other_pods_before_the_write_is_seen() -> None:
    binding = Binding(bindTimeoutSeconds=0)
    put(binding.objects, claim("one"), claim("two"), local("a-1", "node-a"))
    judged = binding.reserve(wanting("p", "one"), "node-a")
    assert not (await binding.plugin.pre_bind(judged.state, judged.pod, "node-a")).ok
    binding.unreserve(judged, "node-a")
    assert binding.judge(wanting("q", "two")).fitting == set()

    put(binding.objects, local("a-1", "node-a", version=102))
    assert binding.judge(wanting("q", "two")).fitting == {"node-a"}, "the volume has been released since"


@pytest.mark.parametrize(
    ("happens", "text"),
    [
        (lambda o: drop(o, local("a-1")), 'persistentvolume "a-1" not found'),
        (
            lambda o: put(o, local("a-1", "node-a", claimed_by="another")),
            'volume "a-1" already bound to a different claim.',
        ),
        (lambda o: drop(o, claim("two")), claim_not_found("two")),
    ],
)
async def test_objects_that_changed_since_the_decision_are_not_overwritten(happens: Any, text: str) -> None:
    binding = Binding()
    put(binding.objects, claim("one"), local("a-1", "node-a"), claim("two", storage_class="fast"))
    judged = binding.reserve(wanting("p", "one", "two"), "node-a")
    happens(binding.objects)
    status = await binding.plugin.pre_bind(judged.state, judged.pod, "node-a")
    assert status == failure(text)


async def test_pods_with_bound_claims_need_no_writes() -> None:
    binding = Binding()
    put(binding.objects, claim("one", volume="a-1"), local("a-1", "node-a"))
    for claims in ((), ("one",)):
        judged = binding.reserve(wanting("p", *claims), "node-a")
        assert binding.plugin.pre_bind_pre_flight(judged.state, judged.pod, "node-a").code is Code.SKIP


@pytest.mark.parametrize("name", ["local", "fast"])
async def test_pods_with_claims_to_bind_need_writes(name: str) -> None:
    binding = Binding()
    put(binding.objects, claim("one", storage_class=name), local("a-1", "node-a"))
    judged = binding.reserve(wanting("p", "one"), "node-a")
    assert binding.plugin.pre_bind_pre_flight(judged.state, judged.pod, "node-a").code is Code.SUCCESS


@pytest.mark.parametrize("seconds", [-1, "10m", True, None])
def test_an_invalid_timeout_is_refused(seconds: Any) -> None:
    with pytest.raises(ValueError, match=r"^pluginConfig of VolumeBinding: Expected .*bindTimeoutSeconds"):
        VolumeBinding(Scene().handle, {"bindTimeoutSeconds": seconds})


async def test_nothing_is_bound_without_an_api_client() -> None:
    binding = Binding()
    put(binding.objects, claim("one"), local("a-1", "node-a"))
    binding.plugin = VolumeBinding(binding.scene.handle, {})
    judged = binding.reserve(wanting("p", "one"), "node-a")
    with pytest.raises(RuntimeError, match="only tried out"):
        await binding.plugin.pre_bind(judged.state, judged.pod, "node-a")
