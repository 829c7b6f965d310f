"""The protocol of everything that is derived from the records of reservations."""

from collections.abc import Mapping
from typing import Any, Protocol

from tidelock.ledger.reservation_info import ReservationInfo


class LedgerIndex(Protocol):
    """A structure that follows from the records alone.

    `Records.commit` updates every index after each change, so no change can forget one. Updating an index
    again with the same record changes nothing, and an index that is rebuilt from the records is equal.
    """

    def update(self, entry: ReservationInfo) -> None:
        """Add a new record, or update it."""

    def remove(self, entry: ReservationInfo) -> None:
        """Remove a record. An unknown record is no error."""

    def contents(self) -> Mapping[Any, object]:
        """Return a copy of the index, for comparisons."""
