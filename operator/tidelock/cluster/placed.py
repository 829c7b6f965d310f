"""A pod on a node."""

from collections.abc import Callable
from dataclasses import dataclass

from tidelock.model.pods import Pod


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod on a node. It is assumed, `since` an instant, until the API server has shown the binding."""

    pod: Pod
    node_name: str
    assumed: bool
    since: float = 0.0


PodMove = Callable[[Placed, int], None]
"""Called with a pod that has come to a node (1) or has left it (-1)."""
