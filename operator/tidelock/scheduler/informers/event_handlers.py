"""What each event of the watches does to the cache, the ledger and the queue.

A sink for each resource. All state what is true now, so repeated, late and reordered events do no harm.
Until all have been listed, nothing is decided: the ledger would be judged by half a cluster.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tidelock.clock import Clock
from tidelock.cluster.cache import Cache, Placed
from tidelock.cluster.lister import Lister, Named
from tidelock.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    Resource,
    node_changes,
    pod_changes,
)
from tidelock.framework.waiting_pods import WaitingPods
from tidelock.ledger.atomic import completing
from tidelock.ledger.ledger import Book, Claim
from tidelock.ledger.reservation_info import Entry
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod, assigned_to
from tidelock.model.reservation import Reservation
from tidelock.scheduler.core.bound_owners import look_for_owner
from tidelock.scheduler.core.pod_queue import SchedulingQueue
from tidelock.scheduler.informers.backlog import Backlog

# Seconds for which the pods that were bound before a start are heard before anything is decided. What one
# tenant's locks and pods take beyond that delays no other.
_AT_ONCE = 1.0
# Seconds for which they are heard in a turn of the event loop then; all else has as much time afterwards.
_SLICE = 0.005

# What plugins can register for, by the field of Objects that holds it.
_RESOURCES = {
    "namespaces": Resource.NAMESPACE,
    "persistent_volumes": Resource.PERSISTENT_VOLUME,
    "persistent_volume_claims": Resource.PERSISTENT_VOLUME_CLAIM,
    "storage_classes": Resource.STORAGE_CLASS,
    "csi_nodes": Resource.CSI_NODE,
    "csi_drivers": Resource.CSI_DRIVER,
    "csi_storage_capacities": Resource.CSI_STORAGE_CAPACITY,
    "volume_attachments": Resource.VOLUME_ATTACHMENT,
    "water_levels": Resource.WATER_LEVEL,
}


class Feed:
    """Takes events in; `wake` is called after each one, `ready` turns true when all resources are known."""

    def __init__(
        self,
        cache: Cache,
        book: Book,
        queue: SchedulingQueue,
        waiting_pods: WaitingPods,
        clock: Clock,
        wake: Callable[[], None],
        others: Mapping[str, Lister[Any]] = MappingProxyType({}),
    ) -> None:
        """Make the sinks; `others` are the listers of what only plugins read, by the resource's name."""
        self.cache = cache
        self.book = book
        self.queue = queue
        self.waiting_pods = waiting_pods
        self.clock = clock
        self.wake = wake
        self.ready = False
        self.pods = PodSink(self)
        self.nodes = NodeSink(self)
        self.reservations = ReservationSink(self)
        self.others = {name: ObjectSink(self, name, lister) for name, lister in others.items()}
        self.gone: set[str] = set()  # uids of pods of whose end the API server has told, and no watch yet
        self._missing = {"pods", "nodes", "reservations", *others}
        self._backlog = Backlog(book, cache)
        self._rests_until = 0.0  # by the monotonic clock

    def listed(self, resource: str) -> None:
        """Note that a resource has been listed; after the last one the ledger is brought in line."""
        self._missing.discard(resource)
        if self._missing or self.ready:
            return
        self.ready = True
        self._backlog.gather(self.clock.now())
        for name in self.book.rooms.nodes_with_locks():
            self.settle_unseen(name)
        self._hear(_AT_ONCE)
        self.wake()

    @property
    def next_due(self) -> float | None:
        """Instant at which more of the pods that were bound before the start are heard; None if all are."""
        if not self._backlog:
            return None
        return self.clock.now() + max(self._rests_until - self.clock.monotonic(), 0.0)

    def catch_up(self) -> None:
        """Hear some of the pods that were bound before the start, if it is their turn."""
        if self._backlog and self.clock.monotonic() >= self._rests_until:
            self._hear(_SLICE)

    def _hear(self, seconds: float) -> None:
        """Hear pods for so long, but at least one, and judge the nodes for which all are heard."""
        end = start = self.clock.monotonic()
        while self._backlog and end <= start + seconds:
            for name in self._backlog.hear_one(self.clock.now()):
                self.settle_unseen(name)
            end = self.clock.monotonic()
        self._rests_until = end + (end - start)

    def notify(self, event: ClusterEvent, old: object, new: object) -> None:
        """Tell the queue what happened; locks are tried again if a plugin that refused one waits for that."""
        self.queue.notify(event, old, new, self.clock.now())
        refusers = self.book.waitlist.refusers
        if refusers and not refusers.isdisjoint(self.queue.hearers(event)):
            self.cache.columns.freed += 1

    def settle(self, node_name: str, newcomer: Pod | None = None, occupied: Collection[Entry] = ()) -> None:
        """Bring the locks of a node in line with it, and with a pod that is new there, once all is known.

        `occupied` are the locks that the pod was in before.
        """
        if self.ready and node_name and not self._backlog.awaits(node_name):
            left = [entry for entry in occupied if newcomer and newcomer.uid not in entry.occupants]
            self.book.settle_node(node_name, self.clock.now(), newcomer, left)

    def settle_unseen(self, node_name: str) -> None:
        """Bring the locks of a node in line with it if nobody saw who took their room, once all is known."""
        if self.ready and not self._backlog.awaits(node_name):
            self.book.settle_unseen(node_name, self.clock.now())

    def look_for_owner(self, entry: Entry, but: str = "") -> None:
        """Have a lock whose owner seems to be bound already be claimed by it."""
        look_for_owner(self.book, self.cache, entry, self.clock.now(), but)

    def time(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self.clock.now()

    @completing
    def answered(self, claim: Claim, stored: Pod | None) -> None:
        """Learn from the API server what a pod is that a watch said is bound; None if it is gone."""
        now = self.clock.now()
        known = self.cache.get(claim.pod.uid)
        if stored is None:
            self.pods.remove(claim.pod)
            if known is not None:
                self.gone.add(claim.pod.uid)
        else:
            if stored.leaving and known is not None and not known.pod.leaving:  # else it was told meanwhile
                self.pods.upsert(claim.pod, stored)
            claim = replace(claim, pod=stored)
        self.book.settle_claim(claim, stored.node_name if stored is not None else "", now)
        heard = self.cache.get(claim.pod.uid)
        late = stored is not None and heard is not None and heard.pod.meta.version < stored.meta.version
        for entry in claim.entries:
            if self.book.entries.get(entry.key) is entry:
                # There may be another; this one, of which the watch tells too late, would be asked for ever.
                self.look_for_owner(entry, but=claim.pod.uid if late else "")
        self.wake()


class _Sink:
    """What all sinks have that change the ledger."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    @property
    def book(self) -> Book:
        """The ledger."""
        return self._feed.book

    def time(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self._feed.clock.now()


class PodSink(_Sink):
    """Pods: bound ones take room and end their locks, unbound ones queue."""

    @completing
    def upsert(self, old: Pod | None, new: Pod) -> None:
        """Take over a pod's newest version; a watch that is behind may tell of one that is gone."""
        feed, now = self._feed, self._feed.clock.now()
        if new.uid in feed.gone:
            return
        before = feed.cache.get(new.uid)
        there = feed.book.rooms.occupied_on(new.node_name) if before is not None else ()
        occupied = [entry for entry in there if new.uid in entry.occupants]
        feed.cache.upsert(new)
        if new.node_name or new.leaving:
            feed.queue.remove(new.uid)
            feed.waiting_pods.reject_removed(new.uid)
        elif feed.queue.get(new.uid) is not None or feed.cache.get(new.uid) is None:
            feed.queue.upsert(new, now)  # else it is bound already, and this version is older than that
            if feed.queue.get(new.uid) is not None and feed.cache.get(new.uid) is None:
                feed.cache.nominator.upsert(new)
        if new.node_name and feed.ready:  # what it has taken is known by all its locks
            feed.book.hear_bound(new, new.node_name, now)
        if not new.finished:
            feed.settle(new.node_name, new, occupied)
        self._tell(before, feed.cache.get(new.uid))
        feed.wake()

    @completing
    def remove(self, last: Pod) -> None:
        """Forget a pod."""
        self._feed.gone.discard(last.uid)
        before = self._feed.cache.get(last.uid)
        self._feed.cache.remove(last.uid)
        self._feed.book.lose_owner(last.uid, self.time())
        self._feed.queue.remove(last.uid)
        self._feed.waiting_pods.reject_removed(last.uid)
        self._tell(before, None)
        self._feed.wake()

    def _tell(self, before: Placed | None, after: Placed | None) -> None:
        """Tell the queue what became of a pod's place on a node."""
        left = before is not None and (after is None or after.node_name != before.node_name)
        came = after is not None and not after.assumed and (before is None or before.assumed or left)
        if before is not None and left:
            self._feed.settle_unseen(before.node_name)  # what it used of a lock for reuse is the lock's again
            self._feed.notify(ASSIGNED_POD_DELETE, assigned_to(before.pod, before.node_name), None)
        if after is not None and came:
            self._feed.book.try_beside(after.pod)
            self._feed.notify(ASSIGNED_POD_ADD, None, after.pod)
        elif before is not None and after is not None and not after.assumed:
            for event in pod_changes(before.pod, after.pod):
                self._feed.notify(event, before.pod, after.pod)

    def synced(self) -> None:
        """All pods are known."""
        self._feed.listed("pods")


class NodeSink(_Sink):
    """Nodes: their capacity, and what becomes of the locks that they carry."""

    @completing
    def upsert(self, old: Node | None, new: Node) -> None:
        """Take over a node's newest version."""
        feed = self._feed
        columns = feed.cache.columns
        row = columns.row_of.get(new.name)
        known = columns.nodes[row] if row is not None else None
        feed.cache.put_node(new)
        if known is None:
            feed.book.rooms.recount(new.name)
        feed.settle(new.name)
        if known is None:
            feed.notify(NODE_ADD, None, new)
        elif known.meta.uid != new.meta.uid:
            feed.notify(NODE_DELETE, known, None)
            feed.notify(NODE_ADD, None, new)
        else:
            for event in node_changes(known, new):
                feed.notify(event, known, new)
        feed.wake()

    @completing
    def remove(self, last: Node) -> None:
        """Forget a node."""
        self._feed.cache.drop_node(last.name)
        self._feed.settle(last.name)
        self._feed.notify(NODE_DELETE, last, None)
        self._feed.wake()

    def synced(self) -> None:
        """All nodes are known."""
        self._feed.listed("nodes")


class ReservationSink(_Sink):
    """Reservations go to the ledger."""

    @completing
    def upsert(self, old: Reservation | None, new: Reservation) -> None:
        """Take over a Reservation's newest version."""
        feed = self._feed
        feed.book.upsert(new, feed.clock.now())
        entry = feed.book.entries.get(new.key)
        fresh = old is None or bool(old.failure) or old.meta.generation != new.meta.generation
        if entry is not None and feed.ready and fresh:
            feed.look_for_owner(entry)
            feed.settle(entry.node)
        feed.wake()

    @completing
    def remove(self, last: Reservation) -> None:
        """Forget a Reservation; its room is free at once."""
        group = self._feed.book.groups.of(last)
        self._feed.book.remove(last)
        if group is not None and self._feed.ready:  # who had taken it may be known by that alone
            for entry in tuple(group.members.values()):
                self._feed.look_for_owner(entry)
        self._feed.wake()

    def synced(self) -> None:
        """All Reservations are known."""
        self._feed.listed("reservations")


class ObjectSink:
    """Objects that only plugins read go to their lister."""

    def __init__(self, feed: Feed, name: str, lister: Lister[Any]) -> None:
        self._feed = feed
        self._name = name
        self._lister = lister
        self._resource = _RESOURCES.get(name)

    def upsert(self, old: Named | None, new: Named) -> None:
        """Take over an object's newest version."""
        self._lister.upsert(old, new)
        self._tell(Action.UPDATE if old is not None else Action.ADD, old, new)

    def remove(self, last: Named) -> None:
        """Forget an object."""
        self._lister.remove(last)
        self._tell(Action.DELETE, last, None)

    def _tell(self, action: Action, old: Named | None, new: Named | None) -> None:
        if self._resource is not None:
            self._feed.notify(ClusterEvent(self._resource, action), old, new)
        self._feed.wake()

    def synced(self) -> None:
        """All objects of the resource are known."""
        self._feed.listed(self._name)
