"""Preemption by the rules of kube-scheduler 1.36 (defaultpreemption), one node and one victim at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.budgets import PodDisruptionBudget
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import Resources


@dataclass(frozen=True)
class Room:
    """A node with its pods, reservations and nominated pods."""

    node: Node
    pods: list[Pod] = field(default_factory=list)
    reservations: list[ReservationInfo] = field(default_factory=list)
    nominated: list[Pod] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """The victims on a node, the most important first, and their cost: smaller is better."""

    pods: list[str]
    reservations: list[str]
    cost: tuple[float, ...]


def plans(
    holdings: Sequence[Room],
    wanting: Pod,
    own: Sequence[ReservationInfo],
    budgets: Sequence[PodDisruptionBudget],
) -> dict[str, Plan]:
    """Return the plan of each node on which evictions help."""
    found = {room.node.name: plan(room, wanting, own, budgets) for room in holdings}
    return {name: made for name, made in found.items() if made is not None}


def plan(
    room: Room, wanting: Pod, own: Sequence[ReservationInfo], budgets: Sequence[PodDisruptionBudget]
) -> Plan | None:
    below = [pod for pod in room.pods if pod.spec.priority < wanting.spec.priority]
    weaker = [
        entry for entry in room.reservations if entry.priority < wanting.spec.priority and entry not in own
    ]
    everybody: list[Pod | ReservationInfo] = [*room.pods, *room.reservations]
    stay = [each for each in everybody if each not in below and each not in weaker]
    if not below and not weaker:
        return None
    if not fits(room, stay, wanting, own):
        return None
    below.sort(key=importance)
    weaker.sort(key=importance)
    protected = [pod for pod in below if pod.uid in violating(below, budgets)]
    gone: list[Pod | ReservationInfo] = []
    ordered: list[Pod | ReservationInfo] = [
        *protected,
        *(pod for pod in below if pod not in protected),
        *weaker,
    ]
    for each in ordered:
        if fits(room, [*stay, each], wanting, own):
            stay.append(each)
        else:
            gone.append(each)
    return weigh(gone, sum(pod in gone for pod in protected)) if gone else None


def fits(
    room: Room, there: Sequence[Pod | ReservationInfo], wanting: Pod, own: Sequence[ReservationInfo]
) -> bool:
    """Return whether the pod fits beside these, with and without the nominated pods that it must respect."""
    mine = {entry.uid for entry in own}
    rivals = [
        other
        for other in room.nominated
        if other.spec.priority >= wanting.spec.priority and other.uid != wanting.uid and other.uid not in mine
    ]
    return all(
        suits(room.node, wanting)
        and (not wanting.requires_reservation or any(entry in room.reservations for entry in own))
        and has_room(room.node, [*there, *more], wanting, own)
        for more in (rivals, [])
    )


def suits(node: Node, wanting: Pod) -> bool:
    labels = node.meta.labels
    return not node.unschedulable and wanting.spec.node_selector.items() <= labels.items()


def has_room(
    node: Node, there: Sequence[Pod | ReservationInfo], wanting: Pod, own: Sequence[ReservationInfo]
) -> bool:
    taken: dict[str, int] = {}
    for each in there:
        if each not in own:
            for name, units in amounts(each).items():
                taken[name] = taken.get(name, 0) + units
    return all(
        units <= node.allocatable.get(name, 0) - taken.get(name, 0)
        for name, units in wanting.requests.items()
        if units > 0
    )


def amounts(tenant: Pod | ReservationInfo) -> Resources:
    return tenant.requests if isinstance(tenant, Pod) else tenant.held


def violating(below: Sequence[Pod], budgets: Sequence[PodDisruptionBudget]) -> set[str]:
    """Return the UIDs of the pods that some budget protects, if all are evicted one after the other."""
    left = [budget.status.disruptions_allowed for budget in budgets]
    uids = set()
    for pod in below:
        for index, budget in enumerate(budgets):
            selector = budget.spec.selector
            if budget.meta.namespace != pod.meta.namespace or selector is None or not pod.meta.labels:
                continue
            if not selector.match_labels.items() <= pod.meta.labels.items() or not selector.match_labels:
                continue
            if pod.meta.name in budget.status.disrupted_pods:
                continue
            left[index] -= 1
            if left[index] < 0:
                uids.add(pod.uid)
    return uids


def importance(tenant: Pod | ReservationInfo) -> tuple[object, ...]:
    return -priority(tenant), started(tenant), tenant.key


def priority(tenant: Pod | ReservationInfo) -> int:
    return tenant.spec.priority if isinstance(tenant, Pod) else tenant.priority


def started(tenant: Pod | ReservationInfo) -> float:
    if isinstance(tenant, Pod):
        return tenant.status.start_time.timestamp() if tenant.status.start_time else inf
    return tenant.activated_at or inf


def weigh(gone: Sequence[Pod | ReservationInfo], violations: int) -> Plan:
    highest = max(map(priority, gone))
    oldest = min(started(each) for each in gone if priority(each) == highest)
    lifted = sum(priority(each) + 2**31 for each in gone)
    pods = sorted((each for each in gone if isinstance(each, Pod)), key=importance)
    reservations = sorted((each for each in gone if isinstance(each, ReservationInfo)), key=importance)
    return Plan(
        [pod.meta.name for pod in pods],
        [entry.key.name for entry in reservations],
        (violations, highest, lifted, len(gone), -oldest),
    )
