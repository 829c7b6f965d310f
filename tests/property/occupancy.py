"""Invariants of shared reservations: their capacity counts once, and is used as far as possible.

Owners use reusable reservations, and borrowers use borrowable ones.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import chain, combinations

from builders import Json
from property.process import Process
from tidelock.ledger.owners.matching import owns
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import Pod
from tidelock.model.quantities import (
    NOTHING,
    PODS,
    Resources,
    at_most,
    beyond,
    covers,
    minus,
    parse_resources,
    plus,
)


def check_occupancy(process: Process) -> None:
    """Check that a reservation holds all that its occupants leave, and that they use as much as possible."""
    entries = [entry for entry in process.ledger.entries.values() if entry.reserved]
    for entry in entries:
        used: dict[str, int] = {}
        for uid, occupant in entry.occupants.items():
            placed = process.cache.get(uid)
            assert placed is not None, f"{occupant.key} is not in the cache"
            assert placed.assumed == occupant.assumed, occupant.key
            assert placed.node_name == entry.node, occupant.key
            assert _uses(entry, placed.pod), f"{occupant.key} has no right to {entry.key}"
            assert covers(placed.pod.requests, occupant.uses), occupant.key
            used = plus(used, occupant.uses)
        assert plus(entry.held, used) == entry.reserved, f"{entry.key} is counted twice, or not at all"
        assert entry.shared or not used, entry.key
    for node in {entry.node for entry in entries if entry.shared}:
        here = [entry for entry in entries if entry.shared and entry.node == node]
        pods = [placed.pod for placed in process.cache.pods_on(node)]
        needs = {
            pod.uid: beyond(pod.requests, process.ledger.holdings.sharing.claimed(pod.uid)) for pod in pods
        }
        for resource in {name for entry in here for name in entry.reserved}:
            used_here = sum(each.uses.get(resource, 0) for entry in here for each in entry.occupants.values())
            assert used_here == most_used(here, pods, needs, resource), (node, resource)


def check_lent(process: Process) -> None:
    """Check that the owner of a borrowable reservation would fit if all borrowers left its node."""
    for name, row in process.columns.row_of.items():
        pods = [placed.pod for placed in process.cache.pods_on(name)]
        others = reduce(plus, (pod.requests for pod in pods if not pod.borrows), NOTHING)
        entries = [e for e in process.ledger.entries.values() if e.node == name and not e.ahead]
        holdings = reduce(plus, (entry.reserved for entry in entries), NOTHING)
        lasting = {pod.uid for pod in pods if not pod.borrows}
        occupants = (
            each for entry in entries if entry.reservation.reusable for each in entry.occupants.values()
        )
        owners = (each.uses for each in occupants if each.uid in lasting)
        taken = minus(plus(others, holdings), reduce(plus, owners, NOTHING))
        short = beyond(taken, process.columns.nodes[row].allocatable)
        for entry in entries:
            assert not entry.reservation.borrowable or not at_most(entry.reserved, short), (
                entry.key,
                name,
                short,
            )
    for attempt in process.attempts:
        assert not attempt.borrowers or all(pod.borrows for pod in attempt.victims), attempt


def check_stored_occupancy(process: Process) -> None:
    """Check that stored reusable reservations name an occupant, and that none was consumed."""
    bound = [pod for pod in process.api.pods.decoded.values() if pod.node_name and not pod.finished]
    for entry in process.ledger.entries.values():
        status = process.api.reservations.objects[entry.key]["status"]
        _check_stored_lending(entry, status)
        if not entry.reservation.reusable:
            assert "occupiedSeconds" not in status, entry.key
            continue
        assert entry.phase not in (Phase.BOUND, Phase.CONSUMED), entry.key
        if entry.phase is Phase.ACTIVE:
            owners = {pod.uid for pod in bound if is_owner(entry, pod) and pod.node_name == entry.node}
            told = status.get("boundPod")
            assert told is None or told["uid"] in owners, f"{told} is not in {entry.key}"
            occupied = next(each["status"] for each in status["conditions"] if each["type"] == "Occupied")
            assert (occupied == "True") == (told is not None), entry.key
            inside = [each.uses for each in entry.occupants.values() if not each.assumed]
            uses = {name: units for name, units in reduce(plus, inside, NOTHING).items() if name != PODS}
            assert parse_resources(status.get("used", {})) == uses, entry.key
            shared = [each for each in process.ledger.entries.values() if each.reserved and each.shared]
            assert told is not None or not owners or len(shared) > 1, (
                f"{owners} are in {entry.key}, which names no occupant"
            )


def most_used(
    entries: Sequence[ReservationInfo], pods: Sequence[Pod], needs: Mapping[str, Resources], resource: str
) -> int:
    """Compute how much of a resource pods can use of shared reservations, by the smallest of all cuts.

    `needs` has the amounts of each pod, by UID, that no claim of another reservation covers.
    """
    return min(
        sum(needs[pod.uid].get(resource, 0) for pod in pods if pod not in cut)
        + sum(entry.reserved.get(resource, 0) for entry in entries if any(_uses(entry, pod) for pod in cut))
        for cut in _subsets(pods)
    )


def is_owner(entry: ReservationInfo, pod: Pod) -> bool:
    spec = entry.reservation.spec
    return pod.meta.namespace == entry.key.namespace and spec is not None and owns(spec, pod)


def _uses(entry: ReservationInfo, pod: Pod) -> bool:
    """Return whether a pod on the node of a reservation uses its capacity."""
    return (
        pod.borrows if entry.reservation.borrowable else entry.reservation.reusable and is_owner(entry, pod)
    )


def _check_stored_lending(entry: ReservationInfo, status: Json) -> None:
    """Check that the stored status has the lent amounts, and the number of borrowers."""
    inside = [
        each.uses for each in entry.occupants.values() if entry.reservation.borrowable and not each.assumed
    ]
    uses = {name: units for name, units in reduce(plus, inside, NOTHING).items() if name != PODS}
    assert parse_resources(status.get("lent", {})) == uses, entry.key
    assert status.get("borrowers", 0) == len(inside), entry.key
    told = {each["type"]: each["status"] for each in status["conditions"]}.get("Lent")
    lends = entry.reservation.borrowable and entry.phase is Phase.ACTIVE
    assert told == (str(bool(inside)) if lends else None), entry.key


def _subsets(pods: Sequence[Pod]) -> list[tuple[Pod, ...]]:
    return list(chain.from_iterable(combinations(pods, size) for size in range(len(pods) + 1)))
