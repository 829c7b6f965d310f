"""An API server in memory: objects with versions and generations, watches, refusals and real outcomes.

It knows what the ledger relies on: writes that carry an old version or another uid are refused, a pod is
bound once, owners and nodeName of a lock are fixed while its stored status says that it is held, and the
whole spec once the lock has ended.
"""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from builders import Json
from tidelock.kube.watch import HasMeta, Sink
from tidelock.model.meta import Key

T = TypeVar("T", bound=HasMeta)

_HELD = ("Active", "Bound")
_FINAL = ("Consumed", "Expired", "Lost")


class RefusedError(Exception):
    """The server does not do what was asked."""


class Collection:
    """One resource: its objects, and everything that has happened to them, for watches to tell."""

    def __init__(self) -> None:
        self.objects: dict[Key, Json] = {}
        self.history: list[tuple[str, Json]] = []

    def get(self, key: Key, uid: str) -> Json:
        stored = self.objects.get(key)
        if stored is None or stored["metadata"]["uid"] != uid:
            raise RefusedError(f"no {key} with uid {uid}")
        return stored

    def put(self, changed: Json) -> Json:
        """Store an object under the next version."""
        changed = copy.deepcopy(changed)
        self._record("PUT", changed)
        self.objects[key_of(changed)] = changed
        return changed

    def delete(self, key: Key) -> None:
        self._record("DELETED", copy.deepcopy(self.objects.pop(key)))

    def _record(self, type_: str, changed: Json) -> None:
        changed["metadata"]["resourceVersion"] = str(len(self.history) + 1)
        self.history.append((type_, changed))


class ModelApi:
    """The three resources and the writes that the operator makes."""

    def __init__(self) -> None:
        self.nodes = Collection()
        self.pods = Collection()
        self.reservations = Collection()

    def bind(self, key: Key, uid: str, node_name: str) -> None:
        """Bind a pod, as its subresource does: once, and not while it is being deleted."""
        pod = copy.deepcopy(self.pods.get(key, uid))
        if pod["spec"]["nodeName"] or "deletionTimestamp" in pod["metadata"]:
            raise RefusedError(f"{key} can't be bound any more")
        pod["spec"]["nodeName"] = node_name
        self.pods.put(pod)

    def edit_spec(self, key: Key, **changes: object) -> None:
        """Change a Reservation's spec under the rules of its CRD; None takes a field away."""
        edited = copy.deepcopy(self.reservations.objects[key])
        before, phase = edited["spec"], edited["status"].get("phase")
        after = {name: value for name, value in (before | changes).items() if value is not None}
        fixed = ("owners", "nodeName") if phase in _HELD else tuple(after | before) if phase in _FINAL else ()
        if any(before.get(name) != after.get(name) for name in fixed):
            raise RefusedError(f"{key} is {phase}")
        if after != before:
            edited["spec"] = after
            edited["metadata"]["generation"] += 1
            self.reservations.put(edited)

    def write_status(self, key: Key, uid: str, version: str, status: Json) -> Json:
        """Replace a status, unless the object has changed since that version."""
        edited = copy.deepcopy(self.reservations.get(key, uid))
        if edited["metadata"]["resourceVersion"] != version:
            raise RefusedError(f"{key} has changed")
        edited["status"] = json.loads(json.dumps(status))
        return self.reservations.put(edited)

    def delete_reservation(self, key: Key, uid: str) -> None:
        self.reservations.get(key, uid)
        self.reservations.delete(key)


class Reflection(Generic[T]):
    """What a reflector makes of one resource, one event or one listed object at a time.

    The order of one resource is kept, nothing comes twice; between resources anything goes. A list that is
    broken off is begun anew, and what vanished is only found out at the end of a whole one.
    """

    def __init__(self, collection: Collection, decode: Callable[[bytes], T], sink: Sink[T]) -> None:
        self._collection = collection
        self._decode = decode
        self._sink = sink
        self._store: dict[Key, T] = {}
        self._position = 0
        self._listing: Iterator[None] | None = None
        self.relist()

    @property
    def behind(self) -> bool:
        """Whether there is anything left to deliver."""
        return self._listing is not None or self._position < len(self._collection.history)

    def relist(self) -> None:
        """Lose all undelivered events, and list from the start instead."""
        self._position = len(self._collection.history)
        self._listing = self._list(dict(self._collection.objects))

    def deliver(self) -> None:
        """Deliver the next difference of the list, or the next event."""
        if self._listing is not None:
            if next(self._listing, self) is self:
                self._listing = None
                self._sink.synced()
        elif self.behind:
            type_, changed = self._collection.history[self._position]
            self._position += 1
            if type_ == "DELETED":
                self._remove(key_of(changed))
            else:
                self._upsert(changed)

    def _list(self, present: dict[Key, Json]) -> Iterator[None]:
        for key, listed in present.items():
            known = self._store.get(key)
            if known is None or known.meta.resource_version != listed["metadata"]["resourceVersion"]:
                self._upsert(listed)
                yield
        for key in [key for key in self._store if key not in present]:
            self._remove(key)
            yield

    def _upsert(self, plain: Json) -> None:
        new = self._decode(json.dumps(plain).encode())
        old = self._store.get(new.meta.key)
        if old is not None and old.meta.uid != new.meta.uid:
            self._remove(new.meta.key)
            old = None
        self._store[new.meta.key] = new
        self._sink.upsert(old, new)

    def _remove(self, key: Key) -> None:
        last = self._store.pop(key, None)
        if last is not None:
            self._sink.remove(last)


class Delivering(Protocol):
    """A reflection of anything."""

    @property
    def behind(self) -> bool: ...
    def deliver(self) -> None: ...
    def relist(self) -> None: ...


def key_of(plain: Json) -> Key:
    return Key(plain["metadata"]["namespace"], plain["metadata"]["name"])
