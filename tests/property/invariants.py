"""Invariants of the operator's state, after every move and when there is nothing left to do."""

from math import inf
from typing import NamedTuple

from property.answers import AnswerObserver
from property.capacity import check_choice, check_ends, check_room, check_server
from property.deadlines import DeadlineObserver
from property.gangs import check_groups, check_stored_groups
from property.grants import GrantObserver
from property.holds import HoldObserver, check_stored_holds
from property.leases import LeaseObserver, check_stored_leases
from property.moves import MoveObserver, check_stored_moves
from property.occupancy import check_lent, check_occupancy, check_stored_occupancy
from property.occupancy import is_owner as _owned_by
from property.process import Process
from property.rest import check_queue_positions, check_rebuild, check_stored, check_waiting
from property.sums import check_holders, check_index, check_neighbours, check_pods, check_sums
from property.usage import UsageObserver, check_parked
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.owners.matching import names
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.quantities import Resources
from tidelock.scheduler.core.cycle import AssumedPod


class _Held(NamedTuple):
    """The capacity that a reservation held at a check."""

    entry: ReservationInfo
    node: str
    amounts: Resources


class Observer:
    """An observer of a process, and of the API server that it works with."""

    def __init__(self, process: Process) -> None:
        self._activated: dict[str, str] = {}
        self._disturbed: set[str] = set()
        self._overpromised: set[str] = set()
        self._leases = LeaseObserver()
        self._holds = HoldObserver()
        self._moves = MoveObserver()
        self._answers = AnswerObserver()
        self._grants = GrantObserver()
        self.follow(process)

    def follow(self, process: Process) -> None:
        """Follow another process, which continues with the same objects."""
        self._process = process
        self._held: dict[str, _Held] = {}
        self._usage = UsageObserver(process)
        self._deadlines = DeadlineObserver(process)
        self._grants.follow(process)

    def disturb(self, node_name: str) -> None:
        """Note that capacity of a node is taken by others or removed, until the node has enough again."""
        self._disturbed.add(node_name)

    def check(self) -> None:
        """Check the invariants that hold at every instant."""
        process = self._process
        check_sums(process)
        check_holders(process)
        check_index(process)
        check_pods(process)
        check_occupancy(process)
        check_neighbours(process)
        self._grants.check(process)
        check_groups(process)
        self._deadlines.check()
        self._leases.check(process)
        self._holds.check(process)
        self._moves.check(process)
        self._answers.check(process, self._disturbed)
        if process.event_handlers.ready:
            check_ends(process)
            check_room(process)
            check_lent(process)
            check_server(process, self._disturbed)
            self._check_decision()
        else:
            # A crash may precede the write that ends a reservation, whose capacity another one has by then.
            self._overpromised |= {name for name in process.columns.row_of if process.columns.shortfall(name)}
        self._check_what_was_held()
        self._usage.check()

    def check_rest(self) -> None:
        """Check the invariants that hold when there is nothing left to do."""
        check_stored(self._process)
        check_stored_leases(self._process)
        check_stored_holds(self._process)
        check_stored_moves(self._process)
        check_stored_occupancy(self._process)
        check_stored_groups(self._process)
        check_waiting(self._process)
        check_parked(self._process)
        check_queue_positions(self._process)
        check_rebuild(self._process)
        self._check_activation()
        self._disturbed = {name for name in self._disturbed if self._process.columns.shortfall(name)}
        self._overpromised.clear()

    def _check_decision(self) -> None:
        """Check that the last decision respects reserved capacity, which only a higher priority preempts.

        A reservation gets its capacity back when its owner is not bound after all. Exceptions are nodes with
        a disturbance, and nodes that lacked capacity for the stored objects when the process began.
        """
        process, outcome = self._process, self._process.outcome
        if isinstance(outcome, AssumedPod):
            claim = process.ledger.claims.in_flight.get(outcome.pod.uid)
            check_choice(process, outcome, claim)
            nodes = [each.entry.node for each in claim.taken if each.held] if claim is not None else []
            entries = process.ledger.entries.values()
            nodes += [entry.node for entry in entries if outcome.pod.uid in entry.occupants]
            assert not outcome.pod.requires_reservation or outcome.node_name in nodes, outcome.pod.key
            alone = [
                entry
                for entry in entries
                if not (entry.reservation.reusable or entry.reservation.membership or entry.unseen)
            ]
            named = [entry for entry in alone if names(entry.reservation.spec, outcome.pod)]
            still = [e.key for e in named if e.held and not e.ahead and _owned_by(e, outcome.pod)]
            assert not still, f"{still} are still held, and their owner {outcome.pod.key} is placed"
        highest = max((each.pod.spec.priority for each in process.attempts), default=-(2**31))
        for change in process.effects.transitions:
            if change.event is Event.DISPLACE and change.reason == reasons.PREEMPTED:
                entry = process.ledger.entries.get(change.meta.key)
                assert entry is None or entry.priority < highest, (
                    f"{change.meta.key} was preempted by no higher priority"
                )
            if change.event is Event.RETURN and change.reason == reasons.INSUFFICIENT_CAPACITY:
                known = any(name in change.message for name in self._disturbed | self._overpromised)
                assert known, f"{change.meta.key} lost capacity on an undisturbed node: {change.message}"
        process.effects.transitions.clear()

    def _check_what_was_held(self) -> None:
        """Check that no expired reservation becomes held, and which ones overcommitment displaces."""
        process, before = self._process, self._held
        self._held = {e.uid: _Held(e, e.node, e.held) for e in process.ledger.entries.values() if e.held}
        for uid in self._held.keys() - before.keys():
            entry = self._held[uid].entry
            alive = (lifetime.ends_at(entry) or 0.0) > process.decided_at  # the next step ends it
            assert alive or not process.event_handlers.ready, f"{entry.key} has expired and is held"
        stayed = [self._held[uid] for uid in self._held.keys() & before.keys()]
        for uid in before.keys() - self._held.keys():
            loser, node, amounts = before[uid]
            if loser.phase is Phase.PENDING and loser.reason == reasons.OVERCOMMITTED:
                rivals = [h.entry for h in stayed if h.node == node and h.amounts.keys() >= amounts.keys()]
                spans = [(rival, lifetime.span(rival)) for rival in rivals]
                rivals = [rival for rival, span in spans if span is None or span.start == -inf]
                spared = [rival.key for rival in rivals if _rank(rival) < _rank(loser)]
                assert not spared, f"{loser.key} has lost its capacity, and {spared} have not"

    def _check_activation(self) -> None:
        """Check that a reservation is activated once: neither a restart nor another node prolongs it."""
        for reservation in self._process.api.reservations.decoded.values():
            activated = reservation.status.get("activatedAt", "")
            assert self._activated.setdefault(reservation.meta.uid, activated) in ("", activated), (
                reservation.key
            )
            self._activated[reservation.meta.uid] = activated


def _rank(entry: ReservationInfo) -> tuple[int, float]:
    """Return a sort key: higher priorities, then older reservations, keep their capacity for longer."""
    return entry.priority, -inf if entry.activated_at is None else -entry.activated_at
