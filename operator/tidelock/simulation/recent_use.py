"""The use of nodes and pods over the last minutes, as a rate in PromQL has it."""

from dataclasses import dataclass

import numpy as np

from tidelock.simulation.world import Floats, Indices


@dataclass(frozen=True, slots=True)
class UseOfSpan:
    """Use over the span of a sample, of N nodes and of some pods.

    Attributes:
        cpu, memory: percent of each node (N).
        of_pods: cores that each pod used while it ran.
        ran: seconds for which it ran.

    """

    cpu: Floats
    memory: Floats
    of_pods: Floats
    ran: Floats


class RecentUse:
    """The use in the last intervals, which together are the span of a sample."""

    def __init__(self, intervals: int, pods: int, nodes: int) -> None:
        self._intervals = intervals
        self._cpu = np.zeros((intervals, nodes))
        self._memory = np.zeros((intervals, nodes))
        self._core_seconds = np.zeros((intervals, pods))
        self._ran = np.zeros((intervals, pods))

    def added(
        self, number: int, cpu: Floats, memory: Floats, pods: Indices, cores: Floats, ran: Floats
    ) -> UseOfSpan:
        """Add an interval, and return the use of all nodes and of these pods over the last intervals.

        Args:
            number: number of the interval.
            cpu: percent of each node (N).
            memory: the same for memory (N).
            pods: the pods that ran.
            cores: use of each of them while it ran.
            ran: seconds for which it ran.

        """
        if self._intervals == 1:
            return UseOfSpan(cpu, memory, cores, ran)
        place = number % self._intervals
        self._cpu[place], self._memory[place] = cpu, memory
        self._core_seconds[place] = self._ran[place] = 0.0
        self._core_seconds[place, pods], self._ran[place, pods] = cores * ran, ran
        seconds = self._ran[:, pods].sum(axis=0)
        return UseOfSpan(
            cpu=self._cpu.mean(axis=0),
            memory=self._memory.mean(axis=0),
            of_pods=self._core_seconds[:, pods].sum(axis=0) / np.maximum(seconds, 1e-9),
            ran=seconds,
        )
