from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from tidelock.load.estimate import Estimate, Subject
from tidelock.load.source import Use, UseReading
from tidelock.model.meta import Key
from tidelock.model.usage_annotations import Measured, NodeLevel, PodMeans, Stat, WorkloadKey

START = 1_800_000_000.0
WEB = WorkloadKey("Deployment", "shop", "web")
PODS = {
    Key("shop", "web-0"): Subject("uid-0", START - 100, WEB),
    Key("shop", "web-1"): Subject("uid-1", START + 50, WEB),
    Key("shop", "lone"): Subject("uid-lone", 0.0, None),
}


CPU: Mapping[Measured, Stat] = {"cpu": Stat(20, 20, 20)}
NONE = frozenset[str]().__contains__
ALL = {"node-a", "node-b", "uid-0", "uid-1"}.__contains__


def through(steps: Iterable[None]) -> None:
    for _ in steps:
        pass


def absorb(made: Estimate, at: float, reading: UseReading) -> None:
    made.advance(START + at)
    through(made.absorb(START + at, reading, {"node-a", "node-b"}.__contains__, PODS.get))
    through(made.judge())


def nodes(at: float, **uses: tuple[float | None, float | None]) -> UseReading:
    return UseReading({name.replace("_", "-"): Use(START + at, *use) for name, use in uses.items()})


def pods(at: float, uses: Mapping[str, tuple[float | None, float | None]]) -> UseReading:
    return UseReading(pods={Key("shop", name): Use(START + at, *use) for name, use in uses.items()})


def test_a_node_has_a_level_in_each_window() -> None:
    made = Estimate()
    absorb(made, 0, nodes(0, node_a=(20.0, 50.0), elsewhere=(1.0, 1.0)))
    absorb(made, 60, nodes(60, node_a=(40.0, 50.0)))

    assert made.levels.keys() == {"node-a"}
    level = made.levels["node-a"]
    assert level.at == START + 60
    assert level.windows.keys() == {"15m", "1h", "1d"}
    assert level.windows["15m"] == {"cpu": Stat(30, 40, 39), "memory": Stat(50, 50, 50)}


def test_a_level_is_as_old_as_its_oldest_measurement() -> None:
    made = Estimate()
    absorb(made, 0, nodes(0, node_a=(20.0, 50.0)))
    absorb(made, 60, nodes(60, node_a=(40.0, None)))

    assert made.levels["node-a"].at == START


def test_a_level_lacks_resources_without_measurements() -> None:
    made = Estimate()
    absorb(made, 0, nodes(0, node_a=(20.0, None), node_b=(None, None)))

    assert made.levels == {"node-a": NodeLevel(START, {"15m": CPU, "1h": CPU, "1d": CPU})}


def test_an_hour_without_readings_empties_only_the_short_windows() -> None:
    made = Estimate()
    absorb(made, 0, nodes(0, node_a=(20.0, 50.0)))
    absorb(made, 3600, UseReading())

    assert made.levels["node-a"].windows.keys() == {"1d"}
    absorb(made, 86_400, UseReading())
    assert made.levels == {}


def test_the_use_of_a_workload_is_the_mean_of_its_pods_and_the_highest_maximum() -> None:
    made = Estimate()
    absorb(made, 60, pods(60, {"web-0": (1.0, 100.0), "web-1": (3.0, 300.0), "lone": (9.0, 9.0)}))

    assert made.uses.pods.keys() == {"uid-0", "uid-1", "uid-lone"}
    assert made.uses.pods["uid-1"] == PodMeans(START + 60, [3, 300] * 3)
    assert made.uses.workloads.keys() == {WEB}
    assert made.uses.workloads[WEB].windows["1h"] == {"cpu": Stat(2, 3, 2), "memory": Stat(200, 300, 200)}


def test_a_pod_has_no_readings_from_before_its_start() -> None:
    made = Estimate()
    absorb(made, 0, pods(0, {"web-0": (1.0, 100.0), "web-1": (3.0, 300.0)}))

    assert made.uses.pods.keys() == {"uid-0"}
    assert made.uses.workloads[WEB].windows["15m"]["cpu"].mean == 1


def test_a_workload_outlasts_its_pods_until_its_windows_are_empty() -> None:
    made = Estimate()
    absorb(made, 0, pods(0, {"web-0": (1.0, 100.0)}))
    absorb(made, 3600, UseReading())
    assert np.array_equal(made.uses.pods["uid-0"].means, [*[np.nan] * 4, 1, 100], equal_nan=True)
    through(made.retain(ALL, NONE))
    absorb(made, 4500, UseReading())

    assert made.uses.pods == {}
    assert made.uses.workloads[WEB].windows["1d"]["cpu"].mean == 1
    absorb(made, 86_400, UseReading())
    assert made.uses.workloads == {}
    assert [times.step for times in made.missed()] == [60, 300, 900]


def test_deleted_nodes_are_forgotten() -> None:
    made = Estimate()
    absorb(made, 0, nodes(0, node_a=(20.0, 50.0), node_b=(30.0, 50.0)))
    through(made.retain("node-b".__eq__, ALL))
    through(made.judge())

    assert made.levels.keys() == {"node-b"}


def test_pods_with_one_unknown_resource_count_for_the_other() -> None:
    made = Estimate()
    absorb(made, 60, pods(60, {"web-0": (1.0, None), "web-1": (3.0, 300.0)}))

    lacking = made.uses.pods["uid-0"]
    assert lacking.at == START + 60
    assert np.array_equal(lacking.means, [1, np.nan] * 3, equal_nan=True)
    windows = made.uses.workloads[WEB].windows["15m"]
    assert windows["cpu"].mean == 2
    assert windows["memory"].mean == pytest.approx(300)
