"""The scheduler's decisions as arithmetic over arrays: without API objects, queue and ledger.

It decides as the whole scheduler does, with the formulas of the plugins, and takes about a tenth of the time.
Tests compare every decision of both. It covers worlds in which all nodes are measured at the same time.
"""

from collections import deque
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from tidelock.framework.api import MAX_NODE_SCORE
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.plugins.pod_topology_spread.plugin import (
    SYSTEM_DEFAULTS,
    PodTopologySpread,
    normalized_sums,
    weighted_counts,
)
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from tidelock.simulation.cluster import VirtualClock, node_of, pod_of
from tidelock.simulation.level_scorer import LevelScorer
from tidelock.simulation.measuring import MetricsFaults, Reading
from tidelock.simulation.node_amounts import DEFAULT_WEIGHTS, Mask, NodeAmounts
from tidelock.simulation.policies import RandomScore, SimulatedPolicy
from tidelock.simulation.world import Floats, Indices, SimulatedWorld

_NOWHERE = -1
_SPREAD = DEFAULT_WEIGHTS[PodTopologySpread.name]
_SKEW = SYSTEM_DEFAULTS[0].max_skew


class Scorer(Protocol):
    """The characteristic score of a policy."""

    def place(self, pod: int, row: int, now: float) -> None:
        """Count a pod on a node, bound at this second of the world."""

    def remove(self, pod: int, row: int) -> None:
        """Count a pod no longer."""

    def show(self, reading: Reading) -> None:
        """Take over a reading."""

    def fits(self, now: float) -> Mask | None:
        """Return the nodes that are within limits (N), or None for all."""

    def scores(self, workload: int, now: float, amounts: NodeAmounts, rows: Indices) -> Floats:
        """Return the scores of some nodes for a pod of a workload."""


class ArrayScheduler:
    """The scheduler of a world, for policies that it covers.

    Attributes:
        clock: the time of the world.
        means_only: whether it needs no statistics of nodes other than means.

    """

    means_only = True

    def __init__(self, world: SimulatedWorld, policy: SimulatedPolicy, seed: int) -> None:
        """Begin without pods.

        Raises:
            ValueError: the policy's WaterLevel is invalid.

        """
        nodes = [node_of(machine) for machine in world.machines]
        pods = [pod_of(workload) for workload in world.workloads]
        self.clock = VirtualClock()
        self._workload = world.workload.tolist()
        self._policy = policy
        self._amounts = NodeAmounts(nodes, pods)
        self._rank = np.argsort(np.argsort([node.name for node in nodes], kind="stable"), kind="stable")
        self._every_row = np.arange(len(nodes))
        self._replicas = np.zeros((len(pods), len(nodes)))
        self._pods_on = np.zeros(len(nodes), np.intp)
        self._row = np.full(world.pods, _NOWHERE, np.intp)
        self._active: deque[int] = deque()
        self._unschedulable: list[int] = []
        self._scorer = _scorer(world, policy, nodes, pods, seed)

    @staticmethod
    def covers(policy: SimulatedPolicy, faults: MetricsFaults) -> bool:
        """Return whether this scheduler decides as the whole one would."""
        covered = policy.plugin in ("", RandomScore.name, WaterLevelBalance.name)
        return covered and not (faults.nan or faults.missing or faults.restarts)

    def restart(self) -> None:
        """Refuse, as a restart also concerns the parts that this scheduler does not have."""
        raise NotImplementedError("only the whole scheduler can be restarted")

    def show(self, reading: Reading) -> None:
        """Take over a reading. A node may be within its limits again, or a tide has other limits."""
        if self._scorer is not None:
            self._scorer.show(reading)
            self._retry()

    def add_pod(self, number: int) -> None:
        """Create a pod of the world."""
        self._active.append(number)

    def end_pod(self, number: int) -> None:
        """Delete a pod, and try those again that did not fit."""
        self._remove(number)
        self._retry()

    def decide(self) -> Iterator[tuple[int, int]]:
        """Decide all that is due now, and yield each pod that was bound, with the row of its node."""
        refused: set[int] = set()  # workloads, for the pods of which there is less and less capacity
        while self._active:
            number = self._active.popleft()
            workload = self._workload[number]
            row = None if workload in refused else self._choose(workload)
            if row is None:
                refused.add(workload)
                self._unschedulable.append(number)
                continue
            self._place(number, row)
            yield number, row

    def next_due(self) -> None:
        """Return that nothing is due without an event."""

    def _retry(self) -> None:
        self._active.extend(self._unschedulable)
        self._unschedulable.clear()

    def _place(self, number: int, row: int) -> None:
        workload = self._workload[number]
        self._row[number] = row
        self._amounts.take(workload, row)
        self._replicas[workload, row] += 1
        self._pods_on[row] += 1
        if self._scorer is not None:
            self._scorer.place(number, row, self.clock.now())

    def _remove(self, number: int) -> None:
        row, workload = int(self._row[number]), self._workload[number]
        self._row[number] = _NOWHERE
        self._amounts.take(workload, row, -1)
        self._replicas[workload, row] -= 1
        self._pods_on[row] -= 1
        if self._scorer is not None:
            self._scorer.remove(number, row)

    def _choose(self, workload: int) -> int | None:
        """Return the row of the best node, or None if the pod fits nowhere."""
        fits = self._amounts.fits(workload)
        if self._scorer is not None and (within := self._scorer.fits(self.clock.now())) is not None:
            fits &= within
        rows = fits.nonzero()[0]
        if len(rows) == len(fits):
            rows = self._every_row
        if len(rows) <= 1:
            return int(rows[0]) if len(rows) else None
        scores = self._scores(workload, rows)
        ties = (scores == scores[scores.argmax()]).nonzero()[0]
        if len(ties) == 1:
            return int(rows[ties[0]])
        ties = rows[ties]
        return int(ties[(self._pods_on[ties] * len(fits) + self._rank[ties]).argmin()])

    def _scores(self, workload: int, rows: Indices) -> Floats:
        """Return the weighted sums of all scores."""
        sums = np.rint(weighted_counts(self._replicas[workload][rows], len(rows), _SKEW))
        spread = _SPREAD * normalized_sums(sums)
        total: Floats = self._amounts.scores(workload)[rows] + spread if self._policy.by_requests else spread
        if self._scorer is not None:
            scores = self._scorer.scores(workload, self.clock.now(), self._amounts, rows)
            total = total + self._policy.weight * scores
        return total


class _RandomScorer:
    """Scores nodes at random, with the numbers of the plugin."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def place(self, pod: int, row: int, now: float) -> None:
        """Count no pod."""

    def remove(self, pod: int, row: int) -> None:
        """Count no pod."""

    def show(self, reading: Reading) -> None:
        """Ignore a reading."""

    def fits(self, now: float) -> None:
        """Limit nothing."""

    def scores(self, workload: int, now: float, amounts: NodeAmounts, rows: Indices) -> Floats:  # noqa: ARG002
        """Draw a score for each node."""
        return self._rng.uniform(0, MAX_NODE_SCORE, len(rows))


def _scorer(
    world: SimulatedWorld, policy: SimulatedPolicy, nodes: list[Node], pods: list[Pod], seed: int
) -> Scorer | None:
    if policy.plugin == RandomScore.name:
        return _RandomScorer(seed)
    return LevelScorer(world, policy, nodes, pods) if policy.plugin else None
