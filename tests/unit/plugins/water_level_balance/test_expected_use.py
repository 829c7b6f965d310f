"""The use that is expected of pods and reservations beside the measurement of a node."""

from typing import Any

import pytest

from builders import NOW, pod, pod_use, reservation, usage
from tidelock.cluster.usage.measurements import at_once
from tidelock.framework.own_reservations import OwnReservations
from tidelock.model.meta import ObjectMeta, OwnerReference
from tidelock.model.usage_annotations import MeasuredUses, WorkloadKey
from tidelock.model.workloads import Workload
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from unit.plugins.levelled import CPU_ALONE, POD, STATIC, measured, scored
from unit.plugins.scene import Scene

WINDOWS = {"mode": "NodeWindows"}


# The expected use of a pod.


@pytest.mark.parametrize(
    ("wanting", "percent"),
    [
        (pod(requests={"cpu": "1"}, limits={"cpu": "2"}), 2),
        (pod(requests={"cpu": "1"}), 1),
        (pod(requests={}), 0.25),
        (pod(controller="apps/v1/StatefulSet/web", requests={"cpu": "8"}), 4),
    ],
)
def test_history_goes_before_the_limit_and_the_limit_before_the_request(wanting: Any, percent: float) -> None:
    scene = Scene(measured("node-a", 10))
    at_once(
        scene.measurements.take(MeasuredUses({}, {WorkloadKey("StatefulSet", "shop", "web"): usage(4.0)}))
    )
    found = scene.judge(WaterLevelBalance, wanting, **WINDOWS, **CPU_ALONE, **STATIC).scores["node-a"]
    assert found == pytest.approx(80 * (10 + percent) / 20 + 20)


# The guard.


def test_a_pod_counts_by_the_part_of_the_window_before_its_binding() -> None:
    """Ten minutes after the binding, a third of the window of 15 minutes lacks the use of the pod."""
    scene = Scene(measured("node-a", 0, at=NOW))
    scene.cache.upsert(pod("other", requests={"cpu": "3"}, node_name="node-a", bound_at=NOW - 600))
    args = {**STATIC, "windows": [{"duration": "15m", "weight": 1}]}
    assert scored(scene, **args) == pytest.approx([80 * (1 + 1) / 20 + 20])


def test_an_assumed_pod_counts_in_full_until_it_is_removed() -> None:
    scene = Scene(measured())
    plugin = WaterLevelBalance(scene.handle, {**CPU_ALONE, **STATIC})
    alone = scene.judging(plugin, POD).scores["node-a"]

    scene.cache.assume(pod("other", requests={"cpu": "3"}), "node-a")
    assert scene.judging(plugin, POD).scores["node-a"] == 80 * 4 / 20 + 20

    scene.cache.remove("uid-other")
    assert scene.judging(plugin, POD).scores["node-a"] == alone


def test_a_newer_sample_covers_a_pod_and_an_older_one_does_not() -> None:
    scene = Scene(measured(at=NOW - 1000))
    args = {**CPU_ALONE, **STATIC, "stalenessSeconds": 5000, "windows": [{"duration": "15m", "weight": 1}]}
    plugin = WaterLevelBalance(scene.handle, args)
    scene.cache.assume(pod("other", requests={"cpu": "3"}), "node-a")
    scene.cache.upsert(pod("other", requests={"cpu": "3"}, node_name="node-a", bound_at=NOW - 950))
    assert scene.judging(plugin, POD).scores["node-a"] == 80 * 4 / 20 + 20

    scene.cache.put_node(measured(cpu=3, at=NOW))
    assert scene.judging(plugin, POD).scores["node-a"] == pytest.approx(80 * 4 / 20 + 20)


def test_after_a_restart_pods_count_by_their_time_of_binding() -> None:
    """The cache of a new process sees the node after its pods."""
    scene = Scene()
    scene.cache.upsert(pod("other", requests={"cpu": "3"}, node_name="node-a", bound_at=NOW - 450))
    scene.cache.put_node(measured())
    args = {**STATIC, "windows": [{"duration": "15m", "weight": 1}]}
    assert scored(scene, **args) == pytest.approx([80 * (1.5 + 1) / 20 + 20])


def test_a_burst_is_spread_although_the_metrics_do_not_change() -> None:
    scene = Scene(*(measured(f"node-{index}") for index in range(5)))
    plugin = WaterLevelBalance(scene.handle, {**CPU_ALONE, "target": {"mode": "Dynamic", "minWeight": 100}})
    placed = dict.fromkeys((f"node-{index}" for index in range(5)), 0)
    for number in range(20):
        scores = scene.judging(plugin, pod(f"web-{number}")).scores
        best = max(scores, key=lambda name: scores[name])
        placed[best] += 1
        scene.cache.assume(pod(f"web-{number}"), best)
    assert set(placed.values()) == {4}


def test_a_reservation_adds_the_use_of_its_owner_except_for_the_owner_itself() -> None:
    scene = Scene(measured("node-a"))
    plugin = WaterLevelBalance(scene.handle, {**CPU_ALONE, **STATIC})
    alone = scene.judging(plugin, POD).scores["node-a"]
    entry = scene.reservation("lock", "node-a", resources={"cpu": "3"})

    assert scene.judging(plugin, POD).scores["node-a"] == 80 * 4 / 20 + 20
    assert scene.judging(plugin, POD, OwnReservations((entry,))).scores["node-a"] == pytest.approx(alone)

    scene.ledger.remove(reservation("lock"))
    assert scene.judging(plugin, POD).scores["node-a"] == alone


