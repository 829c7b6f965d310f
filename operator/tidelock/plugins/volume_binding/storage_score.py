"""The score of nodes by the share of their storage that the pod's claims would use.

Source: kube-scheduler 1.37, plugins/volumebinding, Score and scorer.go (`StorageCapacityScoring`). Claims of
one class are added up, and a node's score is the mean of its classes, rounded.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelock.cluster.arrays import Mask
from tidelock.framework.api import Scores
from tidelock.framework.function_shape import MAX_UTILIZATION

_LARGEST = 2**56  # bytes, beyond all storage: a hundredfold of it is a number of 64 bits


def bounded(size: int | None) -> int:
    """Return a size in bytes that can be calculated with. An unknown one is 0."""
    return min(size or 0, _LARGEST)


@dataclass(slots=True)
class _ClassUse:
    """Requested bytes and capacity of a storage class on each node, where the class counts."""

    counts: Mask
    requested: npt.NDArray[np.int64]
    capacity: npt.NDArray[np.int64]


class StorageUse:
    """What the claims of a pod would use on each of some nodes, by storage class."""

    def __init__(self, nodes: int) -> None:
        """Begin without claims."""
        self._classes: defaultdict[str, _ClassUse] = defaultdict(
            lambda: _ClassUse(np.zeros(nodes, np.bool_), np.zeros(nodes, np.int64), np.zeros(nodes, np.int64))
        )

    def add_volumes(self, name: str, where: Mask, size: int, capacities: npt.NDArray[np.int64]) -> None:
        """Add a claim that gets an existing volume, and the volume's capacity."""
        use = self._classes[name]
        use.counts |= where
        use.requested[where] += size
        use.capacity[where] += capacities[where]

    def add_provision(self, name: str, where: Mask, size: int, capacities: npt.NDArray[np.int64]) -> None:
        """Add a claim to provision. All claims of a class share its capacity on a node."""
        use = self._classes[name]
        use.counts |= where
        use.requested[where] += size
        use.capacity[where] = capacities[where]

    def scores(self, points: npt.NDArray[np.float64]) -> Scores:
        """Return each node's score from the points of each percentage, 0 where no class counts."""
        total: npt.NDArray[np.float64] | float = 0.0
        classes: npt.NDArray[np.int64] | int = 0
        for use in self._classes.values():
            full = (use.capacity <= 0) | (use.requested > use.capacity)
            percent = np.where(
                full, MAX_UTILIZATION, use.requested * MAX_UTILIZATION // np.maximum(use.capacity, 1)
            )
            total = total + np.where(use.counts, points[percent], 0.0)
            classes = classes + use.counts
        means: Scores = np.floor(total / np.maximum(classes, 1) + 0.5)
        return means
