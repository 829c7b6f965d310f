"""The signals and errors that Kopf shares with the rest of the process."""

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


def set_on_signals(stop: asyncio.Event) -> None:
    """Set a flag on the signals that ask a process to end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


def close_quietly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that no task handles, as the loop's exception handler.

    Kopf's watches may be cancelled where they are suspended, so that they are left to the end of the loop. It
    closes a watch and the context within it at once, and the watch complains that its context is not through
    yet. A scan for kinds that fails leaves requests behind, which fail, too. A TLS connection that the other
    side closes, which uvloop notices while it reads, fails in its last write. One that nothing waits for any
    more, as after a pause of the machine, fails in its handshake. Nothing is lost. These errors are logged
    for debugging only, and all others as usual.
    """
    if "asyncgen" in context or _is_of_kopf(context.get("future")) or _is_of_closed_connection(context):
        logger.debug(context["message"], exc_info=context.get("exception"))
    else:
        loop.default_exception_handler(context)


def _is_of_kopf(future: object) -> bool:
    code = getattr(future.get_coro(), "cr_code", None) if isinstance(future, asyncio.Task) else None
    kopf = sys.modules.get("kopf")  # it is imported after the first decision
    if code is None or kopf is None or kopf.__file__ is None:
        return False
    return Path(code.co_filename).is_relative_to(Path(kopf.__file__).parent)


def _is_of_closed_connection(context: dict[str, Any]) -> bool:
    """Return whether an error is of uvloop's `UVHandle._ensure_alive`, which has no class of its own.

    The other such error is that of a handshake that nothing waits for.
    """
    error, future = context.get("exception"), context.get("future")
    if isinstance(error, ConnectionError):
        return isinstance(future, asyncio.Future) and not isinstance(future, asyncio.Task)
    return "transport" in context and isinstance(error, RuntimeError) and "handler is closed" in str(error)
