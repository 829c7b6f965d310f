"""Which locks are the pod's own, for all plugins that look at locked room."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from tidelock.framework.cyclestate import CycleState
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod


@dataclass(frozen=True, slots=True)
class OwnReservations:
    """The locks that do not count against a pod; written beforehand where a lock itself is placed.

    There may be thousands. Of a group there is one for each node, until the pod is reserved and took one.
    """

    entries: tuple[ReservationInfo, ...]
    on_node: Mapping[str, Sequence[ReservationInfo]] = field(init=False, repr=False)
    _all: frozenset[ReservationInfo] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        on_node: defaultdict[str, list[ReservationInfo]] = defaultdict(list)
        for entry in self.entries:
            on_node[entry.node].append(entry)
        object.__setattr__(self, "on_node", dict(on_node))
        object.__setattr__(self, "_all", frozenset(self.entries))

    def __contains__(self, entry: ReservationInfo) -> bool:
        return entry in self._all


@dataclass(slots=True)
class ClaimedReservations:
    """The uids of the locks that a pod has taken, and of their groups; written when it is reserved.

    They are `unwritten` until a binding says it. Where locks are for any pod of a workload, a pod that took
    none says so, too.
    """

    uids: tuple[str, ...]
    unwritten: bool


@dataclass(frozen=True, slots=True)
class AllReservations:
    """The ledger, for whoever asks what locks hold for others; written where any lock holds room."""

    ledger: Ledger


def without_own_reservations(ledger: Ledger, pod: Pod, state: CycleState) -> AbstractContextManager[None]:
    """Count the reserve pods of a pod's own locks as gone while it is decided, as it comes in their place."""
    if not ledger.holdings.reserve_pods:
        return nullcontext()
    own = state.read(OwnReservations)
    if own is None:
        own = OwnReservations(tuple(ledger.ownership.of(pod)))
        state.write(own)
    return ledger.holdings.trials.without_reserve_pods(own.entries)
