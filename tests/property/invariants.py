"""Invariants of the operator's state, after every move and when there is nothing left to do."""

import operator
from collections import Counter
from collections.abc import Iterable
from math import inf
from typing import NamedTuple

import numpy as np

from builders import NAMESPACE, Json
from property.answers import AnswerObserver
from property.deadlines import DeadlineObserver
from property.gangs import check_groups, check_own, check_stored_groups, check_taken
from property.holds import HoldObserver, check_stored_holds
from property.leases import LeaseObserver, check_stored_leases
from property.moves import MoveObserver, check_stored_moves
from property.occupancy import check_lent, check_occupancy, check_stored_occupancy
from property.occupancy import is_owner as _owned_by
from property.process import Process
from property.usage import UsageObserver, check_parked
from property.windows import in_the_way, needed_by
from tidelock.ledger.lifecycle import deadlines, lifetime
from tidelock.ledger.lifecycle.transitions import SETTLED, Event
from tidelock.ledger.owners.claim import Claim
from tidelock.ledger.owners.matching import is_for_any, may_claim, names, owns
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import parse_instant
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import Resources, at_most, beyond, covers, plus
from tidelock.model.reservation import Reservation
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.queued_pod import QueueName

# Steps within which another operator has decided about everything that waits.
_MOST_STEPS = 100


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
        self.follow(process)

    def follow(self, process: Process) -> None:
        """Follow another process, which continues with the same objects."""
        self._process = process
        self._held: dict[str, _Held] = {}
        self._usage = UsageObserver(process)
        self._deadlines = DeadlineObserver(process)

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
        check_nobody_waits_in_vain(self._process)
        check_parked(self._process)
        check_places(self._process)
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
            nodes = [entry.node for entry, held in claim.taken if held] if claim is not None else []
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


def check_sums(process: Process) -> None:
    """Check I4: the columns are the sums of the pods in the cache and the reservations in the ledger."""
    columns, placed_pods = process.columns, process.cache._placed.values()
    for name, row in columns.row_of.items():
        on_node = [placed for placed in placed_pods if placed.node_name == name]
        placed = [each.pod for each in on_node]
        held = [entry for entry in process.ledger.entries.values() if entry.node == name and entry.held]
        assert columns.named(columns.requested[row]) == _total(pod.requests for pod in placed), name
        assert columns.nonzero[row].tolist() == [sum(pod.nonzero[i] for pod in placed) for i in (0, 1)], name
        kept = [shift.before for shift in process.ledger.holdings.rests.values() if shift.node == name]
        unknown = {resource: amounts[1] for resource, amounts in columns._aside[name].items() if amounts[1]}
        reserved = columns.named(columns.reserved[row]) | unknown
        assert reserved == _total([needed_by(held, on_node), *kept]), name
        assert np.array_equal(columns.allocatable[row], columns.vector(columns.nodes[row].allocatable)), name


def check_holders(process: Process) -> None:
    """Check I2: a reservation is held, or claimed by one pod that may be bound already, or neither."""
    ledger = process.ledger
    asked = [*process.effects.claims, *process.questions, *(claim for claim, _ in process.answers)]
    claims = Counter(
        entry.key
        for claim in (*ledger.claims.in_flight.values(), *asked)
        for entry, _ in claim.taken
        if ledger.entries.get(entry.key) is entry and _is_taken_by(entry, claim)
    )
    assert all(count == 1 for count in claims.values()), claims
    assert ledger.claims.in_flight.keys() <= process.in_flight.keys(), "a claim without a binding"
    assert ledger.holdings.rests.keys() <= claims.keys(), "capacity is kept without a binding"
    for entry in ledger.entries.values():
        assert bool(entry.reserved) == (entry.phase in (Phase.ACTIVE, Phase.PLANNED)), (
            entry.key,
            entry.phase,
            entry.reserved,
        )
        assert (entry.phase is Phase.BOUND) == (entry.key in claims), (entry.key, entry.phase)
        assert (entry.key in ledger.waiting_reservations.waiting) == entry.wanting, entry.key
        assert entry.kept_of(entry.reserved) == entry.reserved, f"{entry.key} has more than its spec asks for"


