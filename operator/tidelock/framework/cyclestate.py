"""Data that plugins keep from one extension point to the next, for one pod."""

from typing import Any, TypeVar

T = TypeVar("T")


class CycleState:
    """Values by their type: a plugin defines a class of its own and writes one instance of it.

    A value that `add_pod` or `remove_pod` changes has a method `clone`. Others are not changed.
    """

    def __init__(self) -> None:
        self._values: dict[type, Any] = {}

    def write(self, value: object) -> None:
        """Keep a value, in place of an earlier one of its type."""
        self._values[type(value)] = value

    def clone(self) -> "CycleState":
        """Return a copy, on which changes can be tried."""
        copy = CycleState()
        copy._values = {
            kind: value.clone() if hasattr(value, "clone") else value for kind, value in self._values.items()
        }
        return copy

    def read(self, kind: type[T]) -> T | None:
        """Return the value of this type, or None."""
        return self._values.get(kind)

    def expect(self, kind: type[T]) -> T:
        """Return the value of this type. Raises KeyError if no earlier extension point wrote it."""
        value: T = self._values[kind]
        return value
