"""Groups of reservations that get capacity together: either enough members have it, or none has.

    short --enough members fit in one step--> held --all are stored, each with its node--> committed
      ^                                                                                        |
      +---------------- a member loses its capacity, and too few are left ---------------------+

A member counts as well once its pod has taken the capacity. The spec of each member describes its group, so
the members are the only source. A member reports Active once its group is committed. A process that ends
before that has promised nothing. The next process finds enough members with capacity, or lets all members
wait for capacity again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

from tidelock.ledger.owners.best_fit import difference
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase, Topology
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import NOTHING, at_least, covers
from tidelock.model.reservation import Reservation
from tidelock.model.work_queue import WorkQueue


class GroupKey(NamedTuple):
    """The identity of a group, which a later group of the same name does not share."""

    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, entry: ReservationInfo) -> "GroupKey | None":
        """Return the group of a reservation, if it is a member of one."""
        membership = entry.reservation.membership
        return None if membership is None else cls(entry.key.namespace, membership.name, membership.uid)


@dataclass(slots=True, eq=False)
class Group:
    """The members of a group that exist.

    Attributes:
        size: number of members in the spec.
        least: number of members that must have capacity. With fewer, no member keeps any.
        over_quota: whether a quota on their sum was among the reasons of the last refusal.
        tried_first: names of members that did not fit beside others, which are now tried before those.
        fault: an error of the operator when it settled the group.

    """

    key: GroupKey
    size: int
    least: int
    topology: Topology | None = None
    group_committed: bool = False
    over_quota: bool = False
    tried_first: tuple[Key, ...] = ()
    tried_with: tuple[int, int] = (0, 0)
    fault: str = ""
    members: dict[Key, ReservationInfo] = field(default_factory=dict)

    @property
    def agreement(self) -> tuple[int, int, Topology | None]:
        """The description of the group, which all members share."""
        return self.size, self.least, self.topology

    @property
    def waiting(self) -> list[ReservationInfo]:
        """Members that wait for capacity, in their order."""
        waiting = (entry for entry in self.members.values() if entry.phase is Phase.PENDING)
        return sorted(waiting, key=lambda entry: entry.order)

    @property
    def order_of_trials(self) -> list[ReservationInfo]:
        """Members that wait for capacity, in the order in which they are tried."""
        rank = {key: number for number, key in enumerate(self.tried_first)}
        return sorted(self.waiting, key=lambda entry: rank.get(entry.key, len(rank)))

    @property
    def holding(self) -> list[ReservationInfo]:
        """Members with capacity, in their order."""
        holding = (entry for entry in self.members.values() if entry.phase is Phase.ACTIVE)
        return sorted(holding, key=lambda entry: entry.order)

    @property
    def served(self) -> int:
        """Number of members that have capacity, or had it until their pods took it."""
        return sum(entry.phase in _SERVED for entry in self.members.values())

    @property
    def nodes(self) -> list[str]:
        """The node of each member that has capacity or had it."""
        return [entry.node for entry in self.members.values() if entry.phase in _SERVED and entry.node]

    @property
    def complete(self) -> bool:
        """Whether enough members have capacity."""
        return self.served >= self.least

    @property
    def has_failed(self) -> bool:
        """Whether too many members have ended for the group to be complete again."""
        return sum(entry.phase in _FAILED for entry in self.members.values()) > self.size - self.least

    @property
    def surplus(self) -> int:
        """Number of waiting members that the group does not need, negative while members are missing."""
        return self.served + len(self.waiting) - self.least

    @property
    def stored(self) -> bool:
        """Whether the stored statuses suffice for another process to find the group complete."""
        return all(_stored(entry) for entry in self.members.values() if entry.phase in _SERVED)

    @property
    def began(self) -> float | None:
        """The instant at which the group was first active. The lifetimes of all members count from it."""
        began = (entry.activated_at for entry in self.members.values() if entry.activated_at is not None)
        return min(began, default=None)

    @property
    def late(self) -> list[ReservationInfo]:
        """Waiting members without a lifetime, if that of other members has begun."""
        if self.began is None:
            return []
        return [entry for entry in self.waiting if entry.activated_at is None]

    @property
    def placement_key(self) -> tuple[int, int]:
        """A key of everything that decides, besides free capacity, whether the group can be placed."""
        return self.served, len(self.members)

    def set_committed(self, *, committed: bool) -> None:
        """Note whether members may report Active."""
        self.group_committed = committed
        for entry in self.members.values():
            entry.group_committed = committed


def is_placed_together(group: Group) -> bool:
    """Return whether the members that wait for capacity must get it in one step."""
    return group.topology is not None or not group.complete


class Groups:
    """All groups, as their members describe them.

    Attributes:
        unsettled: groups to settle, because a member has changed.

    """

    def __init__(self) -> None:
        self.unsettled = WorkQueue[GroupKey]()
        self._groups: dict[GroupKey, Group] = {}
        self._listeners: list[Callable[[Key], None]] = []

    def __len__(self) -> int:
        return len(self._groups)

    def on_change(self, listener: Callable[[Key], None]) -> None:
        """Call a function with the namespace and name of each group with a member that has changed."""
        self._listeners.append(listener)

    def get(self, key: GroupKey) -> Group | None:
        """Return a group, if any of its members exists."""
        return self._groups.get(key)

    def of(self, reservation: Reservation) -> Group | None:
        """Return the group that a Reservation's spec names."""
        membership = reservation.spec.group if reservation.spec is not None else None
        if not self._groups or membership is None:
            return None
        return self._groups.get(GroupKey(reservation.key.namespace, membership.name, membership.uid))

    def awaited(self, entry: ReservationInfo) -> Group | None:
        """Return the group with which a reservation must be placed, or None if it is placed alone."""
        group = self.pending(entry)
        return group if group is not None and is_placed_together(group) else None

    def pending(self, entry: ReservationInfo) -> Group | None:
        """Return the group in which a reservation waits for its first capacity."""
        group = self.of(entry.reservation)
        waits = group is not None and entry.key in group.members and entry.phase is Phase.PENDING
        return group if waits else None

    def problem(self, reservation: Reservation) -> str:
        """Return why a new reservation can't be a member of the group that its spec names, or an empty text.

        The operator creates no such member. Otherwise a user could add any number of members, which
        are tried in one step.
        """
        group, membership = (
            self.of(reservation),
            reservation.spec.group if reservation.spec is not None else None,
        )
        if group is None or membership is None:
            return ""
        if (membership.members, membership.min_members, membership.topology) != group.agreement:
            return f"spec.group: members, minMembers and topology differ from those of group {group.key.name}"
        if len(group.members) >= group.size:
            return f"spec.group.members: group {group.key.name} has all of its {group.size} members already"
        return ""

    def update(self, entry: ReservationInfo) -> None:
        """Add a new reservation to its group, if it is in one, and schedule the settlement of the group."""
        if entry.reservation.membership is None:
            return
        if not entry.outside:
            self._join(entry)
        self._member_changed(self.of(entry.reservation))

    def _join(self, entry: ReservationInfo) -> None:
        key, membership = GroupKey.of(entry), entry.reservation.membership
        if key is None or membership is None:
            return
        group = self._groups.get(key)
        if group is None:
            size, least = membership.members, membership.min_members
            group = self._groups[key] = Group(key, size, least, membership.topology)
        if entry.key in group.members:
            return
        group.members[entry.key] = entry
        # A member that is stored as Active was committed together with the others.
        group.set_committed(
            committed=group.group_committed or entry.reservation.status.get("phase") == Phase.ACTIVE
        )

    def remove(self, entry: ReservationInfo) -> None:
        """Remove a reservation that is gone from its group."""
        group = self.of(entry.reservation)
        if group is not None and group.members.pop(entry.key, None) is not None:
            self._member_changed(group)
            if not group.members:
                del self._groups[group.key]
                self.unsettled.discard(group.key)

    def contents(self) -> Mapping[Any, object]:
        """Return the members of each group."""
        return {key: sorted(group.members) for key, group in self._groups.items()}

    def begins(self, entry: ReservationInfo, now: float) -> float:
        """Return when the lifetime of a newly placed reservation begins: now, or with that of its group."""
        group = self.of(entry.reservation)
        began = group.began if group is not None else None
        return now if began is None else began

    def _member_changed(self, group: Group | None) -> None:
        if group is not None:
            self.unsettled.add(group.key)
            self._notify(group)

    def note_fault(self, key: GroupKey, fault: str) -> None:
        """Note why the operator failed to settle a group, or with an empty text that it succeeded."""
        group = self._groups.get(key)
        if group is not None and group.fault != fault:
            group.fault = fault
            self._notify(group)

    def _notify(self, group: Group) -> None:
        for listener in self._listeners:
            listener(Key(group.key.namespace, group.key.name))

    def over_quota(self, namespace: str) -> list[ReservationInfo]:
        """Return the first waiting member of each incomplete group of a namespace that is over its quota.

        A member that waits beside a complete group is tried alone.
        """
        short = (group for group in self._groups.values() if group.over_quota and not group.complete)
        groups = (group for group in short if group.key.namespace == namespace)
        return [waiting[0] for group in groups if (waiting := group.waiting)]

    def take_unsettled(self) -> list[Group]:
        """Return the groups that were scheduled for settlement since the last call."""
        keys = self.unsettled.take()
        return [group for key in keys if (group := self._groups.get(key)) is not None]

    def open_to(self, pod: Pod, own: list[ReservationInfo]) -> list[ReservationInfo]:
        """Return the own reservations that a pod can take. Of a group it is one for each node.

        A pod that has taken a member takes no other one, even if only its binding names the first.
        """
        if not self._groups:
            return own
        among: defaultdict[GroupKey | None, list[ReservationInfo]] = defaultdict(list)
        for entry in own:
            among[GroupKey.of(entry)].append(entry)
        chosen = among.pop(None, [])
        for key, entries in among.items():
            assert key is not None  # noqa: S101
            chosen += _choices(self._groups[key], pod, entries)
        return sorted(chosen, key=lambda entry: entry.key)

    def taken(self, own: Iterable[ReservationInfo], node_name: str) -> list[ReservationInfo]:
        """Return the reservations that a pod takes on a node. Of a group it is one, there if possible."""
        chosen: dict[object, ReservationInfo] = {}
        for entry in own:
            key = GroupKey.of(entry) or entry.key
            if key not in chosen or _rank(chosen[key], node_name) > _rank(entry, node_name):
                chosen[key] = entry
        return list(chosen.values())


