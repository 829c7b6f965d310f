"""The pod's own reservations, for all plugins that look at held capacity."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from tidelock.framework.cyclestate import CycleState
from tidelock.framework.reservations import Reservations
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod


@dataclass(frozen=True, slots=True)
class OwnReservations:
    """The reservations that do not count against a pod. For a reserve pod they are written beforehand.

    There may be thousands. Of a group there is one for each node, until the pod has claimed one.
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
    """The UIDs of the reservations that a pod has claimed, and of their groups.

    They are `unwritten` until a binding names them. If the namespace has reservations for any pod of a
    workload, a binding also says that it took none.
    """

    uids: tuple[str, ...]
    unwritten: bool


@dataclass(frozen=True, slots=True)
class AllReservations:
    """All reservations. It is written if any capacity is held."""

    reservations: Reservations


def without_own_reservations(
    reservations: Reservations, pod: Pod, state: CycleState
) -> AbstractContextManager[None]:
    """Count the reserve pods of own reservations as gone while a pod is decided: it takes their place."""
    if not reservations.noticeable:
        return nullcontext()
    own = state.read(OwnReservations)
    if own is None:
        own = OwnReservations(tuple(reservations.own(pod)))
        state.write(own)
    return reservations.without_reserve_pods(own.entries)
