"""Objects that can't be read, and the pods and reservations that are not placed because of them."""

from typing import Any

import pytest

from builders import Json, encode, node, node_json, pod, pod_json
from tidelock.cluster.objects import Objects
from tidelock.framework.api import Code
from tidelock.framework.events import Action, ClusterEvent, Resource
from tidelock.framework.rejections import nodes_by_reason
from tidelock.model.nodes import Node, decode_node
from tidelock.model.pods import Pod, decode_pod
from tidelock.plugins.unreadable_objects import UnreadableObjects
from tidelock.scheduler.informers.informers import decoder_of
from unit.plugins.hinting import change_wakes
from unit.plugins.scene import Scene
from unit.scheduler.machinery import Core

MOUNTING = pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
BOUND = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}


def bad_node(name: str, **fields: Any) -> Node:
    """Decode a node with taints that can't be read."""
    return decode_node(encode(node_json(name, **fields) | {"spec": {"taints": "none"}}))


def bad_pod(name: str = "web-0", **fields: Any) -> Pod:
    """Decode a pod with a request of memory that can't be read."""
    return decode_pod(encode(pod_json(name, requests={"cpu": "1", "memory": "?"}, **fields)))


def put(
    objects: Objects,
    resource: str,
    name: str,
    *,
    namespace: str = "",
    meta: Json | None = None,
    **fields: Any,
) -> None:
    """Add an object to its lister."""
    plain = {"metadata": {"name": name, "namespace": namespace, **(meta or {})}, **fields}
    lister = getattr(objects, resource)
    lister.upsert(lister.get(name, namespace), decoder_of(resource)(encode(plain)))


def test_a_node_that_cannot_be_read_fits_no_pod() -> None:
    judgement = Scene(node("node-a"), bad_node("node-b")).judge(UnreadableObjects, pod())

    assert judgement.fitting == {"node-a"}
    assert judgement.reasons("node-b") == (UnreadableObjects.reason,)
    assert not judgement.preemption_may_help("node-b")


def test_a_node_with_an_unreadable_pod_fits_no_pod_until_that_pod_can_be_read() -> None:
    scene = Scene(node("node-a"), node("node-b"))
    plugin = UnreadableObjects(scene.handle, {})
    scene.cache.upsert(bad_pod(node_name="node-b"))
    assert scene.judging(plugin, pod("other")).fitting == {"node-a"}

    scene.cache.upsert(pod(node_name="node-b", version=2))
    assert scene.judging(plugin, pod("other")).status.code is Code.SKIP


def test_pods_are_skipped_while_all_objects_can_be_read() -> None:
    assert Scene(node()).judge(UnreadableObjects, MOUNTING).status.code is Code.SKIP


def test_a_pod_that_cannot_be_read_is_refused_with_the_field() -> None:
    status = Scene(node()).judge(UnreadableObjects, bad_pod()).status

    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons[0].startswith("pod can't be read: spec.containers[0].resources.requests.memory: ")


@pytest.mark.parametrize(
    ("resource", "name", "fields", "kind"),
    [
        ("persistent_volume_claims", "data", {"spec": {"accessModes": 1}}, "persistentvolumeclaim"),
        ("persistent_volumes", "pv-1", {"spec": {"nodeAffinity": []}}, "persistentvolume"),
        ("storage_classes", "fast", {"allowedTopologies": 1}, "storageclass"),
        ("csi_drivers", "csi.example.com", {"spec": {"storageCapacity": "yes"}}, "csidriver"),
    ],
)
def test_a_pod_with_unreadable_storage_objects_is_refused(
    resource: str, name: str, fields: Json, kind: str
) -> None:
    scene = Scene(node())
    namespace = "shop" if resource == "persistent_volume_claims" else ""
    spec = {"storageClassName": "fast", "volumeName": "pv-1"}
    put(scene.objects, "persistent_volume_claims", "data", namespace="shop", spec=spec)
    put(scene.objects, "persistent_volumes", "pv-1")
    put(scene.objects, "storage_classes", "fast", provisioner="csi.example.com")
    put(scene.objects, "csi_drivers", "csi.example.com")
    assert scene.judge(UnreadableObjects, MOUNTING).status.code is Code.SKIP

    put(scene.objects, resource, name, namespace=namespace, **fields)
    status = scene.judge(UnreadableObjects, MOUNTING).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons[0].startswith(f'{kind} "{name}" can\'t be read: ')
    assert scene.judge(UnreadableObjects, pod()).status.code is Code.SKIP


def test_a_bound_claim_needs_no_readable_storage_class() -> None:
    scene = Scene(node())
    put(
        scene.objects,
        "persistent_volume_claims",
        "data",
        namespace="shop",
        meta=BOUND,
        spec={"volumeName": "pv-1", "storageClassName": "fast"},
    )
    put(scene.objects, "storage_classes", "fast", allowedTopologies=1)

    assert scene.judge(UnreadableObjects, MOUNTING).status.code is Code.SKIP


def test_a_node_with_an_unreadable_csi_node_fits_no_pods_with_volumes() -> None:
    scene = Scene(node("node-a"), node("node-b"))
    put(scene.objects, "csi_nodes", "node-a", spec={"drivers": "?"})
    plugin = UnreadableObjects(scene.handle, {})

    assert scene.judging(plugin, MOUNTING).fitting == {"node-b"}
    assert scene.judging(plugin, pod()).status.code is Code.SKIP
    put(scene.objects, "csi_nodes", "node-a", spec={"drivers": None})
    assert scene.judging(plugin, MOUNTING).status.code is Code.SKIP


