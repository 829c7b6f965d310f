"""Bounds of how evenly nodes can be used: one that no placement beats, and a placement that knows the future.

Both take the pods and their use as a run had them, and compare demands, which may exceed the size of a node.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelock.simulation.engine import NOT_PLACED, Run
from tidelock.simulation.world import STEP, Floats, Indices, SimulatedWorld

_SWEEPS = 40
_HOTTEST, _COLDEST = 0.05, 0.0005
"""Temperatures of the annealing at its begin and end, in points of deviation that a pod adds in a step."""


@dataclass(frozen=True, slots=True)
class Demands:
    """The demands of the pods of a run.

    Attributes:
        cpu: millicores of each pod in each step, as the mean over the step (P x T).
        present: share of each step for which it was on a node (P x T).

    """

    cpu: Floats
    present: Floats

    @classmethod
    def of(cls, world: SimulatedWorld, run: Run) -> "Demands":
        """Return the demands of a run."""
        starts = np.arange(world.steps) * STEP
        begin = np.where(run.node == NOT_PLACED, np.inf, run.bound)[:, np.newaxis]
        end = begin + world.lives[:, np.newaxis]
        ran = np.minimum(end, starts + STEP) - np.maximum(begin, starts)
        present = np.clip(np.nan_to_num(ran, nan=0.0, neginf=0.0), 0, STEP) / STEP
        return cls(world.cpu * present, present)


def instant_bound(world: SimulatedWorld, run: Run) -> Floats:
    """Return use of equal nodes that deviates no more than that of any placement, in percent (T x N).

    In each step, pods that want more than the mean of the nodes that are left take one node each. All else is
    spread evenly, as if pods could be divided. Every placement majorizes the result: its k fullest nodes have
    at least the k largest pods. So its deviation is no smaller.

    Raises:
        ValueError: the nodes differ in size.

    """
    sizes = {machine.cpu for machine in world.machines}
    if len(sizes) != 1:
        raise ValueError(f"{world.title}: the bound needs nodes of one size")
    nodes, demands = len(world.machines), Demands.of(world, run).cpu
    use = np.empty((world.steps, nodes))
    for step in range(world.steps):
        largest = np.sort(demands[:, step])[::-1][:nodes]
        left = float(demands[:, step].sum())
        for place in range(nodes):
            even = left / (nodes - place)
            pod = float(largest[place]) if place < len(largest) else 0.0
            if pod <= even:
                use[step, place:] = even
                break
            use[step, place] = pod
            left -= pod
    return 100 * use / sizes.pop()


def annealed(world: SimulatedWorld, run: Run, first: int, seed: int = 0, sweeps: int = _SWEEPS) -> Indices:
    """Return a node for each pod of a run that deviates less, with all use of all times known.

    Each sweep draws a node for each pod, by Boltzmann's distribution of the mean deviation over time, among
    the nodes that have the pod's requests. The temperature falls from one sweep to the next.

    Args:
        world: the world.
        run: where to begin, and how long each pod runs.
        first: the first step that counts.
        seed: of the draws.
        sweeps: number of sweeps.

    """
    demands, rng = Demands.of(world, run), np.random.default_rng(seed)
    placement = _Placement(world, demands, run.node)
    best, least = placement.node.copy(), placement.deviation(first)
    placed = np.flatnonzero(run.node != NOT_PLACED)
    for temperature in np.geomspace(_HOTTEST, _COLDEST, sweeps).tolist():
        for pod in rng.permutation(placed).tolist():
            placement.draw(pod, first, temperature, rng)
        reached = placement.deviation(first)
        if reached < least:
            best, least = placement.node.copy(), reached
    return best


def use_of(world: SimulatedWorld, run: Run, node: Indices) -> Floats:
    """Return the use of all nodes if the pods of a run had been on other nodes, in percent (T x N)."""
    used = _Placement(world, Demands.of(world, run), node).used
    return np.minimum(used, 100.0)


class _Placement:
    """A node for each pod, with the sums by node.

    Attributes:
        node: the node of each pod (P).
        used: demand in percent of each node (T x N).

    """

    def __init__(self, world: SimulatedWorld, demands: Demands, node: Indices) -> None:
        self.node = node.copy()
        self._capacity = np.array([machine.cpu for machine in world.machines], np.float64)
        memory = np.array([machine.memory for machine in world.machines], np.float64)
        requests = np.array([(each.cpu, each.memory) for each in world.workloads], np.float64)
        self._requests = requests[world.workload]
        self._limits = np.stack((self._capacity, memory))
        self._demands = demands
        nodes = len(self._capacity)
        self.used = np.zeros((world.steps, nodes))
        self._requested = np.zeros((2, world.steps, nodes))
        self._spans = [_span(present) for present in demands.present]
        for pod in np.flatnonzero(node != NOT_PLACED).tolist():
            self._add(pod, int(node[pod]), 1.0)

    def deviation(self, first: int) -> float:
        """Return the mean over time of the standard deviation between the nodes."""
        return float(self.used[first:].std(axis=1).mean())

    def draw(self, pod: int, first: int, temperature: float, rng: np.random.Generator) -> None:
        """Move a pod to a node that is drawn by the deviation that it leads to."""
        self._add(pod, int(self.node[pod]), -1.0)
        begin, end = self._spans[pod]
        span = slice(max(begin, first), end)
        here = int(self.node[pod])
        if span.start < span.stop:
            used = self.used[span]
            nodes = used.shape[1]
            more = self._demands.cpu[pod, span, np.newaxis] * (100 / self._capacity)
            mean = (used.sum(axis=1, keepdims=True) + more) / nodes
            squares = (used**2).sum(axis=1, keepdims=True) + more * (2 * used + more)
            deviations = np.sqrt(np.maximum(squares / nodes - mean**2, 0)).sum(axis=0)
            deviations[~self._fits(pod, slice(begin, end))] = np.inf
            deviations[here] = min(deviations[here], np.finfo(np.float64).max)  # it was there before
            chances = np.exp(-(deviations - deviations.min()) / (temperature * (span.stop - span.start)))
            here = int(np.searchsorted(chances.cumsum(), rng.random() * chances.sum()))
        self._add(pod, here, 1.0)

    def _fits(self, pod: int, span: slice) -> npt.NDArray[np.bool_]:
        present = self._demands.present[pod, span]
        fits = np.ones(len(self._capacity), np.bool_)
        for resource in (0, 1):
            highest = (
                self._requested[resource, span] + present[:, np.newaxis] * self._requests[pod, resource]
            ).max(axis=0)
            fits &= highest <= self._limits[resource]
        return fits

    def _add(self, pod: int, row: int, sign: float) -> None:
        begin, end = self._spans[pod]
        self.node[pod] = row
        self.used[begin:end, row] += sign * self._demands.cpu[pod, begin:end] * (100 / self._capacity[row])
        for resource in (0, 1):
            self._requested[resource, begin:end, row] += (
                sign * self._demands.present[pod, begin:end] * self._requests[pod, resource]
            )


def _span(present: Floats) -> tuple[int, int]:
    """Return the first step of a pod, and the one after its last."""
    steps = np.flatnonzero(present)
    return (int(steps[0]), int(steps[-1]) + 1) if len(steps) else (0, 0)
