"""One lock as the ledger knows it."""

from dataclasses import dataclass, field
from functools import reduce
from math import ceil, inf
from typing import NamedTuple

from tidelock.ledger import reasons
from tidelock.ledger.capacity.timeline import Span
from tidelock.ledger.capacity.usage import Occupant
from tidelock.ledger.lifecycle.leases import LeaseState
from tidelock.ledger.lifecycle.migration import MigrationPlan, migration_asked
from tidelock.ledger.lifecycle.transitions import FINAL, GIVEN, SETTLED, Event, after
from tidelock.ledger.lifecycle.two_phase import TwoPhaseState
from tidelock.model.api.reservation import BoundPod, Membership, Phase
from tidelock.model.instants import earliest
from tidelock.model.lifetimes import expiry_from, removable_at, too_late_at
from tidelock.model.meta import Key
from tidelock.model.pods import START_SECONDS, Pod, ReservePod
from tidelock.model.quantities import NOTHING, Resources, at_most, covers, plus
from tidelock.model.reservation import Reservation

Order = tuple[int, float, Key]
"""What locks of a namespace are ordered by: smaller ones come first."""


class QueuePosition(NamedTuple):
    """A place in line, counted from 1, of so many; and when there may be room at the earliest, if known."""

    position: int
    length: int
    start: float | None = None