def check_index(process: Process) -> None:
    """Check that a pod's own reservations are the ones that a scan of all reservations finds."""
    entries = process.ledger.entries
    for pod in process.api.pods.decoded.values():
        known = [e for e in entries.values() if e.phase not in SETTLED and not e.unseen]
        owned = [e for e in known if _owned_by(e, pod)]
        alone = sorted(e.key for e in owned if e.reservation.membership is None and may_claim(e, pod))
        own = process.ledger.ownership.of(pod)
        assert [entry.key for entry in own if entry.reservation.membership is None] == alone, pod.key
        check_own(process, pod, own, owned)


def check_pods(process: Process) -> None:
    """Check that a pod is in one state, is nominated only while it waits, and is evicted once."""
    for uid, waiting in process.queue._pods.items():
        placed = process.cache.get(uid)
        assert placed is None or (placed.assumed and waiting.queue is QueueName.IN_FLIGHT), uid
    unbound = {pod.uid for pod in process.api.pods.decoded.values() if not pod.node_name}
    idle = unbound - process.in_flight.keys()
    assumed = {uid for uid, placed in process.cache._placed.items() if placed.assumed}
    assert not assumed & idle, "assumed without a binding"
    reservations = {entry.uid for entry in process.ledger.waiting_reservations.waiting.values()}
    for uid, node in process.nominator._node_of.items():
        assert not node or uid in reservations or process.queue.get(uid) is not None, (
            f"{uid} is nominated, and does not wait"
        )
    victims = Counter(pod.uid for attempt in process.attempts for pod in attempt.victims)
    assert all(count == 1 for count in victims.values()), "evicted twice"


def check_neighbours(process: Process) -> None:
    """Check that a reservation with capacity is a neighbour on its node only, until an owner is there."""
    expected: dict[str, list[str]] = {}
    for entry in process.ledger.entries.values():
        template = entry.reservation.spec.template if entry.reservation.spec is not None else None
        if template is None or entry.reservation.pod is None or not entry.reserved or entry.ahead:
            continue
        noticed = template.metadata is not None and template.metadata.labels
        if noticed and not (entry.reservation.reusable and entry.occupants):
            expected.setdefault(entry.node, []).append(entry.uid)
    assert _neighbours(process) == {name: sorted(uids) for name, uids in expected.items()}
    for name, row in process.columns.row_of.items():
        pods = [*process.cache.reserve_pods.on(name), *(each.pod for each in process.cache.pods_on(name))]
        for port in {port for pod in pods for port in pod.host_ports}:
            users = sum(pod.host_ports.count(port) for pod in pods)
            rows = process.cache.ports.conflicts(port).tolist()
            assert rows.count(row) == users, f"{port} of {name}"


def check_ends(process: Process) -> None:
    """Check I3: by the last decision, nothing is held after its expiry or for an owner that is bound."""
    asked = (
        *process.effects.claims,
        *process.questions,
        *(claim for claim, _ in process.answers),
    )
    doubtful = [entry for claim in asked for entry in claim.entries]
    bound = [each.pod for each in process.cache._placed.values() if not each.assumed and not each.pod.leaving]
    # A pod in a binding of ours chooses after the answer, even if another binder has bound it meanwhile.
    choosing = (
        {claim.pod.uid for claim in asked}
        | process.ledger.claims.has_chosen
        | process.ledger.claims.in_flight.keys()
    )
    stored = {reservation.meta.uid for reservation in process.api.reservations.decoded.values()}
    check_taken(process, bound, doubtful)
    for entry in process.ledger.entries.values():
        if entry.reserved:
            begins_at, ends_at = lifetime.begins_at(entry), lifetime.ends_at(entry)
            assert ends_at is not None
            assert ends_at > process.decided_at, f"{entry.key} is held after its expiry"
            assert begins_at is None or begins_at > process.decided_at, (
                f"{entry.key} has begun, and counts as ahead"
            )
            if entry not in doubtful and not (
                entry.reservation.reusable or entry.reservation.membership or entry.unseen
            ):
                owners = [pod for pod in bound if _owned_by(entry, pod) and may_claim(entry, pod)]
                owners = [p for p in owners if p.uid not in choosing or names(entry.reservation.spec, p)]
                assert not owners, f"{entry.key}: its owner {owners[0].key} is bound"
        if entry.phase is Phase.CONSUMED and entry.uid in stored:
            assert entry.uid in process.api.owned, f"{entry.key} was consumed without an owner"


