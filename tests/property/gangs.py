"""Invariants of groups: enough members have capacity, or none, and a pod takes one member."""

from collections import Counter

from property.occupancy import is_owner
from property.process import Process
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Group
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.pods import Pod

_SERVED = (Phase.ACTIVE, Phase.BOUND, Phase.CONSUMED)


def check_groups(process: Process) -> None:
    """Check that members are active only if the group has enough of them, and that no pod takes two."""
    groups = process.ledger.groups
    for group in groups._groups.values():
        members = group.members.values()
        assert all(entry.group_committed == group.group_committed for entry in members), group.key
        took = Counter(entry.bound_pod.uid for entry in members if entry.bound_pod is not None)
        assert all(count == 1 for count in took.values()), f"a pod has taken two of {group.key}: {took}"
        if group.key in groups.unsettled or not process.event_handlers.ready:
            continue
        served = sum(entry.phase in _SERVED for entry in members)
        holding = [entry.key for entry in members if entry.phase is Phase.ACTIVE]
        assert served >= group.least or not holding, (
            f"{holding} of {group.key} hold capacity, and {served} is too few"
        )
    entries = {key for group in groups._groups.values() for key in group.members}
    assert entries == {
        key for key, entry in process.ledger.entries.items() if entry.reservation.membership is not None
    }


def check_own(process: Process, pod: Pod, own: list[ReservationInfo], owned: list[ReservationInfo]) -> None:
    """Check that a pod's own members of a group are some that it owns, at most one on each node."""
    members = [entry for entry in own if entry.reservation.membership is not None]
    assert all(entry in owned for entry in members), pod.key
    places = [(process.ledger.groups.of(entry.reservation), entry.node) for entry in members]
    assert len(set(places)) == len(places), f"{pod.key} has two of a group on one node"


def served_by(group: Group, pod: Pod) -> bool:
    """Return whether a bound pod has taken a member of the group."""
    took = any(
        each.bound_pod is not None and each.bound_pod.uid == pod.uid for each in group.members.values()
    )
    return took or group.key.uid in (pod.claimed_reservations or ())


def check_taken(process: Process, bound: list[Pod], doubtful: list[ReservationInfo]) -> None:
    """Check that each bound owner of a member that holds capacity has taken a member of the group."""
    for group in process.ledger.groups._groups.values():
        for entry in group.members.values():
            if entry.reserved and entry not in doubtful:
                waiting = [pod.key for pod in bound if is_owner(entry, pod) and not served_by(group, pod)]
                assert not waiting, f"{entry.key} is held, and {waiting} have taken no member"


def check_stored_groups(process: Process) -> None:
    """Check that by the stored objects alone enough members of a group have capacity, or none."""
    groups: dict[str, list[tuple[Key, str]]] = {}
    least: dict[str, int] = {}
    for reservation in process.api.reservations.decoded.values():
        if reservation.spec is not None and reservation.spec.group is not None:
            groups.setdefault(reservation.spec.group.uid, []).append(
                (reservation.key, reservation.status["phase"])
            )
            least[reservation.spec.group.uid] = reservation.spec.group.min_members
    for uid, members in groups.items():
        active = [key for key, phase in members if phase == Phase.ACTIVE]
        served = [key for key, phase in members if phase in _SERVED]
        assert not active or len(served) >= least[uid], f"{active} of {members}"
