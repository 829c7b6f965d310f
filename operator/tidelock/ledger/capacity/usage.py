"""Divides the amounts of pods among the shared reservations that they may use.

A reusable reservation keeps its capacity when an owner comes, and holds the amounts that no owner uses. So
capacity counts once, as the pod's or as the reservation's. All owners on the node use the reservation, up to
its capacity. If reservations share owners, they cover as much as possible of the pods' amounts, which is a
maximum flow from pods to reservations for each resource. Only then is everything that the reservations of a
pod hold available to it.

The result follows from the objects alone, so every process finds the same.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from tidelock.model.meta import Key
from tidelock.model.quantities import Resources


class Occupant(NamedTuple):
    """A pod that uses a reservation, and the amounts that it uses. It is `assumed` until it is seen bound.

    `ends_at` is the end of its grace period in seconds since the epoch, if it is being deleted.
    """

    key: Key
    uid: str
    assumed: bool
    uses: Resources
    ends_at: float = inf


class Claimant(NamedTuple):
    """The requests of a pod, and the indexes of the reservations that it may use."""

    takes: Resources
    reservations: Sequence[int]


Uses = list[dict[int, dict[str, int]]]
"""For each reservation the amounts of each claimant, by the claimant's index."""


def shared_out(holdings: Sequence[Resources], claimants: Sequence[Claimant]) -> Uses:
    """Return the use of each reservation. Earlier claimants use as much as possible of their first ones."""
    uses: Uses = [defaultdict(dict) for _ in holdings]
    for resource in dict.fromkeys(name for amounts in holdings for name in amounts):
        available = [amounts.get(resource, 0) for amounts in holdings]
        flow = _Flow(available, [each.reservations for each in claimants])
        for index, claimant in enumerate(claimants):
            flow.add(index, claimant.takes.get(resource, 0))
        for use, taken in zip(uses, flow.taken, strict=True):
            for index, units in taken.items():
                if units:
                    use[index][resource] = units
    return uses


def left_of(amounts: Resources, uses: Mapping[int, Resources]) -> dict[str, int]:
    """Return the amounts of a reservation that no claimant uses."""
    used = {name: sum(each.get(name, 0) for each in uses.values()) for name in amounts}
    return {name: units - used[name] for name, units in amounts.items() if units > used[name]}


class _Flow:
    """A maximum flow of one resource from pods to reservations, by augmenting paths (Ford and Fulkerson)."""

    def __init__(self, left: list[int], reservations_of: Sequence[Sequence[int]]) -> None:
        self.taken: list[dict[int, int]] = [{} for _ in left]
        self._left = left
        self._reservations_of = reservations_of

    def add(self, pod: int, units: int) -> None:
        """Let a pod use as much of its reservations as it can."""
        while units and (moved := self._push(pod, units, set())):
            units -= moved

    def _push(self, pod: int, units: int, seen: set[int]) -> int:
        """Let a pod use more of an unvisited reservation. Other pods move to other reservations for it."""
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
