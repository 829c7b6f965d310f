"""WaterLevelBalance, by published figures: nodes at 0, 4, 24, 49 and 98 %, C = 20, and a pod of 1 %."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from builders import NOW, level, node, pod, pod_use, reservation, usage, water_level
from tidelock.cluster.usage.measurements import at_once
from tidelock.framework.api import Code, PreScore
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.own_reservations import OwnReservations
from tidelock.model.meta import ObjectMeta, OwnerReference
from tidelock.model.nodes import Node
from tidelock.model.usage_annotations import NODE_LEVEL, MeasuredUses, WorkloadKey
from tidelock.model.workloads import Workload
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from unit.plugins.scene import Scene

# The published figures are of this scoring.
PACKING = {"scoring": "TargetLoadPacking"}
CPU_ALONE = {"resources": [{"name": "cpu"}], **PACKING}
WINDOWS = {"mode": "NodeWindows"}
STATIC = {"target": {"mode": "Static", "percent": 20}}
LEVELS = (0.0, 4.0, 24.0, 49.0, 98.0)
POD = pod(requests={"cpu": "1"})


def measured(
    name: str = "node-a", cpu: float = 0, memory: float = 0, *, at: float = NOW, **size: str
) -> Node:
    """Return a node of 100 cores, so one core is one percent."""
    fields = {"cpu": "100", "memory": "100Gi", **size}
    return node(name, annotations={NODE_LEVEL: level(cpu, memory, at=at)}, **fields)


def five() -> Scene:
    return Scene(*(measured(f"node-{index}", cpu) for index, cpu in enumerate(LEVELS)))


def scored(scene: Scene, **args: Any) -> list[float]:
    return list(scene.judge(WaterLevelBalance, POD, **CPU_ALONE, **args).scores.values())


def at(now: float) -> DecisionTime:
    return DecisionTime(now)


def test_published_figures_of_a_static_target() -> None:
    assert scored(five(), **STATIC) == [24, 40, 18.75, 12.5, 0.25]


@pytest.mark.parametrize(("min_weight", "target"), [(0, 35), (0.2, 29.166667), (1, 17.5), (2, 11.666667)])
def test_published_figures_of_a_dynamic_target(min_weight: float, target: float) -> None:
    """The first node is below the target with the pod: (100 - C) / C + C."""
    first = scored(five(), target={"mode": "Dynamic", "minWeight": min_weight})[0]
    assert first == pytest.approx((100 - target) / target + target, abs=1e-5)


def test_constant_slopes_cost_a_point_below_the_target_and_half_a_point_beyond() -> None:
    args = {**STATIC, "resources": [{"name": "cpu"}]}
    found = five().judge(WaterLevelBalance, POD, **args).scores
    assert list(found.values()) == [81, 85, 97.5, 85, 60.5]


@pytest.mark.parametrize("higher", [0, 30, 60])
def test_constant_slopes_prefer_one_node_to_another_alike_at_any_level(higher: int) -> None:
    """The rules of TargetLoadPacking prefer it by 4.3 points at 30 %, and by 23 at 70 %."""
    scene = Scene(measured("node-a", 10 + higher), measured("node-b", 20 + higher))
    target = {"mode": "Static", "percent": 9 + higher}
    found = scene.judge(WaterLevelBalance, POD, resources=[{"name": "cpu"}], target=target).scores
    assert found["node-a"] - found["node-b"] == 5


@pytest.mark.parametrize(
    ("combination", "expected"),
    [("Mean", (3 * 90 + 60) / 4), ("Worst", 60), ("Scarcity", (60 * 90 + 50 * 60) / 110)],
)
def test_resources_are_combined_by_their_weights_by_the_worst_or_by_their_scarcity(
    combination: str, expected: float
) -> None:
    """A node is 20 points beyond the target of 20 in cpu, and 40 points below the one of 50 in memory."""
    scene = Scene(measured("node-a", 39, 9), measured("node-b", 1, 91))
    found = scene.judge(
        WaterLevelBalance,
        pod(requests={"cpu": "1", "memory": "1Gi"}),
        combination=combination,
        resources=[{"name": "cpu", "weight": 3}, {"name": "memory"}],
        windows=[{"duration": "15m", "weight": 1}],
        target={"mode": "Dynamic"},
    ).scores
    assert found["node-a"] == pytest.approx(expected)


@pytest.mark.parametrize(("percent", "expected"), [(0, [0, 0]), (100, [100, 0])])
def test_the_limits_of_a_target(percent: float, expected: list[float]) -> None:
    scene = Scene(measured("node-0", 50), measured("node-1", 99.5))
    assert scored(scene, target={"mode": "Static", "percent": percent}) == expected


def test_windows_and_resources_count_by_their_weights() -> None:
    text = level(windows={"15m": (9, 19), "1h": (19, 19), "1d": (39, 19)})
    scene = Scene(node("node-a", cpu="100", memory="100Gi", annotations={NODE_LEVEL: text}))
    wanting = pod(requests={"cpu": "1", "memory": "1Gi"})
    resources = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
    windows = [
        {"duration": window, "weight": weight} for window, weight in (("15m", 5), ("1h", 3), ("1d", 2))
    ]
    args = {**PACKING, **STATIC, "resources": resources, "windows": windows}

    found = scene.judge(WaterLevelBalance, wanting, **args).scores["node-a"]

    # u of 10, 20 and 40 score 60, 100 and 15 with C = 20. Memory is at the target.
    assert found == pytest.approx(0.75 * (0.5 * 60 + 0.3 * 100 + 0.2 * 15) + 0.25 * 100)


def test_a_window_without_a_measurement_uses_a_neighbouring_window() -> None:
    known = Scene(node("node-a", cpu="100", annotations={NODE_LEVEL: level(windows={"1h": (9, 0)})}))
    assert scored(known, **STATIC) == [60]


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


# Missing measurements.


def test_without_measurements_and_water_levels_the_plugin_skips() -> None:
    scene = Scene(node(), node("node-b", annotations={NODE_LEVEL: level(50, at=NOW - 901)}))
    judged = scene.judge(WaterLevelBalance, POD, overloadLimits={"cpuPercent": 1})
    assert judged.status.code is Code.SKIP
    assert isinstance(judged.plugin, PreScore)
    assert judged.scores == {"node-a": 0, "node-b": 0}


@pytest.mark.parametrize(
    "text",
    [None, level(90, at=NOW - 901), level(90, at=NOW + 901), "rubbish", '{"at": "now", "windows": {}}'],
)
def test_the_use_of_a_node_without_a_fresh_measurement_is_estimated_by_requests(text: str | None) -> None:
    """The measured node uses half of its requests, so the other node is taken to use half as well."""
    annotations = {} if text is None else {NODE_LEVEL: text}
    scene = Scene(measured("node-a", 10), node("node-b", cpu="100", memory="100Gi", annotations=annotations))
    for number, name in ((20, "node-a"), (60, "node-b")):
        scene.cache.upsert(
            pod(f"on-{name}", requests={"cpu": str(number)}, node_name=name, bound_at=NOW - 99_999)
        )
    found = scene.judge(WaterLevelBalance, POD, **CPU_ALONE, **STATIC).scores
    assert found["node-b"] == pytest.approx(20 * (100 - 31) / 80)


def test_requests_are_scored_if_no_measurement_is_fresh(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(measured("node-a", 0), measured("node-b", 90))
    scene.objects.water_levels.upsert(None, water_level())
    scene.cache.assume(pod("other", requests={"cpu": "50"}), "node-a")
    plugin = WaterLevelBalance(scene.handle, CPU_ALONE)
    with caplog.at_level(logging.INFO):
        later = scene.judging(plugin, POD, at(NOW + 1000))
        assert later.scores == {"node-a": 49, "node-b": 99}
        assert scene.judging(plugin, POD, at(NOW + 1001)).scores == {"node-a": 49, "node-b": 99}
        assert scene.judging(plugin, POD).scores["node-b"] < 49
    assert [record.message for record in caplog.records] == [
        "no fresh measurement of any node: scoring by requests",
        "nodes are measured again: scoring by their levels",
    ]


def test_the_passing_of_time_makes_a_measurement_stale() -> None:
    scene = Scene(measured("node-a", 90))
    plugin = WaterLevelBalance(scene.handle, {"overloadLimits": {"cpuPercent": 80}})
    assert scene.judging(plugin, POD, at(NOW + 900)).fitting == set()
    assert scene.judging(plugin, POD, at(NOW + 901)).fitting == {"node-a"}


# Limits.

LIMITS = {"overloadLimits": {"cpuPercent": 80, "memoryPercent": 70}}


def test_nodes_beyond_a_limit_are_ruled_out_with_the_numbers() -> None:
    scene = Scene(measured("node-a", 80), measured("node-b", 81), measured("node-c", 90, 75))
    judged = scene.judge(WaterLevelBalance, POD, **LIMITS)
    assert judged.fitting == {"node-a"}
    assert judged.reasons("node-b") == ("node(s) with measured cpu use above the limit",)
    assert judged.reasons("node-c") == (
        "node(s) with measured cpu use above the limit",
        "node(s) with measured memory use above the limit",
    )
    assert judged.detail("node-c") == "cpu 90 % used, limit 80 %, memory 75 % used, limit 70 %"
    assert not judged.preemption_may_help("node-b")


def test_a_subset_of_nodes_gets_the_same_results_as_all_nodes() -> None:
    scene = Scene(measured("node-a", 10), measured("node-b", 81), measured("node-c", 90))
    judged = scene.judge(WaterLevelBalance, POD, **LIMITS).narrowed("node-c", "node-a")
    assert judged.mask.tolist() == [False, True]
    assert judged.plugin.reasons(judged.state, POD, judged.snapshot, 0) == (  # type: ignore[attr-defined]
        "node(s) with measured cpu use above the limit",
    )
    assert judged.plugin.detail(judged.state, POD, judged.snapshot, 0) == "cpu 90 % used, limit 80 %"  # type: ignore[attr-defined]


def test_recently_assumed_pods_count_against_the_limit() -> None:
    scene = Scene(measured("node-a", 79))
    plugin = WaterLevelBalance(scene.handle, LIMITS)
    assert scene.judging(plugin, POD).fitting == {"node-a"}
    scene.cache.assume(pod("other", requests={"cpu": "2"}), "node-a")
    assert scene.judging(plugin, POD).fitting == set()


def test_pods_of_daemon_sets_are_not_filtered() -> None:
    scene = Scene(measured("node-a", 99))
    agent = pod(controller="apps/v1/DaemonSet/agent")
    assert scene.judge(WaterLevelBalance, agent, **LIMITS).fitting == {"node-a"}


# WaterLevels.


def test_a_water_level_sets_the_target_and_limits_of_its_nodes() -> None:
    scene = Scene(
        measured("node-a", 50),
        node("node-b", cpu="100", labels={"pool": "b"}, annotations={NODE_LEVEL: level(50)}),
    )
    target = {"mode": "Static", "percent": 51}
    scene.objects.water_levels.upsert(
        None,
        water_level(
            "b", nodeSelector={"matchLabels": {"pool": "b"}}, target=target, overloadLimits={"cpuPercent": 40}
        ),
    )
    plugin = WaterLevelBalance(scene.handle, {**CPU_ALONE, **STATIC})
    assert scene.judging(plugin, POD).scores == {"node-a": 20 * 49 / 80, "node-b": 100}
    assert scene.judging(plugin, POD).fitting == {"node-a"}


def test_the_oldest_water_level_applies_to_a_node_and_invalid_ones_are_ignored() -> None:
    scene = Scene(measured("node-a", 50))
    for name, percent, age in (("a", 20, 1), ("b", 51, 2)):
        target = {"mode": "Static", "percent": percent}
        scene.objects.water_levels.upsert(None, water_level(name, created=NOW - age, target=target))
    scene.objects.water_levels.upsert(None, water_level("c", created=NOW - 3, target={"mode": "Sideways"}))
    plugin = WaterLevelBalance(scene.handle, CPU_ALONE)
    assert scene.judging(plugin, POD).scores == {"node-a": 100}

    scene.objects.water_levels.remove(water_level("b"))
    assert scene.judging(plugin, POD).scores == {"node-a": 20 * 49 / 80}


def test_a_dynamic_target_is_computed_from_the_nodes_of_its_group() -> None:
    scene = Scene(
        *(measured(f"low-{index}", 10) for index in range(2)),
        *(
            node(f"high-{index}", cpu="100", labels={"pool": "high"}, annotations={NODE_LEVEL: level(60)})
            for index in range(2)
        ),
    )
    scene.objects.water_levels.upsert(None, water_level(nodeSelector={"matchLabels": {"pool": "high"}}))
    found = scene.judge(WaterLevelBalance, POD, **CPU_ALONE).scores
    assert found["low-0"] == pytest.approx(10 * 89 / 90)
    assert found["high-0"] == pytest.approx(60 * 39 / 40)


def test_a_dynamic_target_is_computed_only_from_measured_nodes() -> None:
    scene = Scene(measured("node-a", 10), measured("node-b", 30), node("node-c", cpu="100"))
    found = scene.judge(WaterLevelBalance, POD, **CPU_ALONE).scores
    target = (20 + 10) / 2
    assert found["node-a"] == pytest.approx((100 - target) * 11 / target + target)


# Weights and tides.


def test_a_weight_shrinks_the_differences_within_a_group_and_keeps_its_mean() -> None:
    scene = Scene(
        *(measured(f"node-{index}", cpu) for index, cpu in enumerate((9, 19, 59))),
        *(
            node(
                f"other-{index}", cpu="100", labels={"pool": "b"}, annotations={NODE_LEVEL: level(9 + index)}
            )
            for index in range(2)
        ),
    )
    selector = {"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]}
    target = {"mode": "Static", "percent": 20}
    plugin = WaterLevelBalance(scene.handle, {"resources": [{"name": "cpu"}], **STATIC})

    def scores(weight: int) -> list[float]:
        scene.objects.water_levels.upsert(
            None, water_level(nodeSelector=selector, target=target, weightPercent=weight)
        )
        return list(scene.judging(plugin, POD).scores.values())

    assert scores(100) == [90, 100, 80, 90, 91]
    assert scores(50) == [90, 95, 85, 90, 91]
    assert scores(0) == [90, 90, 90, 90, 91]


@pytest.mark.parametrize(("learn", "expected"), [(True, [92.5, 87.5]), (False, [95, 85])])
def test_a_learned_weight_multiplies_the_weight(learn: bool, expected: list[float]) -> None:
    scene = Scene(measured("node-a", 19), measured("node-b", 59))
    level = water_level(target={"mode": "Static", "percent": 20}, weightPercent=50, learnWeight=learn)
    scene.objects.water_levels.upsert(None, replace(level, unexplained=0.5))
    plugin = WaterLevelBalance(scene.handle, {"resources": [{"name": "cpu"}]})
    assert list(scene.judging(plugin, POD).scores.values()) == expected


def test_a_tide_changes_target_limits_and_weight_from_its_start_to_its_end() -> None:
    scene = Scene(measured("node-a", 39), measured("node-b", 59))
    tide = {
        "name": "break",
        "start": "5 8 * * *",  # five minutes after NOW
        "end": "10 8 * * *",
        "target": {"mode": "Static", "percent": 60},
        "overloadLimits": {"cpuPercent": 50},
        "weightPercent": 50,
    }
    scene.objects.water_levels.upsert(
        None, water_level(target={"mode": "Static", "percent": 40}, tides=[tide])
    )
    plugin = WaterLevelBalance(scene.handle, {"resources": [{"name": "cpu"}]})

    def judged(seconds: float) -> tuple[set[str], dict[str, float]]:
        found = scene.judging(plugin, POD, at(NOW + seconds))
        return found.fitting, found.scores

    outside = ({"node-a", "node-b"}, {"node-a": 100, "node-b": 90})
    assert judged(0) == outside
    assert judged(299) == outside
    assert judged(300) == ({"node-a"}, {"node-a": 85, "node-b": 95})
    assert judged(599) == ({"node-a"}, {"node-a": 85, "node-b": 95})
    assert judged(600) == outside


# Args.


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"mode": "Both"}, "Invalid enum value 'Both' - at `$.mode`"),
        ({"scoring": "Steep"}, "Invalid enum value 'Steep' - at `$.scoring`"),
        ({"combination": "Best"}, "Invalid enum value 'Best' - at `$.combination`"),
        ({"windows": []}, "windows: expected at least one of 15m, 1h and 1d, each once"),
        ({"windows": [{"duration": "15m", "weight": 1}] * 2}, "windows: expected at least one"),
        ({"windows": [{"duration": "2h", "weight": 1}]}, "Invalid enum value '2h'"),
        ({"resources": [{"name": "cpu", "weight": 0}]}, "resources: expected cpu, memory or both"),
        ({"resources": [{"name": "gpu"}]}, "Invalid enum value 'gpu'"),
        ({"target": {"mode": "Static"}}, "target.percent: required for Static and refused for Dynamic"),
        ({"target": {"percent": 10}}, "target.percent: required for Static and refused for Dynamic"),
        (
            {"target": {"mode": "Static", "percent": 10, "minWeight": 1}},
            "target.minWeight: refused for Static",
        ),
        ({"target": {"mode": "Static", "percent": 101}}, "Expected `float` <= 100"),
        ({"overloadLimits": {"cpuPercent": 0}}, "Expected `float` >= 1"),
        ({"overloadLimits": {"cpu": 10}}, "Object contains unknown field `cpu`"),
        ({"stalenessSeconds": 0}, "Expected `float` > 0"),
        (
            {"podEstimation": {"defaultCPU": "much"}},
            "podEstimation.defaultCPU: cpu: 'much' is not a quantity",
        ),
        ({"podEstimation": {"defaultMemory": "0"}}, "podEstimation.defaultMemory: '0' is not more than 0"),
    ],
)
def test_invalid_args_are_refused_by_name(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=r"^pluginConfig of WaterLevelBalance: ") as caught:
        WaterLevelBalance(Scene().handle, args)
    assert problem in str(caught.value)


def test_a_measurement_wakes_pods_unless_the_node_stays_above_a_limit() -> None:
    plugin = WaterLevelBalance(Scene(measured("node-a", 90)).handle, LIMITS)
    hint = plugin.events_to_register()[0].hint
    assert hint is not None
    old = measured(cpu=90)
    assert not hint(POD, old, old)
    assert not hint(POD, old, measured(cpu=85))
    assert hint(POD, old, measured(cpu=80))
    assert hint(POD, old, node())
    assert hint(POD, None, measured(cpu=90))
    assert hint(POD, old, node(annotations={NODE_LEVEL: "rubbish"}))
