from math import isnan
from typing import Any

import numpy as np
import pytest

from tidelock.model.usage_annotations import NodeLevel, Stat, WorkloadKey
from tidelock.simulation.cluster import NAMESPACE
from tidelock.simulation.measuring import NO_FAULTS, MetricsFaults, SimulatedMetrics
from tidelock.simulation.world import STEP, Loads, SimulatedWorld
from tidelock.simulation.worlds import burst_world

EPOCH = 1_000_000.0
NODES = 4


def world(steps: int = 300) -> SimulatedWorld:
    return burst_world(NODES, 10, at=600.0, steps=steps)


def measurements(faults: MetricsFaults = NO_FAULTS) -> SimulatedMetrics:
    return SimulatedMetrics(world(), faults, np.random.default_rng(0))


def sample(
    measured: SimulatedMetrics, step: int, cpu: float, *, pod: float = 1.0, share: float = 1.0
) -> None:
    pods = np.array([0, 1])
    measured.sample(
        step,
        np.full(NODES, cpu),
        np.full(NODES, 50.0),
        pods,
        np.array([pod, 3 * pod]),
        np.array([share, share]),
    )


def levels(measured: SimulatedMetrics, step: int) -> dict[int, NodeLevel]:
    return dict(measured.levels(step, EPOCH))


def test_windows_are_statistics_of_the_samples_that_they_cover() -> None:
    measured = measurements()
    for step in range(290):
        sample(measured, step, float(step % 100))

    level = levels(measured, 289)[2]

    assert level.at == EPOCH + 290 * STEP
    of_quarter = np.array([87.0, 88.0, 89.0])
    of_day = np.array([float(step % 100) for step in range(2, 290)])
    for window, samples in (("15m", of_quarter), ("1d", of_day)):
        stat = level.windows[window]["cpu"]  # type: ignore[index]
        expected = (samples.mean(), samples.max(), np.quantile(samples, 0.95))
        assert (stat.mean, stat.max, stat.p95) == pytest.approx(expected)
    assert level.windows["1h"]["memory"] == Stat(50.0, 50.0, 50.0)


def test_gaps_are_left_out_of_the_statistics() -> None:
    measured = measurements(MetricsFaults(down=(2 * STEP, 3 * STEP)))
    for step, cpu in enumerate((10.0, 90.0, 30.0)):
        sample(measured, step, cpu)

    assert not measured.readable(2 * STEP)
    assert measured.readable(3 * STEP)
    stat = levels(measured, 2)[0].windows["15m"]["cpu"]
    assert (stat.mean, stat.max, stat.p95) == pytest.approx((20.0, 30.0, 29.0))


def test_a_node_that_is_not_measured_has_no_level() -> None:
    measured = measurements(MetricsFaults(missing=1.0))
    sample(measured, 0, 50.0)

    assert levels(measured, 0) == {}


def test_some_readings_are_nan() -> None:
    measured = measurements(MetricsFaults(nan=0.5))
    for step in range(50):
        sample(measured, step, 50.0)

    read = [len(levels(measured, step)) for step in range(50)]

    assert 0 < sum(read) < 50 * NODES


def test_a_clock_that_is_ahead_dates_samples_into_the_future() -> None:
    measured = measurements(MetricsFaults(skew=60.0))
    sample(measured, 0, 50.0)

    assert levels(measured, 0)[0].at == EPOCH + STEP + 60


def test_pods_and_workloads_are_measured_in_cores() -> None:
    measured = measurements()
    sample(measured, 0, 50.0, pod=0.5)
    sample(measured, 1, 50.0, pod=1.0)

    uses = measured.uses(1, EPOCH, np.array([0, 1]))

    memory = world().memory[1]
    assert uses.pods["pod-000001"].means == pytest.approx([2.25, memory] * 3)
    key = WorkloadKey("Deployment", NAMESPACE, "steady")
    assert list(uses.workloads) == [key]
    assert uses.workloads[key].windows["1d"]["cpu"].mean == pytest.approx(1.5)


def test_workloads_have_only_means() -> None:
    measured = measurements()
    sample(measured, 0, 50.0)

    uses = measured.uses(0, EPOCH, np.array([0, 1]))

    assert uses.workloads
    for usage in uses.workloads.values():
        for stats in usage.windows.values():
            for stat in stats.values():
                assert not isnan(stat.mean)
                assert isnan(stat.max)
                assert isnan(stat.p95)


def test_a_pod_that_ran_only_for_a_short_time_is_not_measured() -> None:
    measured = measurements()
    sample(measured, 0, 50.0, share=0.1)

    assert measured.uses(0, EPOCH, np.array([0, 1])) == ({}, {})


def test_a_workload_is_known_after_its_pods_have_ended() -> None:
    measured = measurements()
    sample(measured, 0, 50.0)
    none: Any = np.zeros(0, np.intp)
    empty: Loads = np.zeros(0, np.float32)
    measured.sample(
        1, np.full(NODES, 1.0), np.full(NODES, 1.0), none, empty.astype(float), empty.astype(float)
    )

    uses = measured.uses(1, EPOCH, none)

    assert uses.pods == {}
    (usage,) = uses.workloads.values()
    assert usage.windows["15m"]["cpu"].mean == 2.0
