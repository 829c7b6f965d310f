"""The measurement of moving pods that run."""

from itertools import pairwise

import numpy as np
import pytest

from bench.rebalance import RULES, Outcome, Rebalancing, RebalancingScheduler, report
from tidelock.simulation.engine import Run, Simulation
from tidelock.simulation.measuring import DEFAULT_METRICS
from tidelock.simulation.policies import POLICIES
from unit.simulation.small import world


class Recorded(RebalancingScheduler):
    """Records the second of each move, and whether the requests of all pods fit."""

    def __init__(self, rule: Rebalancing) -> None:
        super().__init__(world(), POLICIES["water-level"], 0, rule)
        self.seconds: list[float] = []
        self.fitting = True

    def _best_move(self) -> tuple[int, int] | None:
        found = super()._best_move()
        if found is not None:
            self.seconds.append(self.clock.elapsed)
        return found

    def _place(self, number: int, row: int) -> None:
        self.fitting &= bool(self._amounts.fits(self._workload[number])[row])
        super()._place(number, row)


def simulated(scheduler: RebalancingScheduler | None = None) -> Run:
    policy = POLICIES["water-level"]
    return Simulation(world(), policy, 0, timing=DEFAULT_METRICS, scheduler=scheduler).run()


def test_moves_level_the_nodes() -> None:
    alone, scheduler = simulated(), Recorded(Rebalancing(3))
    run = simulated(scheduler)

    assert 0 < scheduler.moves == len(scheduler.seconds)
    assert scheduler.fitting
    assert np.array_equal(np.isfinite(run.bound), np.isfinite(alone.bound))
    assert run.cpu.std(axis=1).mean() < alone.cpu.std(axis=1).mean()


def test_one_pod_moves_at_a_reading_and_none_within_a_pause() -> None:
    eager, slow = Recorded(Rebalancing(2)), Recorded(Rebalancing(2, pause=1800))
    simulated(eager)
    simulated(slow)

    assert all(later - earlier >= DEFAULT_METRICS.interval for earlier, later in pairwise(eager.seconds))
    assert all(later - earlier >= 1800 for earlier, later in pairwise(slow.seconds))
    assert 0 < slow.moves < eager.moves


def test_no_pod_moves_below_the_margin() -> None:
    scheduler = Recorded(Rebalancing(100))

    assert np.array_equal(simulated(scheduler).node, simulated().node)
    assert scheduler.moves == 0


def test_pods_that_are_placed_by_requests_do_not_move() -> None:
    with pytest.raises(TypeError, match="only moved by the levels"):
        RebalancingScheduler(world(), POLICIES["default"], 0, Rebalancing(3))


def test_a_result_within_the_aim_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    moved = {str(rule): (9.0, 10 * number) for number, rule in enumerate(RULES)}
    report([Outcome("20110303", 0, 3.0, 1000, 100.0, 10.0, moved)])

    lines = capsys.readouterr().out.splitlines()[3:]
    assert ["0.900 (met)" in line for line in lines] == [10 * n / 1000 <= 0.03 for n in range(len(RULES))]
