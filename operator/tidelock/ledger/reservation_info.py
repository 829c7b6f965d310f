"""The record of one reservation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from tidelock.ledger.capacity.usage import Occupant
from tidelock.ledger.lifecycle.leases import LeaseState
from tidelock.ledger.lifecycle.migration import MigrationPlan, migration_asked
from tidelock.ledger.lifecycle.transitions import FINAL, GIVEN, SETTLED, Event, after
from tidelock.ledger.lifecycle.two_phase import TwoPhaseState
from tidelock.model import reasons
from tidelock.model.api.reservation import BoundPod, Phase
from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import NOTHING, Resources, at_most, covers
from tidelock.model.reservation import Reservation
from tidelock.model.reserve_pod import ReservePod, granted_part

Order = tuple[int, float, Key]
"""Sort key of the reservations of a namespace: smaller ones come first."""


class QueuePosition(NamedTuple):
    """A position in the queue, from 1 to its length, and the earliest possible start, if it is known."""

    position: int
    length: int
    start: float | None = None


@dataclass(slots=True, eq=False)
class ReservationInfo:
    """The state of a reservation. Only the ledger changes it.

    Instants are seconds since the epoch. The indexes of the ledger hold the record by its identity.

    Attributes:
        reservation: the newest version of the object.
        seen_waiting_at: when this process first saw that the reservation waits.
        phase: the phase, which is ahead of the stored status.
        reason: reason of the condition `Active`.
        message: message of the condition `Active`.
        problem: an error in the spec. Capacity that is held then stays as it was granted.
        outside: why the reservation could not join the group, or the set, that its spec names.
        node: name of the node on which capacity is held, or was.
        node_uid: UID of that node.
        reserved: all capacity of the reservation.
        held: the part of `reserved` that nothing else may use. Its occupants use the rest.
        granted: digests of the parts of the template with which it was placed (`ReservePod.parts`), without
            those that an edit has given up.
        devices: held devices of the node. While its owner is being bound, the reservation still has them.
        occupants: pods inside by UID, if the reservation is reusable or borrowable.
        occupied_seconds: seconds with occupants, until the last of them left.
        epoch: number of the leadership that granted the capacity.
        pending_since: when the reservation began to wait. The status keeps it.
        tried: whether the reservation was tried since it began to wait.
        refused_at: when it was refused last, by the queue's steady clock.
        queue_position: position in the queue, published at `positioned_at` by the same clock.
        positioned_at: see `queue_position`.
        earmark: node on which capacity that comes free is kept, after a long wait.
        activated_at: when the reservation became active.
        expires_at: when it expires.
        lease: state of the lease.
        hold: state of a two-phase reservation.
        superseded_by: name of the reservation of its set that was chosen instead.
        plan: the migration plan under way.
        moved_pods: number of pods that earlier plans evicted.
        move_problem: why there is no plan.
        finished_at: when the reservation ended.
        bound_pod: the owner that has consumed it.
        node_problem: reason and message of a problem of the node.
        move_at: when the reservation leaves a node that takes no pods.
        moving: whether it looks for capacity on another node.
        resize_problem: why a larger request can't be granted.
        violation: message about a pod that took capacity, until the reservation has all of it again.
        fault: an error of the operator in a step about the reservation.
        deleted: whether the API server has accepted the deletion, which the watch will confirm.
        group_committed: False for a member of a group until the whole group has capacity.
        ahead: whether the reservation begins later. It has no owners yet, and its capacity is in use by pods
            that will be gone by then.
        start_unacknowledged: whether the status of its schedule still has to say that the window has begun.
        ceiling: the highest priority that its namespace may have.
        unseen: whether its creation is under way, and no watch has shown the object yet. Its key and UID are
            not the object's.
        answered: the phase that the response to its creation has reported, if there was an answer.
        transition_times: status and last transition of conditions by type.
        asked_at: when the object was first seen, but no later than it can have been created.
        key: namespace and name of the object.
        uid: UID of the object.

    """

    reservation: Reservation
    seen_waiting_at: float
    phase: Phase = Phase.PENDING
    reason: str = reasons.WAITING
    message: str = ""
    problem: str = ""
    outside: str = ""
    node: str = ""
    node_uid: str = ""
    reserved: Resources = field(default_factory=dict)
    held: Resources = field(default_factory=dict)
    granted: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[ReservedDevice, ...] = ()
    occupants: dict[str, Occupant] = field(default_factory=dict)
    occupied_seconds: int = 0
    epoch: int = 0
    pending_since: float = 0.0
    tried: bool = False
    refused_at: float = 0.0
    queue_position: QueuePosition | None = None
    positioned_at: float = -inf
    earmark: str = ""
    activated_at: float | None = None
    expires_at: float | None = None
    lease: LeaseState | None = None
    hold: TwoPhaseState | None = None
    superseded_by: str = ""
    plan: MigrationPlan | None = None
    moved_pods: int = 0
    move_problem: str = ""
    finished_at: float | None = None
    bound_pod: BoundPod | None = None
    node_problem: tuple[str, str] | None = None
    move_at: float | None = None
    moving: bool = False
    resize_problem: str = ""
    violation: str = ""
    fault: str = ""
    deleted: bool = False
    group_committed: bool = True
    ahead: bool = False
    start_unacknowledged: bool = False
    ceiling: int = 0
    unseen: bool = False
    answered: str = ""
    transition_times: dict[str, tuple[str, float]] = field(default_factory=dict)
    asked_at: float = field(init=False)
    key: Key = field(init=False)
    uid: str = field(init=False)
    _order: Order = field(init=False)

    def __post_init__(self) -> None:
        self.key, self.uid = self.reservation.key, self.reservation.meta.uid
        made_by = self.reservation.meta.created + 1  # creation times are whole seconds, rounded down
        self.asked_at = min(self.seen_waiting_at, made_by)
        self._order = (-self.priority, self.reservation.meta.created, self.key)

    @property
    def priority(self) -> int:
        """The effective priority: that of the spec, up to the highest that the namespace may have."""
        return min(self.reservation.priority, self.ceiling)

    @property
    def shared(self) -> bool:
        """Whether pods may use its capacity while the reservation goes on."""
        return not self.ahead and (self.reservation.reusable or self.reservation.borrowable)

    def lends_to(self, pod: Pod) -> bool:
        """Return whether a pod may use its capacity without being an owner."""
        spec = self.reservation.spec
        if not pod.borrows or self.ahead or spec is None or not self.reservation.borrowable:
            return False
        return spec.borrower_namespaces is None or pod.meta.namespace in spec.borrower_namespaces

    @property
    def held_pod(self) -> ReservePod | None:
        """The pod of the spec, only with what the reservation has: the rest may never be granted."""
        pod = self.reservation.pod
        if pod is None or not _lacks(self):
            return pod
        return granted_part(pod, self.reserved, _pending_parts(self))

    @property
    def reserve_pod(self) -> ReservePod | None:
        """The pod that counts as a neighbour until the owner has come, if other pods may notice it.

        A planned window only keeps amounts, as the pods of that time are not known.
        """
        pod = self.held_pod if self.awaits_owner else None
        return pod if pod is not None and pod.neighbourly else None

    @property
    def awaits_owner(self) -> bool:
        """Whether it has capacity now, and no owner uses any of it."""
        return bool(self.reserved) and not self.ahead and not (self.reservation.reusable and self.occupants)

    @property
    def may_move(self) -> bool:
        """Whether it waits, and pods may be migrated to free capacity for it."""
        waits = self.phase is Phase.PENDING and not self.ahead and self.reservation.membership is None
        waits = waits and not self.unseen
        return waits and self.reservation.pod is not None and migration_asked(self.reservation) is not None

    @property
    def moves_left(self) -> int:
        """Number of pods that may still be migrated for it."""
        asks = migration_asked(self.reservation)
        return 0 if asks is None else max(asks.max_pods - self.moved_pods, 0)

    @property
    def promised(self) -> bool:
        """Whether an answer or its stored status says that it has capacity, now or for its window."""
        return self._reported in (Phase.ACTIVE, Phase.PLANNED)

    @property
    def rejection_published(self) -> bool:
        """Whether users could see the rejection. Otherwise an edit does not restart the deadline."""
        return self.reason != reasons.DEADLINE_EXCEEDED or self._reported == Phase.REJECTED

    @property
    def _reported(self) -> str:
        """The phase that users know: that of the stored status, or of the answer while there is none."""
        return str(self.reservation.status.get("phase", self.answered))

    def terminate(self, now: float) -> None:
        """End the reservation because its object is being deleted. An earlier end stays as it is."""
        if self.phase in SETTLED:
            return
        self.phase = after(self.phase, Event.DELETE)
        self.reason, self.message = reasons.TERMINATING, "the object is being deleted, and holds no capacity"
        self.finished_at = now
        self.reserved, self.ahead, self.violation, self.resize_problem = NOTHING, False, "", ""
        self.devices = ()
        self.bound_pod = self.node_problem = self.queue_position = None
        self.end_plan()

    def end_plan(self) -> None:
        """Drop the migration plan, and count the pods that were evicted by it."""
        if self.plan is not None:
            self.moved_pods += len(self.plan.tried)
            self.plan = None

    @property
    def chosen_at(self) -> float | None:
        """When it was chosen from its set: consumed, committed or, without a second phase, active."""
        if self.phase is Phase.CONSUMED:
            return self.finished_at
        if self.phase not in GIVEN or not self.node:
            return None
        return self.activated_at if self.hold is None else self.hold.committed_at

    @property
    def moves_when_violated(self) -> bool:
        """Whether it moves to another node when other pods take its capacity, instead of keeping the rest."""
        spec = self.reservation.spec
        return self.ahead or (spec is not None and (spec.on_violation == "Move" or spec.group is not None))

    @property
    def order(self) -> Order:
        """Sort key: higher priority first, then older, then by name."""
        if self._order[0] != -self.priority:
            self._order = (-self.priority, *self._order[1:])
        return self._order

    @property
    def growing(self) -> bool:
        """Whether the spec asks for more than the reservation has, or for another template."""
        return self.phase is Phase.ACTIVE and _lacks(self)

    @property
    def wanting(self) -> bool:
        """Whether it waits for capacity: for its first, for more, or on another node.

        An unreadable spec asks for nothing.
        """
        readable = self.reservation.pod is not None
        return readable and (self.phase is Phase.PENDING or self.growing or self.moving)

    def kept_of(self, amounts: Resources) -> Resources:
        """Return the part of granted amounts that a readable spec still asks for."""
        pod = self.reservation.pod
        return amounts if pod is None else at_most(amounts, pod.requests)

    def kept_devices(self, devices: Sequence[ReservedDevice]) -> tuple[ReservedDevice, ...]:
        """Return the part of held devices that a readable spec still asks for, by claims or by amounts."""
        pod = self.reservation.pod
        if pod is None:
            return tuple(devices)
        claims, given = {each.name for each in pod.spec.resource_claims}, Counter[str]()
        kept = []
        for each in devices:
            if each.resource_name is not None:
                given[each.resource_name] += 1
                asked = given[each.resource_name] <= pod.requests.get(each.resource_name, 0)
            else:
                asked = each.claim in claims
            if asked:
                kept.append(each)
        return tuple(kept)

    def wait(self, now: float, since: float | None = None) -> None:
        """Begin to wait for capacity again, since an instant or now. The status keeps that instant."""
        self.seen_waiting_at = now
        self.pending_since = now if since is None else min(since, now)
        self.wait_on()

    def wait_on(self) -> None:
        """Continue to wait for capacity, because no status has promised any."""
        self.tried = False
        self.transition_times["Reconciling"] = ("True", self.pending_since)

    @property
    def final(self) -> bool:
        """Whether it has ended for good."""
        return self.phase in FINAL


def give_up_parts(entry: ReservationInfo) -> None:
    """Drop the granted parts of the template that the spec no longer asks for. Others may take them."""
    parts = entry.reservation.parts
    entry.granted = {name: digest for name, digest in entry.granted.items() if parts.get(name) == digest}


def _lacks(entry: ReservationInfo) -> bool:
    """Return whether the spec asks for more than the reservation has, whatever its phase."""
    pod = entry.reservation.pod
    return pod is not None and (not covers(entry.reserved, pod.requests) or bool(_pending_parts(entry)))


def _pending_parts(entry: ReservationInfo) -> list[str]:
    """Return the parts of the template that differ from those with which a reservation was placed."""
    parts = entry.reservation.parts
    return [name for name, digest in parts.items() if entry.granted.get(name) != digest]
