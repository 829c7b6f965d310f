"""Data that plugins keep from one extension point to the next, for one pod."""

from typing import Any, TypeVar

T = TypeVar("T")


class CycleState:
    """Values by their type: a plugin defines a class of its own and writes one instance of it.

    A value that `add_pod` or `remove_pod` changes has a method `clone`. Others are not changed.
    """

    def __init__(self) -> None:
        self._values: dict[type, Any] = {}
        self._temporary: set[type] = set()

    def write(self, value: object, *, temporary: bool = False) -> None:
        """Keep a value, in place of an earlier one of its type.

        A temporary value is for the choice of a node. It is dropped once the node is reserved, so thousands
        of pods that are being bound keep no values with an entry for each node.
        """
        kind = type(value)
        self._values[kind] = value
        if temporary:
            self._temporary.add(kind)
        else:
            self._temporary.discard(kind)

    def drop_temporary(self) -> None:
        """Drop the temporary values."""
        for kind in self._temporary:
            del self._values[kind]
        self._temporary.clear()

    def clone(self) -> "CycleState":
        """Return a copy, on which changes can be tried."""
        copy = CycleState()
        copy._values = {
            kind: value.clone() if hasattr(value, "clone") else value for kind, value in self._values.items()
        }
        copy._temporary = self._temporary.copy()
        return copy

    def read(self, kind: type[T]) -> T | None:
        """Return the value of this type, or None."""
        return self._values.get(kind)

    def expect(self, kind: type[T]) -> T:
        """Return the value of this type. Raises KeyError if no earlier extension point wrote it."""
        value: T = self._values[kind]
        return value
