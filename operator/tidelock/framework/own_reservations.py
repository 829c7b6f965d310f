"""Which locks are the pod's own, for all plugins that look at locked room."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from tidelock.framework.cyclestate import CycleState
from tidelock.ledger.ledger import Book
from tidelock.ledger.reservation_info import Entry
from tidelock.model.pods import Pod


@dataclass(frozen=True, slots=True)
class OwnLocks:
    """The locks that do not count against a pod; written beforehand where a lock itself is placed.

    There may be thousands. Of a group there is one for each node, until the pod is reserved and took one.
    """

    entries: tuple[Entry, ...]
    on_node: Mapping[str, Sequence[Entry]] = field(init=False, repr=False)
    _all: frozenset[Entry] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        on_node: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            on_node[entry.node].append(entry)
        object.__setattr__(self, "on_node", dict(on_node))
        object.__setattr__(self, "_all", frozenset(self.entries))

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._all


@dataclass(slots=True)
class ClaimedLocks:
    """The uids of the locks that a pod has taken, and of their groups; written when it is reserved.

    They are `unwritten` until a binding says it. Where locks are for any pod of a workload, a pod that took
    none says so, too.
    """

    uids: tuple[str, ...]
    unwritten: bool


@dataclass(frozen=True, slots=True)
class AllLocks:
    """The ledger, for whoever asks what locks hold for others; written where any lock holds room."""

    book: Book


def apart_from_own(book: Book, pod: Pod, state: CycleState) -> AbstractContextManager[None]:
    """Count the reserve pods of a pod's own locks as gone while it is decided, as it comes in their place."""
    if not book.rooms.neighbourly:
        return nullcontext()
    own = state.read(OwnLocks)
    if own is None:
        own = OwnLocks(tuple(book.ownership.of(pod)))
        state.write(own)
    return book.rooms.apart(own.entries)
