"""The objects of one resource as a live copy."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from tidelock.model.meta import Key, ObjectMeta


class Named(Protocol):
    """An object of the API."""

    @property
    def meta(self) -> ObjectMeta:
        """Identity and labels."""


T = TypeVar("T", bound=Named)

ObjectChange = Callable[[T | None, T | None], None]
"""Called with an object before and after a change, each of which may be None."""


class Lister(Generic[T]):
    """The objects of one resource by namespace and name, and the event handler of their changes.

    Attributes:
        version: changes with every change of any object.

    """

    def __init__(self) -> None:
        self.version = 0
        self._objects: defaultdict[str, dict[str, T]] = defaultdict(dict)
        self._listeners: list[ObjectChange[T]] = []

    def __len__(self) -> int:
        return sum(map(len, self._objects.values()))

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return an object, or None."""
        return self._objects[namespace].get(name) if namespace in self._objects else None

    def of(self, namespace: str = "") -> Collection[T]:
        """Return the objects of a namespace, or all objects of a resource without namespaces."""
        return self._objects[namespace].values() if namespace in self._objects else ()

    def all(self) -> Iterator[T]:
        """Yield the objects of all namespaces."""
        for objects in self._objects.values():
            yield from objects.values()

    def on_change(self, listener: ObjectChange[T]) -> None:
        """Call a function after each change."""
        self._listeners.append(listener)

    def upsert(self, old: T | None, new: T) -> T | None:
        """Take over an object's newest version. Return it as decisions saw it before."""
        self._objects[new.meta.namespace][new.meta.name] = new
        self._changed(old, new)
        return old

    def remove(self, last: T) -> T:
        """Forget an object. Return it as decisions saw it before."""
        key: Key = last.meta.key
        self._objects[key.namespace].pop(key.name, None)
        if not self._objects[key.namespace]:
            del self._objects[key.namespace]
        self._changed(last, None)
        return last

    def gone_by(self, version: int) -> Iterable[T]:
        """Return objects that a list of this version did not have and that no event has shown either."""
        del version
        return ()

    def _changed(self, old: T | None, new: T | None) -> None:
        self.version += 1
        for listener in self._listeners:
            listener(old, new)
