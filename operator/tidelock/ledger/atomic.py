"""Changes of the ledger that are made as a whole or not at all."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from tidelock.ledger.ledger import Ledger

P = ParamSpec("P")
R = TypeVar("R")


class Transactional(Protocol):
    """An object that changes a ledger."""

    @property
    def ledger(self) -> Ledger:
        """The ledger."""

    def time(self) -> float:
        """Return the time of the change, in seconds since the epoch."""


C = TypeVar("C", bound=Transactional)


def atomic(change: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[C, P], R]:
    """Rebuild the records that a method was changing when it raises, and let the exception pass."""

    @wraps(change)
    def complete(self: C, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.ledger.recovery.undone(self.time()):
            return change(self, *args, **kwargs)

    return complete
