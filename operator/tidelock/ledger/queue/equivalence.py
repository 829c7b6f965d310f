"""Equivalence classes of refused reservations, which wait until capacity or quota may suffice.

Reservations that ask for the same get the same answer. So the first of them is tried for all, and the others
follow one by one as long as each fits: thousands of waiting reservations cost nothing.
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
"""A namespace, and a key of the request."""


class EquivalenceClasses:
    """Refused reservations in their order, by namespace and equivalence class.

    A refused reservation answers for its whole class. A class with a reservation under trial is open until
    one is refused again: until then nothing is known of the others.

    Args:
        demand: returns a key that is equal for reservations of one class.

    """

    def __init__(self, demand: Callable[[ReservationInfo], Hashable]) -> None:
        self._demand = demand
        self._places: dict[Key, tuple[Hashable, Order]] = {}
        self._lines: defaultdict[str, _Lines] = defaultdict(lambda: defaultdict(list))
        self._open: dict[_Class, None] = {}
        self._class_of: dict[Key, _Class] = {}  # taken out without an answer yet

    def __contains__(self, key: Key) -> bool:
        return key in self._places

    @property
    def open(self) -> bool:
        """Whether there is an open class."""
        return bool(self._open)

    def put(self, entry: ReservationInfo) -> None:
        """Add a refused reservation, which answers for its class."""
        self.discard(entry.key)
        namespace = entry.key.namespace
        demand, order = self._places[entry.key] = self._demand(entry), entry.order
        insort(self._lines[namespace][demand], (order, entry), key=_ORDER)
        self._open.pop((namespace, demand), None)
        self._class_of.pop(entry.key, None)

    def discard(self, key: Key) -> bool:
        """Remove a reservation. Return whether it was there."""
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
        """Take out the first reservation of each class of a namespace."""
        lines = self._lines[namespace].values() if namespace in self._lines else ()
        return self._take([line[0][1] for line in lines])

    def take_first_of_all(self) -> list[ReservationInfo]:
        """Take out the first reservation of each class of each namespace."""
        return [entry for namespace in tuple(self._lines) for entry in self.take_first(namespace)]

    def take_open(self) -> list[ReservationInfo]:
        """Take out the first reservation of each open class."""
        return self._take([self._lines[namespace][demand][0][1] for namespace, demand in self._open])

    def take_after(self, key: Key) -> list[ReservationInfo]:
        """Take out the next reservation of an open class, after one that gives no answer."""
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
    """Return a key that is equal for reservations of a namespace of which all fit or none.

    Without freed capacity, a refusal of one holds for all with the same key.

    Returns:
        None for a reservation that may have capacity already.

    """
    pod = entry.reservation.pod
    if pod is None or entry.phase is Phase.ACTIVE or entry.reservation.reusable or pod.spec.may_preempt:
        return None
    if entry.earmark or (entry.plan is not None and entry.plan.under_way):
        return None  # capacity that comes free there is for no other
    if lifetime.begins_at(entry) is not None or entry.reservation.run_seconds < inf:
        return None
    # The priority decides to which nominations it yields.
    return pod.spec.priority, pod.placement_key, pod.neighbour_key


def capacity_demand(entry: ReservationInfo) -> Hashable:
    """Return a key that is equal for reservations that fit alike. A member of a group has its own."""
    alike = scheduling_hash(entry) if entry.reservation.membership is None else None
    return entry.key if alike is None else alike


def question(entry: ReservationInfo) -> Hashable:
    """Return a key that changes whenever a waiting reservation asks for something else.

    The spec is left out, because each edit leads to a new trial anyway.
    """
    moves = entry.plan is not None and entry.plan.under_way
    where = entry.node if entry.reserved else ""
    return entry.phase, where, entry.moving, entry.ahead, entry.earmark, moves


def quota_demand(entry: ReservationInfo) -> Hashable:
    """Return a key that is equal for reservations that a quota treats alike. One with capacity is alone."""
    if entry.reserved:
        return entry.key
    rights = entry.reservation.priority, entry.reservation.preempts
    return tuple(sorted(entry.reservation.requests.items())), lifetime.wanted_seconds(entry), *rights
