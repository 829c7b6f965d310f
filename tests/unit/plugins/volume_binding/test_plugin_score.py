"""Scores by storage, worked out by hand. tests/property compares them with a node at a time."""

import pytest

from builders import node, pod
from storage import (
    DRIVER,
    ZONE,
    claim,
    csi_driver,
    on_nodes,
    put,
    storage_capacity,
    storage_class,
    using,
    volume,
)
from tidelock.plugins.volume_binding.plugin import VolumeBinding
from unit.plugins.scene import Scene

HOST = "kubernetes.io/hostname"
TWO = pod("web-0", **using("data", "logs"))


def world() -> Scene:
    """Return nodes with 10 and 4 GiB of storage in their zones."""
    scene = Scene(*(node(f"node-{zone}", labels={ZONE: zone, HOST: f"node-{zone}"}) for zone in "ab"))
    put(scene.objects, storage_class(), storage_class("fast", provisioner=DRIVER), csi_driver())
    for zone, size in {"a": "10Gi", "b": "4Gi"}.items():
        put(scene.objects, storage_capacity(zone, size, topology={"matchLabels": {ZONE: zone}}))
    return scene


def test_more_free_storage_is_better_and_claims_of_a_class_share_it() -> None:
    scene = world()
    put(scene.objects, claim("data", storage_class="fast", size="1Gi"))
    put(scene.objects, claim("logs", storage_class="fast", size="2Gi"))
    judged = scene.judge(VolumeBinding, TWO)
    assert judged.scores_among("node-a", "node-b") == {"node-a": 70, "node-b": 25}


def test_a_node_with_volumes_is_scored_by_these_alone() -> None:
    scene = world()
    put(scene.objects, claim("data", size="1Gi"), claim("logs", storage_class="fast", size="2Gi"))
    put(scene.objects, volume("disk", capacity="3Gi", affinity=on_nodes("node-a")))
    judged = scene.judge(VolumeBinding, TWO)
    assert judged.scores_among("node-a") == {"node-a": 67}


def test_the_shape_is_an_argument_and_bound_claims_do_not_count() -> None:
    scene = world()
    put(scene.objects, claim("data", storage_class="fast", size="1Gi"))
    put(scene.objects, claim("logs", volume="disk"), volume("disk"))
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    judged = scene.judge(VolumeBinding, TWO, shape=shape)
    assert judged.scores_among("node-a", "node-b") == {"node-a": 10, "node-b": 25}


@pytest.mark.parametrize("shape", [[{"utilization": 0, "score": 11}], [{"utilization": 101, "score": 1}]])
def test_a_wrong_shape_is_refused(shape: list[dict[str, int]]) -> None:
    with pytest.raises(ValueError, match=r"^pluginConfig of VolumeBinding: shape: "):
        world().judge(VolumeBinding, TWO, shape=shape)
