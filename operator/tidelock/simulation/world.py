"""Content of a simulation: nodes, pods that come and go, and their true use."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Loads = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]

STEP = 300.0
"""Seconds of a step, unless a world says otherwise: the traces have one value every five minutes."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A node: cpu in millicores, memory in bytes, its number of pods, and its GPUs."""

    name: str
    cpu: int
    memory: int
    pods: int = 110
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class SimulatedWorkload:
    """A Deployment: requests of each of its pods, in millicores and bytes. A limit of 0 means no limit."""

    name: str
    cpu: int
    memory: int
    cpu_limit: int = 0
    memory_limit: int = 0


@dataclass(frozen=True, slots=True)
class SimulatedWorld:
    """A cluster and its day, with P pods and T steps.

    Attributes:
        title: its title, for people.
        machines: the nodes.
        workloads: the Deployments.
        workload: index of each pod's workload (P).
        arrives: second at which each pod is created, in no order (P).
        lives: seconds from its binding to its end, infinite for one that stays (P).
        cpu: millicores that each pod wants in each step while it runs (P x T).
        memory: bytes that each pod uses while it runs (P).
        step: seconds of a step.

    """

    title: str
    machines: tuple[Machine, ...]
    workloads: tuple[SimulatedWorkload, ...]
    workload: Indices
    arrives: Floats
    lives: Floats
    cpu: Loads
    memory: Floats
    step: float = STEP

    def __post_init__(self) -> None:
        """Refuse parts that do not fit together.

        Raises:
            ValueError: there is nothing to simulate, or arrays differ in their number of pods.

        """
        pods = len(self.workload)
        shapes = {
            "arrives": self.arrives.shape,
            "lives": self.lives.shape,
            "memory": self.memory.shape,
            "cpu": self.cpu.shape[:1],
        }
        for field, shape in shapes.items():
            if shape != (pods,):
                raise ValueError(f"{field}: {shape[0]} rows for {pods} pods")
        if not self.machines or not pods or not self.steps:
            raise ValueError(
                f"{self.title}: a world needs nodes, pods and steps, "
                f"and has {len(self.machines)}, {pods} and {self.steps}"
            )

    @property
    def pods(self) -> int:
        """The number of pods over the whole time."""
        return len(self.workload)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return int(self.cpu.shape[1])
