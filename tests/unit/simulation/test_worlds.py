from math import inf
from typing import Any

import numpy as np
import pytest

from tidelock.simulation.traces import MEBIBYTE, TracedPod
from tidelock.simulation.world import STEP, SimulatedWorld
from tidelock.simulation.worlds import (
    STEPS_A_DAY,
    LoadShape,
    NightWork,
    Setting,
    burst_world,
    day_and_night_world,
    machine,
    mean_level,
    openb_world,
    synthetic_load,
    world_of,
)

LOAD = synthetic_load(100, 48, 7)


def made(seed: int = 0, **fields: Any) -> SimulatedWorld:
    return world_of("made", LOAD, Setting(**{"nodes": 8, "workloads": 16, "steps": 48, **fields}), seed)


def presence(world: SimulatedWorld, instant: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return (world.arrives <= instant) & (instant < world.arrives + world.lives)


def test_one_seed_makes_one_world() -> None:
    one, same, other = made(3), made(3), made(4)

    assert np.array_equal(one.cpu, same.cpu)
    assert np.array_equal(one.arrives, same.arrives)
    assert one.pods != other.pods or not np.array_equal(one.arrives, other.arrives)


@pytest.mark.parametrize("fill", [0.3, 0.6])
def test_requests_fill_the_nodes_as_set(fill: float) -> None:
    world = made(fill=fill)
    requests = np.array([each.cpu for each in world.workloads])[world.workload]

    for instant in (2 * STEP, 24 * STEP, 47 * STEP):
        there = requests[presence(world, instant)].sum()
        assert fill - 0.1 < there / (8 * 16_000) <= fill


def test_no_pod_uses_more_than_its_limit() -> None:
    world = made(noise=0.8)
    limits = np.array([each.cpu_limit for each in world.workloads])[world.workload]

    assert (world.cpu <= limits[:, None]).all()
    assert (world.cpu >= 0).all()


def test_replicas_are_alike_without_noise_and_differ_with_it() -> None:
    alike, noisy = made(), made(noise=0.5)

    for world, same in ((alike, True), (noisy, False)):
        first, second = np.flatnonzero(world.workload == np.bincount(world.workload).argmax())[:2]
        assert np.array_equal(world.cpu[first], world.cpu[second]) is same


def test_noise_hardly_changes_the_mean_level() -> None:
    quiet, noisy = (mean_level(made(noise=noise, nodes=40, workloads=80)).mean() for noise in (0.0, 0.3))

    assert noisy == pytest.approx(quiet, rel=0.15)


def test_a_rollout_replaces_a_whole_workload_within_30_seconds() -> None:
    plain, rolled = made(life=1e9), made(life=1e9, rollouts=1)
    assert np.isclose(plain.arrives, 0, atol=61).all()

    late = rolled.arrives > 61
    (workload,) = set(rolled.workload[late].tolist())
    assert late.sum() == (rolled.workload[~late] == workload).sum()
    assert np.ptp(rolled.arrives[late]) <= 30


def test_sizes_of_nodes_alternate() -> None:
    assert [each.cpu for each in made(cores=(8, 16, 32)).machines[:4]] == [8000, 16_000, 32_000, 8000]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"nodes": 0}, "nodes: 0 should be more than 0"),
        ({"fill": 1.0}, "fill: 1.0 should be between 0 and 1"),
        ({"noise": -1.0}, "noise: -1.0 should not be negative"),
        ({"cores": ()}, r"cores: \[\] should be sizes of nodes, all more than 0"),
        ({"workloads": 101}, "made: 101 workloads of 48 steps need more load than 100 rows of 48 steps"),
        ({"steps": 49}, "made: 16 workloads of 49 steps need more load than 100 rows of 48 steps"),
    ],
)
def test_an_invalid_setting_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}$"):
        made(**fields)


def test_synthetic_load_resembles_the_recorded_days() -> None:
    load = synthetic_load(1000, 288, 0)

    assert load.shape == (1000, 288)
    assert 0 <= load.min() <= load.max() <= 1
    assert 0.08 < load.mean() < 0.16
    assert np.median(load.mean(axis=1)) < load.mean()  # a few rows are busy


def test_pods_of_openb_are_scaled_to_the_time_of_the_world() -> None:
    pods = [
        TracedPod("a", 1000, MEBIBYTE, 0.0, 500.0),
        TracedPod("b", 2000, MEBIBYTE, 1e6, 1e6 + 60),
        TracedPod("c", 1000, MEBIBYTE, 2e6, 0.0),
    ]

    world = openb_world("openb", [machine("n", 16)], pods, LOAD, Setting(steps=3), 0)

    assert world.arrives.tolist() == [0.0, 300.0, 600.0]
    assert world.lives.tolist() == [500.0, 60.0, inf]
    assert [each.cpu for each in world.workloads] == [1000, 2000]
    assert world.workload.tolist() == [0, 1, 0]


def test_openb_needs_load_for_its_time() -> None:
    with pytest.raises(ValueError, match="288 steps need more load than 48 steps"):
        openb_world("openb", [machine("n", 16)], [TracedPod("a", 1, 1, 0, 1)], LOAD, Setting(), 0)


def test_a_burst_arrives_within_30_seconds() -> None:
    world = burst_world(4, 10, at=600.0, steps=3)

    surge = world.arrives[world.workload == 1]
    assert len(surge) == 10
    assert 600 <= surge.min() <= surge.max() < 630


