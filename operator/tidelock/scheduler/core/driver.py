"""Drives the decider, for the scheduler loop as for offline schedulers, benchmarks and tests."""

from collections.abc import Callable, Iterator

from tidelock.scheduler.core.decider import Decider, Step


def due_steps(decider: Decider, now: Callable[[], float]) -> Iterator[Step]:
    """Yield one step, and further steps as long as something is due.

    Each step carries the effects of all changes since the step before. So there is a first step even if
    nothing is due, and another one if the caller has changed something, such as by a binding.
    """
    while True:
        yield decider.step(now())
        due = decider.next_due()
        if (due is None or due > now()) and not decider.ledger.effects:
            return
