"""Scores by levels, targets and their weights."""

import pytest

from builders import level, node, pod
from tidelock.model.usage_annotations import NODE_LEVEL
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from unit.plugins.levelled import PACKING, POD, STATIC, measured, scored
from unit.plugins.scene import Scene

LEVELS = (0.0, 4.0, 24.0, 49.0, 98.0)


def five() -> Scene:
    return Scene(*(measured(f"node-{index}", cpu) for index, cpu in enumerate(LEVELS)))


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