def test_parts_that_do_not_fit_together_are_refused() -> None:
    world = burst_world(4, 10, at=600.0, steps=3)

    with pytest.raises(ValueError, match=r"^lives: 1 rows for 30 pods$"):
        SimulatedWorld(
            "odd",
            world.machines,
            world.workloads,
            world.workload,
            world.arrives,
            world.lives[:1],
            world.cpu,
            world.memory,
        )
    with pytest.raises(ValueError, match=r"^odd: a world needs nodes, pods and steps, and has 0, 30 and 3$"):
        SimulatedWorld(
            "odd", (), world.workloads, world.workload, world.arrives, world.lives, world.cpu, world.memory
        )


def test_requests_follow_the_use_with_an_error() -> None:
    world = made(request_error=0.1)
    requests = np.array([each.cpu for each in world.workloads])
    use = np.array([world.cpu[world.workload == number].mean() for number in range(16)])

    ratios = np.log(requests / use)[use > 60]  # less than 50 millicores are never requested
    assert len(ratios) > 8
    assert abs(ratios.mean()) < 0.1
    assert ratios.std() < 0.2
    assert np.log([each.cpu for each in made().workloads] / use).std() > 0.4


def test_each_pod_can_follow_a_row_of_its_own() -> None:
    alike, different = made(), made(rows="Pod")

    for world, most in ((alike, 1), (different, np.inf)):
        pods = np.flatnonzero(world.workload == np.bincount(world.workload).argmax())
        kinds = len({world.cpu[pod].tobytes() for pod in pods})
        assert (kinds == 1) if most == 1 else (kinds > len(pods) / 2)


def test_each_pod_can_be_a_workload_of_its_own() -> None:
    together, apart = made(), made(apart=True)

    assert np.array_equal(apart.workload, np.arange(together.pods))
    assert np.array_equal(apart.cpu, together.cpu)
    assert len({each.name for each in apart.workloads}) == together.pods


def test_load_is_multiplied_up_to_the_limits() -> None:
    plain, doubled = made(), made(load=2.0)
    limits = np.array([each.cpu_limit for each in plain.workloads])[plain.workload]

    assert doubled.cpu == pytest.approx(np.minimum(2 * plain.cpu, limits[:, None]), rel=1e-5)


def test_memory_is_requested_in_proportion_to_cores() -> None:
    for plain, more in zip(made().workloads, made(memory=1.5).workloads, strict=True):
        assert more.memory == pytest.approx(1.5 * plain.memory, rel=1e-3)


@pytest.mark.parametrize("lifetimes", ["Uniform", "Exponential", "Pareto"])
def test_lifetimes_have_their_mean(lifetimes: str) -> None:
    world = made(lifetimes=lifetimes, life=600.0, nodes=40)
    later = world.lives[world.arrives > 61]

    # Of Pareto's long lives some are still to come when the world ends, so their mean varies more.
    assert later.mean() == pytest.approx(600, rel=0.25 if lifetimes == "Pareto" else 0.05)
    if lifetimes == "Pareto":
        assert np.median(later) < 400


def test_a_smaller_shape_gives_most_replicas_to_fewer_workloads() -> None:
    shares = [
        np.mean(
            [
                np.sort(np.bincount(made(seed, replica_shape=shape, life=1e9).workload))[-1]
                for seed in range(5)
            ]
        )
        for shape in (1.0, 8.0)
    ]

    assert shares[0] > 1.5 * shares[1]


def test_sizes_are_those_of_the_setting() -> None:
    assert {each.cpu for each in made(sizes=(250, 3000)).workloads} == {250, 3000}


def test_synthetic_load_has_its_shape() -> None:
    steady = synthetic_load(200, 288, 0, LoadShape(swing=0.0, wander=0.0, peaks=0.0))
    busy = synthetic_load(2000, 50, 0, LoadShape(mean=0.3, wander=0.1, peaks=0.0))

    assert (np.ptp(steady, axis=1) < 1e-6).all()
    assert busy.mean() == pytest.approx(0.3, rel=0.15)
    with pytest.raises(ValueError, match=r"^peaks: "):
        LoadShape(peaks=2.0)


@pytest.mark.parametrize(
    ("field", "value"), [("sizes", ()), ("request_error", -0.1), ("load", 0.0), ("replica_shape", 0.0)]
)
def test_impossible_shapes_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        Setting(**{field: value})  # type: ignore[arg-type]


def test_night_work_comes_at_night_and_services_are_used_by_day() -> None:
    setting = Setting(nodes=2, workloads=4, steps=2 * STEPS_A_DAY, life=7 * 86_400, fill=0.3)
    night = NightWork(jobs=30, kinds=3)
    of = day_and_night_world(setting, night, starts=8.0, seed=0)
    jobs = of.workload >= setting.workloads
    created = (8 + of.arrives[jobs] / 3600) % 24

    assert jobs.sum() == 2 * night.jobs
    assert ((created >= 22) | (created < 2)).all()
    assert {each.cpu for each in of.workloads[setting.workloads :]} == {night.request}
    hours = (8 + np.arange(of.steps) / 12) % 24
    by_day, by_night = (of.cpu[~jobs][:, part].mean() for part in ((hours > 12) & (hours < 16), hours < 4))
    assert by_day > 2 * by_night
    assert (of.cpu[jobs] <= 0.5 * night.limit).all()
