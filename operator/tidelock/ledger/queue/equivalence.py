"""Locks that were refused, kept out of the line until there may be room, or quota, for them.

The answer is the same for locks that ask for the same, so of those the first in line is tried for all, and
the others follow one by one as long as it is given: thousands of locks that wait cost nothing.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Hashable
from itertools import islice
from math import inf
from operator import itemgetter

from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.reservation_info import Order, ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key

_Lines = defaultdict[Hashable, list[tuple[Order, ReservationInfo]]]
_ORDER = itemgetter(0)
_Class = tuple[str, Hashable]
"""A namespace, and what is asked for."""


class EquivalenceClasses:
    """Parked locks in their order, by namespace and by what they ask for.

    A lock is parked when it is refused, which answers for its whole class. A class of which one is taken out
    is open until one is parked again: until then nothing is known of the others.

    Args:
        demand: gives a value that is equal for locks that are answered alike.

    """

    def __init__(self, demand: Callable[[ReservationInfo], Hashable]) -> None:
        self._demand = demand
        self._places: dict[Key, tuple[Hashable, Order]] = {}
        self._lines: defaultdict[str, _Lines] = defaultdict(lambda: defaultdict(list))
        self._open: dict[_Class, None] = {}
        self._class_of: dict[Key, _Class] = {}  # of those that were taken out and have no answer yet

    def __contains__(self, key: Key) -> bool:
        return key in self._places

    @property
    def open(self) -> bool:
        """Whether there is a class for which the last one that was taken out gave no answer."""
        return bool(self._open)

    def put(self, entry: ReservationInfo) -> None:
        """Park a lock that was refused, and all alike with it."""
        self.discard(entry.key)
        namespace = entry.key.namespace
        demand, order = self._places[entry.key] = self._demand(entry), entry.order
        insort(self._lines[namespace][demand], (order, entry), key=_ORDER)
        self._open.pop((namespace, demand), None)
        self._class_of.pop(entry.key, None)

    def discard(self, key: Key) -> bool:
        """Take a lock out that is answered for by others; whether it was parked."""
        place = self._places.pop(key, None)
        if place is None:
            return False
        demand, order = place
        lines = self._lines[key.namespace]
        line = lines[demand]
        del line[bisect_left(line, order, key=_ORDER)]
        if not line:
            del lines[demand]
            self._open.pop((key.namespace, demand), None)
        if not lines:
            del self._lines[key.namespace]
        return True

    def take_first(self, namespace: str) -> list[ReservationInfo]:
        """Take out the first lock of each class of a namespace."""
        lines = self._lines[namespace].values() if namespace in self._lines else ()
        return self._take([line[0][1] for line in lines])

    def take_first_of_all(self) -> list[ReservationInfo]:
        """Take out the first lock of each class of each namespace."""
        return [entry for namespace in tuple(self._lines) for entry in self.take_first(namespace)]

    def take_open(self) -> list[ReservationInfo]:
        """Take out the first lock of each class that is open."""
        return self._take([self._lines[namespace][demand][0][1] for namespace, demand in self._open])

    def take_after(self, key: Key) -> list[ReservationInfo]:
        """Take out the next lock after one that gave no answer and will give none, if its class is open."""
        asked = self._class_of.pop(key, None)
        if asked is None or asked not in self._open:
            return []
        namespace, demand = asked
        return self._take([self._lines[namespace][demand][0][1]])

    def take_longest(self, count: int) -> list[ReservationInfo]:
        """Take out so many of those that have been parked for longest."""
        return self._take([self._get(key) for key in islice(self._places, count)])

    def _take(self, entries: list[ReservationInfo]) -> list[ReservationInfo]:
        for entry in entries:
            namespace, (demand, _) = entry.key.namespace, self._places[entry.key]
            self._class_of[entry.key] = namespace, demand
            self._open[namespace, demand] = None
            self.discard(entry.key)
        return entries

    def _get(self, key: Key) -> ReservationInfo:
        demand, order = self._places[key]
        line = self._lines[key.namespace][demand]
        return line[bisect_left(line, order, key=_ORDER)][1]


def scheduling_hash(entry: ReservationInfo) -> Hashable | None:
    """Give a value that is equal for locks of a namespace of which all or none fit.

    While nothing is freed, what was refused to one is refused to all alike. None for one that may have room
    already.
    """
    pod = entry.reservation.pod
    if pod is None or entry.phase is Phase.ACTIVE or entry.reservation.reusable or pod.spec.may_preempt:
        return None
    if entry.earmark or (entry.plan is not None and entry.plan.under_way):
        return None  # what comes free there is for nobody else
    if lifetime.begins_at(entry) is not None or entry.reservation.run_seconds < inf:
        return None
    # Priority: whose nominations it has to yield to.
    return pod.spec.priority, pod.placement_key, pod.neighbour_key


def capacity_demand(entry: ReservationInfo) -> Hashable:
    """Give a value that is equal for locks for which there is room alike; own for members of a group."""
    alike = scheduling_hash(entry) if entry.reservation.membership is None else None
    return entry.key if alike is None else alike


def question(entry: ReservationInfo) -> Hashable:
    """Give a value that changes whenever a lock that waits asks for something else than before.

    The spec is left out, as an edit of it asks anew by itself: its holder may renew or commit it any time.
    """
    moves = entry.plan is not None and entry.plan.under_way
    where = entry.node if entry.reserved else ""
    return entry.phase, where, entry.moving, entry.ahead, entry.earmark, moves


def quota_demand(entry: ReservationInfo) -> Hashable:
    """Give a value that is equal for locks that a quota treats alike; own for one that holds room already."""
    if entry.reserved:
        return entry.key
    rights = entry.reservation.priority, entry.reservation.preempts
    return tuple(sorted(entry.reservation.requests.items())), lifetime.wanted_seconds(entry), *rights
