"""The use of one pod of each workload, and the object to which it is written."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelock.load.restore import StoredUse
from tidelock.model.meta import OwnerReference
from tidelock.model.usage_annotations import PodUsage, WorkloadKey, WorkloadUses

# Seconds for which the use of a workload is kept without any of its pods.
_MEMORY = 7 * 86_400.0


class MeasuredWorkload(NamedTuple):
    """A workload with measurements."""

    key: WorkloadKey
    owner: OwnerReference


class Workloads:
    """All workloads with measurements, whichever WaterLevel has measured them.

    Attributes:
        uses: use of one pod of each; replaced by every change and never changed itself.
        owners: the objects, as their pods refer to them.

    """

    def __init__(self) -> None:
        self.uses: WorkloadUses = {}
        self.owners: dict[WorkloadKey, OwnerReference] = {}

    def restore(self, stored: Mapping[WorkloadKey, StoredUse]) -> None:
        """Restore the measurements that an earlier process stored."""
        self.uses = {key: each.usage for key, each in stored.items()}
        self.owners |= {key: each.owner for key, each in stored.items()}

    def learn(self, readings: Iterable[Mapping[WorkloadKey, PodUsage]]) -> None:
        """Add readings, where later ones replace earlier ones."""
        uses = dict(self.uses)
        for reading in readings:
            uses |= reading
        self.uses = uses
        self.owners = {key: owner for key, owner in self.owners.items() if key in uses}

    def outdated(self, now: float, *, measuring: bool) -> list[MeasuredWorkload]:
        """Return the outdated ones: not measured for a week, or all if nothing is measured any more."""
        oldest = now - _MEMORY
        return [
            MeasuredWorkload(key, self.owners[key])
            for key, usage in self.uses.items()
            if key in self.owners and (usage.at < oldest or not measuring)
        ]

    def forget(self, keys: Iterable[WorkloadKey]) -> None:
        """Forget some workloads."""
        gone = frozenset(keys)
        self.uses = {key: usage for key, usage in self.uses.items() if key not in gone}
        self.owners = {key: owner for key, owner in self.owners.items() if key not in gone}
