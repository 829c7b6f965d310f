"""What must hold of the operator's state: after every step, and when it has come to rest."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from builders import Json, encode
from property.model_api import ModelApi
from property.process import HandClock, Process
from tidelock.ledger.entry import Entry
from tidelock.ledger.matching import owns
from tidelock.model.meta import Key
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.quantities import Resources, parse_resources, plus
from tidelock.model.reservations import Phase


def check(process: Process, api: ModelApi, disturbed: set[str]) -> None:
    """Check what must hold at every instant; `disturbed` are nodes on which others have taken room."""
    check_sums(process)
    check_holders(process)
    check_ends(process)
    check_room(process)
    check_server(process, api, disturbed)


def check_sums(process: Process) -> None:
    """I4: the columns are the sums of what the cache and the ledger list."""
    columns, placed_pods = process.columns, process.cache._placed.values()
    for name, row in columns.row_of.items():
        placed = [placed.pod for placed in placed_pods if placed.node_name == name]
        held = [entry.held for entry in process.book.entries.values() if entry.node == name]
        assert columns.named(columns.requested[row]) == _total(pod.requests for pod in placed), name
        assert columns.nonzero[row].tolist() == [sum(pod.nonzero[i] for pod in placed) for i in (0, 1)], name
        assert columns.named(columns.locked[row]) == _total(held), name
        assert np.array_equal(columns.allocatable[row], columns.vector(columns.nodes[row].allocatable)), name


def check_holders(process: Process) -> None:
    """I2: a lock is held, or claimed by one pod whose binding is under way, or neither."""
    book = process.book
    claims = Counter(
        entry.key
        for taken in book._claims.values()
        for entry, _ in taken
        if book.entries.get(entry.key) is entry and entry.phase is Phase.BOUND
    )
    assert all(count == 1 for count in claims.values()), claims
    assert book._claims.keys() <= process.in_flight.keys(), "a claim without a binding"
    for entry in book.entries.values():
        assert bool(entry.held) == (entry.phase is Phase.ACTIVE), (entry.key, entry.phase, entry.held)
        assert (entry.phase is Phase.BOUND) == (entry.key in claims), (entry.key, entry.phase)
        assert (entry.key in book.waiting) == entry.wanting, entry.key


def check_ends(process: Process) -> None:
    """I3: nothing is held after its expiry, as of the last decision, or for an owner that is bound."""
    if not process.feed.ready:
        return
    bound = [placed.pod for placed in process.cache._placed.values() if not placed.assumed]
    for entry in process.book.entries.values():
        if entry.held:
            assert entry.expires_at is not None
            assert entry.expires_at > process.decided_at, f"{entry.key} is held after its expiry"
            assert not any(_owned_by(entry, pod) for pod in bound), f"{entry.key}: its owner is bound"


def check_room(process: Process) -> None:
    """I1 in the operator's eyes: no lock uses what its node has too little of."""
    if not process.feed.ready:
        return
    for name in process.columns.row_of:
        shortfall = process.columns.shortfall(name)
        for entry in process.book.held_on(name):
            assert not any(entry.held.get(resource) for resource in shortfall), (entry.key, name, shortfall)


def check_server(process: Process, api: ModelApi, disturbed: set[str]) -> None:
    """I1 on the server: bound pods, bindings under way and locks fit, but where others took the room."""
    if not process.feed.ready:
        return
    pods = [decode_pod(encode(stored)) for stored in api.pods.objects.values()]
    for key, stored in api.nodes.objects.items():
        if key.name not in disturbed:
            takers = [pod.requests for pod in pods if _takes(process, pod, key.name)]
            taken = _total([*takers, *(entry.held for entry in process.book.held_on(key.name))])
            allocatable = parse_resources(stored["status"]["allocatable"])
            over = {name: units for name, units in taken.items() if units > allocatable.get(name, 0)}
            assert not over, f"{key.name}: {over} of {allocatable}"


def check_rebuild(process: Process, api: ModelApi, clock: HandClock) -> None:
    """I4: another operator would make the same of the stored objects, and find no room for what waits."""
    rebuilt = Process(api, clock, scheduler_name="nobody's")
    rebuilt.catch_up()
    assert _locks(rebuilt) == _locks(process)
    assert _amounts(rebuilt) == _amounts(process)
    for key, entry in process.book.entries.items():
        stored = api.reservations.objects[key]["status"]
        assert process.wanted(entry) == stored
        if not entry.problem:  # what cannot be read is remembered by the one that read it before
            assert rebuilt.wanted(rebuilt.book.entries[key]) == stored
    for _ in process.book.entries:
        rebuilt.step()
    assert _locks(rebuilt) == _locks(process), "what waits has room"
    assert _deadlines(rebuilt) == _deadlines(process)


def _owned_by(entry: Entry, pod: Pod) -> bool:
    spec = entry.reservation.spec
    mine = pod.meta.namespace == entry.key.namespace and not pod.leaving
    return mine and spec is not None and owns(spec, pod)


def _takes(process: Process, pod: Pod, node_name: str) -> bool:
    """Whether a pod is on a node, or will be if its binding arrives."""
    under_way = process.in_flight.get(pod.uid)
    target = pod.node_name or (under_way.node_name if under_way else "")
    return target == node_name and not pod.finished


def _total(lists: Iterable[Resources]) -> Resources:
    total: dict[str, int] = {}
    for resources in lists:
        total = plus(total, resources)
    return {name: units for name, units in total.items() if units}


def _locks(process: Process) -> dict[Key, Json]:
    return {
        key: {
            "phase": entry.phase,
            "node": (entry.node, entry.node_uid),
            "held": dict(entry.held),
            "expires": entry.expires_at,
        }
        for key, entry in process.book.entries.items()
    }


def _amounts(process: Process) -> dict[str, list[dict[str, int]]]:
    columns = process.columns
    kinds = (columns.allocatable, columns.requested, columns.locked)
    return {name: [columns.named(kind[row]) for kind in kinds] for name, row in columns.row_of.items()}


def _deadlines(process: Process) -> dict[Key, float | None]:
    """When locks are next due; not stored are the age of a node's problem and a spec that was good."""
    return {
        key: entry.deadline()
        for key, entry in process.book.entries.items()
        if entry.node_problem is None and not entry.problem
    }
