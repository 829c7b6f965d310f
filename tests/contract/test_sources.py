"""The contract of every source: a typed quality and never a zero, whatever is wrong with its server."""

import math
from pathlib import Path

import pytest

from contract.backends import (
    NOW,
    Backend,
    MetricsServerBackend,
    NodeSample,
    PodSample,
    PrometheusBackend,
    Scene,
    serving,
)
from tidelock.load.source import FailureReason, SourceError, UseReading
from tidelock.model.meta import Key
from tidelock.model.usage_annotations import Quality

STALENESS = 180.0
PATIENCE = 30.0
GOOD = NodeSample("node-b", 30.0, 40.0)
WEB = Key("shop", "web-0")


@pytest.fixture(params=[PrometheusBackend, MetricsServerBackend], ids=["prometheus", "metrics-server"])
def backend(request: pytest.FixtureRequest) -> Backend:
    made: Backend = request.param()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


async def read(backend: Backend, folder: Path, scene: Scene) -> UseReading:
    timeout = 0.5 if scene.fault == "silent" else PATIENCE
    async with serving(backend, scene) as url, backend.source(url, folder, timeout) as source:
        reading: UseReading = await source.read(NOW)
    for use in (*reading.nodes.values(), *reading.pods.values()):
        assert use.cpu != 0
        assert use.memory != 0
    return reading


async def failure(backend: Backend, folder: Path, scene: Scene) -> SourceError:
    with pytest.raises(SourceError) as caught:
        await read(backend, folder, scene)
    assert str(caught.value)
    return caught.value


def quality(reading: UseReading, name: str = "node-a") -> Quality:
    return reading.quality(name, NOW, STALENESS)


async def test_nodes_are_read_in_percent_and_pods_in_cores_and_bytes(backend: Backend, folder: Path) -> None:
    pod = PodSample(*WEB, cpu=0.5, memory=2.0**28)
    reading = await read(backend, folder, Scene([NodeSample("node-a", 42.0, 70.0, age=20.0), GOOD], [pod]))

    assert reading.nodes.keys() == {"node-a", "node-b"}
    assert reading.nodes["node-a"].at == NOW - 20.0
    assert reading.nodes["node-a"].cpu == pytest.approx(42.0)
    assert reading.nodes["node-a"].memory == pytest.approx(70.0, abs=1e-4)
    assert reading.pods[WEB] == (NOW, 0.5, 2.0**28)
    assert (quality(reading), reading.invalid, reading.problems) == (Quality.FRESH, {}, [])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -5.0, 150.0, 1e15])
async def test_an_impossible_use_is_invalid_and_does_not_affect_other_nodes(
    backend: Backend, folder: Path, bad: float
) -> None:
    reading = await read(backend, folder, Scene([NodeSample("node-a", bad, 70.0), GOOD]))

    assert quality(reading) is Quality.INVALID
    assert "node-a" not in reading.nodes or reading.nodes["node-a"].cpu is None
    assert "cpu" in reading.invalid["node-a"].lower()
    assert quality(reading, "node-b") is Quality.FRESH


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
async def test_a_pod_with_an_impossible_use_is_not_measured(
    backend: Backend, folder: Path, bad: float
) -> None:
    pods = [PodSample(*WEB, cpu=bad, memory=bad), PodSample("shop", "web-1", 1.0, 2.0**20)]
    reading = await read(backend, folder, Scene([GOOD], pods))

    assert reading.pods.keys() == {Key("shop", "web-1")}


async def test_a_use_slightly_above_100_percent_counts_as_100_percent(backend: Backend, folder: Path) -> None:
    reading = await read(backend, folder, Scene([NodeSample("node-a", 103.0, 100.0)]))

    assert quality(reading) is Quality.FRESH
    assert reading.nodes["node-a"] == (NOW, 100.0, 100.0)


