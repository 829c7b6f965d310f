"""The capacity that each reservation has on its node, and the part of it that it holds.

A reservation does not hold what its occupants use: owners of a reusable reservation, borrowers of a
borrowable one. That follows from the node's pods, and is computed whenever they change.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from tidelock.cluster.columns import Columns
from tidelock.cluster.index.reserved_devices import ReservedDevices
from tidelock.cluster.placed import Placed
from tidelock.cluster.reserve_pods import ReservePods
from tidelock.ledger.capacity.sharing import ByNode, Sharing, list_on_node
from tidelock.ledger.capacity.spans import Span
from tidelock.ledger.capacity.timeline import Timeline
from tidelock.ledger.capacity.trials import Trials, count_reserve_pod
from tidelock.ledger.capacity.usage import Occupant
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.meta import Key
from tidelock.model.quantities import NOTHING, Resources, beyond, covers
from tidelock.model.reserve_pod import ReservePod
from tidelock.model.work_queue import WorkQueue


@dataclass(frozen=True, slots=True)
class HoldingChange:
    """The amounts that a reservation held on a node before a change and holds after it.

    Attributes:
        devices_freed: whether it has fewer devices.
        left: the reserve pod in its former version, if an edit of the template has ended that.

    """

    entry: ReservationInfo
    node: str
    before: Resources
    after: Resources
    devices_freed: bool = False
    left: ReservePod | None = None

    def undoes(self, earlier: "HoldingChange") -> bool:
        """Return whether this change is the reverse of an earlier one of the same reservation."""
        if any(each.devices_freed or each.left is not None for each in (self, earlier)):
            return False
        return self.node == earlier.node and (self.before, self.after) == (earlier.after, earlier.before)


class Holdings:
    """The capacity of reservations on nodes, which the columns' `reserved` amounts follow.

    Args:
        columns: where held amounts are counted.
        reserve_pods: where the reserve pods of reservations are counted while their owners are awaited.
        reserved_devices: where the devices of reservations are counted.
        pods_on: returns the pods of a node. `count_pod` notes a change of them.
        claimed: returns the amounts of a pod that come from reservations whose claim may still fail, by UID.
        in_change: reservations with a change that has begun and is not complete. `hold` adds one. Without
            capacity it stays there until the commit, as a change of the phase must follow.
        renew: called with each reservation that holds other amounts because pods have come or gone.

    Attributes:
        changes: changes of held amounts that the pod queue does not know yet.
        visited: names of reservations with occupants that have come or gone.
        former_owners: reservations that may have devices of claims of former owners.
        kept: reservations with devices that the claims of waiting owners may have.
        sharing: the reservations that pods use.
        timeline: the capacity that is in use for a limited time.
        trials: contexts in which capacity is counted in another way.
        reserve_pods: the reserve pods that other pods may notice.
        reserved_devices: the held devices.
        rests: capacity beside owners that are being bound, which their reservations get back on a failure.

    """

    def __init__(
        self,
        columns: Columns,
        reserve_pods: ReservePods,
        reserved_devices: ReservedDevices,
        pods_on: Callable[[str], Collection[Placed]],
        claimed: Callable[[str], Resources],
        in_change: dict[Key, ReservationInfo],
        renew: Callable[[ReservationInfo], None],
    ) -> None:
        self.changes = WorkQueue[HoldingChange](id)
        self.visited = WorkQueue[Key]()
        self.former_owners = WorkQueue[ReservationInfo](id)
        self.kept = WorkQueue[ReservationInfo](id)
        self.rests: dict[Key, HoldingChange] = {}
        self.timeline = Timeline(columns)
        self.trials = Trials(columns, reserve_pods, reserved_devices)
        self.sharing = Sharing(pods_on, self.held_on, claimed)
        self._columns = columns
        self.reserve_pods = reserve_pods
        self.reserved_devices = reserved_devices
        self._in_change = in_change
        self._renew = renew
        self._on_node: ByNode = defaultdict(dict)
        self._lowest: float | None = None
        self._listeners: list[Callable[[ReservationInfo], None]] = []

    def on_hold(self, listener: Callable[[ReservationInfo], None]) -> None:
        """Call a function with each reservation that has capacity, and with each that holds other amounts."""
        self._listeners.append(listener)
        for entries in self._on_node.values():
            for entry in entries.values():
                listener(entry)

    # Changes.

    def hold(
        self,
        entry: ReservationInfo,
        amounts: Resources,
        devices: tuple[ReservedDevice, ...] | None = None,
        *,
        rest: Resources = NOTHING,
    ) -> None:
        """Set the capacity of a reservation on its node.

        Args:
            entry: the reservation.
            amounts: its amounts.
            devices: its devices. By default they are as before, and with no amounts there are none.
            rest: is not announced as freed.

        """
        self._lowest = None
        complete = bool(amounts) and entry.key not in self._in_change
        self._in_change[entry.key] = entry
        self._end_rest(entry)
        came = bool(amounts) and not entry.reserved
        entry.reserved = amounts
        list_on_node(self._on_node, entry, there=bool(amounts))
        shares = self.sharing.update(entry)
        if not (amounts and entry.shared):
            self._occupy(entry, {})
            self._set_held(entry, amounts, rest)
        if shares:
            self._divide(entry.node, changed=entry)
        if came and not entry.held:
            self.announce(entry)
        devices = devices if devices is not None else entry.devices if amounts else ()
        if devices or entry.devices:
            if any(each not in devices for each in self.reserved_devices.of(entry.uid)):
                self.changes.add(HoldingChange(entry, entry.node, NOTHING, NOTHING, devices_freed=True))
                self._columns.freed += 1
            entry.devices = devices
            self.reserved_devices.put(entry.uid, devices)
        if complete:
            self._in_change.pop(entry.key, None)

    def pass_on(self, entry: ReservationInfo, used: Resources) -> None:
        """Transfer the part of a reservation that an owner uses to the owner, which is being bound.

        The devices count for both until then.
        Nothing can use the rest until `hold` is called, as the reservation gets it back if the binding fails.
        """
        name, rest = entry.node, beyond(entry.held, used)
        if name not in self._columns.row_of:  # nothing is kept on a node that is gone
            rest = {}
        self.hold(entry, NOTHING, entry.devices, rest=rest)
        if rest:
            self.rests[entry.key] = HoldingChange(entry, name, rest, NOTHING)
            self._columns.reservation(name, rest, 1)

    def drop_rests(self, node_name: str) -> None:
        """Free the rests of reservations on a node."""
        for rest in [rest for rest in self.rests.values() if rest.node == node_name]:
            self._end_rest(rest.entry)

    def recount(self, node_name: str) -> None:
        """Count the reservations of a node that has just become known."""
        for entry in self._on_node.get(node_name, {}).values():
            self._columns.reservation(node_name, entry.held, 1)
        self.timeline.recount(node_name)

    def count_pod(self, placed: Placed, *, there: bool) -> None:
        """Count a pod that is new on a node or has changed, or that is gone."""
        leaves = placed.pod.gone_by(placed.since) if there else inf
        if leaves < inf:
            self.timeline.put(placed.pod.uid, placed.node_name, Span(-inf, leaves, placed.pod.requests))
        else:
            self.timeline.drop(placed.pod.uid)
        self.count_occupants(placed.node_name)

    def count_occupants(self, node_name: str) -> None:
        """Compute again which pods use the shared reservations of a node."""
        if self.sharing:
            self._divide(node_name)

    def announce(self, entry: ReservationInfo) -> None:
        """Announce capacity as new, including the amounts of borrowers: owners have a right to it."""
        self.changes.add(HoldingChange(entry, entry.node, NOTHING, entry.reserved))

    def offer(self, entry: ReservationInfo) -> None:
        """Announce held amounts as freed: after an edit of the priority, others may preempt it."""
        self.changes.add(HoldingChange(entry, entry.node, entry.held, NOTHING))
        self._columns.freed += 1

    def reprioritise(self) -> None:
        """Note that priorities may have changed."""
        self._lowest = None

    # The index of amounts that are held for a limited time.

    def update(self, entry: ReservationInfo) -> None:
        """Count held amounts for as long as they are needed."""
        span = lifetime.span(entry)
        if span is not None:
            self.timeline.put(entry.key, entry.node, span)
        else:
            self.timeline.drop(entry.key)

    def remove(self, entry: ReservationInfo) -> None:
        """Hold nothing for a reservation that is gone."""
        self.hold(entry, NOTHING)
        self.visited.discard(entry.key)

    def contents(self) -> Mapping[Any, object]:
        """Return the spans of reservations that hold capacity for a limited time."""
        return {key: (node, span) for key, node, span in self.timeline.spans() if isinstance(key, Key)}

    # Queries.

    def any_on(self, node_name: str) -> bool:
        """Return whether a reservation has capacity on a node."""
        return node_name in self._on_node

    def held_on(self, node_name: str) -> Iterator[ReservationInfo]:
        """Yield the reservations that have capacity on a node, by name."""
        yield from sorted(self._on_node.get(node_name, {}).values(), key=lambda entry: entry.key)

    def nodes_with_reservations(self) -> list[str]:
        """Return the names of nodes with capacity of reservations, or with rests, sorted."""
        return sorted(self._on_node.keys() | {rest.node for rest in self.rests.values()})

    @property
    def holds_any(self) -> bool:
        """Whether any capacity is held, be it in a trial or as a rest."""
        return bool(self._on_node or self.trials or self.rests)

    def ends(self) -> Iterator[tuple[str, Span]]:
        """Yield the node and span of everything with a known end: held amounts, and pods with a deadline."""
        for node_name, entries in self._on_node.items():
            for entry in entries.values():
                if entry.held and (ends_at := lifetime.ends_at(entry)) is not None:
                    yield node_name, Span(-inf, ends_at, entry.held)
        for key, node_name, span in self.timeline.spans():
            if not isinstance(key, Key):
                yield node_name, span

    def lowest(self) -> float:
        """Return the lowest priority of a reservation with capacity, or infinity."""
        if self._lowest is None:
            held = (entry.priority for entries in self._on_node.values() for entry in entries.values())
            self._lowest = min(held, default=inf)
        return self._lowest

    def _end_rest(self, entry: ReservationInfo) -> None:
        """Free the amounts that were kept while an owner was being bound."""
        if entry.key in self.rests:
            rest = self.rests.pop(entry.key)
            self._columns.reservation(rest.node, rest.before, -1)
            self.changes.add(rest)

    def _set_held(self, entry: ReservationInfo, amounts: Resources, rest: Resources = NOTHING) -> None:
        """Set the amounts that nothing else may use, beside a `rest` that is counted apart."""
        if amounts != entry.held:
            self.changes.add(HoldingChange(entry, entry.node, entry.held, amounts or rest))
            self._columns.reservation(entry.node, amounts, 1)
            self._columns.reservation(entry.node, entry.held, -1)
            entry.held = amounts
            self.update(entry)
        counted = self.reserve_pods.get(entry.uid)
        count_reserve_pod(self.reserve_pods, entry)
        edited = entry.awaits_owner and self.reserve_pods.get(entry.uid) is not counted
        if edited and counted is not None:
            self.changes.add(HoldingChange(entry, entry.node, NOTHING, NOTHING, left=counted.pod))
            self._columns.touch(entry.node)
        for listener in self._listeners:
            listener(entry)

    def _divide(self, node_name: str, changed: ReservationInfo | None = None) -> None:
        """Set the held amounts of a node's shared reservations to the amounts that no pod uses.

        The reservation that has `changed` is announced in any case.
        """
        entries = self.sharing.on(node_name)
        if not entries:
            return
        occupants, held = self.sharing.divide(entries, [entry.reserved for entry in entries], node_name)
        for entry, inside, left in zip(entries, occupants, held, strict=True):
            if inside == entry.occupants and left == entry.held and entry is not changed:
                continue
            self._occupy(entry, inside)
            self.visited.add(entry.key)
            self._set_held(entry, left)
            if entry is not changed:
                self._renew(entry)

    def _occupy(self, entry: ReservationInfo, occupants: dict[str, Occupant]) -> None:
        """Set the occupants. What one of them has stopped to use need not be free for another reservation."""
        uses = {uid: occupant.uses for uid, occupant in occupants.items()}
        before = entry.occupants.items()
        if any(not covers(uses.get(uid, NOTHING), occupant.uses) for uid, occupant in before):
            self._columns.freed += 1
        entry.occupants = occupants
