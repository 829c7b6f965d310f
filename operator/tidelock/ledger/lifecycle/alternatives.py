"""Sets of locks, alternatives of one namespace that name the same set: once one is chosen all others end.

What tells that one was chosen is in its own status, so a next process finds the same.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import MOST_ALTERNATIVES
from tidelock.model.meta import Key
from tidelock.model.reservation import Reservation


class Alternatives:
    """All sets, by what their locks say."""

    def __init__(self) -> None:
        self._sets: defaultdict[tuple[str, str], dict[Key, ReservationInfo]] = defaultdict(dict)
        self._set_of: dict[Key, tuple[str, str]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._set_of

    def problem(self, reservation: Reservation) -> str:
        """Return why a lock that the ledger has just met can't be in the set that its spec names, or nothing.

        Each change of a lock has its set be looked at, and one that is chosen ends all others in one step.
        """
        name = reservation.spec.any_of if reservation.spec is not None else None
        count = 0 if name is None else len(self._sets.get((reservation.key.namespace, name), ()))
        if count < MOST_ALTERNATIVES:
            return ""
        return (
            f"spec.anyOf: set {name} has {count} reservations already, those that are over included; "
            f"at most {MOST_ALTERNATIVES} are supported"
        )

    def update(self, entry: ReservationInfo) -> None:
        """Add a reservation to its set, if it is in one."""
        spec = entry.reservation.spec
        if spec is not None and spec.any_of is not None and not entry.outside:
            name = self._set_of[entry.key] = entry.key.namespace, spec.any_of
            self._sets[name][entry.key] = entry

    def contents(self) -> Mapping[Any, object]:
        """Return the reservations of each set."""
        return {name: sorted(members) for name, members in self._sets.items()}

    def remove(self, entry: ReservationInfo) -> None:
        """Take a reservation that is gone out of its set."""
        name = self._set_of.pop(entry.key, None)
        if name is not None:
            del self._sets[name][entry.key]
            if not self._sets[name]:
                del self._sets[name]

    def chosen(self, entry: ReservationInfo) -> ReservationInfo | None:
        """Give the lock of an entry's set that was chosen, the first if several were."""
        chosen = (each for each in self._members(entry) if each.chosen_at is not None)
        return min(chosen, key=lambda each: (each.chosen_at, each.key), default=None)

    def others(self, entry: ReservationInfo) -> list[ReservationInfo]:
        """Give all other locks of an entry's set, by name."""
        return sorted((each for each in self._members(entry) if each is not entry), key=lambda each: each.key)

    def _members(self, entry: ReservationInfo) -> list[ReservationInfo]:
        name = self._set_of.get(entry.key)
        return [] if name is None else list(self._sets[name].values())
