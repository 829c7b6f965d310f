"""Work that one object leaves to another."""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


def _itself(item: object) -> Hashable:
    return item


class WorkQueue(Generic[T]):
    """Items to process, in the order of their first addition. An item that is added again is processed once.

    Source: client-go, util/workqueue. One consumer takes all items at once, in the same thread.

    Args:
        key: returns the key of an item, by default the item itself. Items with equal keys are the same work,
            and the newest of them is kept. With `id` every object is work of its own.

    """

    def __init__(self, key: Callable[[T], Hashable] = _itself) -> None:
        self._key = key
        self._items: dict[Hashable, T] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def __contains__(self, item: T) -> bool:
        return self._key(item) in self._items

    def add(self, item: T) -> None:
        """Add an item, unless it is queued already."""
        self._items[self._key(item)] = item

    def discard(self, item: T) -> None:
        """Remove an item, if it is queued."""
        self._items.pop(self._key(item), None)

    def take(self) -> list[T]:
        """Remove all items and return them."""
        items, self._items = self._items, {}
        return list(items.values())
