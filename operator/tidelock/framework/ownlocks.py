"""Which locks are the pod's own, for all plugins that look at locked room."""

from dataclasses import dataclass

from tidelock.ledger.entry import Entry


@dataclass(frozen=True, slots=True)
class OwnLocks:
    """The locks that do not count against a pod; written beforehand where a lock itself is placed."""

    entries: tuple[Entry, ...]
