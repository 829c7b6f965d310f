"""Decisions respect capacity, and no reservation outlasts its end."""

from property.gangs import check_taken
from property.occupancy import is_owner as _owned_by
from property.process import Process
from property.sums import total_of
from property.windows import in_the_way
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.owners.claim import Claim
from tidelock.ledger.owners.matching import is_for_any, may_claim, names
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import Pod
from tidelock.model.quantities import Resources, at_most, beyond, covers
from tidelock.scheduler.core.cycle import AssumedPod


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
    claimed = claim.taken if claim is not None else ()
    taken = [(each.entry, each.held) for each in claimed if is_for_any(each.entry, pod)]
    assert all(entry.reservation.spec is not None and held for entry, held in taken), pod.key
    here = [each for each in entries if each.node == outcome.node_name and _owned_by(each, pod)]
    left = [each for each in here if each.reserved and not each.ahead and is_for_any(each, pod)]
    simple = [entry for entry in (*left, *here, *(entry for entry, _ in taken)) if entry.shared]
    if simple or not (taken or left):
        return  # capacity that is lent, or used by others, counts differently
    certain = [
        each.held
        for each in claimed
        if not is_for_any(each.entry, pod) and each.entry.node == outcome.node_name
    ]
    needed = beyond(pod.requests, total_of(certain))
    wanted = at_most(needed, total_of([*(held for _, held in taken), *(entry.held for entry in left)]))
    assert covers(total_of(held for _, held in taken), wanted), (
        f"{pod.key} left reserved capacity of its own unused"
    )
    for entry, _ in taken:
        others = total_of(held for other, held in taken if other is not entry)
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
            taken = total_of([*takers, *held])
            over = {name: units for name, units in taken.items() if units > node.allocatable.get(name, 0)}
            assert not over, f"{key.name}: {over} of {node.allocatable}"


def _takes(process: Process, pod: Pod, node_name: str) -> bool:
    """Return whether a pod is on a node, or will be if its binding arrives."""
    under_way = process.in_flight.get(pod.uid)
    target = pod.node_name or (under_way.node_name if under_way else "")
    return target == node_name and not pod.finished
