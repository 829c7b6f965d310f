"""Settings of WaterLevels and their tides."""

from dataclasses import replace

import pytest

from builders import NOW, level, node, water_level
from tidelock.model.usage_annotations import NODE_LEVEL
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from unit.plugins.levelled import CPU_ALONE, POD, STATIC, at, measured
from unit.plugins.scene import Scene

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