def check_choice(process: Process, outcome: AssumedPod, claim: Claim | None) -> None:
    """Check that a pod takes the best fitting of its workload's reservations on its node, and no more.

    If one is enough, the pod takes only one, and no other has a smaller excess. Otherwise the pod takes none
    that the others make unnecessary.
    """
    pod, entries = outcome.pod, [e for e in process.ledger.entries.values() if not e.unseen]
    taken = (
        [(entry, held) for entry, held in claim.taken if is_for_any(entry, pod)] if claim is not None else []
    )
    assert all(entry.reservation.spec is not None and held for entry, held in taken), pod.key
    here = [each for each in entries if each.node == outcome.node_name and _owned_by(each, pod)]
    left = [each for each in here if each.reserved and not each.ahead and is_for_any(each, pod)]
    simple = [entry for entry in (*left, *here, *(entry for entry, _ in taken)) if entry.shared]
    if simple or not (taken or left):
        return  # capacity that is lent, or used by others, counts differently
    certain = (
        [
            held
            for entry, held in claim.taken
            if not is_for_any(entry, pod) and entry.node == outcome.node_name
        ]
        if claim is not None
        else []
    )
    needed = beyond(pod.requests, _total(certain))
    wanted = at_most(needed, _total([*(held for _, held in taken), *(entry.held for entry in left)]))
    assert covers(_total(held for _, held in taken), wanted), (
        f"{pod.key} left reserved capacity of its own unused"
    )
    for entry, _ in taken:
        others = _total(held for other, held in taken if other is not entry)
        assert not wanted or not covers(others, wanted), f"{pod.key} took {entry.key} without need"
    assert wanted or not taken, f"{pod.key} took {taken} without need"
    capacity = process.columns.nodes[process.columns.row_of[outcome.node_name]].allocatable
    enough = [_excess(entry.held, wanted, capacity) for entry in left if covers(entry.held, wanted)]
    if taken and enough:
        assert len(taken) == 1, f"{pod.key} took {taken}, and one is enough"
        assert _excess(taken[0][1], wanted, capacity) <= min(enough), f"{pod.key} took {taken}"


def _excess(held: Resources, wanted: Resources, capacity: Resources) -> float:
    return sum(units / max(capacity.get(name, 0), 1) for name, units in sorted(beyond(held, wanted).items()))


def check_room(process: Process) -> None:
    """Check I1 in the operator's state: reservations fit on their nodes, and no other node has the name."""
    for name, row in process.columns.row_of.items():
        assert not in_the_way(process, name), name
        for entry in process.ledger.holdings.held_on(name):
            assert entry.node_uid == process.columns.nodes[row].meta.uid, (
                f"{entry.key} is on another node of the name {name}"
            )
    gone = set(process.ledger.holdings.nodes_with_reservations()) - process.columns.row_of.keys()
    assert not gone, f"reservations on nodes that are gone: {gone}"


def check_server(process: Process, disturbed: set[str]) -> None:
    """Check I1 on the server: bound pods, bindings under way and reservations fit on undisturbed nodes."""
    for key, node in process.api.nodes.decoded.items():
        if key.name not in disturbed:
            takers = [p.requests for p in process.api.pods.decoded.values() if _takes(process, p, key.name)]
            held = [entry.held for entry in process.ledger.holdings.held_on(key.name) if not entry.ahead]
            taken = _total([*takers, *held])
            over = {name: units for name, units in taken.items() if units > node.allocatable.get(name, 0)}
            assert not over, f"{key.name}: {over} of {node.allocatable}"


