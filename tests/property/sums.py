"""Sums and indexes in memory equal those of the objects."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from builders import Json
from property.gangs import check_own
from property.occupancy import is_owner as _owned_by
from property.process import Process
from property.windows import needed_by
from tidelock.cluster.reserve_pods import counts_as
from tidelock.ledger.lifecycle.transitions import SETTLED
from tidelock.ledger.owners.claim import Claim
from tidelock.ledger.owners.matching import may_claim
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.quantities import Resources, plus
from tidelock.model.reserve_pod import LIMITS
from tidelock.scheduler.core.queued_pod import QueueName


def check_sums(process: Process) -> None:
    """Check I4: the columns are the sums of the pods in the cache and the reservations in the ledger."""
    columns, placed_pods = process.columns, process.cache._placed.values()
    for name, row in columns.row_of.items():
        on_node = [placed for placed in placed_pods if placed.node_name == name]
        placed = [each.pod for each in on_node]
        held = [entry for entry in process.ledger.entries.values() if entry.node == name and entry.held]
        assert columns.named(columns.requested[row]) == total_of(pod.requests for pod in placed), name
        assert columns.nonzero[row].tolist() == [sum(pod.nonzero[i] for pod in placed) for i in (0, 1)], name
        kept = [shift.before for shift in process.ledger.holdings.rests.values() if shift.node == name]
        unknown = {resource: amounts[1] for resource, amounts in columns._aside[name].items() if amounts[1]}
        reserved = columns.named(columns.reserved[row]) | unknown
        assert reserved == total_of([needed_by(held, on_node), *kept]), name
        assert np.array_equal(columns.allocatable[row], columns.vector(columns.nodes[row].allocatable)), name


def check_holders(process: Process) -> None:
    """Check I2: a reservation is held, or claimed by one pod that may be bound already, or neither."""
    ledger = process.ledger
    asked = [*process.effects.claims, *process.questions, *(claim for claim, _ in process.answers)]
    claims = Counter(
        entry.key
        for claim in (*ledger.claims.in_flight.values(), *asked)
        for entry in (each.entry for each in claim.taken)
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
        if not entry.reserved or entry.ahead:
            continue
        parts = entry.reservation.parts.items() & entry.granted.items()
        noticed = any(part != LIMITS for part, _ in parts)
        if noticed and not (entry.reservation.reusable and entry.occupants):
            expected.setdefault(entry.node, []).append(entry.uid)
    uids = {name: [uid for uid, _ in counted] for name, counted in neighbours(process).items()}
    assert uids == {name: sorted(uids) for name, uids in expected.items()}
    for name, row in process.columns.row_of.items():
        pods = [*process.cache.reserve_pods.on(name), *(each.pod for each in process.cache.pods_on(name))]
        for port in {port for pod in pods for port in pod.host_ports}:
            users = sum(pod.host_ports.count(port) for pod in pods)
            rows = process.cache.ports.conflicts(port).tolist()
            assert rows.count(row) == users, f"{port} of {name}"


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


def _is_taken_by(entry: ReservationInfo, claim: Claim) -> bool:
    """Return whether a pod still claims a reservation, as a question may concern a pod that does not."""
    taker = entry.bound_pod if entry.phase is Phase.BOUND else None
    return taker is not None and taker.uid == claim.pod.uid


def total_of(lists: Iterable[Resources]) -> Resources:
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


def _held(process: Process) -> dict[str, dict[str, int]]:
    columns = process.columns
    return {name: columns.named(columns.reserved[row]) for name, row in columns.row_of.items()}


def neighbours(process: Process) -> dict[str, list[tuple[str, tuple[object, ...]]]]:
    """Return the reserve pods of each node that has some: their uids, and everything by which they count."""
    names = [node.name for node in process.columns.nodes] + ["node-a", "node-b"]
    on = {name: process.cache.reserve_pods.on(name) for name in names}
    return {name: sorted((pod.uid, counts_as(pod)) for pod in pods) for name, pods in on.items() if pods}