def test_a_reservation_for_a_workload_adds_the_use_from_its_history() -> None:
    scene = Scene(measured("node-a"))
    at_once(
        scene.measurements.take(MeasuredUses({}, {WorkloadKey("StatefulSet", "shop", "web"): usage(7.0)}))
    )
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
    scene.reservation("lock", "node-a", resources={"cpu": "3"}, owners=[{"controller": owner}])
    assert scored(scene, **STATIC) == [80 * 8 / 20 + 20]


def test_a_waiting_reservation_adds_nothing() -> None:
    scene = Scene(measured("node-a"))
    scene.ledger.upsert(reservation("lock", resources={"cpu": "3"}), NOW)
    waiting = OwnReservations(tuple(scene.ledger.entries.values()))
    assert scene.judge(WaterLevelBalance, POD, waiting, **CPU_ALONE, **STATIC).scores == {"node-a": 24}


@pytest.mark.parametrize(
    "owners",
    [
        [{"controller": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}}],
        [
            {"pod": {"name": "other"}},
            {"controller": {"apiVersion": "x/v1", "kind": "StatefulSet", "name": "web"}},
        ],
    ],
)
def test_a_reservation_without_history_of_its_owners_adds_the_reserved_amount(owners: list[Any]) -> None:
    scene = Scene(measured("node-a"))
    at_once(
        scene.measurements.take(MeasuredUses({}, {WorkloadKey("StatefulSet", "shop", "web"): usage(7.0)}))
    )
    scene.reservation("lock", "node-a", resources={"cpu": "3"}, owners=owners)
    assert scored(scene, **STATIC) == [80 * 4 / 20 + 20]


def test_a_pod_counts_by_history_from_the_first_reading_after_its_workload_is_known() -> None:
    scene = Scene(measured("node-a"))
    plugin = WaterLevelBalance(scene.handle, {**CPU_ALONE, **STATIC})
    for name in ("web-1", "web-2", "other-1"):
        replica_set = f"{name.partition('-')[0]}-abc"
        scene.cache.assume(pod(name, controller=f"apps/v1/ReplicaSet/{replica_set}"), "node-a")
    assert scene.judging(plugin, POD).scores["node-a"] == 80 * 4 / 20 + 20

    owner = OwnerReference("apps/v1", "Deployment", "web", "uid-web", controller=True)
    meta = ObjectMeta("web-abc", "shop", owner_references=(owner,))
    scene.objects.replica_sets.upsert(None, Workload(meta))
    at_once(scene.measurements.take(MeasuredUses({}, {WorkloadKey("Deployment", "shop", "web"): usage(3.0)})))
    assert scene.judging(plugin, POD).scores["node-a"] == 80 * 8 / 20 + 20


def test_without_the_guard_only_the_sample_counts() -> None:
    scene = Scene(measured())
    scene.cache.assume(pod("other", requests={"cpu": "3"}), "node-a")
    assert scored(scene, **STATIC, guard=False) == [24]


# The sums of pods.

SUMS: dict[str, Any] = {"mode": "PodSums", **STATIC}


def test_sums_add_the_measured_use_of_pods_and_follow_changes_at_once() -> None:
    scene = Scene(measured("node-a", 90))
    for name in ("one", "two"):
        scene.cache.upsert(pod(name, requests={"cpu": "9"}, node_name="node-a", bound_at=NOW - 9999))
    uses = {"uid-one": pod_use(2.0), "uid-two": pod_use(5.0)}
    at_once(scene.measurements.take(MeasuredUses(uses, {})))
    plugin = WaterLevelBalance(scene.handle, {**CPU_ALONE, **SUMS})
    assert scene.judging(plugin, POD).scores["node-a"] == 80 * 8 / 20 + 20

    scene.cache.remove("uid-two")
    assert scene.judging(plugin, POD).scores["node-a"] == 80 * 3 / 20 + 20

    at_once(scene.measurements.take(MeasuredUses({"uid-one": pod_use(4.0)}, {})))
    assert scene.judging(plugin, POD).scores["node-a"] == 80 * 5 / 20 + 20


def test_history_complements_the_measurement_of_young_pods_by_their_age() -> None:
    scene = Scene(measured("node-a"))
    web = {"controller": "apps/v1/StatefulSet/web", "requests": {"cpu": "9"}, "node_name": "node-a"}
    scene.cache.upsert(pod("young", bound_at=NOW - 450, **web))
    uses = MeasuredUses({"uid-young": pod_use(8.0)}, {WorkloadKey("StatefulSet", "shop", "web"): usage(4.0)})
    at_once(scene.measurements.take(uses))
    assert scored(scene, **SUMS) == [80 * (0.25 * 8 + 0.75 * 4 + 1) / 20 + 20]


def test_a_young_pod_without_history_counts_as_measured_and_one_not_measured_as_estimated() -> None:
    scene = Scene(measured("node-a"))
    scene.cache.upsert(pod("young", requests={"cpu": "9"}, node_name="node-a", bound_at=NOW - 10))
    scene.cache.assume(pod("newer", requests={"cpu": "4"}), "node-a")
    at_once(scene.measurements.take(MeasuredUses({"uid-young": pod_use(2.0)}, {})))
    assert scored(scene, **SUMS) == [80 * (2 + 4 + 1) / 20 + 20]


def test_the_windows_of_the_node_replace_stale_sums() -> None:
    scene = Scene(measured("node-a", 5))
    at_once(scene.measurements.take(MeasuredUses({"uid-other": pod_use(2.0, at=NOW - 901)}, {})))
    assert scored(scene, **SUMS) == [80 * 6 / 20 + 20]