def test_a_refused_pod_is_tried_again_when_the_node_can_be_read() -> None:
    core = Core(bad_node("node-a"))
    core.add(pod("web-0", requests={"cpu": "1"}))
    diagnosis = core.refuse().diagnosis
    assert diagnosis.message.startswith(nodes_by_reason(1, {UnreadableObjects.reason: 1}))
    assert diagnosis.plugins == {"UnreadableObjects"}

    core.event_handlers.nodes.upsert(None, node("node-a"))
    core.clock.advance(10)
    assert core.place().node_name == "node-a"


def test_a_refused_pod_is_tried_again_when_the_pod_can_be_read() -> None:
    core = Core(node("node-a"))
    core.add(bad_pod("web-0"))
    assert core.refuse().diagnosis.plugins == {"UnreadableObjects"}

    core.event_handlers.pods.upsert(bad_pod("web-0"), pod("web-0", version=2))
    core.clock.advance(10)
    assert core.place().node_name == "node-a"


def test_a_refused_pod_is_tried_again_when_a_pod_of_the_node_can_be_read() -> None:
    core = Core(node("node-a"))
    core.add(bad_pod("odd", node_name="node-a"))
    core.add(pod("web-0", requests={"cpu": "1"}))
    assert core.refuse().diagnosis.plugins == {"UnreadableObjects"}

    core.event_handlers.pods.upsert(None, pod("odd", node_name="node-a", version=2))
    core.clock.advance(10)
    assert core.place().node_name == "node-a"


def test_reservations_keep_an_unreadable_node_and_no_new_one_is_placed_there() -> None:
    """The capacity of such a node is unknown, so the reservation is not known to exceed that capacity."""
    core = Core(node("node-a"))
    reservation = core.reservation(resources={"cpu": "2"})
    core.step()
    assert (reservation.node, reservation.held["cpu"]) == ("node-a", 2000)

    core.event_handlers.nodes.upsert(None, decode_node(encode(node_json("node-a", cpu="?"))))
    late = core.reservation("late", resources={"cpu": "1"}, owner="db-0")
    core.step()
    assert (reservation.node, reservation.held["cpu"]) == ("node-a", 2000)
    assert late.node == ""
    assert "had an unreadable object" in late.message


def test_a_pod_that_is_too_large_is_refused_until_the_pod_itself_changes() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term] * 101}}
    large = pod(affinity=affinity)
    scene = Scene(node("node-a"))

    status = scene.judge(UnreadableObjects, large).status
    hints = {each.event: each.hint for each in UnreadableObjects(scene.handle, {}).events_to_register()}

    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    (reason,) = status.reasons
    assert reason.startswith(
        "pod is too large: terms of spec.affinity.podAffinity and podAntiAffinity: 101, "
    )
    helping = [event for event, hint in hints.items() if hint is None or hint(large, None, node("node-b"))]
    assert helping == [ClusterEvent(Resource.TARGET_POD, Action.UPDATE)]


def test_a_node_with_a_pod_that_is_too_large_fits_other_pods() -> None:
    scene = Scene(node("node-a"))
    requests = {f"example.com/r-{number}": "1" for number in range(100)}
    scene.cache.upsert(pod("large", node_name="node-a", requests=requests))

    assert scene.judge(UnreadableObjects, pod()).status.code is Code.SKIP


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (bad_node("node-a"), node("node-a", labels={"a": "b"}), True),
        (node("node-a"), node("node-a", labels={"a": "b"}), False),
        (None, node("node-b"), True),
        (bad_pod("other", node_name="node-a"), None, True),
        (pod("other", node_name="node-a"), None, False),
    ],
)
def test_a_refused_pod_waits_for_new_nodes_and_other_versions_of_unreadable_objects(
    old: Any, new: Any, helps: bool
) -> None:
    assert change_wakes(UnreadableObjects, pod(), old, new) is helps


def test_a_refused_pod_waits_until_the_csi_node_of_a_node_can_be_read_or_is_gone() -> None:
    objects = Objects()
    put(objects, "csi_nodes", "node-a", spec={"drivers": "?"})
    put(objects, "csi_nodes", "node-b", spec={"drivers": None})
    bad, good = (objects.csi_nodes.get(name) for name in ("node-a", "node-b"))

    assert change_wakes(UnreadableObjects, MOUNTING, bad, good)
    assert change_wakes(UnreadableObjects, MOUNTING, bad, None)
    assert not change_wakes(UnreadableObjects, MOUNTING, good, good)
    assert not change_wakes(UnreadableObjects, MOUNTING, None, good)


def test_a_refused_pod_waits_for_the_objects_of_its_own_claims() -> None:
    scene = Scene(node("node-a"))
    put(
        scene.objects, "persistent_volume_claims", "data", namespace="shop", spec={"storageClassName": "fast"}
    )
    put(scene.objects, "storage_classes", "fast", provisioner="csi.example.com")
    for name in ("csi.example.com", "other.example.com"):
        put(scene.objects, "csi_drivers", name)
    objects = scene.objects
    own = objects.persistent_volume_claims.get("data", "shop"), objects.storage_classes.get("fast")

    for new in (*own, objects.csi_drivers.get("csi.example.com")):
        assert change_wakes(UnreadableObjects, MOUNTING, None, new, scene)
        assert not change_wakes(UnreadableObjects, pod(), None, new, scene)
    assert not change_wakes(
        UnreadableObjects, MOUNTING, None, objects.csi_drivers.get("other.example.com"), scene
    )
