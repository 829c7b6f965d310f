"""Extended resources of a DeviceClass: the claim that stands for them, and its life."""

import asyncio
from typing import Any

import pytest

from builders import Json, node, pod
from devices import DRIVER, claiming, device, device_class, device_slice, put, request, wanting
from tidelock.framework.api import Code, FilterResult, Status
from tidelock.framework.devices_to_hold import DevicesToHold
from tidelock.kube.errors import Forbidden
from tidelock.model.reserve_pod import reserve_pod_of
from tidelock.plugins.dynamic_resources.extended_resources import backed_resources, claim_for
from tidelock.plugins.dynamic_resources.node_allocations import CANNOT_ALLOCATE, LEFTOVER
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from unit.plugins.dynamic_resources.cluster import Cluster
from unit.plugins.scene import Judgement

GPU, NIC = "example.com/gpu", "example.com/nic"
WANTING = pod(requests={"cpu": "1", GPU: "2"})


def with_gpus(*devices: str) -> Cluster:
    """Two nodes, of which node-a has devices of a class for GPU."""
    cluster = Cluster()
    put(cluster.objects, device_class("gpu", resource=GPU), device_slice("a", *devices))
    return cluster


def bind(cluster: Cluster, judged: Judgement) -> Status:
    return asyncio.run(_bind(cluster, judged))


async def _bind(cluster: Cluster, judged: Judgement) -> Status:
    status = await cluster.plugin.pre_bind(judged.state, judged.pod, "node-a")
    for name in cluster.api.claims:
        cluster.show(name)
    return status


def container(name: str, *, sidecar: bool = False, **resources: str) -> Json:
    """Build a container that requests GPUs or NICs."""
    names = {"gpu": GPU, "nic": NIC, "cpu": "cpu"}
    requests = {names[each]: units for each, units in resources.items()}
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "image": "x", "resources": {"requests": requests}} | policy


def of(init: list[Json], containers: list[Json]) -> tuple[dict[str, int], list[tuple[str, str, str]]]:
    """Return the requests of the claim of a pod with their counts, and the mappings."""
    classes = {GPU: device_class("gpu", resource=GPU), NIC: device_class("nic", resource=NIC)}
    wanted = pod(initContainers=init, containers=containers)
    claim, mappings = claim_for(wanted, backed_resources(wanted, classes), classes)
    requests = claim.spec.devices.requests
    assert {each.name for each in requests} == {each.request_name for each in mappings}
    counts = {each.name: each.exactly.count for each in requests if each.exactly is not None}
    return counts, [(each.container_name, each.resource_name, each.request_name) for each in mappings]


def test_each_container_has_a_request_for_each_resource() -> None:
    counts, mappings = of([], [container("a", cpu="1", gpu="2", nic="1"), container("b", gpu="1")])
    assert counts == {"container-0-request-1": 2, "container-0-request-2": 1, "container-1-request-0": 1}
    assert mappings == [
        ("a", GPU, "container-0-request-1"),
        ("b", GPU, "container-1-request-0"),
        ("a", NIC, "container-0-request-2"),
    ]


def test_an_init_container_uses_the_devices_of_later_containers_first() -> None:
    counts, mappings = of([container("i", gpu="2")], [container("a", gpu="1"), container("b", gpu="2")])
    assert counts == {"container-1-request-0": 1, "container-2-request-0": 2}
    assert mappings[-2:] == [("i", GPU, "container-1-request-0"), ("i", GPU, "container-2-request-0")]


def test_init_containers_share_the_largest_number_of_devices_that_one_lacks() -> None:
    init = [container("i", gpu="3"), container("j", gpu="5"), container("k", gpu="1")]
    counts, mappings = of(init, [container("a", gpu="1")])
    assert counts == {"container-1-request-0": 4, "container-3-request-0": 1}
    assert [each[2] for each in mappings] == [
        "container-3-request-0",
        *("container-3-request-0", "container-1-request-0") * 2,
        "container-3-request-0",
    ]


def test_a_sidecar_keeps_its_devices_from_init_containers_after_it() -> None:
    init = [container("i", gpu="1"), container("s", sidecar=True, gpu="1"), container("j", gpu="1")]
    counts, mappings = of(init, [container("a", cpu="1")])
    assert counts == {"container-1-request-0": 1, "container-2-request-0": 1}
    assert mappings == [
        ("s", GPU, "container-1-request-0"),
        ("i", GPU, "container-1-request-0"),
        ("j", GPU, "container-2-request-0"),
    ]


def test_devices_provide_a_resource_where_a_node_has_nothing_of_it() -> None:
    cluster = with_gpus("d0", "d1")
    cluster.scene.cache.put_node(node("node-c", **{GPU: "2"}))
    judged = cluster.judge(WANTING)
    assert judged.fitting == {"node-a", "node-c"}
    assert judged.reasons("node-b") == (CANNOT_ALLOCATE,)
    fit = cluster.scene.judge(NodeResourcesFit, WANTING)
    assert fit.fitting == {"node-a", "node-b", "node-c"}
    more = pod(requests={GPU: "3"})
    assert cluster.judge(more).fitting == {"node-c"}
    fit = cluster.scene.judge(NodeResourcesFit, more)
    assert fit.fitting == {"node-a", "node-b"}
    assert fit.reasons("node-c") == (f"Insufficient {GPU}",)