def check_stored(process: Process) -> None:
    """Check that the stored objects show the state of each reservation without the operator's memory."""
    now = process.clock.now()
    pods = process.api.pods.decoded.values()
    assert {entry.uid for entry in process.ledger.entries.values()} == {
        reservation.meta.uid for reservation in process.api.reservations.decoded.values()
    }
    for reservation in process.api.reservations.decoded.values():
        status = reservation.status
        phase = Phase(status["phase"])
        entry = process.ledger.entries[reservation.key]
        if phase is Phase.CONSUMED:
            _check_taker(process, entry)
        bound = [pod for pod in pods if _bound(pod) and may_claim(entry, pod)]
        owners = [pod.key for pod in bound if reservation.spec and owns(reservation.spec, pod)]
        shared = reservation.spec is not None and (
            reservation.spec.reuse == "Always" or reservation.spec.group is not None
        )
        assert not owners or shared or phase in SETTLED, (
            f"{reservation.key} is {phase}, and {owners} are bound"
        )
        if reservation.spec is None or reservation.problem or phase in SETTLED:
            continue
        waits = any(each["type"] == "Reconciling" for each in status["conditions"])
        compare = operator.le if phase is Phase.ACTIVE and waits else operator.eq
        if reservation.expire_at is not None:
            assert reservation.expire_at > now, f"{reservation.key} is past its expiry"
            assert compare(parse_instant(status["expiresAt"]), reservation.expire_at)
        elif "activatedAt" in status:
            ttl = parse_instant(status["expiresAt"]) - parse_instant(status["activatedAt"])
            assert compare(round(ttl, 3), reservation.spec.ttl_seconds or 0), reservation.key
        seconds = reservation.spec.pending_deadline_seconds
        if phase is Phase.PENDING and (seconds or not _waits_for_members(process, reservation)):
            since = next(c["lastTransitionTime"] for c in status["conditions"] if c["type"] == "Reconciling")
            waited = now - parse_instant(since)
            assert waited < max(seconds, 1) + 1, f"{reservation.key} waits beyond its deadline"


def check_nobody_waits_in_vain(process: Process) -> None:
    """Check that no pod waits that fits somewhere, or that owns a large enough reservation.

    A reservation on a node with a problem moves, now or later.
    """
    api = process.api
    unbound = {p.uid: p for p in api.pods.decoded.values() if not p.node_name and not p.leaving}
    ours = {uid for uid, pod in unbound.items() if pod.spec.scheduler_name in process.decider.profiles}
    assert process.queue._pods.keys() == ours
    for uid, waiting in process.queue._pods.items():
        assert process.nominator.node_of(uid) == unbound[uid].status.nominated_node_name, unbound[uid].key
        if waiting.queue is QueueName.UNSCHEDULABLE:
            found = process.decider._cycle.feasible(waiting.profile, waiting.pod, process.clock.now())
            assert not found, f"{waiting.pod.key} fits on {[node.name for node in found]}"
            nominated = process.nominator.node_of(uid)
            going = [p for p in process.cache.pods_on(nominated) if p.pod.leaving]
            assert not nominated or going, (
                f"{waiting.pod.key} is nominated to {nominated}, and no pod leaves it"
            )
        if (
            waiting.queue in (QueueName.UNSCHEDULABLE, QueueName.GATED)
            and not waiting.pod.spec.scheduling_gates
        ):
            for entry in process.ledger.ownership.of(waiting.pod):
                row = process.columns.row_of.get(entry.node)
                sound = row is not None and process.columns.nodes[row].sound
                fits = sound and not waiting.pod.spec.node_selector
                lent = entry.reservation.borrowable and not process.nominator.on(
                    entry.node
                )  # unless borrowers are leaving
                kept = entry.reserved if lent else entry.held
                shunned = waiting.plugins & {"InterPodAffinity", "NodePorts"}  # it differs from the template
                assert not fits or shunned or not covers(kept, waiting.pod.requests), waiting.pod.key
    for entry in process.ledger.entries.values():
        if entry.node_problem is not None and not entry.reservation.pinned:
            assert entry.moving or entry.move_at is not None, f"{entry.key} never moves"


