import numpy as np
import pytest

from builders import NOW, level, node, usage
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.usage.levels import NEVER, WINDOWS, NodeLevels, bridged, means, use_of
from tidelock.model.nodes import Node
from tidelock.model.usage_annotations import NODE_LEVEL, PodUsage, Stat


def followed(*nodes: Node) -> tuple[Cache, NodeLevels]:
    cache, levels = Cache(Columns()), NodeLevels()
    for each in nodes:
        cache.put_node(each)
    cache.add_observer(levels)
    return cache, levels


def measured(name: str, cpu: float = 0, memory: float = 0, *, cores: str = "4") -> Node:
    return node(name, cpu=cores, annotations={NODE_LEVEL: level(cpu, memory)})


def test_levels_are_laid_out_by_window_resource_and_node() -> None:
    text = level(windows={"15m": (1, 2), "1h": (3, 4), "1d": (5, 6)})
    _, levels = followed(node("node-a", annotations={NODE_LEVEL: text}), measured("node-b", 7, 8))
    for statistic in ("mean", "max", "p95"):
        assert levels.use(statistic).tolist() == [[[1, 7], [2, 8]], [[3, 7], [4, 8]], [[5, 7], [6, 8]]]
    assert levels.at.tolist() == [NOW, NOW]
    assert levels.capacity.tolist() == [[4000, 4000], [16 * 2**30] * 2]


def test_a_missing_or_unreadable_level_is_nan() -> None:
    _, levels = followed(node("node-a"), node("node-b", annotations={NODE_LEVEL: "rubbish"}))
    assert levels.at.tolist() == [NEVER, np.inf]
    assert np.isnan(levels.use("mean")).all()
    assert not levels.fresh(NOW, 1e9).any()


@pytest.mark.parametrize(
    ("now", "fresh"), [(NOW - 181, False), (NOW - 180, True), (NOW + 180, True), (NOW + 181, False)]
)
def test_freshness_depends_on_the_distance_from_the_current_time(now: float, fresh: bool) -> None:
    _, levels = followed(measured("node-a"))
    assert levels.fresh(now, 180).tolist() == [fresh]
    assert levels.fresh(now, np.array([180.0])).tolist() == [fresh]


def test_levels_follow_nodes_that_change_come_and_go() -> None:
    cache, levels = followed(measured("node-a", 1), measured("node-b", 2), measured("node-c", 3))
    cache.put_node(measured("node-b", 5, cores="8"))
    cache.drop_node("node-a")
    assert [each.name for each in cache.columns.nodes] == ["node-c", "node-b"]
    assert levels.use("mean")[0, 0].tolist() == [3, 5]
    assert levels.capacity[0].tolist() == [4000, 8000]
    cache.drop_node("node-b")
    cache.drop_node("node-c")
    assert levels.use("mean").shape == (3, 2, 0)
    for number in range(100):
        cache.put_node(measured(f"node-{number}", number % 50))
    assert levels.use("mean")[0, 0].tolist() == [number % 50 for number in range(100)]


def test_a_node_is_read_again_only_if_its_measurement_or_capacity_changed() -> None:
    cache, levels = followed(measured("node-a", 1))
    levels._values[5, 0] = -1
    cache.put_node(measured("node-a", 1))
    assert levels._values[5, 0] == -1
    cache.put_node(measured("node-a", 2))
    assert levels._values[5, 0] != -1


def test_views_refuse_to_be_written() -> None:
    _, levels = followed(measured("node-a"))
    with pytest.raises(ValueError, match="read-only"):
        levels.use("mean")[0, 0, 0] = 1


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ({}, [np.nan] * 3),
        ({"15m": 1}, [1, 1, 1]),
        ({"1h": 2}, [2, 2, 2]),
        ({"1d": 3}, [3, 3, 3]),
        ({"15m": 1, "1d": 3}, [1, 3, 3]),
        ({"15m": 1, "1h": 2}, [1, 2, 2]),
        ({"1h": 2, "1d": 3}, [2, 2, 3]),
    ],
)
def test_a_missing_window_is_filled_from_the_next_longer_or_then_the_next_shorter_one(
    there: dict[str, float], expected: list[float]
) -> None:
    windows = {window: {"cpu": Stat(value, value, value)} for window, value in there.items()}
    laid = use_of(windows, "mean")  # type: ignore[arg-type]
    assert np.array_equal(laid[:, 0], expected, equal_nan=True)
    assert np.isnan(laid[:, 1]).all()
    flat = np.array(list(means(PodUsage(NOW, windows))))  # type: ignore[arg-type]
    assert np.array_equal(flat, laid.ravel(), equal_nan=True)
    sparse = np.array([[[there.get(window, np.nan)] for window in WINDOWS], [[1], [2], [3]]], np.float64)
    assert np.array_equal(bridged(sparse)[:, :, 0], np.array([expected, [1.0, 2.0, 3.0]]), equal_nan=True)


def test_means_of_complete_measurements_are_returned_unchanged() -> None:
    assert list(means(usage(1, 2))) == [1, 2] * 3


def test_a_single_row_is_fresh_as_all_rows_are() -> None:
    levels = NodeLevels()
    for row, age in enumerate((0, 180, 181)):
        levels.put_node(row, None, node(f"node-{row}", annotations={NODE_LEVEL: level(1, 1, at=NOW - age)}))
    staleness = np.array([180.0, 180.0, 180.0, 180.0])
    assert [levels.is_fresh(row, NOW, staleness) for row in range(4)] == [True, True, False, False]
