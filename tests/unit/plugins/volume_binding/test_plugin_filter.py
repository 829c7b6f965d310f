from typing import Any

import pytest

from builders import node, pod
from storage import (
    DRIVER,
    ZONE,
    claim,
    csi_driver,
    drop,
    labelled,
    on_nodes,
    put,
    storage_capacity,
    storage_class,
    using,
    volume,
)
from tidelock.framework.api import Code
from tidelock.framework.pod_claims import claim_not_found
from tidelock.model.pod_limits import too_large_text
from tidelock.plugins.volume_binding.plugin import (
    NO_FREE_STORAGE,
    NO_VOLUME_TO_BIND,
    UNBOUND_IMMEDIATE,
    VOLUME_GONE,
    VOLUME_NODE_CONFLICT,
    VolumeBinding,
    claim_awaited,
    claim_deleted,
    claim_lost,
    claim_not_owned,
)
from unit.plugins.scene import Judgement, Scene

HOST = "kubernetes.io/hostname"
WANTING = pod("web-0", **using("data"))
TWO = pod("web-0", **using("data", "logs"))


def world() -> Scene:
    """Return three nodes in two zones, a class of ready volumes and one with a provisioner."""
    zones = {"node-a": "a", "node-b": "b", "node-c": "b"}
    scene = Scene(*(node(name, labels={HOST: name, ZONE: zone}) for name, zone in zones.items()))
    put(scene.objects, storage_class(), storage_class("fast", provisioner=DRIVER))
    return scene


def judge(scene: Scene, wanting: Any = WANTING) -> Judgement:
    return scene.judge(VolumeBinding, wanting)


def test_pods_without_claims_are_skipped() -> None:
    wanting = pod("web-0", volumes=[{"name": "tmp", "emptyDir": {}}])
    assert judge(world(), wanting).status.code is Code.SKIP


def exists(count: int) -> dict[str, Any]:
    expressions = [{"key": f"k-{number}", "operator": "DoesNotExist"} for number in range(count)]
    return {"matchExpressions": expressions}


@pytest.mark.parametrize(
    ("claims", "conditions", "reason"),
    [
        (48, 10, ""),
        (49, 1, "claims that are not bound: 49, at most 48 are supported"),
        (1, 512, ""),
        (3, 200, "conditions in selectors of claims that are not bound: 600, at most 512 are supported"),
    ],
)
def test_more_claims_or_conditions_than_one_decision_can_match_are_refused(
    claims: int, conditions: int, reason: str
) -> None:
    scene, names = world(), [f"data-{number}" for number in range(claims)]
    for name in names:
        wanted = claim(name, selector=exists(conditions))
        put(scene.objects, wanted, volume(name, affinity=on_nodes("node-a")))
    judged = judge(scene, pod("web-0", **using(*names)))
    if reason:
        assert judged.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert judged.status.reasons == (too_large_text(reason),)
    else:
        assert judged.fitting == {"node-a"}


def test_a_pod_with_a_bound_claim_fits_where_its_volume_can_be_reached() -> None:
    scene = world()
    put(scene.objects, claim(volume="disk"), volume(affinity=on_nodes("node-b", "node-c")))
    judged = judge(scene)

    assert judged.fitting == {"node-b", "node-c"}
    assert judged.reasons("node-a") == (VOLUME_NODE_CONFLICT,)
    assert judged.narrowed("node-c", "node-a").mask.tolist() == [True, False]
    assert judged.narrowed("node-c", "node-a").snapshot.nodes[1].name == "node-a"
    plugin = judged.plugin
    assert isinstance(plugin, VolumeBinding)
    assert plugin.reasons(judged.state, WANTING, judged.narrowed("node-c", "node-a").snapshot, 1) == (
        VOLUME_NODE_CONFLICT,
    )
    assert not plugin.preemption_may_help(judged.state, WANTING, judged.snapshot, 0)


def affine(**term: list[dict[str, Any]]) -> dict[str, Any]:
    return {"required": {"nodeSelectorTerms": [term]}}


NAMED = [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]


@pytest.mark.parametrize(
    ("affinity", "fitting"),
    [
        (affine(matchFields=NAMED), {"node-a", "node-b", "node-c"}),
        (
            affine(matchFields=NAMED, matchExpressions=[{"key": ZONE, "operator": "NotIn", "values": ["a"]}]),
            {"node-b", "node-c"},
        ),
        (affine(matchFields=[{"key": "metadata.name", "operator": "Exists"}]), set()),
        (affine(matchExpressions=[{"key": ZONE, "operator": "NotIn", "values": ["no label value"]}]), set()),
    ],
)
def test_the_affinity_of_a_volume_is_matched_by_labels_only(
    affinity: dict[str, Any], fitting: set[str]
) -> None:
    """A volume that selected nodes by a field once fitted no node. kube-scheduler ignores fields here."""
    scene = world()
    put(scene.objects, claim(volume="disk"), volume(affinity=affinity))

    judged = judge(scene)
    assert judged.fitting == fitting
    plugin, disk = judged.plugin, scene.objects.persistent_volumes.get("disk")
    assert isinstance(plugin, VolumeBinding)
    assert disk is not None
    assert disk.affinity is not None
    for each in scene.columns.nodes:
        assert disk.affinity.matches("", each.meta.labels) == (each.name in fitting)


