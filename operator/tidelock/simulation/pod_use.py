"""The use of placed pods by node, with the rules of `tidelock.cluster.usage.sums`.

P pods, W windows, R resources, N nodes. Use is in the units of `tidelock.model.quantities`.
"""

import numpy as np

from tidelock.cluster.usage.levels import MEASURED_RESOURCES, UNITS, WINDOWS
from tidelock.cluster.usage.sums import Slots, UseRule
from tidelock.model.pods import Pod
from tidelock.simulation.cluster import EPOCH
from tidelock.simulation.measuring import Reading
from tidelock.simulation.world import STEP, Floats, SimulatedWorld

_NOWHERE = -1
_CPU = MEASURED_RESOURCES.index("cpu")
_CELLS = len(WINDOWS) * len(MEASURED_RESOURCES)


class PodUse:
    """The pods' own and expected use, and its sums.

    Attributes:
        expected: of a pod of each workload, by its history or an estimate (workloads x W x R).
        sums: counted use of the pods of each node (W x R x N).
        counted: counted use of each placed pod (P x W x R).

    """

    def __init__(
        self,
        world: SimulatedWorld,
        pods: list[Pod],
        nodes: int,
        defaults: Floats,
        *,
        history: bool,
    ) -> None:
        """Begin without placed pods.

        Args:
            world: the world.
            pods: a pod of each workload.
            nodes: N.
            defaults: expected use of a pod without limits and requests (R).
            history: whether the history of a workload precedes the estimate.

        """
        self.sums = np.zeros((len(WINDOWS), len(MEASURED_RESOURCES), nodes))
        self._history = history
        self._workload = world.workload
        self._row = np.full(world.pods, _NOWHERE, np.intp)
        self._new = np.zeros((len(pods), Slots.WIDTH))  # the figures of a new pod of each workload
        of_new = Slots(self._new, np.zeros(0))
        of_new.own[:] = np.nan
        self.expected = of_new.expected
        likely = np.array([pod.likely_use for pod in pods])
        self.expected[:] = np.where(np.isnan(likely), defaults, likely)[:, np.newaxis]
        self._by_history = of_new.by_history
        self._slots = Slots(np.zeros((world.pods, Slots.WIDTH)), np.zeros(0))
        self.counted = np.zeros((world.pods, len(WINDOWS), len(MEASURED_RESOURCES)))

    def place(self, pod: int, row: int, now: float) -> None:
        """Count a pod as expected, until a reading has it."""
        workload = self._workload[pod]
        self._row[pod] = row
        self._slots.figures[pod] = self._new[workload]
        self._slots.bound_at[pod] = now
        self.counted[pod] = self.expected[workload]
        self.sums[:, :, row] += self.counted[pod]

    def remove(self, pod: int, row: int) -> None:
        """Count a pod no longer."""
        self._row[pod] = _NOWHERE
        self.sums[:, :, row] -= self.counted[pod]

    def show(self, reading: Reading, rule: UseRule) -> None:
        """Take over a reading, and sum all nodes again by a rule for how much of each pod counts."""
        at = EPOCH + reading.at
        slots = self._slots
        placed = np.flatnonzero(self._row != _NOWHERE)
        if self._history:
            known = ~np.isnan(reading.workloads[:, 0, 0])
            self.expected[known] = reading.workloads[known] * UNITS
            self._by_history[known] = 1.0
            of = self._workload[placed]
            slots.expected[placed], slots.by_history[placed] = self.expected[of], self._by_history[of]
        here = self._row[reading.pods] != _NOWHERE
        measured = reading.pods[here]
        slots.own[measured], slots.own_at[measured] = reading.of_pods[here] * UNITS, at
        counted = rule(Slots(slots.figures[placed], np.full(len(placed), at)))
        self.counted[placed] = counted
        nodes = self.sums.shape[2]
        for cell, values in zip(
            self.sums.reshape(_CELLS, nodes), counted.reshape(len(placed), _CELLS).T, strict=True
        ):
            cell[:] = np.bincount(self._row[placed], values, minlength=nodes)


class ForeseenUse(PodUse):
    """The same, but with the mean cpu that pods will want in the next steps: what a perfect forecast tells.

    A new pod of a workload is expected to use the mean of all pods of the workload in these steps.
    """

    def __init__(
        self,
        world: SimulatedWorld,
        pods: list[Pod],
        nodes: int,
        defaults: Floats,
        *,
        history: bool,
        horizon: int,
    ) -> None:
        """Begin without placed pods. `horizon` is the number of steps, without those beyond the end."""
        super().__init__(world, pods, nodes, defaults, history=history)
        self._cpu, self._horizon = world.cpu, horizon
        self._pods_of = np.maximum(np.bincount(world.workload, minlength=len(pods)), 1)

    def show(self, reading: Reading, rule: UseRule) -> None:
        """Take over a reading, and replace its cpu."""
        super().show(reading, rule)
        step = min(int(reading.at / STEP), self._cpu.shape[1] - 1)
        wanted = self._cpu[:, step : step + self._horizon].mean(axis=1, dtype=np.float64)
        sums = np.bincount(self._workload, wanted, minlength=len(self._pods_of))
        self.expected[:, :, _CPU] = (sums / self._pods_of)[:, np.newaxis]
        placed = np.flatnonzero(self._row != _NOWHERE)
        self.counted[placed, :, _CPU] = wanted[placed, np.newaxis]
        self.sums[:, _CPU] = np.bincount(self._row[placed], wanted[placed], minlength=self.sums.shape[2])