async def test_a_node_without_a_sample_is_missing(backend: Backend, folder: Path) -> None:
    reading = await read(backend, folder, Scene([GOOD]))

    assert quality(reading) is Quality.MISSING
    assert "node-a" not in reading.nodes


async def test_an_empty_answer_measures_nothing(backend: Backend, folder: Path) -> None:
    reading = await read(backend, folder, Scene())

    assert (reading.nodes, reading.pods) == ({}, {})
    assert {quality(reading, name) for name in ("node-a", "node-b")} == {Quality.MISSING}


async def test_a_node_that_the_cluster_does_not_have_is_not_measured(backend: Backend, folder: Path) -> None:
    reading = await read(backend, folder, Scene([NodeSample("elsewhere", 1.0, 1.0), GOOD]))

    assert reading.nodes.keys() == {"node-b"}


@pytest.mark.parametrize(
    ("age", "expected"), [(180.0, Quality.FRESH), (600.0, Quality.STALE), (-600.0, Quality.INVALID)]
)
async def test_a_sample_is_judged_by_its_own_time(
    backend: Backend, folder: Path, age: float, expected: Quality
) -> None:
    reading = await read(backend, folder, Scene([NodeSample("node-a", 42.0, 70.0, age), GOOD]))

    assert quality(reading) is expected
    assert quality(reading, "node-b") is Quality.FRESH


async def test_of_duplicate_series_the_newer_counts_and_of_equally_old_ones_the_higher(
    backend: Backend, folder: Path
) -> None:
    doubled = [
        NodeSample("node-a", 42.0, 70.0, age=60.0),
        NodeSample("node-a", 10.0, 20.0),
        NodeSample("node-b", 30.0, 60.0),
        NodeSample("node-b", 35.0, 50.0),
    ]
    for order in (doubled, doubled[::-1]):
        reading = await read(backend, folder, Scene(order))

        assert quality(reading) is quality(reading, "node-b") is Quality.FRESH
        assert reading.nodes["node-a"] == pytest.approx((NOW, 10.0, 20.0), abs=1e-4)
        assert reading.nodes["node-b"] == pytest.approx((NOW, 35.0, 60.0), abs=1e-4)


async def test_an_invalid_duplicate_does_not_affect_the_valid_series(backend: Backend, folder: Path) -> None:
    doubled = [NodeSample("node-a", math.nan, math.nan), NodeSample("node-a", 10.0, 20.0)]
    reading = await read(backend, folder, Scene(doubled))

    assert quality(reading) is Quality.FRESH


async def test_a_partial_answer_counts_and_is_reported_as_a_problem(backend: Backend, folder: Path) -> None:
    reading = await read(backend, folder, Scene([GOOD], [PodSample(*WEB, 1.0, 1e9)], partial=True))

    assert quality(reading, "node-b") is Quality.FRESH
    assert reading.problems


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("refused", FailureReason.REFUSED),
        ("unauthorized", FailureReason.REFUSED),
        ("silent", FailureReason.TIMED_OUT),
        ("gibberish", FailureReason.MALFORMED),
        ("truncated", FailureReason.MALFORMED),
    ],
)
async def test_a_faulty_server_is_a_typed_failure(
    backend: Backend, folder: Path, fault: str, reason: FailureReason
) -> None:
    error = await failure(backend, folder, Scene([GOOD], fault=fault))

    assert error.reason is reason


async def test_an_answer_that_is_cut_off_is_a_failure(backend: Backend, folder: Path) -> None:
    error = await failure(backend, folder, Scene([GOOD] * 50, fault="cut"))

    assert error.reason in {FailureReason.MALFORMED, FailureReason.UNREACHABLE}


async def test_a_server_that_has_stopped_is_unreachable(backend: Backend, folder: Path) -> None:
    async with serving(backend, Scene()) as url:
        pass
    async with backend.source(url, folder, PATIENCE) as source:
        with pytest.raises(SourceError) as caught:
            await source.read(NOW)

    assert caught.value.reason is FailureReason.UNREACHABLE
