from unittest.mock import patch

import numpy as np

from builders import node, pod, pod_use
from tidelock.cluster.usage import expected_use
from tidelock.cluster.usage.measurements import at_once
from tidelock.cluster.usage.sums import Sums, own_use, uncovered
from tidelock.framework.measured_use import follow_expected_use
from tidelock.model.pods import Pod
from tidelock.model.usage_annotations import MeasuredUses
from unit.plugins.scene import Scene


def likely(pod: Pod) -> tuple[float, float]:
    return pod.likely_use


def cpu_of(scene: Scene, sums: Sums) -> list[float]:
    nodes = len(scene.columns)
    found: list[float] = sums.of(np.zeros(nodes), np.zeros((2, nodes)))[0, 0].tolist()
    return found


def test_pods_can_be_removed_between_the_slices_of_a_reading() -> None:
    scene = Scene(node("node-a"), node("node-b"))
    followed = follow_expected_use(scene.handle, estimate=likely, measured=True).summed(own_use(900))
    for name, where in (("one", "node-a"), ("two", "node-a"), ("three", "node-b")):
        scene.cache.assume(pod(name, controller="apps/v1/ReplicaSet/web-abc"), where)
    with patch.object(expected_use, "_SLICE", 1), patch.object(expected_use, "_NODES_A_SLICE", 1):
        slices = iter(
            scene.measurements.take(MeasuredUses({"uid-one": pod_use(3), "uid-three": pod_use(5)}, {}))
        )
        next(slices)
        scene.cache.remove("uid-two")
        scene.cache.drop_node("node-b")
        at_once(slices)
    assert cpu_of(scene, followed) == [3000]


def test_expected_use_from_estimates_alone_ignores_a_reading() -> None:
    scene = Scene(node("node-a"))
    followed = follow_expected_use(scene.handle, estimate=likely, history=False).summed(uncovered)
    scene.cache.assume(pod("one"), "node-a")
    at_once(scene.measurements.take(MeasuredUses({"uid-one": pod_use(3)}, {})))
    assert cpu_of(scene, followed) == [1000]


def test_many_nodes_are_summed_at_once() -> None:
    scene = Scene(*(node(f"node-{number}") for number in range(50)))
    followed = follow_expected_use(scene.handle, estimate=likely).summed(uncovered)
    for number in range(75):
        scene.cache.assume(pod(f"pod-{number}"), f"node-{number % 50}")
    assert cpu_of(scene, followed) == [2000] * 25 + [1000] * 25
