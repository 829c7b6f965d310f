"""The claim of an owner: the reservations that end once its binding is known to have succeeded."""

from dataclasses import dataclass

from tidelock.ledger.owners.matching import is_for_any
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod
from tidelock.model.quantities import Resources
from tidelock.model.reserve_pod import ReservePod


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """A reservation before its claim: the capacity that it held, and its reserve pod if it was readable."""

    entry: ReservationInfo
    held: Resources
    pod: ReservePod | None


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """Reservations that end if a pod is bound, and the capacity that the pod has taken over until then.

    `taken` has the reservations that held capacity before the claim, and `claimed` the sum of it that the pod
    uses on its node. `failure` is the message with which the reservations return if the pod is not bound. A
    claim that is `unwritten` is written to the pod before its reservations end: another scheduler has bound
    the pod, and the binding does not name them.
    """

    pod: Pod
    node_name: str
    entries: tuple[ReservationInfo, ...]
    taken: tuple[Taken, ...]
    claimed: Resources
    failure: str
    unwritten: bool = False

    @property
    def uids(self) -> list[str]:
        """UIDs of the groups, then of reservations for any pod of a workload, then of others."""
        memberships = (entry.reservation.membership for entry in self.entries)
        groups = [each.uid for each in memberships if each is not None]
        chosen_first = sorted(self.entries, key=lambda entry: not is_for_any(entry, self.pod))
        return [*groups, *(entry.uid for entry in chosen_first)]