def test_the_name_of_a_class_is_a_resource_too() -> None:
    cluster = with_gpus("d0")
    wanted = pod(requests={"deviceclass.resource.kubernetes.io/gpu": "1"})
    assert cluster.judge(wanted).fitting == {"node-a"}
    assert cluster.scene.judge(NodeResourcesFit, wanted).fitting == {"node-a", "node-b"}


def test_a_resource_without_a_class_is_none_of_the_plugins_business() -> None:
    cluster = Cluster()
    judged = cluster.judge(WANTING)
    assert (judged.status.code, judged.status.cacheable) == (Code.SKIP, False)
    assert cluster.scene.judge(NodeResourcesFit, WANTING).fitting == set()
    put(cluster.objects, device_class("gpu", resource=GPU), device_slice("a", "d0", "d1"))
    assert cluster.judge(WANTING).fitting == {"node-a"}
    assert cluster.scene.judge(NodeResourcesFit, WANTING).fitting == {"node-a", "node-b"}


def test_claims_and_extended_resources_get_different_devices() -> None:
    cluster = with_gpus("d0", "d1", "d2")
    cluster.claim("named")
    judged = cluster.reserve(pod(requests={GPU: "2"}, **claiming("named")))
    assert bind(cluster, judged).ok
    assert [_devices(each) for each in cluster.api.claims.values()] == [["d0"], ["d1", "d2"]]


def test_the_claim_is_created_with_the_binding() -> None:
    cluster = with_gpus("d0", "d1")
    judged = cluster.reserve(WANTING)
    assert cluster.judge(pod("other", requests={GPU: "1"})).fitting == set()
    assert bind(cluster, judged).ok
    ((name, stored),) = cluster.api.claims.items()
    assert cluster.api.asked == ["POST", f"PATCH {name}", f"PATCH {name}/status", "PATCH the pod's status"]
    assert name.startswith("web-0-extended-resources-")
    assert cluster.reports.texts == ["created: True"]
    assert stored["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    (owner,) = stored["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web-0",
        "uid": "uid-web-0",
        "controller": True,
    }
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    assert stored["spec"] == {
        "devices": {"requests": [{"name": "container-0-request-1", "exactly": exactly}]}
    }
    assert _devices(stored) == ["d0", "d1"]
    mapping = {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-1"}
    assert cluster.api.pod_statuses == [
        {"extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": [mapping]}}
    ]
    assert dict(cluster.objects.resource_claims.in_flight.items()) == {}
    assert cluster.judge(pod("other", requests={GPU: "1"})).fitting == set()


def test_a_claim_of_a_failed_binding_is_deleted() -> None:
    cluster = with_gpus("d0", "d1")
    judged = cluster.reserve(WANTING)

    async def fail() -> None:
        cluster.api.fails(Forbidden("no", status=403), carried_out=True)
        with pytest.raises(Forbidden):
            await cluster.plugin.pre_bind(judged.state, judged.pod, "node-a")
        cluster.unreserve(judged)
        cluster.unreserve(judged)
        await asyncio.sleep(0)

    asyncio.run(fail())
    assert cluster.api.claims == {}
    assert dict(cluster.objects.resource_claims.in_flight.items()) == {}
    assert cluster.judge(WANTING).fitting == {"node-a"}


def test_a_claim_that_can_not_be_created_leaves_nothing_behind() -> None:
    cluster = with_gpus("d0", "d1")
    judged = cluster.reserve(WANTING)
    cluster.api.fails(Forbidden("no", status=403))
    with pytest.raises(Forbidden):
        bind(cluster, judged)
    cluster.unreserve(judged)
    assert (cluster.api.claims, cluster.reports.texts) == ({}, ["created: False"])
    assert cluster.judge(WANTING).fitting == {"node-a"}


def test_a_pod_waits_for_the_devices_of_its_own_claim() -> None:
    """Check that a claim which the informer does not show yet does not count as deleted."""
    cluster = Cluster()
    put(cluster.objects, device_class("gpu", resource=GPU))
    put(cluster.objects, device_slice("a", device("d0", bindingConditions=["Ready"])))
    judged = cluster.reserve(pod(requests={GPU: "1"}))

    async def bind_and_report() -> Status:
        task = asyncio.create_task(cluster.plugin.pre_bind(judged.state, judged.pod, "node-a"))
        while not cluster.api.pod_statuses:  # noqa: ASYNC110 -- the API has no event for it
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
        (name,) = cluster.api.claims
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        cluster.change(name, devices=[{"driver": DRIVER, "pool": "a", "device": "d0"} | ready])
        cluster.show(name)
        return await task

    assert asyncio.run(bind_and_report()).ok