@pytest.mark.parametrize("affinity", [None, labelled(ZONE, "a", "b"), {"required": None}])
def test_a_bound_claim_with_a_volume_for_all_nodes_is_skipped(affinity: Any) -> None:
    scene = world()
    put(scene.objects, claim(volume="disk"), volume(affinity=affinity))
    assert judge(scene).status.code is Code.SKIP


def test_a_missing_volume_rules_out_the_nodes_that_otherwise_fit() -> None:
    scene = world()
    put(
        scene.objects, claim(volume="disk"), claim("logs", volume="gone"), volume(affinity=on_nodes("node-a"))
    )
    judged = judge(scene, TWO)

    assert judged.fitting == set()
    assert judged.reasons("node-a") == (VOLUME_GONE,)
    assert judged.reasons("node-b") == (VOLUME_NODE_CONFLICT,)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"phase": "Lost", "volume": "disk"},
            claim_lost("data", "disk"),
        ),
        ({"deleted": True}, claim_deleted("data")),
        ({"storage_class": "slow"}, UNBOUND_IMMEDIATE),
        ({"storage_class": "unheard-of"}, UNBOUND_IMMEDIATE),
        ({"storage_class": None}, UNBOUND_IMMEDIATE),
        ({"volume": "disk", "completed": False}, UNBOUND_IMMEDIATE),
    ],
)
def test_a_claim_that_cannot_be_used_is_named(fields: dict[str, Any], text: str) -> None:
    scene = world()
    put(scene.objects, storage_class("slow", mode="Immediate"), claim(**fields))
    status = judge(scene).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == (text,)


def test_a_missing_claim_is_named() -> None:
    assert judge(world()).status.reasons == (claim_not_found("data"),)


def test_an_ephemeral_claim_is_waited_for_and_must_belong_to_the_pod() -> None:
    scene = world()
    wanting = pod("web-0", volumes=[{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {}}}])
    awaited = claim_awaited("web-0-tmp")
    assert judge(scene, wanting).status.reasons == (awaited,)

    put(scene.objects, claim("web-0-tmp", owner="somebody"))
    foreign = claim_not_owned("shop/web-0-tmp", "shop/web-0")
    assert judge(scene, wanting).status.reasons == (foreign,)

    put(scene.objects, claim("web-0-tmp", owner="web-0", storage_class="fast"))
    assert judge(scene, wanting).fitting == {"node-a", "node-b", "node-c"}


@pytest.mark.parametrize(
    ("wanted", "there", "suits"),
    [
        ({}, {}, True),
        ({"size": "2Gi"}, {"capacity": "1Gi"}, False),
        ({"size": None}, {"capacity": "0"}, True),
        ({"modes": ["ReadWriteMany"]}, {"modes": ["ReadWriteOnce"]}, False),
        ({"modes": ["ReadWriteOnce"]}, {"modes": ["ReadOnlyMany", "ReadWriteOnce"]}, True),
        ({"volumeMode": "Block"}, {}, False),
        ({"volumeMode": "Block"}, {"volumeMode": "Block"}, True),
        ({"volumeMode": "Filesystem"}, {}, True),
        ({"storage_class": "fast"}, {"storage_class": "local"}, False),
        ({"selector": {"matchLabels": {"disk": "ssd"}}}, {}, False),
        ({"selector": {"matchLabels": {"disk": "ssd"}}}, {"labels": {"disk": "ssd"}}, True),
        ({"volumeAttributesClassName": "gold"}, {}, False),
        ({"volumeAttributesClassName": "gold"}, {"volumeAttributesClassName": "gold"}, True),
        ({}, {"phase": "Released"}, False),
        ({}, {"deleted": True}, False),
        ({}, {"claimed_by": "another"}, False),
        ({}, {"claimed_by": "data"}, True),
        ({}, {"claimed_by": "data", "claim_uid": ""}, True),
        ({}, {"claimed_by": "data", "claim_uid": "of its predecessor"}, False),
        ({"modes": ["ReadWriteMany"]}, {"claimed_by": "data", "phase": "Bound"}, True),
        ({"size": "2Gi"}, {"claimed_by": "data"}, False),
    ],
)
def test_a_waiting_claim_gets_only_a_suitable_volume(
    wanted: dict[str, Any], there: dict[str, Any], *, suits: bool
) -> None:
    scene = world()
    put(scene.objects, storage_class("fast"), claim(**wanted), volume(affinity=on_nodes("node-b"), **there))
    judged = judge(scene)

    assert judged.fitting == ({"node-b"} if suits else set())
    assert judged.reasons("node-a") == (NO_VOLUME_TO_BIND,)


