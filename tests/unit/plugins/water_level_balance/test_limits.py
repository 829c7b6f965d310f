"""Limits, and nodes without a fresh measurement."""

import logging
from typing import Any

import pytest

from builders import NAMESPACE, NOW, Json, level, node, pod, reservation, water_level
from tidelock.framework.api import Code, PreScore
from tidelock.ledger.output.status import render_reservation
from tidelock.model.meta import Key
from tidelock.model.quantities import CPU, MEMORY
from tidelock.model.usage_annotations import NODE_LEVEL
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance, use_above_limit
from unit.plugins.levelled import CPU_ALONE, POD, STATIC, at, measured
from unit.plugins.scene import Scene


def template(cpu: str, limit: str | None = None) -> Json:
    """Build the template of a pod with a request, and with a limit if there is one."""
    limits = {} if limit is None else {"limits": {"cpu": limit}}
    return {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": cpu}} | limits}]}}


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
    assert judged.reasons("node-b") == (use_above_limit(CPU),)
    assert judged.reasons("node-c") == (
        use_above_limit(CPU),
        use_above_limit(MEMORY),
    )
    assert judged.detail("node-c") == "cpu 90 % used, limit 80 %, memory 75 % used, limit 70 %"
    assert not judged.preemption_may_help("node-b")


def test_a_subset_of_nodes_gets_the_same_results_as_all_nodes() -> None:
    scene = Scene(measured("node-a", 10), measured("node-b", 81), measured("node-c", 90))
    judged = scene.judge(WaterLevelBalance, POD, **LIMITS).narrowed("node-c", "node-a")
    assert judged.mask.tolist() == [False, True]
    assert judged.plugin.reasons(judged.state, POD, judged.snapshot, 0) == (  # type: ignore[attr-defined]
        use_above_limit(CPU),
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


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("small", "large"),
    [
        ({"resources": {"cpu": "1"}}, {"resources": {"cpu": "200"}}),
        ({"template": template("1")}, {"template": template("200")}),
        ({"template": template("1", limit="2")}, {"template": template("200", limit="300")}),
    ],
)
def test_a_resize_that_waits_adds_no_expected_use(small: Json, large: Json, *, restarts: bool) -> None:
    """An edit from 1 cpu to 200 made each pod there exceed the limit, although only 1 cpu was held."""
    scene = Scene(measured())
    plugin = WaterLevelBalance(scene.handle, LIMITS)
    assert scene.judging(plugin, POD).fitting == {"node-a"}  # expected use is followed from here on
    asked: Json = {"resources": None} | small
    entry = scene.reservation("lock", **asked)
    edited: Json = {"generation": 2, "version": 2, "resources": None} | large
    scene.ledger.upsert(reservation("lock", **edited), NOW)
    if restarts:
        status = render_reservation(entry, NOW)
        scene = Scene(measured())
        plugin = WaterLevelBalance(scene.handle, LIMITS)
        scene.ledger.upsert(reservation("lock", status=status, **edited), NOW)
    entry = scene.ledger.entries[Key(NAMESPACE, "lock")]
    assert (entry.growing, entry.held) == (True, {"cpu": 1000, "pods": 1})
    assert scene.judging(plugin, POD).fitting == {"node-a"}
    scene.cache.assume(pod("other", requests={"cpu": "79"}), "node-a")
    assert scene.judging(plugin, POD).fitting == {"node-a"}
    scene.cache.assume(pod("another", requests={"cpu": "100m"}), "node-a")
    assert scene.judging(plugin, POD).fitting == set()  # the held cpu still counts
