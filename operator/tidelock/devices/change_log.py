"""The changes of keyed things, for readers that renew only results about changed ones."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Keys that are remembered apart. Beyond that, all of them count as changed.
_MOST_KEYS = 65_536


class ChangeLog(Generic[K]):
    """The time of the last change of each key. Each change has the next number as its time.

    Attributes:
        clock: the number of the last change.

    """

    def __init__(self) -> None:
        self.clock = 0
        self._all_changed_at = 0
        self._changed_at: dict[K, int] = {}  # the last change of all comes last

    def note(self, key: K) -> None:
        """Note a change of one key."""
        self.clock += 1
        self._changed_at.pop(key, None)
        self._changed_at[key] = self.clock
        if len(self._changed_at) > _MOST_KEYS:
            self.note_all()

    def note_all(self) -> None:
        """Note a change of all keys."""
        self.clock += 1
        self._changed_at.clear()
        self._all_changed_at = self.clock

    def changed_at(self, key: K) -> int:
        """Return the number of a key's last change."""
        return self._changed_at.get(key, self._all_changed_at)

    def since(self, clock: int) -> list[K] | None:
        """Return the keys that have changed since a number, or None if all have."""
        if clock < self._all_changed_at:
            return None
        keys = []
        for key in reversed(self._changed_at):
            if self._changed_at[key] <= clock:
                break
            keys.append(key)
        return keys
