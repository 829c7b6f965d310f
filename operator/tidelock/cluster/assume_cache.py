"""An assume cache: decided values of objects that the API server does not show yet."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidelock.cluster.lister import Lister, Named
from tidelock.model.meta import Key

T = TypeVar("T", bound=Named)
V = TypeVar("V")


@dataclass(slots=True)
class _AssumedUpdate(Generic[V]):
    value: V
    object_uid: str  # or an empty text, if the object is not known
    pods: set[str] = field(default_factory=set)
    written: int = 0  # resource version of the API server's answer, or 0 before


class AssumeCache(Generic[T, V]):
    """Values that objects of one resource will have, assumed for pods.

        (absent) --make--> promised --release by the last pod--> (absent)
                               |
                               +--wrote--> written --seen--> (absent)

    The API server takes precedence: an assumption ends with its object, or when the object has such a value.
    An object that was created here may be deleted before any event: see `written_by` and `drop`.
    """

    def __init__(
        self,
        lister: Lister[T],
        shows: Callable[[T], object],
        count: Callable[[Key, V, int], None] = lambda _key, _value, _sign: None,
    ) -> None:
        """Watch a lister.

        Args:
            lister: the objects.
            shows: returns whether an object has a value of its own.
            count: called with an object's name and its value when that is assumed (1), and when it no longer
                is (-1).

        """
        self._shows = shows
        self._count = count
        self._updates: dict[Key, _AssumedUpdate[V]] = {}
        # An end can't be undone, so it comes last: otherwise the value would count neither here nor there.
        lister.on_complete_change(self._seen)

    def get(self, key: Key) -> V | None:
        """Return the assumed value of an object, or None."""
        update = self._updates.get(key)
        return None if update is None else update.value

    def items(self) -> Iterator[tuple[Key, V]]:
        """Yield all updates."""
        for key, update in self._updates.items():
            yield key, update.value

    def pods(self, key: Key) -> frozenset[str]:
        """Return the UIDs of the pods for which a value of an object is assumed."""
        update = self._updates.get(key)
        return frozenset() if update is None else frozenset(update.pods)

    def make(self, key: Key, value: V, pod_uid: str, object_uid: str = "") -> None:
        """Assume a value for a pod. Several pods may have the same one.

        The uid of the object is needed if it may be removed before any event has shown it.
        """
        if key not in self._updates:
            self._count(key, value, 1)  # first, so an assumption that can't be counted is none
            self._updates[key] = _AssumedUpdate(value, object_uid)
        self._updates[key].pods.add(pod_uid)

    def wrote(self, key: Key, version: int) -> None:
        """Note that the value has been written: it can't be taken back any more, and will be seen."""
        if key in self._updates:
            self._updates[key].written = version

    def release(self, key: Key, pod_uid: str) -> None:
        """Undo an assumption for a pod. It is safe to repeat."""
        update = self._updates.get(key)
        if update is None:
            return
        update.pods.discard(pod_uid)
        if not update.pods and not update.written:
            self._end(key)

    def written_by(self, version: int) -> Iterator[tuple[Key, str]]:
        """Yield the objects with written values that any list of this version has, unless they are gone.

        Each comes with its uid, or an empty text.
        """
        for key, update in self._updates.items():
            if 0 < update.written <= version:
                yield key, update.object_uid

    def drop(self, key: Key, object_uid: str) -> None:
        """Undo an assumption about an object that is gone, and not about another object of its name.

        It is safe to repeat.
        """
        update = self._updates.get(key)
        if update is not None and update.object_uid in ("", object_uid):
            self._end(key)

    def _seen(self, old: T | None, new: T | None) -> None:
        last = new or old
        update = None if last is None else self._updates.get(last.meta.key)
        if update is None or last is None:
            return
        written = 0 < update.written <= last.meta.version
        replaced = new is None or (old is not None and old.meta.uid != new.meta.uid)
        if replaced or written or self._shows(last):
            self._end(last.meta.key)

    def _end(self, key: Key) -> None:
        self._count(key, self._updates.pop(key).value, -1)