def test_a_claim_that_was_left_over_goes_before_the_next_attempt() -> None:
    cluster = with_gpus("d0", "d1")
    leftover = claim_of_pod(cluster)
    judged = cluster.judge(WANTING)
    assert judged.fitting == set()
    assert judged.reasons() == (LEFTOVER,)

    async def post_filter() -> Any:
        nothing = FilterResult(judged.mask, (), ())
        result = cluster.plugin.post_filter(judged.state, judged.pod, judged.snapshot, nothing)
        cluster.plugin.post_filter(judged.state, judged.pod, judged.snapshot, nothing)
        await asyncio.sleep(0)
        return result

    assert asyncio.run(post_filter()).status.reasons == ("deletion of ResourceClaim completed",)
    assert cluster.api.claims == {}
    last = cluster.objects.resource_claims.get(leftover, "shop")
    assert last is not None
    cluster.objects.resource_claims.remove(last)
    helps = [
        each for each in cluster.plugin.events_to_register() if each.event.resource.name == "RESOURCE_CLAIM"
    ]
    assert helps[0].hint is not None
    assert helps[0].hint(WANTING, last, None)
    assert not helps[0].hint(pod("other", requests={GPU: "1"}), last, None)
    assert cluster.judge(WANTING).fitting == {"node-a"}


def claim_of_pod(cluster: Cluster) -> str:
    """Store a claim as an earlier attempt for WANTING has left it, and return its name."""
    made = {"resource.kubernetes.io/extended-resource-claim": "true"}
    name = "web-0-extended-resources-x"
    cluster.claim(name, request("container-0-request-1", wanting(count=2)), owner="web-0")
    cluster.api.claims[name]["metadata"] |= {"annotations": made}
    cluster.show(name)
    return name


def test_a_node_of_its_own_resource_needs_no_claim() -> None:
    cluster = with_gpus()
    cluster.scene.cache.put_node(node("node-a", **{GPU: "2"}))
    judged = cluster.reserve(WANTING)
    assert cluster.plugin.pre_bind_pre_flight(judged.state, judged.pod, "node-a").code is Code.SKIP
    assert cluster.api.asked == []


def test_a_reservation_fits_where_devices_or_the_node_itself_provide_the_resource() -> None:
    cluster = with_gpus("d0", "d1")
    reserve_pod = reserve_pod_of(WANTING.meta, WANTING.spec, WANTING.requests)
    cluster.scene.cache.put_node(node("node-b", **{GPU: "2"}))
    judged = cluster.judge(reserve_pod)
    assert judged.fitting == {"node-a", "node-b"}
    held = judged.state.expect(DevicesToHold)
    assert [each.device for each in held.on("node-a")] == ["d0", "d1"]
    assert held.on("node-b") == ()


def test_the_newest_class_of_a_resource_counts() -> None:
    cluster = Cluster()
    old, new = "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"
    classes = cluster.objects.device_classes
    put(
        cluster.objects,
        *(device_class(name, resource=GPU, created=at) for name, at in (("z", old), ("b", new))),
    )
    assert classes.by_resource[GPU].meta.name == "b"
    put(cluster.objects, device_class("a", resource=GPU, created=new))
    assert classes.by_resource[GPU].meta.name == "a"
    for name in ("a", "b"):
        known = classes.get(name)
        assert known is not None
        classes.remove(known)
    assert classes.by_resource[GPU].meta.name == "z"


def test_a_pod_that_lacks_a_resource_waits_for_a_class_of_it() -> None:
    cluster = Cluster()
    plugin = NodeResourcesFit(cluster.scene.handle, {})
    hints = [each.hint for each in plugin.events_to_register() if each.event.resource.name == "DEVICE_CLASS"]
    assert len(hints) == 1
    hint: Any = hints[0]
    named, other = device_class("gpu", resource=GPU), device_class("gpu")
    assert hint(WANTING, None, named)
    assert hint(WANTING, other, named)
    assert not hint(WANTING, named, named)
    assert not hint(WANTING, None, other)
    assert hint(pod(requests={"deviceclass.resource.kubernetes.io/gpu": "1"}), None, other)


def test_a_node_that_comes_helps_if_devices_can_provide_the_resource() -> None:
    cluster = with_gpus("d0")
    plugin = NodeResourcesFit(cluster.scene.handle, {})
    (hint,) = [each.hint for each in plugin.events_to_register() if each.event.resource.name == "NODE"]
    assert hint is not None
    small, large = (node("node-n", cpu=cpu) for cpu in ("500m", "4"))
    assert not hint(WANTING, None, small)
    assert hint(WANTING, None, large)
    assert hint(WANTING, large, large)


def _devices(stored: Json) -> list[str]:
    return [each["device"] for each in stored["status"]["allocation"]["devices"]["results"]]
