"""Whose locks are whose: which a pod owns, which end when it is bound, and what they keep for it on a node.

What is asked here changes nothing; what a pod's coming does to its locks is up to the book.
"""

from collections.abc import Collection, Iterable, Mapping

from tidelock.ledger.entry import Entry
from tidelock.ledger.groups import Groups
from tidelock.ledger.matching import OwnerIndex, may_claim
from tidelock.ledger.rooms import Rooms
from tidelock.ledger.transitions import SETTLED
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import NOTHING, Resources, minus


class Ownership:
    """The pods' own locks.

    Args:
        entries: all locks, as the book has them.
        groups: of which a pod takes one member.
        rooms: what the locks hold.

    """

    def __init__(self, entries: Mapping[Key, Entry], groups: Groups, rooms: Rooms) -> None:
        self._entries = entries
        self._groups = groups
        self._rooms = rooms
        self._index = OwnerIndex()

    def note(self, entry: Entry) -> None:
        """Take over what the spec of a lock says of its owners; one that is over has none."""
        if entry.reservation.spec is None or entry.phase in SETTLED:
            self._index.discard(entry.key)
        else:
            self._index.put(entry.key, entry.reservation.spec)

    def drop(self, key: Key) -> None:
        """Forget a lock, as it is over or gone."""
        self._index.discard(key)

    def of(self, pod: Pod) -> list[Entry]:
        """All locks of which the pod is an owner and which are not over, by name; of a group one a node."""
        keys = self._index.of(pod)
        if not keys:  # as for most pods
            return []
        entries = (self._entries[key] for key in keys)
        return self._groups.open_to(pod, [entry for entry in entries if may_claim(entry, pod)])

    def fleeting(self, pod: Pod, node_name: str) -> list[Entry]:
        """Give the locks of a pod's own that end when it is bound to a node."""
        own = self.of(pod)
        return self._groups.taken((each for each in own if not each.sticky), node_name) if own else own

    def on_node(self, nominated: Iterable[Pod], node_name: str) -> list[Entry]:
        """Give the locks on a node of pods, or stand-ins of locks, that are nominated there."""
        pods = (
            pod
            for pod in nominated
            if (lock := self._entries.get(pod.key)) is None or lock.uid != pod.uid  # a stand-in owns nothing
        )
        own = (entry for pod in pods for entry in self.of(pod))
        return list(dict.fromkeys(entry for entry in own if entry.room and entry.node == node_name))

    def kept_for(self, pods: Iterable[Pod], node_name: str, besides: Collection[Entry]) -> Resources:
        """Tell what locks hold on a node for pods that are nominated there, some other locks left out."""
        if not self._rooms.any_on(node_name):
            return NOTHING
        theirs = [entry for entry in self.on_node(pods, node_name) if entry not in besides]
        others = [entry for entry in besides if entry.room and entry.node == node_name]
        released = self._rooms.released([*others, *theirs], node_name)
        return minus(released, self._rooms.released(others, node_name))
