"""The unbound volumes of one class as columns: the one that a claim gets on each node."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Rows
from tidelock.model.storage import PersistentVolume, PersistentVolumeClaim
from tidelock.plugins.volume_binding.label_rows import LabelRows

# Volumes that more nodes than this reach are looked at one by one: few of them serve all nodes.
_NARROW = 16

_NO_ROWS = np.empty(0, np.intp)


class UnboundVolumes:
    """Volumes in order of their size, then name; a place is an index in `volumes`.

    A taken volume leaves a gap. After a new volume or a change of nodes, the next query builds the columns
    again.
    """

    def __init__(self) -> None:
        self.volumes: Sequence[PersistentVolume] = ()
        self._there: dict[str, PersistentVolume] = {}
        self._place_of: dict[str, int] = {}
        self._free = np.empty(0, np.bool_)
        self._capacity = np.empty(0, np.int64)
        self._kind_of = _NO_ROWS  # equal for volumes that differ in nothing but size, labels and reach
        self._kinds: list[PersistentVolume] = []
        self._stale = False
        self._version = -1
        self._narrow = (_NO_ROWS, _NO_ROWS)  # rows, and the places of volumes that they reach, in order
        self._wide: list[tuple[int, Rows]] = []

    def __len__(self) -> int:
        return len(self._there)

    def put(self, volume: PersistentVolume) -> None:
        """Add a volume, or take over its newer version."""
        name = volume.meta.name
        self._there[name] = volume
        place = self._place_of.get(name)
        if place is not None and _properties(self.volumes[place]) == _properties(volume):
            self._free[place] = True
        else:
            self._stale = True

    def drop(self, name: str) -> None:
        """Take a volume away."""
        self._there.pop(name, None)
        if (place := self._place_of.get(name)) is not None:
            self._free[place] = False

    def choose(
        self,
        claim: PersistentVolumeClaim,
        wanted: npt.NDArray[np.bool_],
        labels: LabelRows,
        *,
        promised: Iterable[str],
        taken: Sequence[Rows],
    ) -> Rows:
        """Return the place of the smallest suitable volume that each wanted row reaches, or -1.

        Args:
            claim: the claim.
            wanted: the rows.
            labels: the rows by node labels.
            promised: names of assumed volumes, which are left out.
            taken: for each other claim of the pod its place by row, which is left out there.

        """
        self._build(labels)
        suits = self._matching(claim)
        for name in promised:
            if (place := self._place_of.get(name)) is not None:
                suits[place] = False
        chosen = np.full(len(wanted), -1, np.intp)
        rows, places = self._narrow
        others = np.stack(taken) if taken else np.empty((0, len(wanted)), np.intp)
        open_rows = suits[places] & wanted[rows] & ~(others[:, rows] == places).any(axis=0)
        chosen[rows[open_rows][::-1]] = places[open_rows][::-1]  # where several come, the smallest is last
        missing = wanted & (chosen < 0)
        for place, reached in self._wide:
            if not suits[place]:
                continue
            better = reached[wanted[reached] & ((chosen[reached] < 0) | (chosen[reached] > place))]
            better = better[~(others[:, better] == place).any(axis=0)]
            chosen[better] = place
            missing[better] = False
            if not missing.any() and (chosen[wanted] <= place).all():
                break
        return chosen

    def _matching(self, claim: PersistentVolumeClaim) -> npt.NDArray[np.bool_]:
        """Return the volumes that suit a claim on any node."""
        kinds = np.array([kind.suits(claim) for kind in self._kinds], np.bool_)
        suits: npt.NDArray[np.bool_] = self._free & (self._capacity >= (claim.size or 0))
        if len(kinds):
            suits &= kinds[self._kind_of]
        if (selector := claim.spec.selector) is not None:
            for place in map(int, np.flatnonzero(suits)):
                suits[place] = selector.matches(self.volumes[place].meta.labels)
        return suits

    def _build(self, labels: LabelRows) -> None:
        """Build outdated parts: all columns, or only the reachable rows."""
        if self._stale:
            self._stale = False
            self._version = -1
            self.volumes = sorted(self._there.values(), key=lambda each: (each.capacity, each.meta.name))
            self._place_of = {volume.meta.name: place for place, volume in enumerate(self.volumes)}
            self._free = np.ones(len(self.volumes), np.bool_)
            self._capacity = np.array([volume.capacity for volume in self.volumes], np.int64)
            kinds: dict[object, int] = {}
            self._kinds = []
            for volume in self.volumes:
                if kinds.setdefault(_kind(volume), len(kinds)) == len(self._kinds):
                    self._kinds.append(volume)
            self._kind_of = np.array([kinds[_kind(volume)] for volume in self.volumes], np.intp)
        if self._version != labels.version:
            self._version = labels.version
            affinities = dict.fromkeys(volume.affinity for volume in self.volumes)
            reached = {affinity: labels.reached(affinity) for affinity in affinities}
            reach = [reached[volume.affinity] for volume in self.volumes]
            narrow = [(place, rows) for place, rows in enumerate(reach) if len(rows) <= _NARROW]
            self._wide = [(place, rows) for place, rows in enumerate(reach) if len(rows) > _NARROW]
            self._narrow = (
                np.concatenate([_NO_ROWS, *(rows for _, rows in narrow)]),
                np.repeat([place for place, _ in narrow], [len(rows) for _, rows in narrow]).astype(np.intp),
            )


def _kind(volume: PersistentVolume) -> tuple[object, ...]:
    """Return all properties by which `suits` distinguishes volumes of a class."""
    spec = volume.spec
    return (
        spec.access_modes,
        spec.volume_mode,
        spec.volume_attributes_class_name,
        volume.status.phase,
        volume.meta.deletion_timestamp is None,
    )


def _properties(volume: PersistentVolume) -> tuple[object, ...]:
    """Return all properties by which volumes are chosen."""
    return (*_kind(volume), volume.capacity, volume.meta.labels, volume.affinity)
