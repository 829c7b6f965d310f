"""Who has which room: what each lock holds on its node, and what of that its owners use.

A lock for reuse does not hold what its owners there use of it, nor a borrowable one what borrowers there use.
That follows from the node's pods, each time that they change, and is told to whoever keeps the locks' state.

Borrowers count as in the locks as far as these go, whatever is free beside them: so what is free stays so for
pods that can't borrow, and for locks; and nothing but the node's pods and locks says what is lent.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from typing import Any

from tidelock.cluster.cache import Placed
from tidelock.cluster.columns import Columns
from tidelock.cluster.reserve_pods import ReservePods
from tidelock.ledger.capacity.timeline import Span, Timeline
from tidelock.ledger.capacity.usage import Claimant, Occupant, left_of, shared_out
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.owners.matching import is_owner
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import NOTHING, Resources, beyond, covers, minus, plus


@dataclass(frozen=True, slots=True)
class HoldingChange:
    """A lock now holds another amount on a node than before; NOTHING where it is not there."""

    entry: ReservationInfo
    node: str
    before: Resources
    after: Resources


class Holdings:
    """The room that locks have on nodes; the columns' `reserved` amounts follow from it.

    Args:
        columns: where held amounts are counted.
        reserve_pods: where the reserve pods of locks are counted for as long as their owners are awaited.
        pods_on: gives the pods of a node, who may be in its locks; `count_pod` tells that they changed.
        in_change: reservations of which a change has begun and is not complete; `hold` adds and removes one.
        renew: called with each reservation that holds another amount because pods have come or gone.

    Attributes:
        shifts: what locks hold otherwise than before, for others to take.
        visited: locks whose owners or borrowers have come or gone, for others to take.
        lenders: borrowable locks that have room.
        timeline: which room is taken for a time alone.
        rests: what is kept beside owners that are being bound, by their lock, as it will be given back.

    """

    def __init__(
        self,
        columns: Columns,
        reserve_pods: ReservePods,
        pods_on: Callable[[str], Collection[Placed]],
        in_change: dict[Key, ReservationInfo],
        renew: Callable[[ReservationInfo], None],
    ) -> None:
        self.shifts: list[HoldingChange] = []
        self.visited: dict[Key, None] = {}
        self.lenders: dict[Key, ReservationInfo] = {}
        self.rests: dict[Key, HoldingChange] = {}
        self._columns = columns
        self._reserve_pods = reserve_pods
        self._pods_on = pods_on
        self._in_change = in_change
        self._renew = renew
        self._on_node: defaultdict[str, dict[Key, ReservationInfo]] = defaultdict(dict)
        self._shared_on: defaultdict[str, dict[Key, ReservationInfo]] = defaultdict(dict)
        self._tried: list[tuple[ReservationInfo, Node]] = []
        self._lowest: float | None = None
        self.timeline = Timeline(columns)
        self._listeners: list[Callable[[ReservationInfo], None]] = []

    def on_hold(self, listener: Callable[[ReservationInfo], None]) -> None:
        """Have a function called with each lock that holds room, and with each that holds another amount."""
        self._listeners.append(listener)
        for entries in self._on_node.values():
            for entry in entries.values():
                listener(entry)

    @contextmanager
    def trial(self) -> Iterator[Callable[[ReservationInfo, Node], None]]:
        """Give what counts the room of waiting locks on nodes for as long as the context lasts."""
        freed = self._columns.freed

        def count(entry: ReservationInfo, node: Node) -> None:
            self._tried.append((entry, node))
            self._columns.reservation(node.name, entry.reservation.requests, 1)
            pod = entry.reservation.pod
            if pod is not None and pod.neighbourly and not entry.ahead:
                self._reserve_pods.put(pod, node.name)

        try:
            yield count
        finally:
            for entry, node in self._tried:
                self._columns.reservation(node.name, entry.reservation.requests, -1)
                self._stand(entry)
            self._tried.clear()
            self._columns.freed = freed  # nobody has more room than before

    @contextmanager
    def apart(self, entries: Iterable[ReservationInfo]) -> Iterator[None]:
        """Count the reserve pods of some locks as gone for as long as the context lasts."""
        aside = [entry for entry in entries if entry.reserve_pod is not None]
        for entry in aside:
            self._reserve_pods.discard(entry.uid)
        try:
            yield
        finally:
            for entry in aside:
                self._stand(entry)

    def recount(self, node_name: str) -> None:
        """Count the locks of a node that has just come to be known."""
        for entry in self._on_node.get(node_name, {}).values():
            self._columns.reservation(node_name, entry.held, 1)
        self.timeline.recount(node_name)

    def hold(self, entry: ReservationInfo, room: Resources) -> None:
        """Make the room that an entry has on its node exactly this much, and keep no rest for it."""
        self._lowest = None
        self._in_change[entry.key] = entry
        self._end_rest(entry)
        came = bool(room) and not entry.reserved
        entry.reserved = room
        _list(self._on_node, entry, there=bool(room))
        was_shared = entry.node in self._shared_on and entry.key in self._shared_on[entry.node]
        _list(self._shared_on, entry, there=bool(room) and entry.shared)
        if room and entry.reservation.borrowable and entry.shared:
            self.lenders[entry.key] = entry
        else:
            self.lenders.pop(entry.key, None)
        if not (room and entry.shared):
            self._occupy(entry, {})
            self._keep_free(entry, room)
        if was_shared or entry.shared:
            self._share_out(entry.node, moved=entry)
        if came and not entry.held:
            self.retell(entry)
        self._in_change.pop(entry.key, None)

    def pass_on(self, entry: ReservationInfo, used: Resources) -> None:
        """Give an owner that is being bound what it uses of a lock's room.

        The rest is nobody's until `hold` is called again: the lock is to have it back if the binding fails.
        """
        name, rest, known = entry.node, beyond(entry.held, used), len(self.shifts)
        self.hold(entry, NOTHING)
        if not rest or name not in self._columns.row_of:  # on a node that is gone nothing is kept
            return
        self.rests[entry.key] = HoldingChange(entry, name, rest, NOTHING)
        self._columns.reservation(name, rest, 1)
        self.shifts[known:] = [
            replace(shift, after=rest) if shift.entry is entry else shift for shift in self.shifts[known:]
        ]

    def drop_rests(self, node_name: str) -> None:
        """Keep nothing on a node for locks whose owners are being bound."""
        for shift in [shift for shift in self.rests.values() if shift.node == node_name]:
            self._end_rest(shift.entry)

    def update(self, entry: ReservationInfo) -> None:
        """Count what a reservation holds for as long as it is needed, and no longer."""
        span = lifetime.span(entry)
        if span is not None:
            self.timeline.put(entry.key, entry.node, span)
        else:
            self.timeline.drop(entry.key)

    def remove(self, entry: ReservationInfo) -> None:
        """Hold nothing for a reservation that is gone."""
        self.hold(entry, NOTHING)
        self.visited.pop(entry.key, None)

    def contents(self) -> Mapping[Any, object]:
        """Return the spans of reservations that hold capacity for a time only."""
        return {key: (node, span) for key, node, span in self.timeline.spans() if isinstance(key, Key)}

    def count_pod(self, placed: Placed, *, there: bool) -> None:
        """Count a pod on a node, or no longer, for as long as it is there at most."""
        leaves = placed.pod.gone_by(placed.since) if there else inf
        if leaves < inf:
            self.timeline.put(placed.pod.uid, placed.node_name, Span(-inf, leaves, placed.pod.requests))
        else:
            self.timeline.drop(placed.pod.uid)
        self.count_occupants(placed.node_name)

    def retell(self, entry: ReservationInfo) -> None:
        """Announce the room of a lock as new, also what borrowers use of it: its owners take that back."""
        self.shifts.append(HoldingChange(entry, entry.node, NOTHING, entry.reserved))

    def offer(self, entry: ReservationInfo) -> None:
        """Announce a holding as if it came free: its priority fell, so pods and locks may preempt it now."""
        self.shifts.append(HoldingChange(entry, entry.node, entry.held, NOTHING))
        self._columns.freed += 1

    def count_occupants(self, node_name: str) -> None:
        """Have the locks of a node that are shared hold what pods there do not use of them."""
        if node_name in self._shared_on:
            self._share_out(node_name)

    def credit(self, entry: ReservationInfo, node_name: str, room: Resources) -> Resources:
        """Tell what of this room a lock need not find free on a node, as owners or borrowers use that there.

        What is left of it, the lock's own `held` included, has to be free for it.
        """
        others = [each for each in self._shared_of(node_name) if each is not entry]
        _, left = self._shares([*others, entry], [*(each.reserved for each in others), room], node_name)
        use = {
            name: units
            + sum(each.held.get(name, 0) for each in others)
            - sum(amounts.get(name, 0) for amounts in left)
            for name, units in room.items()
        }
        return {name: units for name, units in use.items() if units}

    def would_hold(
        self, node_name: str, *, without: Collection[ReservationInfo] = (), gone: Collection[str] = ()
    ) -> dict[str, int]:
        """Sum what the locks of a node would hold without some of them, and without pods with these uids."""
        held = (entry.held for entry in self.held_on(node_name) if not entry.shared and entry not in without)
        entries = [entry for entry in self._shared_of(node_name) if entry not in without]
        _, left = self._shares(entries, [entry.reserved for entry in entries], node_name, gone)
        return reduce(plus, (*held, *left), {})

    def released(self, entries: Collection[ReservationInfo], node_name: str) -> Resources:
        """Tell what the locks of a node would hold less without some, as what these lend moves to others."""
        if not any(entry.reservation.borrowable for entry in entries):
            return reduce(plus, (entry.held for entry in entries), NOTHING)
        now = reduce(plus, (entry.held for entry in self.held_on(node_name)), NOTHING)
        return minus(now, self.would_hold(node_name, without=entries))

    def borrowers_on(self, node_name: str) -> list[Placed]:
        """Pods of a node that use, or could use, room of borrowable locks there."""
        lenders = [entry for entry in self._shared_of(node_name) if entry.reservation.borrowable]
        if not lenders:
            return []
        pods = self._pods_on(node_name)
        return [placed for placed in pods if any(entry.lends_to(placed.pod) for entry in lenders)]

    def evictable(self, node_name: str) -> Resources:
        """Sum what borrowers on a node use beyond what locks there have for them; they go as a whole."""
        borrowers = {placed.pod.uid: placed.pod.requests for placed in self.borrowers_on(node_name)}
        occupants = (each for entry in self._shared_of(node_name) for each in entry.occupants.values())
        uses = (each.uses for each in occupants if each.uid in borrowers)
        return minus(reduce(plus, borrowers.values(), NOTHING), reduce(plus, uses, NOTHING))

    def any_on(self, node_name: str) -> bool:
        """Whether any lock holds room on a node."""
        return node_name in self._on_node

    def occupied_on(self, node_name: str) -> list[ReservationInfo]:
        """Locks of a node that pods are in, by name: when such a pod goes, what it used is theirs again."""
        return [entry for entry in self._shared_of(node_name) if entry.occupants]

    @property
    def reused(self) -> bool:
        """Whether any lock has room that is shared."""
        return bool(self._shared_on)

    @property
    def holds_room(self) -> bool:
        """Whether any lock holds room, be it in a trial or beside its owner."""
        return bool(self._on_node or self._tried or self.rests)

    @property
    def neighbourly(self) -> bool:
        """Whether pods may notice any lock by its reserve pod."""
        return bool(self._reserve_pods)

    def ends(self) -> Iterator[tuple[str, Span]]:
        """Give by node what is there until a known instant: what locks hold, and pods with a deadline."""
        for node_name, entries in self._on_node.items():
            for entry in entries.values():
                if entry.held and (ends_at := lifetime.ends_at(entry)) is not None:
                    yield node_name, Span(-inf, ends_at, entry.held)
        for key, node_name, span in self.timeline.spans():
            if not isinstance(key, Key):
                yield node_name, span

    def nodes_with_reservations(self) -> list[str]:
        """Names of the nodes on which locks hold room, or some is kept beside their owners, sorted."""
        return sorted(self._on_node.keys() | {shift.node for shift in self.rests.values()})

    def held_on(self, node_name: str) -> Iterator[ReservationInfo]:
        """Locks that hold room on a node, by name."""
        yield from sorted(self._on_node.get(node_name, {}).values(), key=lambda entry: entry.key)

    def reprioritise(self) -> None:
        """Learn that locks may have other priorities than before."""
        self._lowest = None

    def lowest(self) -> float:
        """Give the lowest priority of a lock that holds room; infinite if none does."""
        if self._lowest is None:
            held = (entry.priority for entries in self._on_node.values() for entry in entries.values())
            self._lowest = min(held, default=inf)
        return self._lowest

    def _end_rest(self, entry: ReservationInfo) -> None:
        """Let anybody have what was kept while an owner of a lock was being bound."""
        if entry.key in self.rests:
            shift = self.rests.pop(entry.key)
            self._columns.reservation(shift.node, shift.before, -1)
            self.shifts.append(shift)

    def _keep_free(self, entry: ReservationInfo, resources: Resources) -> None:
        """Make what an entry holds of its node, and nobody else may use, exactly this much."""
        if resources != entry.held:
            self.shifts.append(HoldingChange(entry, entry.node, entry.held, resources))
            self._columns.reservation(entry.node, entry.held, -1)
            self._columns.reservation(entry.node, resources, 1)
            entry.held = resources
            self.update(entry)
        self._stand(entry)
        for listener in self._listeners:
            listener(entry)

    def _stand(self, entry: ReservationInfo) -> None:
        """Count the reserve pod of a lock on its node for as long as its owner is awaited there."""
        pod = entry.reserve_pod
        if pod is not None:
            self._reserve_pods.put(pod, entry.node)
        else:
            self._reserve_pods.discard(entry.uid)

    def _share_out(self, node_name: str, moved: ReservationInfo | None = None) -> None:
        """Have the shared locks of a node hold what is left of them; one that moved is told of anyway."""
        entries = self._shared_of(node_name)
        if not entries:
            return
        occupants, held = self._shares(entries, [entry.reserved for entry in entries], node_name)
        for entry, inside, left in zip(entries, occupants, held, strict=True):
            if inside == entry.occupants and left == entry.held and entry is not moved:
                continue
            self._occupy(entry, inside)
            self.visited[entry.key] = None
            self._keep_free(entry, left)
            if entry is not moved:
                self._renew(entry)

    def _occupy(self, entry: ReservationInfo, occupants: dict[str, Occupant]) -> None:
        """Note who is in a lock; what one of them uses of it no more, another lock need not find free."""
        uses = {uid: occupant.uses for uid, occupant in occupants.items()}
        before = entry.occupants.items()
        if any(not covers(uses.get(uid, NOTHING), occupant.uses) for uid, occupant in before):
            self._columns.freed += 1
        entry.occupants = occupants

    def _shared_of(self, node_name: str) -> list[ReservationInfo]:
        there = self._shared_on[node_name].values() if node_name in self._shared_on else ()
        return sorted(there, key=lambda entry: entry.key)

    def _shares(
        self,
        entries: Sequence[ReservationInfo],
        holdings: Sequence[Resources],
        node_name: str,
        gone: Collection[str] = (),
    ) -> tuple[list[dict[str, Occupant]], list[Resources]]:
        """Tell for locks with these rooms on a node who would be in them, and what would be left of each.

        Pods with the uids in `gone` are left out.
        """
        claimants, inside = [], []
        for placed in sorted(self._pods_on(node_name), key=lambda each: (each.pod.key, each.pod.uid)):
            # One that is on its way out uses the room until it is gone.
            own = [index for index, entry in enumerate(entries) if _shares_in(placed.pod, entry)]
            if own and placed.pod.uid not in gone:
                claimants.append(Claimant(placed.pod.requests, own))
                inside.append(placed)
        uses = shared_out(holdings, claimants)
        occupants = [
            {inside[index].pod.uid: _occupant(inside[index], use[index]) for index in use} for use in uses
        ]
        return occupants, [left_of(room, use) for room, use in zip(holdings, uses, strict=True)]


def _list(
    entries: defaultdict[str, dict[Key, ReservationInfo]], entry: ReservationInfo, *, there: bool
) -> None:
    """List an entry under its node, or no more."""
    if there:
        entries[entry.node][entry.key] = entry
    elif entry.node in entries:
        entries[entry.node].pop(entry.key, None)
        if not entries[entry.node]:
            del entries[entry.node]


def _shares_in(pod: Pod, entry: ReservationInfo) -> bool:
    """Whether a pod on the node of a shared lock uses its room."""
    return entry.lends_to(pod) or (
        entry.reservation.reusable and is_owner(pod, entry.key, entry.reservation.spec)
    )


def _occupant(placed: Placed, uses: Resources) -> Occupant:
    return Occupant(placed.pod.key, placed.pod.uid, placed.assumed, uses, placed.pod.ends_at)
