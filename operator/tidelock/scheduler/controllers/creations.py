"""The Reservations that a controller has created and that it does not see yet, and refused creations."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tidelock.model.meta import Key, ObjectMeta

# Seconds for which a Reservation that was created may be unseen by the watch before it is created again.
_UNSEEN_SECONDS = 10.0
# Seconds after which a Reservation that was refused is asked for again: each time twice as many.
_SHORTEST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0


class _Pause(NamedTuple):
    """Until when an object of a generation creates nothing, and how many seconds that takes."""

    until: float
    seconds: float
    generation: int


class Creations:
    """Creations by the object that owns the Reservations. Instants are of the monotonic clock.

    Attributes:
        problems: why the last creation for an object failed, or an empty text.

    """

    def __init__(self) -> None:
        self.problems: dict[Key, str] = {}
        self._created: dict[Key, dict[str, float]] = {}
        self._pauses: dict[Key, _Pause] = {}

    def forget(self, owner: Key) -> None:
        """Forget an object that is gone."""
        for known in (self.problems, self._created, self._pauses):
            known.pop(owner, None)

    def note(self, owner: Key, name: str, now: float) -> None:
        """Note that a Reservation was created."""
        self._created.setdefault(owner, {})[name] = now

    def missing(self, owner: Key, names: Sequence[str], there: Collection[Key], now: float) -> list[str]:
        """Return the names of Reservations that neither exist nor were created a moment ago."""
        created, oldest = self._created.get(owner, {}), now - _UNSEEN_SECONDS
        exist = {key.name for key in there}
        for name in [name for name in created if created[name] <= oldest or name in exist]:
            del created[name]
        return [name for name in names if name not in created and name not in exist]

    def next_due(self, owner: Key) -> float | None:
        """Return when a creation that the watch does not show counts as lost, or None."""
        created = self._created.get(owner)
        return min(created.values()) + _UNSEEN_SECONDS if created else None

    def pause(self, meta: ObjectMeta, now: float) -> float:
        """Create nothing for a while after a refusal, for longer than the last time. Return until when."""
        before = self._pauses.get(meta.key)
        seconds = _SHORTEST_PAUSE if before is None else min(2 * before.seconds, _LONGEST_PAUSE)
        self._pauses[meta.key] = _Pause(now + seconds, seconds, meta.generation)
        return now + seconds

    def end_rest(self, owner: Key) -> None:
        """Note that nothing was refused."""
        self._pauses.pop(owner, None)

    def is_paused(self, meta: ObjectMeta, now: float) -> bool:
        """Return whether nothing is created for an object now. A new generation ends the pause."""
        pause = self._pauses.get(meta.key)
        if pause is not None and pause.generation != meta.generation:
            del self._pauses[meta.key]
            return False
        return pause is not None and now < pause.until

    def shorten_pauses(self, namespace: str, now: float) -> Iterator[tuple[Key, float]]:
        """Shorten the pauses of a namespace with changed quotas. Yield each object and its end of the pause.

        The API server may learn of the change a moment later.
        """
        for key in [key for key in self._pauses if key.namespace == namespace]:
            until = now + _SHORTEST_PAUSE
            self._pauses[key] = self._pauses[key]._replace(until=until, seconds=_SHORTEST_PAUSE / 2)
            yield key, until
