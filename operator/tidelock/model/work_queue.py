"""Work that one object leaves to another."""

from collections.abc import Callable, Hashable
from typing import TypeVar

T = TypeVar("T")


def _itself(item: object) -> Hashable:
    return item


class WorkQueue(dict[Hashable, T]):
    """Items to process, in the order of their first addition. An item that is added again is processed once.

    Source: client-go, util/workqueue. One consumer takes all items at once, in the same thread. The queue is
    a dict from the keys to the items, because each decision asks several queues whether they are empty.

    Args:
        key: returns the key of an item, by default the item itself. Items with equal keys are the same work,
            and the newest of them is kept. With `id` every object is work of its own.

    """

    __slots__ = ("_key",)

    def __init__(self, key: Callable[[T], Hashable] = _itself) -> None:
        super().__init__()
        self._key = key

    def add(self, item: T) -> None:
        """Add an item, unless it is queued already."""
        self[self._key(item)] = item

    def discard(self, item: T) -> None:
        """Remove an item, if it is queued."""
        self.pop(self._key(item), None)

    def take(self) -> list[T]:
        """Remove all items and return them."""
        items = list(self.values())
        self.clear()
        return items
