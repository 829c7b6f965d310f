"""The objects of one resource as a live copy."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Generic, Protocol, TypeVar

from tidelock.cluster.rollback import undone_on_failure
from tidelock.model.meta import ObjectMeta


class Named(Protocol):
    """An object of the API."""

    @property
    def meta(self) -> ObjectMeta:
        """Identity and labels."""


T = TypeVar("T", bound=Named)

ObjectChange = Callable[[T | None, T | None], None]
"""Called with an object before and after a change, each of which may be None. The reverse call undoes it."""


class Lister(Generic[T]):
    """The objects of one resource by namespace and name, and the event handler of their changes.

    Attributes:
        version: changes with every change of any object.

    """

    def __init__(self) -> None:
        self.version = 0
        self._objects: defaultdict[str, dict[str, T]] = defaultdict(dict)
        self._listeners: list[ObjectChange[T]] = []
        self._final_listeners: list[ObjectChange[T]] = []

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

    def on_complete_change(self, listener: ObjectChange[T]) -> None:
        """Call a function after each change that no listener of `on_change` can undo any more."""
        self._final_listeners.append(listener)

    def upsert(self, old: T | None, new: T) -> T | None:
        """Take over an object's newest version. Return the known version of that name."""
        del old  # the caller knows nothing of a change that was undone
        known = self.get(new.meta.name, new.meta.namespace)
        self._change(known, new)
        return known

    def remove(self, last: T) -> T:
        """Forget an object, unless another one has its name. Return it as decisions saw it before."""
        known = self.get(last.meta.name, last.meta.namespace)
        if known is None or known.meta.uid != last.meta.uid:
            return last
        self._change(known, None)
        return known

    def gone_by(self, version: int) -> Iterable[T]:
        """Return objects that a list of this version did not have and that no event has shown either."""
        del version
        return ()

    def _change(self, old: T | None, new: T | None) -> None:
        """Replace an object. If a listener fails, the listeners before it and the object are as before.

        The final listeners undo nothing: without an exception, all others know the object by then.
        """
        self.version += 1
        with undone_on_failure() as undo:
            self._put(old, new)
            undo(partial(self._put, new, old))
            for listener in self._listeners:
                listener(old, new)
                undo(partial(listener, new, old))
        for listener in self._final_listeners:
            listener(old, new)

    def _put(self, old: T | None, new: T | None) -> None:
        if new is not None:
            self._objects[new.meta.namespace][new.meta.name] = new
        elif old is not None:
            namespace = old.meta.namespace
            del self._objects[namespace][old.meta.name]
            if not self._objects[namespace]:
                del self._objects[namespace]
