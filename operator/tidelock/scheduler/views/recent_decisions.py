"""The last decisions, for people to read.

Of each pod and reservation the newest decision of each kind is kept, so an object that is refused every
second has one line.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tidelock.ledger.effects import Transition
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.printable import shortened
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.outcomes import Unschedulable

MOST = 200
"""How many decisions are kept for the web view."""
_LONGEST_TEXT = 1024

Kind = Literal["Pod", "Reservation"]


class Decision(NamedTuple):
    """A decision about a pod or a reservation.

    Attributes:
        at: seconds since the epoch.
        kind: the kind of the object.
        key: its namespace and name.
        verdict: `Scheduled`, `Unschedulable` or `Error` of a pod, or the phase of a reservation since then.
        node: the node with capacity for it, or empty without one or after the end of a reservation.
        why: the reasons, unless there simply is capacity.

    """

    at: float
    kind: Kind
    key: Key
    verdict: str
    node: str = ""
    why: str = ""


class RecentDecisions:
    """The last `most` decisions. Noting one takes a microsecond or two, or nothing where none is kept."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._decisions: dict[tuple[Kind, Key, str], Decision] = {}

    def __iter__(self) -> Iterator[Decision]:
        """Yield the decisions, the newest first, and of one instant the last that was noted."""
        noted = reversed(self._decisions.values())
        return iter(sorted(noted, key=lambda decision: decision.at, reverse=True))

    def placed(self, assumed: AssumedPod, now: float) -> None:
        """Note that a pod has got a node, to which it is being bound."""
        self._note(Decision(now, "Pod", assumed.pod.key, "Scheduled", assumed.node_name))

    def refused(self, outcome: Unschedulable, now: float) -> None:
        """Note that a pod has got no node, or that it could not be bound after all."""
        verdict = "Error" if outcome.diagnosis.error else "Unschedulable"
        self._note(Decision(now, "Pod", outcome.waiting.pod.key, verdict, why=outcome.diagnosis.message))

    def changed(self, change: Transition, entry: ReservationInfo | None) -> None:
        """Note a transition of a reservation. A claim is its pod's own decision."""
        if change.event is Event.CLAIM:
            return
        active = change.phase is Phase.ACTIVE and entry is not None and entry.uid == change.meta.uid
        node = entry.node if active and entry is not None else ""
        why = "" if change.event is Event.ADMIT else f"{change.reason}: {change.message}"
        self._note(Decision(change.at, "Reservation", change.meta.key, change.phase.value, node, why))

    def waits(self, entry: ReservationInfo, refused_at: float) -> None:
        """Note why a reservation has no capacity, if it has been tried, and since which instant."""
        if entry.phase is Phase.PENDING and entry.tried:
            at = max(refused_at, entry.pending_since)
            why = f"{entry.reason}: {entry.message}"
            self._note(Decision(at, "Reservation", entry.key, entry.phase.value, why=why))

    def _note(self, decision: Decision) -> None:
        if not self._most:
            return
        decision = decision._replace(why=shortened(decision.why, _LONGEST_TEXT))
        key = (decision.kind, decision.key, decision.verdict)
        self._decisions.pop(key, None)  # so that it goes to the end
        self._decisions[key] = decision
        if len(self._decisions) > self._most:
            del self._decisions[next(iter(self._decisions))]