def test_a_volume_serves_one_claim_of_a_pod() -> None:
    scene = world()
    put(scene.objects, claim(), claim("logs"))
    put(scene.objects, volume("a-1", affinity=on_nodes("node-a")), volume("b-1", affinity=on_nodes("node-b")))
    put(scene.objects, volume("b-2", affinity=on_nodes("node-b")), volume("bc", affinity=labelled(ZONE, "b")))
    assert judge(scene, TWO).fitting == {"node-b"}


def test_the_smallest_claim_takes_the_smallest_volume_that_the_larger_one_cannot_use() -> None:
    scene = world()
    put(scene.objects, claim(size="5Gi"), claim("logs", size="1Gi"))
    put(scene.objects, volume("small", capacity="2Gi", affinity=on_nodes("node-a")))
    put(scene.objects, volume("large", capacity="9Gi", affinity=on_nodes("node-a")))
    assert judge(scene, TWO).fitting == {"node-a"}


def test_volumes_are_provisioned_in_the_topologies_of_their_class() -> None:
    scene = world()
    allowed = [{ZONE: ["a", "c"]}, {ZONE: ["b"], HOST: ["node-c"]}, {}]
    put(scene.objects, storage_class("fast", provisioner=DRIVER, topologies=allowed))
    put(scene.objects, claim(storage_class="fast"))
    judged = judge(scene)

    assert judged.fitting == {"node-a", "node-c"}
    assert judged.reasons("node-b") == (NO_VOLUME_TO_BIND,)


def test_volumes_are_provisioned_where_their_driver_has_enough_storage() -> None:
    scene = world()
    put(scene.objects, claim(storage_class="fast", size="5Gi"), csi_driver())
    put(
        scene.objects,
        storage_capacity("a", "9Gi", topology={"matchLabels": {ZONE: "a"}}),
        storage_capacity("b", "4Gi", topology={"matchLabels": {HOST: "node-b"}}),
        storage_capacity("c", "9Gi", topology={"matchLabels": {HOST: "node-c"}}, maximumVolumeSize="4Gi"),
        storage_capacity("unreachable", "9Gi"),
        storage_capacity("unknown", None, topology={}),
        storage_capacity("other", "9Gi", storage_class="other", topology={}),
    )
    judged = judge(scene)
    assert judged.fitting == {"node-a"}
    assert judged.reasons("node-b") == (NO_FREE_STORAGE,)

    drop(scene.objects, storage_capacity("a", "9Gi"))
    assert judge(scene).fitting == set()
    put(scene.objects, claim(storage_class="fast", size=None))
    assert judge(scene).fitting == {"node-a", "node-b", "node-c"}, "a claim of no size fits anywhere"
    put(scene.objects, claim(storage_class="fast", size="5Gi"), csi_driver(storage_capacity=False))
    assert judge(scene).fitting == {"node-a", "node-b", "node-c"}, "the driver does not report its capacity"


def test_a_claim_with_a_selected_node_fits_only_on_that_node() -> None:
    scene = world()
    put(
        scene.objects,
        claim(storage_class="fast", selected_node="node-b"),
        claim("logs", storage_class="fast"),
    )
    judged = judge(scene, TWO)
    assert judged.fitting == {"node-b"}
    assert judged.reasons("node-a") == (NO_VOLUME_TO_BIND,)

    put(scene.objects, claim("logs", storage_class="fast", selected_node="node-c"))
    assert judge(scene, TWO).fitting == set()
    put(scene.objects, claim("logs", storage_class="fast", selected_node="node-gone"))
    assert judge(scene, TWO).fitting == set()


def test_a_node_has_all_its_reasons() -> None:
    scene = world()
    disk = volume(affinity=on_nodes("node-b"), claimed_by="data")
    put(scene.objects, claim(volume="disk"), disk, claim("logs"))
    judged = judge(scene, TWO)
    assert judged.reasons("node-a") == (VOLUME_NODE_CONFLICT, NO_VOLUME_TO_BIND)
    assert judged.reasons("node-b") == (NO_VOLUME_TO_BIND,)


def test_changed_nodes_and_volumes_change_the_result() -> None:
    scene = world()
    plugin = VolumeBinding(scene.handle, {})
    put(scene.objects, claim(), volume(affinity=on_nodes("node-b")))
    assert scene.judging(plugin, WANTING).fitting == {"node-b"}

    scene.cache.put_node(node("node-b", labels={}))
    assert scene.judging(plugin, WANTING).fitting == set()
    scene.cache.put_node(node("node-a", labels={HOST: "node-b"}))
    assert scene.judging(plugin, WANTING).fitting == {"node-a"}
    put(scene.objects, volume(affinity=on_nodes("node-b"), claimed_by="another"))
    assert scene.judging(plugin, WANTING).fitting == set()
    put(scene.objects, volume(affinity=on_nodes("node-b")))
    assert scene.judging(plugin, WANTING).fitting == {"node-a"}
    drop(scene.objects, volume())
    assert scene.judging(plugin, WANTING).fitting == set()
