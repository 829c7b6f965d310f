"""The objects of a scenario."""

from dataclasses import dataclass, field
from typing import Any

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
