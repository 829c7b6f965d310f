"""Which locks are the pod's own, for all plugins that look at locked room."""

from dataclasses import dataclass

from tidelock.ledger.book import Book
from tidelock.ledger.entry import Entry


@dataclass(frozen=True, slots=True)
class OwnLocks:
    """The locks that do not count against a pod; written beforehand where a lock itself is placed.

    Of a group there is a lock for each node, until the pod is reserved and has taken one.
    """

    entries: tuple[Entry, ...]

    @property
    def uids(self) -> list[str]:
        """Uids of the locks and, before them, of the groups that these are in."""
        groups = [entry.membership.uid for entry in self.entries if entry.membership is not None]
        return [*groups, *(entry.uid for entry in self.entries)]


@dataclass(frozen=True, slots=True)
class AllLocks:
    """The ledger, for whoever asks what locks hold for others; written where any lock holds room."""

    book: Book
