"""Filter for events, which refuses repetitions and floods about one object."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Subject:
    tokens: float  # events that may still be sent
    since: float  # time at which the tokens were counted
    sent: dict[Hashable, float] = field(default_factory=dict)  # sent contents with their times


class Correlator:
    """Admits an event if it is new.

    An event is not new if an equal one was admitted less than `repeat_seconds` ago. Each subject may have
    `burst` events, and one more every `refill_seconds`. Only the `subjects` with the most recent events are
    remembered.
    """

    def __init__(
        self,
        *,
        repeat_seconds: float = 300.0,
        burst: int = 25,
        refill_seconds: float = 300.0,
        subjects: int = 4096,
    ) -> None:
        self._repeat_seconds = repeat_seconds
        self._burst = burst
        self._refill_seconds = refill_seconds
        self._limit = subjects
        self._subjects: OrderedDict[Hashable, _Subject] = OrderedDict()

    def admits(self, subject: Hashable, content: Hashable, now: float) -> bool:
        """Return whether to send `content` about `subject`. If so, it counts as sent at `now`, in seconds."""
        state = self._recall(subject, now)
        state.sent = {known: at for known, at in state.sent.items() if now - at < self._repeat_seconds}
        state.tokens = min(self._burst, state.tokens + (now - state.since) / self._refill_seconds)
        state.since = now
        if content in state.sent or state.tokens < 1:
            return False
        state.tokens -= 1
        state.sent[content] = now
        return True

    def _recall(self, subject: Hashable, now: float) -> _Subject:
        state = self._subjects.setdefault(subject, _Subject(self._burst, now))
        self._subjects.move_to_end(subject)
        if len(self._subjects) > self._limit:
            self._subjects.popitem(last=False)
        return state
