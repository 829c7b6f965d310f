"""Tries evictions on many nodes at once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Amounts, Rows
from tidelock.cluster.placed import Placed
from tidelock.framework.api import Counts, Mask
from tidelock.framework.whatif import WhatIf, count_reasons_of_views, reserved
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod
from tidelock.plugins.default_preemption.pod_victims import PodVictim, pods_of

NO_VICTIMS = "No preemption victims found for incoming pod"

Matrix = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PotentialVictims:
    """The possible victims on T nodes, in the order in which they are spared: T x M arrays.

    First come pods that a budget protects, then other pods, then reservations, each kind by importance. The
    pods of a group that go together are one victim.

    Attributes:
        occupants: the pods of each node by importance, then its reservations.
        place: the index among them.
        there: whether there is a victim.
        priority: their priorities.
        started: seconds since the epoch, infinite before the start.
        sizes: how many pods or reservations each is.
        violations: how many of these evictions violate a budget.
        amounts: T x M x 2R + 2, the amounts of each, for `WhatIf.shift`.

    """

    occupants: Sequence[Sequence[PodVictim | ReservationInfo]]
    place: npt.NDArray[np.intp]
    there: Matrix
    priority: npt.NDArray[np.int64]
    started: npt.NDArray[np.float64]
    sizes: Counts
    violations: Counts
    amounts: Amounts

    def pods(self, index: int, column: int) -> Iterator[Placed]:
        """Yield the pods in a place, or the reserve pod of a reservation, if others may notice it."""
        victim = self.occupants[index][self.place[index, column]]
        yield from reserved((victim,)) if isinstance(victim, ReservationInfo) else pods_of(victim)


@dataclass(frozen=True, slots=True)
class _World:
    """Hypothetical nodes with these indexes, and the amounts of their victims, as in `PotentialVictims`."""

    whatif: WhatIf
    indexes: Rows
    amounts: Amounts


class Trial:
    """Evictions tried out on some nodes at once, in one or two worlds: a pod fits where it does in all.

    `obstacles` are the filters that rule nodes out though all possible victims have gone.
    """

    def __init__(self, victims: PotentialVictims, plain: WhatIf) -> None:
        """Take the possible victims of each node, and these nodes as they are."""
        self.obstacles: set[str] = set()
        self._victims = victims
        self._worlds = [_World(plain, np.arange(len(victims.occupants)), victims.amounts)]

    def add_world(self, whatif: WhatIf, indexes: Rows) -> None:
        """Require that the pod also fits in another world, with the nodes of these ascending indexes."""
        self._worlds.insert(0, _World(whatif, indexes, self._victims.amounts[indexes]))

    def evict(self, pod: Pod) -> tuple[Mask, Counter[str]]:
        """Remove all possible victims. Return the nodes that fit then, and the reasons of all others."""
        there = self._victims.there
        fits: Mask = np.logical_or.reduce(there, axis=1)
        reasons = Counter({NO_VICTIMS: int((~fits).sum())})
        for world in self._worlds:
            world.whatif.shift(world.amounts.sum(axis=1), -1)
            if world.whatif.follows:
                for place, index in enumerate(world.indexes.tolist()):
                    for column in np.flatnonzero(there[index]).tolist():
                        world.whatif.remove(place, self._victims.pods(index, column))
            filter_result = world.whatif.judge()
            for plugin, mask in filter_result.ruled_out:
                still = mask & fits[world.indexes]
                if still.any():
                    self.obstacles.add(plugin.name)
                    reasons += count_reasons_of_views(plugin, pod, world.whatif.views(still))
            fits[world.indexes] &= filter_result.fits
        return fits, reasons

    def reprieve(self, where: Mask) -> Matrix:
        """Put victims back one by one as long as the pod fits. Return the spared ones of each node."""
        spared = np.zeros(self._victims.there.shape, np.bool_)
        for column, there in enumerate(self._victims.there.T):
            tried = where & there
            self._move(tried, column, 1)
            fits = tried.copy()
            for world in self._worlds:
                fits[world.indexes] = world.whatif.still_fit(fits[world.indexes])
            self._move(tried & ~fits, column, -1)
            spared[:, column] = fits
        return spared

    def _move(self, which: Mask, column: int, sign: int) -> None:
        """Put the victims of a column back on these nodes, or remove them again."""
        for world in self._worlds:
            here = which[world.indexes]
            world.whatif.shift(world.amounts[:, column] * here[:, np.newaxis], sign)
            if world.whatif.follows:
                move = world.whatif.add if sign > 0 else world.whatif.remove
                for place in np.flatnonzero(here).tolist():
                    move(place, self._victims.pods(int(world.indexes[place]), column))
