"""The objects of a scenario, and the scenarios to run."""

from dataclasses import dataclass, field
from typing import Any

from sampling import seeds

Json = dict[str, Any]

SCENARIO = "scenario"
"""The label of all objects of a scenario."""

ZONE = "topology.kubernetes.io/zone"
UPSTREAM = "default-scheduler"
FINALIZER = "tidelock.dev/test"


@dataclass
class Scenario:
    """Objects in the order of their creation.

    The pods in `wanting` are scheduled one after the other. Residents with a finalizer are deleted, so that
    they stay and are leaving. The status of a resident is written as its kubelet would write it.
    """

    seed: int
    namespaces: list[Json] = field(default_factory=list)
    services: list[Json] = field(default_factory=list)
    volumes: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    csi_nodes: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    residents: list[Json] = field(default_factory=list)
    wanting: list[Json] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The value of the label on all its objects."""
        return f"s{self.seed}"


def batches(part: int, whole: int, at_once: int) -> list[range]:
    """Return the seeds that TIDELOCK_SEEDS selects, such as `0-31` or `17`, in batches to run at once."""
    selected = seeds("TIDELOCK_SEEDS", part, whole)
    return [selected[start : start + at_once] for start in range(0, len(selected), at_once)]


def name_of(seeds: range) -> str:
    """Return the name of a batch."""
    return f"{seeds[0]}-{seeds[-1]}"