def check_places(process: Process) -> None:
    """Check that waiting reservations, and no others, have their queue positions, unless these are due."""
    ledger = process.ledger
    waiting = [e for e in ledger.entries.values() if e.phase is Phase.PENDING and e.tried and e.wanting]
    places = {
        entry.key: entry.queue_position[:2]
        for entry in ledger.entries.values()
        if entry.queue_position is not None
    }
    assert places.keys() <= {entry.key for entry in ledger.entries.values() if entry.phase is Phase.PENDING}
    if ledger.queue_positions.due is None:
        line = sorted(waiting, key=lambda entry: (-entry.priority, entry.reservation.meta.created, entry.key))
        told = {entry.key: (position, len(line)) for position, entry in enumerate(line, 1)}
        assert {key: places.get(key) for key in told} == told


def check_indexes(process: Process) -> None:
    """Check that each index of the ledger equals one that is rebuilt from the records.

    The ledger can't be used afterwards. Reservations in the phase Bound are left out. They count in quotas as
    before, and their records lack these amounts.
    """
    ledger = process.ledger
    entries = [entry for entry in ledger.entries.values() if entry.phase is not Phase.BOUND]
    for entry in [entry for entry in ledger.entries.values() if entry.phase is Phase.BOUND]:
        ledger.records.drop(entry)
    indexes = ledger.records.indexes
    kept = [index.contents() for index in indexes]
    assert None not in kept, "an index shows no contents, so it can't be compared"
    reserved = {entry.key: entry.reserved for entry in entries}
    held = _held(process)

    for entry in entries:
        for index in indexes:
            index.update(entry)
    assert [index.contents() for index in indexes] == kept, "an index has missed a change"

    for entry in entries:
        for index in indexes:
            index.remove(entry)
    assert not any(index.contents() for index in indexes), "an index keeps reservations that are gone"
    assert not any(_held(process).values()), "capacity is held for reservations that are gone"

    for entry in entries:
        ledger.holdings.hold(entry, reserved[entry.key])
        for index in indexes:
            index.update(entry)
    assert [index.contents() for index in indexes] == kept
    assert _held(process) == held


def check_rebuild(process: Process) -> None:
    """Check I4: another operator derives the same state from the stored objects, and places no more."""
    rebuilt = Process(process.api, process.clock, process.api.leadership + 1, "nobody's")
    for watch in rebuilt.watches.values():
        while watch.behind:
            watch.deliver()
    assert not rebuilt.effects.claims
    assert reservations(rebuilt) == reservations(process)
    assert _amounts(rebuilt) == _amounts(process)
    assert _neighbours(rebuilt) == _neighbours(process)
    assert rebuilt.ledger.quotas.used(NAMESPACE) == process.ledger.quotas.used(NAMESPACE)
    for key, entry in process.ledger.entries.items():
        stored = process.api.reservations.objects[key]["status"]
        assert process.wanted(entry) == stored
        assert rebuilt.wanted(rebuilt.ledger.entries[key]) == stored, key
    stored_ones = process.api.reservations.decoded.values()
    late = {reservation.key.name for reservation in stored_ones if _is_late(process, reservation)}
    for _ in range(_MOST_STEPS):
        rebuilt.step()
        if not rebuilt.due:
            break
    assert not rebuilt.due, "another operator does not come to rest"
    if process.nominator.nodes:
        return  # only the process that decides the pods keeps capacity for them
    before, after = reservations(process), reservations(rebuilt)
    differing = {key.name: after[key]["phase"] for key in before if before[key] != after[key]}
    assert not differing.keys() - late, f"waiting reservations fit: {differing}"
    due, due_then = _deadlines(process), _deadlines(rebuilt)
    assert all(
        due.get(key) == due_then.get(key) for key in due.keys() | due_then.keys() if key.name not in late
    )


