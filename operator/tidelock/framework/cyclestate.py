"""What plugins pass on to themselves from one extension point to the next, for one pod."""

from typing import Any, TypeVar

T = TypeVar("T")


class CycleState:
    """Values by their type: a plugin defines a class of its own and writes one instance of it."""

    def __init__(self) -> None:
        self._values: dict[type, Any] = {}

    def write(self, value: object) -> None:
        """Keep a value, in place of an earlier one of its type."""
        self._values[type(value)] = value

    def read(self, kind: type[T]) -> T | None:
        """Give back the value of this type, or None."""
        return self._values.get(kind)

    def expect(self, kind: type[T]) -> T:
        """Give back the value of this type; raises KeyError if no earlier extension point wrote it."""
        value: T = self._values[kind]
        return value
