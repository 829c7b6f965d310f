from pathlib import Path

import pytest

from bench.dispatch import DispatchResult, DispatchSimulation, Setting, SettingResult, main, table
from bench.members import Job, Member
from tidelock.simulation.cluster import VirtualClock
from tidelock.simulation.traces import TracedPod
from tidelock.simulation.world import Machine

GIB = 2**30
SETTING = Setting(nodes=6, load=0.95, delay=20.0, seconds=400.0, warm_up=100.0, life=120.0)
SHAPES = [TracedPod("job", 4000, 8 * GIB, 0.0, 1.0, gpus=gpus) for gpus in (1, 1, 2, 4)]


def machines(count: int) -> list[Machine]:
    return [Machine(f"node-{number}", 64_000, 256 * GIB, gpus=8) for number in range(count)]


def simulated(*, reservations: bool) -> DispatchResult:
    return DispatchSimulation(machines(6), SHAPES, SETTING, reservations=reservations, members=3).run()


def test_only_with_reservations_every_job_finds_capacity() -> None:
    without, having = simulated(reservations=False), simulated(reservations=True)
    assert without.stranded > 0
    assert having.stranded == 0
    assert (len(without.stuck), len(having.stuck)) == (without.stranded, 0)
    assert without.sent > 20
    assert having.sent > 20
    assert without.held == 0.0
    assert 0.0 < having.held < having.used < 1.0


def test_a_simulation_is_reproducible() -> None:
    assert simulated(reservations=True) == simulated(reservations=True)


def test_a_member_holds_capacity_for_a_job_that_has_not_arrived() -> None:
    clock = VirtualClock()
    bound: list[Job] = []
    member = Member(machines(1), clock, bound.append)
    first, second = (Job(name, 1000, GIB, 8, 60.0) for name in ("first", "second"))
    assert member.reservation(first, 30)
    assert not member.reservation(second, 30)
    assert member.held == 8
    member.create(second)
    member.decide()
    assert not bound
    assert (member.free() >= member.needs(second)).all(axis=1).tolist() == [False]

    member.create(first)
    member.decide()
    assert bound == [first]
    assert (member.held, member.bound) == (0, 8)
    member.delete(first)
    clock.elapsed = due if (due := member.next_due()) is not None else 0.0
    member.decide()
    assert bound == [first, second]


def test_a_reservation_for_a_job_that_never_arrives_expires() -> None:
    clock = VirtualClock()
    bound: list[Job] = []
    member = Member(machines(1), clock, bound.append)
    assert member.reservation(Job("first", 1000, GIB, 8, 60.0), 30)
    clock.elapsed = 31.0
    member.decide()
    assert (member.held, bound) == (0, [])


def test_the_table_shows_results_with_and_without_reservations() -> None:
    text = table(
        [
            SettingResult(
                SETTING,
                DispatchResult(200, 20, [1.0, 9.0], [80.0], 0.8),
                DispatchResult(200, 0, [1.0], [], 0.8, 0.05),
            )
        ]
    )
    assert "10.00%" in text
    assert "80 s" in text
    assert "5.00%" in text


def test_missing_traces_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--quick", "--traces", str(tmp_path)])
    assert str(tmp_path) in capsys.readouterr().err
