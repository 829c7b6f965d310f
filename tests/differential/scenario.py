"""What a scenario consists of."""

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

SCENARIO = "scenario"
"""Label of everything that a scenario has."""

ZONE = "topology.kubernetes.io/zone"
UPSTREAM = "default-scheduler"
FINALIZER = "tidelock.dev/test"


@dataclass
class Scenario:
    """Objects to create in this order; the pods that are `wanting` are scheduled one after the other.

    Residents that have a finalizer are deleted, which leaves them there, and leaving. The status of a
    resident is written as its kubelet would write it.
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
        """What all its objects bear."""
        return f"s{self.seed}"
