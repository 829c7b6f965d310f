"""Equivalence classes of refused reservations, which wait until capacity or quota may suffice.

Reservations with equal requests get the same answer. So the first of a class is tried for all, and the others
follow one by one as long as each fits. Thousands of equal reservations therefore cost as little as one.
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

_Classes = defaultdict[Hashable, list[tuple[Order, ReservationInfo]]]
_ORDER = itemgetter(0)
_Class = tuple[str, Hashable]
"""A namespace, and a key of the request."""


class EquivalenceClasses:
    """Refused reservations in their order, by namespace and equivalence class.

    A refused reservation answers for its whole class. A class with a reservation under trial is open until
    a member is refused again. Until then nothing is known about its other members.

    Args:
        demand: returns a key that is equal for reservations of one class.

    """

    def __init__(self, demand: Callable[[ReservationInfo], Hashable]) -> None:
        self._demand = demand
        self._demands: dict[Key, tuple[Hashable, Order]] = {}
        self._classes: defaultdict[str, _Classes] = defaultdict(lambda: defaultdict(list))
        self._open: dict[_Class, None] = {}
        self._class_of: dict[Key, _Class] = {}  # of reservations under trial

    def __contains__(self, key: Key) -> bool:
        return key in self._demands

    @property
    def open(self) -> bool:
        """Whether there is an open class."""
        return bool(self._open)

    def put(self, entry: ReservationInfo) -> None:
        """Add a refused reservation, which answers for its class."""
        self.discard(entry.key)
        namespace = entry.key.namespace
        demand, order = self._demands[entry.key] = self._demand(entry), entry.order
        insort(self._classes[namespace][demand], (order, entry), key=_ORDER)
        self._open.pop((namespace, demand), None)
        self._class_of.pop(entry.key, None)

    def discard(self, key: Key) -> bool:
        """Remove a reservation. Return whether it was there."""
        found = self._demands.pop(key, None)
        if found is None:
            return False
        demand, order = found
        classes = self._classes[key.namespace]
        members = classes[demand]
        del members[bisect_left(members, order, key=_ORDER)]
        if not members:
            del classes[demand]
            self._open.pop((key.namespace, demand), None)
        if not classes:
            del self._classes[key.namespace]
        return True

    def alike(self, key: Key) -> list[ReservationInfo]:
        """Return the class of a reservation with all its members, or nothing if it is not there."""
        if key not in self._demands:
            return []
        demand, _ = self._demands[key]
        return [entry for _, entry in self._classes[key.namespace][demand]]

    def take_first(self, namespace: str) -> list[ReservationInfo]:
        """Take out the first reservation of each class of a namespace."""
        classes = self._classes[namespace].values() if namespace in self._classes else ()
        return self._take([members[0][1] for members in classes])

    def take_first_of_all(self) -> list[ReservationInfo]:
        """Take out the first reservation of each class of each namespace."""
        return [entry for namespace in tuple(self._classes) for entry in self.take_first(namespace)]

    def take_open(self) -> list[ReservationInfo]:
        """Take out the first reservation of each open class."""
        return self._take([self._classes[namespace][demand][0][1] for namespace, demand in self._open])

    def take_after(self, key: Key) -> list[ReservationInfo]:
        """Take out the next reservation of an open class, after one that gives no answer."""
        asked = self._class_of.pop(key, None)
        if asked is None or asked not in self._open:
            return []
        namespace, demand = asked
        return self._take([self._classes[namespace][demand][0][1]])

    def take_longest(self, count: int) -> list[ReservationInfo]:
        """Take out up to `count` reservations, those first that were refused the longest time ago."""
        return self._take([self._get(key) for key in islice(self._demands, count)])

    def _take(self, entries: list[ReservationInfo]) -> list[ReservationInfo]:
        for entry in entries:
            namespace, (demand, _) = entry.key.namespace, self._demands[entry.key]
            self._class_of[entry.key] = namespace, demand
            self._open[namespace, demand] = None
            self.discard(entry.key)
        return entries

    def _get(self, key: Key) -> ReservationInfo:
        demand, order = self._demands[key]
        members = self._classes[key.namespace][demand]
        return members[bisect_left(members, order, key=_ORDER)][1]


def scheduling_hash(entry: ReservationInfo) -> Hashable | None:
    """Return a key that is equal for reservations of a namespace that fit on the same nodes.

    As long as no capacity is freed, the refusal of one reservation holds for all with the same key.

    Returns:
        None for a reservation that is decided on its own: it has capacity, is reusable, may preempt pods,
        has a window or a run time, or capacity is kept for it.

    """
    pod = entry.reservation.pod
    if pod is None or entry.phase is Phase.ACTIVE or entry.reservation.reusable or pod.spec.may_preempt:
        return None
    if entry.earmark or (entry.plan is not None and entry.plan.under_way):
        return None  # the capacity that comes free on the node is for this reservation alone
    if lifetime.begins_at(entry) is not None or entry.reservation.run_seconds < inf:
        return None
    # The priority decides to which nominations the reservation yields.
    return pod.spec.priority, pod.placement_key, pod.neighbour_key


def placement_demand(entry: ReservationInfo) -> Hashable:
    """Return a key that is equal for reservations that fit alike, or unique if one is decided on its own."""
    shared = scheduling_hash(entry)
    return entry.key if shared is None else shared


def capacity_demand(entry: ReservationInfo) -> Hashable:
    """Return a key that is equal for reservations that fit alike. A member of a group has its own key."""
    return placement_demand(entry) if entry.reservation.membership is None else entry.key


def question(entry: ReservationInfo) -> Hashable:
    """Return a key that changes whenever a waiting reservation asks for something else.

    The spec is left out, because each edit leads to a new trial anyway.
    """
    moves = entry.plan is not None and entry.plan.under_way
    where = entry.node if entry.reserved else ""
    return entry.phase, where, entry.moving, entry.ahead, entry.earmark, moves


def quota_demand(entry: ReservationInfo) -> Hashable:
    """Return a key that is equal for reservations with equal use of quota. One with capacity has its own."""
    if entry.reserved:
        return entry.key
    rights = entry.reservation.priority, entry.reservation.preempts
    return tuple(sorted(entry.reservation.requests.items())), lifetime.wanted_seconds(entry), *rights
