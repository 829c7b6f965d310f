"""Event handlers: the effect of each watch event on the cache, the ledger and the queue.

There is a handler for each resource. All of them set the current state, so repeated, late and reordered
events do no harm. Nothing is decided until all resources have been listed, because the ledger would be judged
by half a cluster.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from tidelock.clock import Clock
from tidelock.cluster.cache import Cache
from tidelock.cluster.index.devices import DeviceClasses
from tidelock.cluster.lister import Lister, Named
from tidelock.cluster.placed import Placed
from tidelock.cluster.pod_groups import PodGroups
from tidelock.cluster.rollback import undone_on_failure
from tidelock.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    Action,
    ClusterEvent,
    Resource,
    node_changes,
    pod_changes,
)
from tidelock.framework.waiting_pods import WaitingPods
from tidelock.ledger.atomic import atomic
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.owners.claim import Claim
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.instants import earliest
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod, assigned_to
from tidelock.model.reservation import Reservation
from tidelock.scheduler.core.bound_owners import look_for_owner
from tidelock.scheduler.core.pod_queue import SchedulingQueue
from tidelock.scheduler.informers.backlog import Backlog
from tidelock.scheduler.informers.unsettled_nodes import UnsettledNodes

# Seconds for which the pods that were bound before a start are processed before the first decision. One
# tenant's reservations and pods beyond that delay no other tenant.
_AT_ONCE = 1.0
# Seconds for such pods in a turn of the event loop. All other work gets as much time afterwards.
_SLICE = 0.005

# Resources that plugins can register for, by their field of Objects.
_RESOURCES = {
    "namespaces": Resource.NAMESPACE,
    "persistent_volumes": Resource.PERSISTENT_VOLUME,
    "persistent_volume_claims": Resource.PERSISTENT_VOLUME_CLAIM,
    "storage_classes": Resource.STORAGE_CLASS,
    "csi_nodes": Resource.CSI_NODE,
    "csi_drivers": Resource.CSI_DRIVER,
    "csi_storage_capacities": Resource.CSI_STORAGE_CAPACITY,
    "volume_attachments": Resource.VOLUME_ATTACHMENT,
    "pod_groups": Resource.POD_GROUP,
    "resource_claims": Resource.RESOURCE_CLAIM,
    "resource_claim_templates": Resource.RESOURCE_CLAIM_TEMPLATE,
    "resource_slices": Resource.RESOURCE_SLICE,
    "device_classes": Resource.DEVICE_CLASS,
    "device_taint_rules": Resource.DEVICE_TAINT_RULE,
    "water_levels": Resource.WATER_LEVEL,
}


class EventHandlers:
    """Processes events. `wake` is called after each one, `ready` turns true when all resources are known."""

    def __init__(
        self,
        cache: Cache,
        ledger: Ledger,
        queue: SchedulingQueue,
        waiting_pods: WaitingPods,
        clock: Clock,
        wake: Callable[[], None],
        others: Mapping[str, Lister[Any]] = MappingProxyType({}),
    ) -> None:
        """Create the handlers; `others` are the listers of objects for plugins, by the resource's name."""
        self.cache = cache
        self.ledger = ledger
        self.queue = queue
        self.waiting_pods = waiting_pods
        self.clock = clock
        self.wake = wake
        self.ready = False
        self.pods = PodEventHandler(self)
        self.nodes = NodeEventHandler(self)
        self.reservations = ReservationEventHandler(self)
        self.others = {name: ObjectEventHandler(self, name, lister) for name, lister in others.items()}
        groups = others.get("pod_groups")
        self.pod_groups = groups if isinstance(groups, PodGroups) else None  # as no profile schedules groups
        self._backed: dict[str, str] = {}
        if isinstance(classes := others.get("device_classes"), DeviceClasses):
            classes.on_backing(self._settle_backed)
        self.gone: set[str] = set()  # uids of pods that are gone by the API server, and not yet by a watch
        self._missing = {"pods", "nodes", "reservations", *others}
        self._backlog = Backlog(ledger, cache)
        self._unsettled = UnsettledNodes(ledger, clock)
        self._rests_until = 0.0  # by the monotonic clock

    def await_resource(self, name: str) -> Callable[[], None]:
        """Decide nothing until the returned function has been called."""
        self._missing.add(name)
        return lambda: self.listed(name)

    def listed(self, resource: str) -> None:
        """Note that a resource has been listed. After the last one the ledger is brought in line.

        If that fails as a whole, it can be called again.
        """
        self._missing.discard(resource)
        if self._missing or self.ready:
            return
        self.ledger.resume(self.clock.now())
        self._backlog.gather(self.clock.now())
        self.ready = True
        names = self.ledger.holdings.nodes_with_reservations()
        self._unsettled.settle(name for name in names if not self._backlog.awaits(name))
        self._process_backlog(_AT_ONCE)
        self.wake()

    @property
    def next_due(self) -> float | None:
        """Instant to process more pods that were bound before the start, or to settle a node again."""
        backlog_due = None
        if self._backlog:
            backlog_due = self.clock.now() + max(self._rests_until - self.clock.monotonic(), 0.0)
        return earliest(backlog_due, self._unsettled.next_due())

    def catch_up(self) -> None:
        """Process some of the pods that were bound before the start, and settle nodes, if it is time."""
        self._unsettled.settle_due()
        if self._backlog and self.clock.monotonic() >= self._rests_until:
            self._process_backlog(_SLICE)

    def _process_backlog(self, seconds: float) -> None:
        """Process pods for some seconds, but at least one, and judge the nodes with no pods left."""
        end = start = self.clock.monotonic()
        while self._backlog and end <= start + seconds:
            self._unsettled.settle(self._backlog.process_one(self.clock.now()))
            end = self.clock.monotonic()
        self._rests_until = end + (end - start)

    def notify(self, event: ClusterEvent, old: object, new: object) -> None:
        """Report an event to the queue. Reservations are retried if it may help one that was refused."""
        self.queue.notify(event, old, new, self.clock.now())
        refused_by = self.ledger.waiting_reservations.refused_by
        if refused_by and self.queue.hints.help_reservations(refused_by, event, old, new):
            self.cache.columns.freed += 1

    def settle(
        self, node_name: str, newcomer: Pod | None = None, occupied: Collection[ReservationInfo] = ()
    ) -> None:
        """Bring the reservations of a node in line with it, and with a new pod there, once all is known.

        `occupied` are the reservations that the pod was in before.
        """
        if self.ready and node_name and not self._backlog.awaits(node_name):
            left = [entry for entry in occupied if newcomer and newcomer.uid not in entry.occupants]
            self.ledger.placement.settle_node(node_name, self.clock.now(), newcomer, left)

    def settle_unseen(self, node_name: str) -> None:
        """Bring a node's reservations in line with it if no event showed their owners, once all is known."""
        if self.ready and not self._backlog.awaits(node_name):
            self.ledger.placement.settle_unseen(node_name, self.clock.now())

    def _settle_backed(self, classes: Mapping[str, str]) -> None:
        """Settle the nodes with reservations of resources that other classes provide now, or none."""
        changed = {resource for resource, _ in self._backed.items() ^ classes.items()}
        self._backed = dict(classes)
        holdings = self.ledger.holdings
        for name in holdings.nodes_with_reservations() if changed else ():
            if not all(changed.isdisjoint(entry.reserved) for entry in holdings.held_on(name)):
                self.settle(name)

    def look_for_owner(self, entry: ReservationInfo, but: str = "") -> None:
        """Let the owner of a reservation claim it if that owner seems to be bound already."""
        look_for_owner(self.ledger, self.cache, entry, self.clock.now(), but)

    def time(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self.clock.now()

    @atomic
    def answered(self, claim: Claim, stored: Pod | None) -> None:
        """Process the API server's state of a pod that a watch shows as bound. None means that it is gone."""
        now = self.clock.now()
        known = self.cache.get(claim.pod.uid)
        if stored is None:
            self.pods.remove(claim.pod)
            if known is not None:
                self.gone.add(claim.pod.uid)
        else:
            if stored.leaving and known is not None and not known.pod.leaving:  # or a watch has shown it
                self.pods.upsert(claim.pod, stored)
            claim = replace(claim, pod=stored)
        self.ledger.claims.resolve_claim(claim, stored.node_name if stored is not None else "", now)
        heard = self.cache.get(claim.pod.uid)
        late = stored is not None and heard is not None and heard.pod.meta.version < stored.meta.version
        for entry in claim.entries:
            if self.ledger.entries.get(entry.key) is entry:
                # There may be another owner. This one, which the watch shows too late, would be read forever.
                self.look_for_owner(entry, but=claim.pod.uid if late else "")
        self.wake()


class _LedgerEventHandler:
    """Common part of the handlers that change the ledger."""

    def __init__(self, event_handlers: EventHandlers) -> None:
        self._event_handlers = event_handlers

    @property
    def ledger(self) -> Ledger:
        """The ledger."""
        return self._event_handlers.ledger

    def time(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self._event_handlers.clock.now()


class PodEventHandler(_LedgerEventHandler):
    """Handles pods: bound ones take capacity and end their reservations, unbound ones queue."""

    @atomic
    def upsert(self, old: Pod | None, new: Pod) -> None:
        """Process a pod's newest version. A watch that is behind may show a pod that is gone."""
        event_handlers, now = self._event_handlers, self._event_handlers.clock.now()
        if new.uid in event_handlers.gone:
            return
        before = event_handlers.cache.get(new.uid)
        there = (
            event_handlers.ledger.holdings.sharing.occupied_on(new.node_name) if before is not None else ()
        )
        occupied = [entry for entry in there if new.uid in entry.occupants]
        event_handlers.cache.upsert(new)
        joined = self._join_group(new) if event_handlers.pod_groups is not None else False
        if new.node_name or new.leaving:
            event_handlers.queue.remove(new.uid)
            event_handlers.waiting_pods.reject_removed(new.uid)
        elif event_handlers.queue.get(new.uid) is not None or event_handlers.cache.get(new.uid) is None:
            event_handlers.queue.upsert(new, now)  # otherwise it is bound already, and this version is older
            if event_handlers.queue.get(new.uid) is not None and event_handlers.cache.get(new.uid) is None:
                event_handlers.cache.nominator.upsert(new)
        self._confirm_claim(before, new, now)
        if new.node_name and event_handlers.ready:  # all reservations that it has taken are known
            event_handlers.ledger.claims.claim_tentatively(new, new.node_name, now)
        if not new.finished:
            event_handlers.settle(new.node_name, new, occupied)
        self._notify(before, event_handlers.cache.get(new.uid))
        if joined and not new.node_name:
            event_handlers.notify(UNSCHEDULED_POD_ADD, None, new)
        event_handlers.wake()

    @atomic
    def remove(self, last: Pod) -> None:
        """Forget a pod. If a step fails, the pod counts until its removal comes again."""
        event_handlers, cache = self._event_handlers, self._event_handlers.cache
        before = cache.get(last.uid)
        with undone_on_failure() as undo:
            cache.remove(last.uid)
            if before is not None:
                undo(partial(_count_again, cache, before))
            event_handlers.ledger.claims.lose_owner(last.uid, self.time())
            event_handlers.queue.remove(last.uid)
            event_handlers.waiting_pods.reject_removed(last.uid)
            self._leave_group(last)
            self._notify(before, None)
        event_handlers.gone.discard(last.uid)
        event_handlers.wake()

    def _join_group(self, new: Pod) -> bool:
        """Count a pod in its group, unless it is going or gone. Return whether it is new there."""
        if new.finished or (new.leaving and not new.node_name):
            self._leave_group(new)
            return False
        groups = self._event_handlers.pod_groups
        return groups is not None and groups.join(new)

    def _leave_group(self, last: Pod) -> None:
        """Count a pod in its group no more. It may have been the one that kept the others back."""
        groups = self._event_handlers.pod_groups
        if groups is not None and groups.leave(last):
            self._event_handlers.notify(UNSCHEDULED_POD_DELETE, last, None)

    def _notify(self, before: Placed | None, after: Placed | None) -> None:
        """Report a change of a pod's place on a node to the queue."""
        left = before is not None and (after is None or after.node_name != before.node_name)
        came = after is not None and not after.assumed and (before is None or before.assumed or left)
        if before is not None and left:
            self._event_handlers.settle_unseen(
                before.node_name
            )  # its part of a reservation for reuse is free again
            self._event_handlers.notify(ASSIGNED_POD_DELETE, assigned_to(before.pod, before.node_name), None)
        if after is not None and came:
            if self._event_handlers.ready:  # before that, none has been tried
                self._event_handlers.ledger.claims.retry_reused_by(after.pod)
            self._event_handlers.notify(ASSIGNED_POD_ADD, None, after.pod)
        elif before is not None and after is not None and not after.assumed:
            for event in pod_changes(before.pod, after.pod):
                self._event_handlers.notify(event, before.pod, after.pod)

    def _confirm_claim(self, before: Placed | None, new: Pod, now: float) -> None:
        """End or restore the reservations of a pod in binding, if the watch knows before the answer does.

        Until the answer, others could take capacity that its reservations get back if the binding fails.
        """
        if before is None or not before.assumed:
            return
        claims = self._event_handlers.ledger.claims
        if new.node_name == before.node_name and (new.finished or not new.leaving):
            claims.owner_bound(new, new.node_name, now)
        elif new.node_name not in ("", before.node_name) or self._event_handlers.cache.get(new.uid) is None:
            claims.unclaim(new.uid, now)

    def synced(self) -> None:
        """Note that all pods are known."""
        self._event_handlers.listed("pods")


def _count_again(cache: Cache, placed: Placed) -> None:
    """Count a pod as before its removal, which has failed."""
    if placed.assumed:
        cache.assume(placed.pod, placed.node_name, placed.since)
    else:
        cache.upsert(placed.pod)


class NodeEventHandler(_LedgerEventHandler):
    """Handles nodes: their capacity, and the reservations on them."""

    @atomic
    def upsert(self, old: Node | None, new: Node) -> None:
        """Process a node's newest version."""
        event_handlers = self._event_handlers
        columns = event_handlers.cache.columns
        row = columns.row_of.get(new.name)
        known = columns.nodes[row] if row is not None else None
        with undone_on_failure() as undo:
            event_handlers.cache.put_node(new)
            if known is None:
                undo(partial(event_handlers.cache.drop_node, new.name))
                event_handlers.ledger.holdings.recount(new.name)
        event_handlers.settle(new.name)
        if known is None:
            event_handlers.notify(NODE_ADD, None, new)
        elif known.meta.uid != new.meta.uid:
            event_handlers.notify(NODE_DELETE, known, None)
            event_handlers.notify(NODE_ADD, None, new)
        else:
            for event in node_changes(known, new):
                event_handlers.notify(event, known, new)
        event_handlers.wake()

    @atomic
    def remove(self, last: Node) -> None:
        """Forget a node."""
        columns = self._event_handlers.cache.columns
        row = columns.row_of.get(last.name)
        if row is not None and columns.nodes[row].meta.is_other(last.meta.uid):
            return  # its removal comes again, and another node has the name
        self._event_handlers.cache.drop_node(last.name)
        self._event_handlers.settle(last.name)
        self._event_handlers.notify(NODE_DELETE, last, None)
        self._event_handlers.wake()

    def synced(self) -> None:
        """Note that all nodes are known."""
        self._event_handlers.listed("nodes")


class ReservationEventHandler(_LedgerEventHandler):
    """Handles Reservations, which go to the ledger."""

    @atomic
    def upsert(self, old: Reservation | None, new: Reservation) -> None:
        """Process a Reservation's newest version."""
        event_handlers = self._event_handlers
        event_handlers.ledger.upsert(new, event_handlers.clock.now())
        entry = event_handlers.ledger.entries.get(new.key)
        fresh = old is None or bool(old.failure) or old.meta.generation != new.meta.generation
        if entry is not None and event_handlers.ready and fresh:
            event_handlers.look_for_owner(entry)
            event_handlers.settle(entry.node)
        event_handlers.wake()

    @atomic
    def remove(self, last: Reservation) -> None:
        """Forget a Reservation, which frees its capacity at once."""
        group = self._event_handlers.ledger.groups.of(last)
        self._event_handlers.ledger.remove(last)
        if group is not None and self._event_handlers.ready:  # its pod may be known by that alone
            for entry in tuple(group.members.values()):
                self._event_handlers.look_for_owner(entry)
        self._event_handlers.wake()

    def synced(self) -> None:
        """Note that all Reservations are known."""
        self._event_handlers.listed("reservations")


class ObjectEventHandler:
    """Handles objects that only plugins read, which go to their lister."""

    def __init__(self, event_handlers: EventHandlers, name: str, lister: Lister[Any]) -> None:
        self._event_handlers = event_handlers
        self._name = name
        self._lister = lister
        self._resource = _RESOURCES.get(name)

    def upsert(self, old: Named | None, new: Named) -> None:
        """Process an object's newest version."""
        before = self._lister.upsert(old, new)
        if before is not None and before.meta.uid == new.meta.uid:
            self._notify(Action.UPDATE, before, new)
            return
        if before is not None:
            self._notify(Action.DELETE, before, None)
        self._notify(Action.ADD, None, new)

    def remove(self, last: Named) -> None:
        """Forget an object."""
        self._notify(Action.DELETE, self._lister.remove(last), None)

    def _notify(self, action: Action, old: Named | None, new: Named | None) -> None:
        if self._resource is not None:
            self._event_handlers.notify(ClusterEvent(self._resource, action), old, new)
        self._event_handlers.wake()

    def synced(self) -> None:
        """Note that all objects of the resource are known."""
        self._event_handlers.listed(self._name)

    def listed(self, version: int) -> Iterable[Named]:
        """Return objects that are gone by a list of this version, although no event has shown them."""
        return self._lister.gone_by(version)
