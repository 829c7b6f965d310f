"""An assume cache: decided values of objects that the API server does not show yet."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidelock.cluster.lister import Lister, Named
from tidelock.model.meta import Key

T = TypeVar("T", bound=Named)
V = TypeVar("V")


@dataclass(slots=True)
class _Promise(Generic[V]):
    value: V
    pods: set[str] = field(default_factory=set)
    written: int = 0  # resource version of the API server's answer, or 0 before


class AssumeCache(Generic[T, V]):
    """Values that objects of one resource will have, assumed for pods.

        (absent) --make--> promised --release by the last pod--> (absent)
                               |
                               +--wrote--> written --seen--> (absent)

    The API server takes precedence: an assumption ends with its object, or when the object has such a value.
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
        self._promises: dict[Key, _Promise[V]] = {}
        lister.on_change(self._seen)

    def get(self, key: Key) -> V | None:
        """Return the assumed value of an object, or None."""
        promise = self._promises.get(key)
        return None if promise is None else promise.value

    def items(self) -> Iterator[tuple[Key, V]]:
        """Yield all promises."""
        for key, promise in self._promises.items():
            yield key, promise.value

    def make(self, key: Key, value: V, pod_uid: str) -> None:
        """Assume a value for a pod. Several pods may have the same one."""
        if key not in self._promises:
            self._promises[key] = _Promise(value)
            self._count(key, value, 1)
        self._promises[key].pods.add(pod_uid)

    def wrote(self, key: Key, version: int) -> None:
        """Note that the value has been written: it can't be taken back any more, and will be seen."""
        if key in self._promises:
            self._promises[key].written = version

    def release(self, key: Key, pod_uid: str) -> None:
        """Undo an assumption for a pod. It is safe to repeat."""
        promise = self._promises.get(key)
        if promise is None:
            return
        promise.pods.discard(pod_uid)
        if not promise.pods and not promise.written:
            self._end(key)

    def _seen(self, old: T | None, new: T | None) -> None:
        last = new or old
        promise = None if last is None else self._promises.get(last.meta.key)
        if promise is None or last is None:
            return
        written = 0 < promise.written <= last.meta.version
        replaced = new is None or (old is not None and old.meta.uid != new.meta.uid)
        if replaced or written or self._shows(last):
            self._end(last.meta.key)

    def _end(self, key: Key) -> None:
        self._count(key, self._promises.pop(key).value, -1)
