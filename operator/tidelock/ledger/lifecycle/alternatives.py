"""Sets of alternatives: reservations of a namespace with the same set. Once one is chosen, all others end.

The status of the chosen reservation shows the choice, so another process finds the same one.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import MOST_ALTERNATIVES
from tidelock.model.meta import Key
from tidelock.model.reservation import Reservation


class Alternatives:
    """All sets, as the specs of their members name them."""

    def __init__(self) -> None:
        self._sets: defaultdict[tuple[str, str], dict[Key, ReservationInfo]] = defaultdict(dict)
        self._set_of: dict[Key, tuple[str, str]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._set_of

    def problem(self, reservation: Reservation) -> str:
        """Return why a new reservation can't be in the set that its spec names, or an empty text.

        The limit bounds the work of a step: each change of a member looks at the whole set, and a choice ends
        all other members at once.
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
        """Remove a reservation that is gone from its set."""
        name = self._set_of.pop(entry.key, None)
        if name is not None:
            del self._sets[name][entry.key]
            if not self._sets[name]:
                del self._sets[name]

    def chosen(self, entry: ReservationInfo) -> ReservationInfo | None:
        """Return the chosen reservation of a set, the first if several were chosen."""
        chosen = (each for each in self._members(entry) if each.chosen_at is not None)
        return min(chosen, key=lambda each: (each.chosen_at, each.key), default=None)

    def others(self, entry: ReservationInfo) -> list[ReservationInfo]:
        """Return all other reservations of the set, by name."""
        return sorted((each for each in self._members(entry) if each is not entry), key=lambda each: each.key)

    def _members(self, entry: ReservationInfo) -> list[ReservationInfo]:
        name = self._set_of.get(entry.key)
        return [] if name is None else list(self._sets[name].values())
