"""Who is in the locks that are kept for reuse, and how much of each their owners use.

A lock with `reuse: Always` keeps its room when an owner comes, and goes on to hold what those who are there
do not use: so the room counts once, as the pod's or as the lock's. All owners on the lock's node use it, as
far as it goes. Where locks share owners, as much as possible of what these take is in locks of their own,
which is a maximum flow from pods to locks for each resource: only then is what a pod's own locks hold really
there for it.

It follows from the objects alone, so every process finds the same.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from tidelock.model.meta import Key
from tidelock.model.quantities import Resources


class Occupant(NamedTuple):
    """An owner on a lock's node, and what it uses of the lock; `assumed` until it is seen bound there.

    `ends_at` is the end of its grace period in seconds since the epoch, if it has been asked to end.
    """

    key: Key
    uid: str
    assumed: bool
    uses: Resources
    ends_at: float = inf


class Claimant(NamedTuple):
    """What a pod takes of its node, and which of the locks there are its own."""

    takes: Resources
    reservations: Sequence[int]


Uses = list[dict[int, dict[str, int]]]
"""For each lock what each claimant uses of it, by the claimant's index."""


def shared_out(holdings: Sequence[Resources], claimants: Sequence[Claimant]) -> Uses:
    """Tell what each claimant uses of each lock; the first ones use what they can of their first locks."""
    uses: Uses = [defaultdict(dict) for _ in holdings]
    for resource in dict.fromkeys(name for room in holdings for name in room):
        flow = _Flow([room.get(resource, 0) for room in holdings], [each.reservations for each in claimants])
        for index, claimant in enumerate(claimants):
            flow.add(index, claimant.takes.get(resource, 0))
        for use, taken in zip(uses, flow.taken, strict=True):
            for index, units in taken.items():
                if units:
                    use[index][resource] = units
    return uses


def left_of(room: Resources, uses: Mapping[int, Resources]) -> dict[str, int]:
    """Give what nobody uses of a lock."""
    used = {name: sum(each.get(name, 0) for each in uses.values()) for name in room}
    return {name: units - used[name] for name, units in room.items() if units > used[name]}


class _Flow:
    """A maximum flow of one resource from pods to locks, by augmenting paths (Ford and Fulkerson)."""

    def __init__(self, left: list[int], reservations_of: Sequence[Sequence[int]]) -> None:
        self.taken: list[dict[int, int]] = [{} for _ in left]
        self._left = left
        self._reservations_of = reservations_of

    def add(self, pod: int, units: int) -> None:
        """Let a pod take as much of its locks as it can and wants."""
        while units and (moved := self._push(pod, units, set())):
            units -= moved

    def _push(self, pod: int, units: int, seen: set[int]) -> int:
        """Let a pod take something of a lock not seen yet; others turn to other locks of theirs for it."""
        for reservation in self._reservations_of[pod]:
            if reservation in seen:
                continue
            seen.add(reservation)
            moved = min(units, self._left[reservation])
            self._left[reservation] -= moved
            moved = moved or self._make_way(reservation, units, seen)
            if moved:
                self.taken[reservation][pod] = self.taken[reservation].get(pod, 0) + moved
                return moved
        return 0

    def _make_way(self, reservation: int, units: int, seen: set[int]) -> int:
        for other, there in self.taken[reservation].items():
            if there and (moved := self._push(other, min(units, there), seen)):
                self.taken[reservation][other] -= moved
                return moved
        return 0
