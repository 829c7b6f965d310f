"""Exceptions that no code expects, and how a step is kept from passing them on."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NoReturn, Protocol

from tidelock.model.meta import ObjectMeta
from tidelock.model.printable import printable

logger = logging.getLogger(__name__)

_LONGEST_TEXT = 512  # characters: a condition, and an event, take that


class Attempt(AbstractContextManager["Attempt"]):
    """A step that may fail: no exception gets out of its context, other than those that are fatal.

    Attributes:
        error: the fault, if there was one.
        pause: seconds for which to leave the object alone; 0 without a fault.

    """

    __slots__ = ("_failed", "_fatal", "error", "pause")

    def __init__(
        self, failed: Callable[[Exception], float], *, fatal: tuple[type[Exception], ...] = ()
    ) -> None:
        """Take what marks the object of a fault, and returns for how long to leave it alone."""
        self._failed = failed
        self._fatal = fatal
        self.error: Exception | None = None
        self.pause = 0.0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception) or isinstance(error, self._fatal):
            return False
        self.error, self.pause = error, self._failed(error)
        return True


class StateLostError(BaseException):
    """A fault that has left what is counted in doubt: the process must end, and the next one counts anew.

    It is no Exception, so no `Attempt` isolates it.
    """


class OnFailure(Protocol):
    """Marks one object for which a step has failed, so that all others go on."""

    def __call__(self, step: str, kind: str, meta: ObjectMeta, error: Exception, /) -> float:
        """Count and tell a failure; return the seconds for which to leave the object alone."""


def raise_failure(step: str, kind: str, meta: ObjectMeta, error: Exception, /) -> NoReturn:
    """Isolate nothing, for simulations and tests, in which every exception is to be seen."""
    del step, kind, meta
    raise error


def log_failure(step: str, kind: str, meta: ObjectMeta, error: Exception, /) -> float:
    """Write a failure of a plugin to the log alone, for simulations and tests; return no pause."""
    logger.error("a plugin failed", extra={"step": step, "object": f"{kind} {meta.key}"}, exc_info=error)
    return 0.0


def failure_text(error: BaseException) -> str:
    """Write an exception in one short line for people: the type tells more than many a message."""
    text = printable(" ".join(str(error).split()))[:_LONGEST_TEXT]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failure_note(error: BaseException) -> str:
    """Write for the status of an object that a step failed for it."""
    return f"the operator failed, and tries again later: {failure_text(error)}"
