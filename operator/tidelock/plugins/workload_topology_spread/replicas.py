"""How many pods of each controller are on which nodes."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from tidelock.cluster.cache import CacheObserver
from tidelock.cluster.placed import Placed

_NOWHERE: Mapping[str, int] = {}


class Replicas(CacheObserver):
    """Counts of pods by controller and node, without those that are being deleted."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._counted: dict[str, tuple[str, str]] = {}

    def of(self, controller_uid: str) -> Mapping[str, int]:
        """Return the number of a controller's pods by the names of their nodes."""
        return self._counts.get(controller_uid, _NOWHERE)

    def place(self, placed: Placed) -> None:
        """Count a pod, once."""
        self.displace(placed)
        controller = placed.pod.meta.controller
        if controller is not None and not placed.pod.leaving:
            self._counts[controller.uid][placed.node_name] += 1
            self._counted[placed.pod.uid] = (controller.uid, placed.node_name)

    def displace(self, placed: Placed) -> None:
        """Count a pod no longer."""
        counted = self._counted.pop(placed.pod.uid, None)
        if counted is None:
            return
        controller, node_name = counted
        counts = self._counts[controller]
        counts[node_name] -= 1
        if not counts[node_name]:
            del counts[node_name]
        if not counts:
            del self._counts[controller]
