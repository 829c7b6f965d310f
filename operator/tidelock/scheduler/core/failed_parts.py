"""Isolation of the parts of a step: one that fails is skipped for a while, and all others go on."""

from collections.abc import Callable, Iterator
from functools import partial

from tidelock.ledger.ledger import Ledger
from tidelock.model.failures import Attempt, OnFailure
from tidelock.model.meta import ObjectMeta


class FailedParts:
    """The parts of a step that have failed, and until when each of them is skipped."""

    def __init__(self, ledger: Ledger, on_failure: OnFailure) -> None:
        self._recovery = ledger.recovery
        self._steady = ledger.waiting_reservations.steady
        self._on_failure = on_failure
        self._skipped_until: dict[str, float] = {}  # by steady time

    def __bool__(self) -> bool:
        """Return whether any part is skipped."""
        return bool(self._skipped_until)

    def __contains__(self, part: str) -> bool:
        return part in self._skipped_until

    def next_due(self) -> Iterator[float]:
        """Yield the instants at which parts are tried again."""
        return map(self._steady.instant, self._skipped_until.values())

    def run(self, part: str, step: Callable[[float], None], now: float) -> None:
        """Run a part, unless it is skipped."""
        if part in self._skipped_until:
            if self._steady.at(now) < self._skipped_until[part]:
                return
            del self._skipped_until[part]
        self._recovery.checkpoint()
        with Attempt(partial(self._on_failure, part, "", ObjectMeta(part))) as attempt:
            step(now)
        if attempt.error is not None:
            self._recovery.recover(now)
            self._skipped_until[part] = self._steady.at(now) + attempt.pause