def _choices(group: Group, pod: Pod, entries: list[ReservationInfo]) -> list[ReservationInfo]:
    """Return the members of a group that a pod can take: one for each node, the best fit.

    Members that are large enough come first. Amounts are compared by their share of the largest member, since
    the members of several nodes are compared.
    """
    took = [each for each in group.members.values() if each.bound_pod and each.bound_pod.uid == pod.uid]
    if took:
        return [entry for entry in entries if entry in took]
    claimed = pod.claimed_reservations
    if claimed is not None and group.key.uid in claimed:
        return [entry for entry in entries if entry.uid in claimed]
    largest = reduce(at_least, (entry.reserved for entry in entries), NOTHING)
    fits: dict[tuple[tuple[str, int], ...], tuple[bool, float]] = {}  # members have few sizes

    def fit(entry: ReservationInfo) -> tuple[tuple[bool, float], Key]:
        reserved, size = entry.reserved, tuple(entry.reserved.items())
        if size not in fits:
            fits[size] = not covers(reserved, pod.requests), difference(pod.requests, reserved, largest)
        return fits[size], entry.key

    best: dict[str, ReservationInfo] = {}
    for entry in sorted(entries, key=fit):
        if entry.bound_pod is None:
            best.setdefault(entry.node, entry)
    return list(best.values())


def _rank(entry: ReservationInfo, node_name: str) -> tuple[bool, bool, Key]:
    """Return a sort key: members on the node come first, then those that still wait for capacity."""
    return entry.node != node_name, entry.phase is not Phase.PENDING, entry.key


def _stored(entry: ReservationInfo) -> bool:
    status = entry.reservation.status
    return status.get("nodeName") == entry.node or status.get("phase") == Phase.CONSUMED


_SERVED = frozenset({Phase.ACTIVE, Phase.BOUND, Phase.CONSUMED})
_FAILED = frozenset({Phase.EXPIRED, Phase.LOST, Phase.REJECTED})