@dataclass(slots=True, eq=False)
class ReservationInfo:
    """The state of a lock; the ledger alone changes it.

    Instants are seconds since the epoch. `reservation` is the newest version seen; `problem` tells what is
    wrong with its spec, and what is held then stays as it was given. `outside` tells why it is in neither the
    group nor the set that its spec names. `pending_since` outlives a process, `seen_waiting_at` is when this
    one first saw that it waits. `asked_at` is when it was first seen, but no later than it can have been
    made, as when another process saw it first. `ceiling` is the highest priority that its namespace may have,
    if there is one. `place` is where in line it stands while it waits, as it was told at `placed_at`, which
    is in the waitlist's steady time as `refused_at` is; `earmark` names the node on which room is kept for it
    as it comes free, if it has waited for long. `deleted` means that the
    API server has taken the deletion, of which the watch will tell. `violation` tells who took room that was
    locked, until the lock has all of it again. A member of a group is told to be active once that is `given`.
    `hold` tells how a lock in two phases stands, `superseded_by` which lock of its set was chosen instead.
    `plan` tells which pods are to move for it, `moved` how many were evicted by earlier plans, and
    `move_problem` why there is no plan. `fault` says that the operator failed in a step about it.

    `room` is all that the lock has, `held` what of that nobody else may use: a lock for reuse, or one that is
    borrowable, does not hold what its `occupants`, by their uids, use of it. `occupied_seconds` counts up to
    when the last one left.
    A lock that is `ahead` begins later: it has no owners yet, and its room is for whoever is gone by then.
    The window of a schedule stays while its `start_unacknowledged`: nothing else tells that it has begun.
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
    occupants: dict[str, Occupant] = field(default_factory=dict)
    occupied_seconds: int = 0
    epoch: int = 0
    pending_since: float = 0.0
    tried: bool = False
    refused_at: float = 0.0
    place: QueuePosition | None = None
    placed_at: float = -inf
    earmark: str = ""
    activated_at: float | None = None
    expires_at: float | None = None
    lease: LeaseState | None = None
    hold: TwoPhaseState | None = None
    superseded_by: str = ""
    plan: MigrationPlan | None = None
    moved: int = 0
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
    transition_times: dict[str, tuple[str, float]] = field(default_factory=dict)
    asked_at: float = field(init=False)
    key: Key = field(init=False)
    _order: Order = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.reservation.key
        made_by = self.reservation.meta.created + 1  # the API server tells whole seconds, rounded down
        self.asked_at = min(self.seen_waiting_at, made_by)
        self._order = (-self.priority, self.reservation.meta.created, self.key)

    @property
    def uid(self) -> str:
        """Identity of the object."""
        return self.reservation.meta.uid

    @property
    def pinned(self) -> bool:
        """Whether it can be on no other node: its spec names the node, or is lost."""
        spec = self.reservation.spec
        return spec is None or spec.node_name is not None

    @property
    def wanted_priority(self) -> int:
        """Priority in the spec; 0 if that is lost."""
        return self.reservation.spec.priority if self.reservation.spec else 0

    @property
    def priority(self) -> int:
        """Priority that counts: no higher than the namespace may have, as a spec may be edited any time."""
        return min(self.wanted_priority, self.ceiling)

    @property
    def preempts(self) -> bool:
        """Whether the spec asks for pods and locks of lower priority to be evicted for it."""
        return self.reservation.spec is not None and self.reservation.spec.preemption_policy != "Never"

    @property
    def retained(self) -> bool:
        """Whether the object stays as a tombstone."""
        return self.reservation.spec is not None and self.reservation.spec.retention == "Retain"

    @property
    def sticky(self) -> bool:
        """Whether it keeps its room for the next owner when one has come."""
        return self.reservation.spec is not None and self.reservation.spec.reuse == "Always"

    @property
    def borrowable(self) -> bool:
        """Whether pods that borrow may use its room until an owner comes."""
        return self.reservation.spec is not None and self.reservation.spec.borrowable is True

    @property
    def shared(self) -> bool:
        """Whether it has room that it does not hold itself while others are in it."""
        return not self.ahead and (self.sticky or self.borrowable)

    def lends_to(self, pod: Pod) -> bool:
        """Whether a pod may use its room without being an owner."""
        spec = self.reservation.spec
        if not pod.borrows or self.ahead or spec is None or spec.borrowable is not True:
            return False
        return spec.borrower_namespaces is None or pod.meta.namespace in spec.borrower_namespaces

    @property
    def ending(self) -> list[Occupant]:
        """Those inside that have been asked to end, and use its room until they are gone; the last first."""
        return sorted((each for each in self.inside if each.ends_at < inf), key=lambda each: -each.ends_at)

    @property
    def inside(self) -> list[Occupant]:
        """Owners, or borrowers, that have been seen bound where the lock is, by name."""
        there = (each for each in self.occupants.values() if not each.assumed)
        return sorted(there, key=lambda each: (each.key, each.uid))

    @property
    def used(self) -> Resources:
        """What those who are inside use of it."""
        return reduce(plus, (each.uses for each in self.inside), NOTHING)

    @property
    def reserve_pod(self) -> ReservePod | None:
        """The pod that counts in its place on its node, if others may notice it: until its owner has come.

        A window that is ahead keeps amounts alone, as pods that are gone by then may be there until then.
        """
        pod = self.reservation.pod
        if pod is None or not self.reserved or self.ahead or (self.sticky and self.occupants):
            return None
        return pod if pod.neighbourly else None

    @property
    def membership(self) -> Membership | None:
        """Which group it is a member of, if of any."""
        return self.reservation.spec.group if self.reservation.spec is not None else None

    @property
    def may_move(self) -> bool:
        """Whether pods may be moved for it, which it waits for, if that makes room."""
        waits = self.phase is Phase.PENDING and not self.ahead and self.membership is None
        return waits and self.reservation.pod is not None and migration_asked(self.reservation) is not None

    @property
    def moves_left(self) -> int:
        """How many more pods may be evicted for it."""
        asks = migration_asked(self.reservation)
        return 0 if asks is None else max(asks.max_pods - self.moved, 0)

    @property
    def given_up_at(self) -> float:
        """When it is given up if it has no room by then; never, if its spec is lost."""
        spec = self.reservation.spec
        return inf if spec is None else self.pending_since + spec.pending_deadline_seconds

    @property
    def too_late_at(self) -> float:
        """When it is too late to decide on it for the first time; never, if its spec is lost."""
        spec = self.reservation.spec
        return inf if spec is None else too_late_at(self.pending_since, spec.pending_deadline_seconds)

    @property
    def missed(self) -> bool:
        """Whether its deadline had passed when this process first saw that it waits."""
        return self.seen_waiting_at > self.too_late_at

    @property
    def promised(self) -> bool:
        """Whether its stored status says that it has room: now, or for its window."""
        return self.reservation.status.get("phase") in (Phase.ACTIVE, Phase.PLANNED)

    @property
    def told_rejected(self) -> bool:
        """Whether who edits it could know that it was rejected; if not, its deadline counts on."""
        stored = self.reservation.status.get("phase")
        return self.reason != reasons.DEADLINE_EXCEEDED or stored == Phase.REJECTED

    def terminate(self, now: float) -> None:
        """Hold and want nothing any more, as the object is being deleted; how a lock ended before stays."""
        if self.phase in SETTLED:
            return
        self.phase = after(self.phase, Event.DELETE)
        self.reason, self.message = reasons.TERMINATING, "the object is being deleted, and holds no room"
        self.finished_at = now
        self.reserved, self.ahead, self.violation, self.resize_problem = NOTHING, False, "", ""
        self.bound_pod = self.node_problem = self.place = None
        self.end_plan()

    def end_plan(self) -> None:
        """Have no plan of moves any more, and count who was evicted by it."""
        if self.plan is not None:
            self.moved += len(self.plan.tried)
            self.plan = None

    @property
    def chosen_at(self) -> float | None:
        """When it was chosen of its set: when it was taken, committed or, without a second phase, active."""
        if self.phase is Phase.CONSUMED:
            return self.finished_at
        if self.phase not in GIVEN or not self.node:
            return None
        return self.activated_at if self.hold is None else self.hold.committed_at

    @property
    def moves_when_violated(self) -> bool:
        """Whether it looks for room elsewhere, rather than keep what is left, when others take room of it."""
        spec = self.reservation.spec
        return self.ahead or (spec is not None and (spec.on_violation == "Move" or spec.group is not None))

    @property
    def order(self) -> Order:
        """Place in line: higher priority first, then older, then by name."""
        if self._order[0] != -self.priority:
            self._order = (-self.priority, *self._order[1:])
        return self._order

    @property
    def growing(self) -> bool:
        """Whether the spec asks for more than the lock has."""
        pod = self.reservation.pod
        return self.phase is Phase.ACTIVE and pod is not None and not covers(self.reserved, pod.requests)

    @property
    def outlasting(self) -> bool:
        """Whether the spec asks for a longer life than was given, if it can be read."""
        if self.phase not in GIVEN or self.activated_at is None or self.expires_at is None:
            return False
        if self.reservation.pod is None:
            return False
        wanted = self.expiry_from(self.activated_at)
        return wanted is not None and wanted > self.expires_at

    @property
    def life(self) -> int:
        """Whole seconds for which the lock lives at the longest, as it was given."""
        if self.activated_at is None or self.expires_at is None:
            return self.wanted_life
        given = ceil(round(self.expires_at - self.activated_at, 3))
        return given if self.reservation.pod is None or self.outlasting else self.wanted_life

    @property
    def wanted_life(self) -> int:
        """Whole seconds for which the lock is to live at the longest; 0 if its spec is lost."""
        return self.reservation.lifetime or 0

    @property
    def wanting(self) -> bool:
        """Whether the lock waits for room: for its first, for more, or for some elsewhere.

        One whose spec cannot be read does not, as nobody can tell for what.
        """
        readable = self.reservation.pod is not None
        return readable and (self.phase is Phase.PENDING or self.growing or self.moving)

    @property
    def begins_at(self) -> float | None:
        """The instant at which the lock begins to hold, if that is to come."""
        return self.reservation.start_at if self.ahead else None

    @property
    def ends_at(self) -> float | None:
        """The instant at which the lock ends at the latest, if that is known before it is active."""
        if self.expires_at is not None:
            return self.expires_at
        begins = self.begins_at
        return self.reservation.expire_at if begins is None else self.expiry_from(begins)

    @property
    def span(self) -> Span | None:
        """From when until when its room is needed, if not from now on and for ever; its pod may come late."""
        if not self.held or not (self.ahead or self.reservation.run_seconds < inf):
            return None
        start = self.begins_at
        return Span(-inf if start is None else start, self.needed_until(self.ends_at), self.held)

    def needed_until(self, ends: float | None) -> float:
        """Tell until when its room is needed at most if the lock ends then; its pod may come at the last."""
        return inf if ends is None else ends + START_SECONDS + self.reservation.run_seconds

    def stay_from(self, now: float) -> tuple[float, float]:
        """Tell from when until when it needs room at most that it is given now."""
        begins = now if self.begins_at is None else self.begins_at
        return begins, self.needed_until(self.expiry_from(begins))

    def kept_of(self, room: Resources) -> Resources:
        """Give what stays of room that a lock had: no more than is asked for, if that can be read."""
        pod = self.reservation.pod
        return room if pod is None else at_most(room, pod.requests)

    def occupied_for(self, now: float) -> float:
        """Seconds for which owners have been in it, if it is for reuse."""
        occupied, since = self.transition_times.get("Occupied", ("False", now))
        return self.occupied_seconds + (max(now - since, 0.0) if occupied == "True" else 0.0)

    def count_use(self, now: float, *, occupied: bool) -> None:
        """Begin or end to count for how long owners are in a reservation for reuse."""
        was, _ = self.transition_times.get("Occupied", ("False", now))
        if was != str(occupied):
            self.occupied_seconds = round(self.occupied_for(now))
            self.transition_times["Occupied"] = (str(occupied), now)

    def begin(self, at: float) -> None:
        """Count the lifetime from an instant."""
        self.activated_at = at
        self.expires_at = self.expiry_from(at)

    def look_ahead(self, now: float) -> None:
        """Learn whether the lock begins later."""
        begins = self.reservation.start_at
        self.ahead = begins is not None and begins > now

    def wait(self, now: float, since: float | None = None) -> None:
        """Begin to wait for room again, as asked for at `since`: now, if that is not known.

        The status keeps that instant for a later process.
        """
        self.seen_waiting_at = now
        self.pending_since = now if since is None else min(since, now)
        self.wait_on()

    def wait_on(self) -> None:
        """Wait for room as before, as nobody was told that there was any."""
        self.tried = False
        self.transition_times["Reconciling"] = ("True", self.pending_since)

    def removable_at(self) -> float | None:
        """Tell when the object may be deleted: at once after its end, after its time to live, or never.

        What is untold may not be deleted yet, and what is being deleted not again.
        """
        spec, meta = self.reservation.spec, self.reservation.meta
        if (
            self.finished_at is None
            or spec is None
            or self.start_unacknowledged
            or meta.deletion_timestamp is not None
        ):
            return None
        return removable_at(spec, self.phase, self.finished_at)

    def expiry_from(self, start: float) -> float | None:
        """Tell when a lock that begins at `start` ends."""
        spec = self.reservation.spec
        return None if spec is None else expiry_from(spec, start)

    def end_as_asked(self) -> None:
        """Have a lock that has begun end as its spec says; what can't be read changes nothing."""
        if self.activated_at is not None and self.reservation.pod is not None:
            self.expires_at = self.expiry_from(self.activated_at)

    def deadline(self) -> float | None:
        """Tell when the lock is next due for something, if ever."""
        if self.phase in SETTLED:
            return self.removable_at()
        lease_due = self.lease.due if self.lease is not None else None
        if self.phase is Phase.PENDING:
            return earliest(self.ends_at, self._given_up_due(), lease_due, self.begins_at)
        if self.phase is Phase.PLANNED:
            return earliest(self.ends_at, lease_due, self.begins_at)
        if self.phase is Phase.ACTIVE:
            commit_due = self.hold.commit_due if self.hold is not None else None
            return earliest(self.expires_at, self.move_at, lease_due, commit_due)
        return None

    def _given_up_due(self) -> float | None:
        """Compute when it is given up; if seen in time, a deadline of 0 allows for one decision."""
        spec = self.reservation.spec
        if spec is None:
            return None
        if self.tried:
            return self.given_up_at
        return self.too_late_at if spec.pending_deadline_seconds or self.missed else None

    @property
    def final(self) -> bool:
        """Whether the lock has ended for good."""
        return self.phase in FINAL
