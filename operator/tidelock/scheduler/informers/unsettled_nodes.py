"""Brings reservations in line with their nodes after missed events, again later for a node that fails."""

from collections.abc import Iterable

from tidelock.clock import Clock
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.model.meta import ObjectMeta


class UnsettledNodes:
    """The nodes whose reservations could not be settled, by name."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._retries: Timers[str] = Timers()

    def settle(self, names: Iterable[str]) -> None:
        """Settle nodes as after missed events. A node that fails affects no other node."""
        for name in names:
            now, node = self._clock.now(), self._ledger.records.node(name)
            meta = ObjectMeta(name) if node is None else node.meta
            with self._ledger.recovery.isolated("settle", "Node", meta, now) as attempt:
                self._ledger.placement.settle_unseen(name, now)
            self._retries.set(name, None if attempt.error is None else now + attempt.pause)

    def next_due(self) -> float | None:
        """Return when to settle the next node for which that has failed."""
        return self._retries.next()

    def settle_due(self) -> None:
        """Settle the nodes for which that has failed, once their pause is over."""
        self.settle(list(self._retries.pop_due(self._clock.now())))