def _is_late(process: Process, reservation: Reservation) -> bool:
    """Return whether a reservation with a deadline of 0 waits for its group's members.

    Another operator, which has not seen the reservation in time, gives it up.
    """
    seconds = reservation.spec.pending_deadline_seconds if reservation.spec is not None else 0
    return _waits_for_members(process, reservation) and not seconds


def _check_taker(process: Process, entry: ReservationInfo) -> None:
    """Check that a pod names the reservation that it took, if that was for any pod of its workload.

    An edit may have replaced the owners before the end was stored, so earlier versions count too.
    """
    assert entry.bound_pod is not None
    versions = process.api.pods.versions[entry.bound_pod.uid]
    says = any(entry.uid in (version.claimed_reservations or ()) for version in versions)
    bound = [version for version in versions if version.node_name]
    specs = [version.spec for version in process.api.reservations.versions[entry.uid]]
    named = any(names(spec, version) for spec in specs for version in bound)
    assert says or named or not all(is_for_any(entry, version) for version in bound), entry.key


def _waits_for_members(process: Process, reservation: Reservation) -> bool:
    """Return whether too few members of a reservation's group are there to try the group."""
    group = process.ledger.groups.of(reservation)
    return group is not None and group.served + len(group.waiting) < group.least


def _rank(entry: ReservationInfo) -> tuple[int, float]:
    """Return a sort key: higher priorities, then older reservations, keep their capacity for longer."""
    return entry.priority, -inf if entry.activated_at is None else -entry.activated_at


def _is_taken_by(entry: ReservationInfo, claim: Claim) -> bool:
    """Return whether a pod still claims a reservation, as a question may concern a pod that does not."""
    taker = entry.bound_pod if entry.phase is Phase.BOUND else None
    return taker is not None and taker.uid == claim.pod.uid


def _bound(pod: Pod) -> bool:
    return bool(pod.node_name) and not pod.leaving


def _takes(process: Process, pod: Pod, node_name: str) -> bool:
    """Return whether a pod is on a node, or will be if its binding arrives."""
    under_way = process.in_flight.get(pod.uid)
    target = pod.node_name or (under_way.node_name if under_way else "")
    return target == node_name and not pod.finished


def _total(lists: Iterable[Resources]) -> Resources:
    total: dict[str, int] = {}
    for resources in lists:
        total = plus(total, resources)
    return {name: units for name, units in total.items() if units}


def reservations(process: Process) -> dict[Key, Json]:
    """Return the state of each reservation."""
    return {
        key: {
            "phase": entry.phase,
            "node": (entry.node, entry.node_uid),
            "room": dict(entry.reserved),
            "held": dict(entry.held),
            "occupants": dict(entry.occupants),
            "expires": entry.expires_at,
            "hold": entry.hold,
        }
        for key, entry in process.ledger.entries.items()
    }


def _amounts(process: Process) -> dict[str, list[dict[str, int]]]:
    columns = process.columns
    kinds = (columns.allocatable, columns.requested, columns.reserved)
    return {name: [columns.named(kind[row]) for kind in kinds] for name, row in columns.row_of.items()}


def _held(process: Process) -> dict[str, dict[str, int]]:
    columns = process.columns
    return {name: columns.named(columns.reserved[row]) for name, row in columns.row_of.items()}


def _neighbours(process: Process) -> dict[str, list[str]]:
    names = [node.name for node in process.columns.nodes] + ["node-a", "node-b"]
    on = {name: sorted(pod.uid for pod in process.cache.reserve_pods.on(name)) for name in names}
    return {name: uids for name, uids in on.items() if uids}


def _deadlines(process: Process) -> dict[Key, float | None]:
    """Return when reservations are next due.

    Reservations on nodes with a problem are left out, because the age of a problem is not stored.
    """
    return {
        key: deadlines.next_due(entry)
        for key, entry in process.ledger.entries.items()
        if entry.node_problem is None
    }
