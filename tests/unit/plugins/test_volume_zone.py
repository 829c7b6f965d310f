import pytest

from builders import node, pod
from storage import ZONE, claim, drop, put, storage_class, using, volume
from tidelock.framework.api import Code
from tidelock.framework.pod_claims import claim_not_found
from tidelock.plugins.volume_zone import (
    NO_CLAIM_NAME,
    NO_CLASS_NAME,
    NO_VOLUME_NAME,
    ZONE_CONFLICT,
    VolumeZone,
)
from unit.plugins.scene import Scene

BETA = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
WANTING = pod("web-0", **using("data"))


def world() -> Scene:
    return Scene(
        node("node-a", labels={ZONE: "a", REGION: "east"}),
        node("node-b", labels={ZONE: "b", REGION: "east"}),
        node("node-c", labels={BETA: "a"}),
        node("node-d"),
    )


@pytest.mark.parametrize(
    ("labels", "fitting"),
    [
        ({ZONE: "a"}, {"node-a", "node-d"}),
        ({ZONE: "a__c"}, {"node-a", "node-d"}),
        ({ZONE: "c"}, {"node-d"}),
        ({ZONE: "b", REGION: "east"}, {"node-b", "node-d"}),
        ({ZONE: "b", REGION: "west"}, {"node-d"}),
        ({BETA: "a"}, {"node-a", "node-c", "node-d"}),
    ],
)
def test_a_pod_fits_where_the_zone_labels_of_its_volume_match(
    labels: dict[str, str], fitting: set[str]
) -> None:
    scene = world()
    put(scene.objects, claim(volume="disk"), volume("disk", labels=labels))
    judged = scene.judge(VolumeZone, WANTING)

    assert judged.fitting == fitting
    assert judged.reasons("node-b") == (ZONE_CONFLICT,)
    plugin = judged.plugin
    assert isinstance(plugin, VolumeZone)
    assert not plugin.preemption_may_help(judged.state, WANTING, judged.snapshot, 0)
    few = judged.narrowed("node-d", "node-b", "node-a")
    assert few.mask.tolist() == [name in fitting for name in ("node-d", "node-b", "node-a")]


@pytest.mark.parametrize("labels", [{}, {"app": "web"}, {ZONE: "a__"}])
def test_volumes_that_name_no_zone_are_skipped(labels: dict[str, str]) -> None:
    scene = world()
    put(scene.objects, claim(volume="disk"), volume("disk", labels=labels))
    assert scene.judge(VolumeZone, WANTING).status.code is Code.SKIP


def test_waiting_and_ephemeral_claims_are_left_to_volume_binding() -> None:
    scene = world()
    put(scene.objects, claim(), storage_class())
    volumes = using("data")["volumes"] + [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]
    assert scene.judge(VolumeZone, pod("web-0", volumes=volumes)).status.code is Code.SKIP
    assert scene.judge(VolumeZone, pod("plain")).status.code is Code.SKIP


def test_each_missing_object_is_named_in_turn() -> None:
    scene = world()

    def reason() -> str:
        status = scene.judge(VolumeZone, WANTING).status
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return status.reasons[0]

    assert reason() == claim_not_found("data")
    put(scene.objects, claim(storage_class=None))
    assert reason() == NO_CLASS_NAME
    put(scene.objects, claim(storage_class="fast"))
    assert reason() == 'storageclass.storage.k8s.io "fast" not found'
    put(scene.objects, storage_class("fast", mode="Immediate"))
    assert reason() == NO_VOLUME_NAME
    put(scene.objects, claim(volume="disk"))
    assert reason() == 'persistentvolume "disk" not found'
    drop(scene.objects, claim())
    nameless = pod("web-0", **using(""))
    assert scene.judge(VolumeZone, nameless).status.reasons == (NO_CLAIM_NAME,)


def test_changed_nodes_change_the_result() -> None:
    scene = world()
    put(scene.objects, claim(volume="disk"), volume("disk", labels={ZONE: "a"}))
    plugin = VolumeZone(scene.handle, {})
    assert scene.judging(plugin, WANTING).fitting == {"node-a", "node-d"}

    scene.cache.put_node(node("node-b", labels={ZONE: "a"}))
    scene.cache.drop_node("node-a")
    assert scene.judging(plugin, WANTING).fitting == {"node-b", "node-d"}
