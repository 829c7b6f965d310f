"""What must hold of the operator's state after every single step."""

from collections import Counter

import numpy as np

from property.model_api import ModelApi
from property.process import Process
from tidelock.ledger.matching import owns
from tidelock.model.meta import Key
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.quantities import Resources, parse_resources, plus
from tidelock.model.reservations import Phase

Holders = dict[Key, tuple[str, str]]


def check_sums(process: Process) -> None:
    """I4: the columns are the sums of what the cache and the ledger list."""
    columns = process.columns
    for name, row in columns.row_of.items():
        requested: Resources = {}
        nonzero = [0, 0]
        for placed in process.cache._placed.values():
            if placed.node_name == name:
                requested = plus(requested, placed.pod.requests)
                nonzero = [left + right for left, right in zip(nonzero, placed.pod.nonzero, strict=True)]
        locked: Resources = {}
        for entry in process.book.entries.values():
            if entry.node == name:
                locked = plus(locked, entry.held)
        assert columns.named(columns.requested[row]) == _nonzero(requested), name
        assert columns.nonzero[row].tolist() == nonzero, name
        assert columns.named(columns.locked[row]) == _nonzero(locked), name
        assert np.array_equal(columns.allocatable[row], columns.vector(columns.nodes[row].allocatable)), name


def check_holders(process: Process, in_flight: set[str]) -> None:
    """I2: a lock is held, or claimed by one pod whose binding is under way, or neither."""
    claims = Counter(
        entry.key
        for taken in process.book._claims.values()
        for entry, _ in taken
        if process.book.entries.get(entry.key) is entry and entry.phase is Phase.BOUND
    )
    assert all(count == 1 for count in claims.values()), claims
    for entry in process.book.entries.values():
        assert bool(entry.held) == (entry.phase is Phase.ACTIVE), (entry.key, entry.phase, entry.held)
        assert (entry.phase is Phase.BOUND) == (entry.key in claims), (entry.key, entry.phase)
        if entry.phase is Phase.BOUND:
            assert entry.bound_pod is not None
            assert entry.bound_pod.uid in in_flight, f"{entry.key} is claimed by nobody"
        assert (entry.key in process.book.waiting) == entry.wanting, entry.key


def check_ends(process: Process, advanced_to: float) -> None:
    """I3: nothing is held after its expiry or for an owner that is bound."""
    if not process.feed.ready:
        return
    bound = [placed.pod for placed in process.cache._placed.values() if not placed.assumed]
    for entry in process.book.entries.values():
        if not entry.held:
            continue
        assert entry.expires_at is not None
        assert entry.expires_at > advanced_to, f"{entry.key} is held after its expiry"
        spec = entry.reservation.spec
        for pod in bound if spec is not None else ():
            mine = pod.meta.namespace == entry.key.namespace and not pod.leaving
            assert not (mine and spec is not None and owns(spec, pod)), f"{entry.key}: {pod.key} is bound"


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
    for key, stored in api.nodes.objects.items():
        if key.name in disturbed:
            continue
        taken: Resources = {}
        for pod in _takers(process, api, key.name):
            taken = plus(taken, pod.requests)
        for entry in process.book.held_on(key.name):
            taken = plus(taken, entry.held)
        allocatable = parse_resources(stored["status"]["allocatable"])
        over = {name: units for name, units in taken.items() if units > allocatable.get(name, 0)}
        assert not over, f"{key.name}: {over} of {allocatable}"


def _takers(process: Process, api: ModelApi, node_name: str) -> list[Pod]:
    """Pods that are on a node, or will be if their binding arrives."""
    import json

    takers = []
    for stored in api.pods.objects.values():
        pod = decode_pod(json.dumps(stored).encode())
        under_way = process.in_flight.get(pod.uid)
        target = pod.node_name or (under_way.node_name if under_way else "")
        if target == node_name and not pod.finished:
            takers.append(pod)
    return takers


def _nonzero(resources: Resources) -> dict[str, int]:
    return {name: units for name, units in resources.items() if units}
