"""The stored objects: one counter of revisions, the log of changes, and its compaction."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

Json = dict[str, Any]


class Stored:
    """One version of an object. Nothing changes it after it was stored.

    Attributes:
        data: the object as JSON.
        revision: its resourceVersion.
        partial: whether storage lacks defaults that `data` has, so any update writes.

    """

    __slots__ = ("_encoded", "data", "partial", "revision")

    def __init__(self, data: Json, revision: int, *, partial: bool = False) -> None:
        self.data = data
        self.revision = revision
        self.partial = partial
        self._encoded: dict[str, bytes] = {}

    def encoded(self, form: str, convert: Callable[[Json], Json]) -> bytes:
        """Return the object's JSON in a form, such as a version of its API or the item of a list."""
        known = self._encoded.get(form)
        if known is None:
            known = self._encoded[form] = msgspec.json.encode(convert(self.data))
        return known

    @property
    def meta(self) -> Json:
        """The metadata."""
        found: Json = self.data["metadata"]
        return found


@dataclass(frozen=True, slots=True)
class Change:
    """One write. `before` is None for a creation.

    After a deletion, `after` is the last state under the revision of the deletion.
    """

    revision: int
    resource: str
    key: str
    before: Stored | None
    after: Stored
    deleted: bool


class Listener(Protocol):
    """Follows the changes of one resource."""

    def notify(self, change: Change) -> None:
        """Take a change in the order of revisions."""


@dataclass
class Storage:
    """All objects by resource and key, as etcd has them.

    Attributes:
        revision: revision of the last write.
        compacted: revision up to which the log is gone.

    """

    revision: int = 1
    compacted: int = 1
    _tables: dict[str, dict[str, Stored]] = field(default_factory=dict)
    _log: list[Change] = field(default_factory=list)
    _listeners: dict[str, dict[Listener, None]] = field(default_factory=dict)

    def get(self, resource: str, key: str) -> Stored | None:
        """Return an object, or None if there is none."""
        return self._tables.get(resource, {}).get(key)

    def table(self, resource: str) -> Mapping[str, Stored]:
        """Return the objects of a resource by key."""
        return self._tables.get(resource, {})

    def put(self, resource: str, key: str, data: Json, *, partial: bool = False) -> Stored:
        """Store an object under the next revision and notify listeners."""
        table = self._tables.setdefault(resource, {})
        before = table.get(key)
        after = table[key] = self._version(data, partial=partial)
        self._note(Change(self.revision, resource, key, before, after, deleted=False))
        return after

    def remove(self, resource: str, key: str) -> Stored:
        """Delete an object, and return its last state under the revision of the deletion."""
        before = self._tables[resource].pop(key)
        after = self._version(before.data)
        self._note(Change(self.revision, resource, key, before, after, deleted=True))
        return after

    def _version(self, data: Json, *, partial: bool = False) -> Stored:
        self.revision += 1
        meta = data["metadata"] | {"resourceVersion": str(self.revision)}
        return Stored(data | {"metadata": meta}, self.revision, partial=partial)

    def _note(self, change: Change) -> None:
        self._log.append(change)
        for listener in tuple(self._listeners.get(change.resource, ())):
            listener.notify(change)

    def follow(self, resource: str, listener: Listener) -> Callable[[], None]:
        """Notify a listener of each later change, until the returned function is called."""
        listeners = self._listeners.setdefault(resource, {})
        listeners[listener] = None
        return lambda: listeners.pop(listener, None) and None

    def since(self, resource: str, revision: int) -> Iterator[Change]:
        """Yield the changes of a resource after a revision, which must not be compacted."""
        start = bisect_right(self._log, revision, key=lambda change: change.revision)
        return (change for change in self._log[start:] if change.resource == resource)

    def at(self, resource: str, revision: int) -> dict[str, Stored]:
        """Return the objects of a resource at a revision, which must not be compacted."""
        table = dict(self.table(resource))
        for change in reversed(list(self.since(resource, revision))):
            if change.before is None:
                table.pop(change.key, None)
            else:
                table[change.key] = change.before
        return table

    def compact(self, revision: int) -> None:
        """Forget the changes up to a revision, as etcd does every few minutes."""
        self.compacted = max(self.compacted, min(revision, self.revision))
        start = bisect_right(self._log, self.compacted, key=lambda change: change.revision)
        del self._log[:start]
