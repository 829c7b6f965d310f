"""Unexpected exceptions, and how a step is kept from passing them on."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NoReturn, Protocol

from tidelock.model.meta import ObjectMeta
from tidelock.model.printable import printable

logger = logging.getLogger(__name__)

_LONGEST_TEXT = 512  # characters, which a condition and an event accept


class Attempt(AbstractContextManager["Attempt"]):
    """A step that may fail: only fatal exceptions leave its context.

    Attributes:
        error: the fault, if there was one.
        pause: seconds for which to leave the object alone, or 0 without a fault.

    """

    __slots__ = ("_failed", "_fatal", "error", "pause")

    def __init__(
        self, failed: Callable[[Exception], float], *, fatal: tuple[type[Exception], ...] = ()
    ) -> None:
        """Take a callable that marks the object of a fault, and returns seconds to leave it alone."""
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
    """A fault after which the counted state is in doubt: the process must end, and the next one counts again.

    It is no Exception, so no `Attempt` isolates it.
    """


class OnFailure(Protocol):
    """Marks one object for which a step has failed, so that all others go on."""

    def __call__(self, step: str, kind: str, meta: ObjectMeta, error: Exception, /) -> float:
        """Count and report a failure; return the seconds for which to leave the object alone."""


def raise_failure(step: str, kind: str, meta: ObjectMeta, error: Exception, /) -> NoReturn:
    """Isolate nothing, for simulations and tests, in which every exception must be visible."""
    del step, kind, meta
    raise error


def log_failure(step: str, kind: str, meta: ObjectMeta, error: Exception, /) -> float:
    """Only log a failure of a plugin, for simulations and tests; return no pause."""
    logger.error("a plugin failed", extra={"step": step, "object": f"{kind} {meta.key}"}, exc_info=error)
    return 0.0


def failure_text(error: BaseException) -> str:
    """Return an exception as one short line for people, with its type, which often helps most."""
    text = printable(" ".join(str(error).split()))[:_LONGEST_TEXT]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failure_note(error: BaseException) -> str:
    """Return the message for the status of an object for which a step failed."""
    return f"the operator failed, and tries again later: {failure_text(error)}"
