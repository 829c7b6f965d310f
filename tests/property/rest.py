"""When there is nothing left to do, nothing waits that could go on, and another process finds the same."""

import operator

from builders import NAMESPACE
from property.process import Process
from property.sums import neighbours, reservations
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.lifecycle.transitions import SETTLED
from tidelock.ledger.owners.matching import is_for_any, may_claim, names, owns
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import parse_instant
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import covers
from tidelock.model.reservation import Reservation
from tidelock.scheduler.core.queued_pod import QueueName

# Steps within which another operator has decided about everything that waits.
_MOST_STEPS = 100


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


def check_waiting(process: Process) -> None:
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


def check_queue_positions(process: Process) -> None:
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


def check_rebuild(process: Process) -> None:
    """Check I4: another operator derives the same state from the stored objects, and places no more."""
    rebuilt = Process(process.api, process.clock, process.api.leadership + 1, "nobody's")
    for watch in rebuilt.watches.values():
        while watch.behind:
            watch.deliver()
    assert not rebuilt.effects.claims
    assert reservations(rebuilt) == reservations(process)
    assert _amounts(rebuilt) == _amounts(process)
    assert neighbours(rebuilt) == neighbours(process)
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


def _bound(pod: Pod) -> bool:
    return bool(pod.node_name) and not pod.leaving


def _amounts(process: Process) -> dict[str, list[dict[str, int]]]:
    columns = process.columns
    kinds = (columns.allocatable, columns.requested, columns.reserved)
    return {name: [columns.named(kind[row]) for kind in kinds] for name, row in columns.row_of.items()}


def _deadlines(process: Process) -> dict[Key, float | None]:
    """Return when reservations are next due.

    Reservations on nodes with a problem are left out, because the age of a problem is not stored.
    """
    return {
        key: deadlines.next_due(entry)
        for key, entry in process.ledger.entries.items()
        if entry.node_problem is None
    }
