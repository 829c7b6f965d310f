"""Locks that are over their namespace's quota, kept out of the line until it allows more.

What a quota says is the same for locks that ask for the same, so of those the first in line is tried for all,
and the others follow one by one as long as it is given: thousands of locks that wait for quota cost nothing.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Hashable
from operator import itemgetter

from tidelock.ledger.entry import Entry, Order
from tidelock.model.meta import Key

_Lines = defaultdict[Hashable, list[tuple[Order, Entry]]]
_ORDER = itemgetter(0)


class Parking:
    """Parked locks in their order, by namespace and by what they ask for."""

    def __init__(self) -> None:
        self._places: dict[Key, tuple[Hashable, Order]] = {}
        self._lines: defaultdict[str, _Lines] = defaultdict(lambda: defaultdict(list))

    def __contains__(self, key: Key) -> bool:
        return key in self._places

    def put(self, entry: Entry) -> None:
        """Park a lock."""
        self.discard(entry.key)
        demand, order = self._places[entry.key] = _demand(entry), entry.order
        insort(self._lines[entry.key.namespace][demand], (order, entry), key=_ORDER)

    def discard(self, key: Key) -> bool:
        """Take a lock out; whether it was parked."""
        place = self._places.pop(key, None)
        if place is None:
            return False
        demand, order = place
        lines = self._lines[key.namespace]
        line = lines[demand]
        del line[bisect_left(line, order, key=_ORDER)]
        if not line:
            del lines[demand]
        if not lines:
            del self._lines[key.namespace]
        return True

    def take_first(self, namespace: str) -> list[Entry]:
        """Take out the first lock of each kind."""
        lines = self._lines[namespace].values() if namespace in self._lines else ()
        first = [line[0][1] for line in lines]
        for entry in first:
            self.discard(entry.key)
        return first


def _demand(entry: Entry) -> Hashable:
    """Give a value that is equal for locks that a quota treats alike; own for one that holds room already."""
    if entry.room:
        return entry.key
    return tuple(sorted(entry.reservation.requests.items())), entry.wanted_life, entry.wanted_priority
