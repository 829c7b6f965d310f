import numpy as np
import pytest

from tidelock.load.prometheus import SETTLING
from tidelock.simulation.measuring import (
    DEFAULT_METRICS,
    NO_FAULTS,
    MetricsFaults,
    MetricsTiming,
    Reading,
    SimulatedMetrics,
)
from tidelock.simulation.recent_use import RecentUse
from tidelock.simulation.world import STEP, SimulatedWorld
from tidelock.simulation.worlds import burst_world

NODES = 4
QUARTER, HOUR, DAY = range(3)
CPU, MEMORY = range(2)


def world(steps: int = 300) -> SimulatedWorld:
    return burst_world(NODES, 10, at=600.0, steps=steps)


def measurements(faults: MetricsFaults = NO_FAULTS) -> SimulatedMetrics:
    return SimulatedMetrics(world(), faults, np.random.default_rng(0))


def sample(
    measured: SimulatedMetrics, step: int, cpu: float, *, pod: float = 1.0, ran: float = STEP
) -> Reading | None:
    return measured.sample(
        (step + 1) * STEP,
        np.full(NODES, cpu),
        np.full(NODES, 50.0),
        np.array([0, 1]),
        np.array([pod, 3 * pod]),
        np.array([ran, ran]),
    )


def read(
    measured: SimulatedMetrics, step: int, cpu: float, *, pod: float = 1.0, ran: float = STEP
) -> Reading:
    reading = sample(measured, step, cpu, pod=pod, ran=ran)
    assert reading is not None
    return reading


def test_windows_are_statistics_of_the_first_sample_in_each_slot() -> None:
    measured = measurements()
    for step in range(289):
        sample(measured, step, float(step % 100))

    reading = read(measured, 289, 89.0)

    assert reading.at == 290 * STEP
    of_quarter = np.array([87.0, 88.0, 89.0])
    of_day = np.array([float(step % 100) for step in range(2, 290, 3)])  # a slot has three samples
    for window, samples in ((QUARTER, of_quarter), (DAY, of_day)):
        expected = (samples.mean(), samples.max(), np.quantile(samples, 0.95))
        assert reading.use[:, window, CPU, 2] == pytest.approx(expected)
    assert reading.use[:, HOUR, MEMORY, 2] == pytest.approx(50.0)


def test_means_alone_are_the_same() -> None:
    whole = measurements()
    quick = SimulatedMetrics(world(), NO_FAULTS, np.random.default_rng(0), means_only=True)
    for step in range(200):
        sample(whole, step, float(step % 7))
        sample(quick, step, float(step % 7))

    expected, found = read(whole, 200, 3.0).use, read(quick, 200, 3.0).use

    assert found[0] == pytest.approx(expected[0])
    assert np.isnan(found[1:]).all()


def test_gaps_are_left_out_of_the_statistics() -> None:
    measured = measurements(MetricsFaults(down=(2 * STEP, 3 * STEP)))
    sample(measured, 0, 10.0)

    assert sample(measured, 1, 90.0) is None

    assert not measured.readable(2 * STEP)
    assert measured.readable(3 * STEP)
    assert read(measured, 2, 30.0).use[:, QUARTER, CPU, 0] == pytest.approx((20.0, 30.0, 29.0))


def test_a_node_that_is_not_measured_has_no_level() -> None:
    measured = measurements(MetricsFaults(missing=1.0))

    assert len(read(measured, 0, 50.0).nodes) == 0


def test_some_readings_are_nan() -> None:
    measured = measurements(MetricsFaults(nan=0.5))

    found = [len(read(measured, step, 50.0).nodes) for step in range(50)]

    assert 0 < sum(found) < 50 * NODES


def test_a_clock_that_is_ahead_dates_samples_into_the_future() -> None:
    assert read(measurements(MetricsFaults(skew=60.0)), 0, 50.0).at == STEP + 60


def test_pods_and_workloads_are_measured_in_cores() -> None:
    measured = measurements()
    sample(measured, 1, 50.0, pod=0.5)

    reading = read(measured, 2, 50.0, pod=1.0)

    memory = world().memory[1]
    assert reading.pods.tolist() == [0, 1]
    assert reading.of_pods[1].ravel() == pytest.approx([2.25, memory] * 3)
    steady, surge = reading.workloads
    assert steady[:, CPU] == pytest.approx(1.5)
    assert np.isnan(surge).all()


def test_a_pod_that_ran_only_for_a_short_time_is_not_measured() -> None:
    reading = read(measurements(), 0, 50.0, ran=0.1 * STEP)

    assert len(reading.pods) == 0
    assert np.isnan(reading.workloads).all()


def test_a_workload_is_known_after_its_pods_have_ended() -> None:
    measured = measurements()
    sample(measured, 0, 50.0)
    none = np.zeros(0)

    reading = measured.sample(2 * STEP, np.ones(NODES), np.ones(NODES), none.astype(np.intp), none, none)

    assert reading is not None
    assert len(reading.pods) == 0
    assert reading.workloads[0, QUARTER, CPU] == 2.0


def test_a_window_of_a_workload_without_samples_has_the_value_of_a_longer_one() -> None:
    measured = measurements()
    sample(measured, 0, 50.0)
    none = np.zeros(0)

    for step in range(1, 20):
        reading = measured.sample(
            (step + 1) * STEP, np.ones(NODES), np.ones(NODES), none.astype(np.intp), none, none
        )

    assert reading is not None
    assert reading.workloads[0, :, CPU].tolist() == [2.0, 2.0, 2.0]


def test_the_use_of_a_step_is_the_mean_of_its_intervals() -> None:
    recent, pods, full = RecentUse(5, 2, 1), np.array([0]), np.array([60.0])
    for number in range(5):
        found = recent.added(number, np.array([10.0 * number]), np.ones(1), pods, np.array([number]), full)

    assert found.cpu.tolist() == [20.0]
    assert (found.of_pods.tolist(), found.ran.tolist()) == ([2.0], [300.0])
    both = recent.added(5, np.ones(1), np.ones(1), np.array([0, 1]), np.ones(2), np.array([60.0, 30.0]))
    assert both.of_pods.tolist() == [pytest.approx(11 / 5), 1.0]
    assert both.ran.tolist() == [300.0, 30.0]


def test_default_measurements_are_those_of_a_water_level() -> None:
    assert (DEFAULT_METRICS.interval, DEFAULT_METRICS.lag) == (60.0, 60.0)
    assert DEFAULT_METRICS.settling == SETTLING


@pytest.mark.parametrize(
    ("field", "value"), [("interval", 0.0), ("interval", 70.0), ("interval", 600.0), ("lag", -1.0)]
)
def test_impossible_times_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        MetricsTiming(**{field: value})
