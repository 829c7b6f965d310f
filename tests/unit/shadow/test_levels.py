"""The evenness of nodes, by requests and by measured use, in the cluster and in the replayed world."""

from random import Random
from statistics import fmean, pstdev

import pytest

from builders import NAMESPACE, NOW, level
from tidelock.load.source import Use, UseReading
from tidelock.model.meta import Key
from tidelock.model.usage_annotations import NODE_LEVEL
from tidelock.shadow.capacity_sections import evenness as evenness_section
from tidelock.shadow.results import EvennessResults
from unit.shadow.trace import Trace

GIBI = 2**30


def evenness(trace: Trace, resource: str, *, measured: bool) -> EvennessResults:
    (found,) = (
        each
        for each in trace.results.levels.evenness
        if (each.resource, each.measured) == (resource, measured)
    )
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_spread_by_requests_is_the_mean_over_time_of_the_deviation(seed: int) -> None:
    rng, sizes = Random(seed), {"a": 8, "b": 16, "c": 4}  # noqa: S311 -- to be repeated  # noqa: S311 -- a repeatable scene
    trace = Trace({name: {"cpu": str(size)} for name, size in sizes.items()})
    used, means, deviations, ranges = dict.fromkeys(sizes, 0), list[float](), list[float](), list[float]()
    for second in range(1, 40):
        trace.at(second)
        levels = [100 * used[name] / size for name, size in sizes.items()]
        means.append(fmean(levels))
        deviations.append(pstdev(levels))
        ranges.append(max(levels) - min(levels))
        node = rng.choice(list(sizes))
        if used[node] < sizes[node]:
            trace.create(f"pod-{second}", "1")
            trace.bind(f"pod-{second}", node)
            used[node] += 1

    found = evenness(trace, "cpu", measured=False).observed
    assert found.mean == pytest.approx(fmean(means))
    assert found.deviation == pytest.approx(fmean(deviations))
    assert found.range == pytest.approx(fmean(ranges))


def test_the_replayed_world_spreads_pods_that_the_scheduler_packs() -> None:
    trace = Trace({name: {"cpu": "8"} for name in "abcd"})
    for number in range(8):
        trace.create(f"pod-{number}", "1")
        trace.bind(f"pod-{number}", "a")
    trace.at(10)

    found = evenness(trace, "cpu", measured=False)
    assert found.observed.deviation == pytest.approx(pstdev([100, 0, 0, 0]))
    assert found.replayed.deviation == 0  # two pods on each node
    assert trace.results.decisions.apart == 6


def use(**cpu: float) -> UseReading:
    """Return a reading of the cpu of nodes, which have names of one letter, and of pods."""
    reading = UseReading()
    for name, value in cpu.items():
        if len(name) == 1:
            reading.add_node(name, Use(NOW, value))
        else:
            reading.add_pod(Key(NAMESPACE, name.replace("_", "-")), Use(NOW, value))
    return reading


def test_a_pod_takes_its_measured_use_to_its_replayed_node() -> None:
    """The scheduler puts both on one node of four cores, which has 10 % for itself."""
    trace = Trace({name: {"cpu": "4"} for name in "ab"})
    for name in ("pod-0", "pod-1"):
        trace.create(name, "1")
        trace.bind(name, "a")
    trace.at(10)
    trace.observer.measured(use(a=60.0, b=10.0, pod_0=1.0, pod_1=1.0))
    trace.at(20)

    found = evenness(trace, "cpu", measured=True)
    assert found.observed.deviation == pytest.approx(pstdev([60, 10]))
    assert found.replayed.deviation == pytest.approx(pstdev([35, 35]), abs=1e-9)
    assert found.replayed.mean == found.observed.mean == 35


def test_the_use_of_a_pod_that_is_not_measured_stays() -> None:
    trace = Trace({name: {"cpu": "4"} for name in "ab"})
    for name in ("pod-0", "pod-1"):
        trace.create(name, "1")
        trace.bind(name, "a")
    trace.observer.measured(use(a=60.0, b=10.0))
    trace.at(10)

    found = evenness(trace, "cpu", measured=True)
    assert found.replayed == found.observed


def test_with_measurements_the_profile_decides_by_water_level() -> None:
    """Requests favour node b, and measured use favours node a."""
    trace = Trace({name: {"cpu": "8"} for name in "ab"})
    trace.create("idle", "4")
    trace.bind("idle", "a")
    trace.observer.measured(use(a=5.0, b=70.0))
    trace.create("new", "1")
    trace.bind("new", "b")

    decisions = trace.results.decisions
    assert decisions.examples[-1].profile_node == "a"
    assert decisions.points["WaterLevelBalance"] > 0
    assert decisions.decisive == {"WaterLevelBalance": 1}


def test_without_a_source_the_profile_decides_by_the_annotations_of_nodes() -> None:
    """An operator beside the run has measured the nodes. Requests favour node b, and measured use node a."""
    levels = {"a": level(5.0), "b": level(70.0)}
    trace = Trace({name: {"cpu": "8", "annotations": {NODE_LEVEL: levels[name]}} for name in "ab"})
    trace.create("idle", "4")
    trace.bind("idle", "a")
    trace.create("new", "1")
    trace.bind("new", "b")
    trace.at(5)

    results = trace.results
    assert results.decisions.examples[-1].profile_node == "a"
    assert results.decisions.decisive == {"WaterLevelBalance": 1}
    told = "Decisions followed the water levels in the annotations of 2 of 2 nodes."
    assert any(told in each for each in evenness_section(results).findings)


def test_a_stale_measurement_is_no_level() -> None:
    trace = Trace({name: {"cpu": "4"} for name in "ab"})
    trace.clock.seconds = 1000
    trace.observer.measured(use(a=60.0, b=10.0))
    trace.at(1005)
    assert not [each for each in trace.results.levels.evenness if each.measured]


def test_a_failed_reading_is_counted_with_its_reason() -> None:
    trace = Trace({"a": {"cpu": "8"}}, source="metrics-server")
    trace.observer.not_measured("no answer within 10 s")
    levels = trace.results.levels
    assert (levels.readings, levels.failed_readings, levels.problem) == (0, 1, "no answer within 10 s")
    assert not [each for each in levels.evenness if each.measured]


def test_a_node_keeps_its_level_through_events_and_loses_it_when_it_is_gone() -> None:
    trace = Trace({name: {"cpu": "4", "memory": "4Gi"} for name in "ab"})
    trace.observer.measured(use(a=60.0, b=20.0))
    trace.put_node("a", cpu="4", memory="4Gi", version=2)
    levels = dict(trace.observer._evenness._annotations)
    assert set(levels) == {"a", "b"}
    annotations = [each.meta.annotations for each in trace.observer._world.cache.columns.nodes]
    assert all("tidelock.dev/water-level" in each for each in annotations)
    trace.drop_node("b")
    assert set(trace.observer._evenness._annotations) == {"a"}
