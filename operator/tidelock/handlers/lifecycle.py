"""Kopf's settings and login, and the signals and errors that it shares with the rest of the process."""

import asyncio
import logging
import signal
from pathlib import Path
from typing import Any

import kopf

from tidelock.kube.config import Connection

logger = logging.getLogger(__name__)

_KOPF = Path(kopf.__file__).parent


def set_on_signals(stop: asyncio.Event) -> None:
    """Set a flag on the signals that ask a process to end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


def register(registry: kopf.OperatorRegistry, connection: Connection) -> None:
    """Add the settings of this process, and its way to the API server, to a registry."""

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        # One recorder writes the events of the whole process; Kopf would write one for each run of a handler.
        settings.posting.enabled = False
        # Without this Kopf would watch CRDs, for which the operator has no right.
        settings.scanning.disabled = True
        # The supervisor has the one back-off. Without any pause here, Kopf would ask a server that is down
        # again without end.
        settings.networking.error_backoffs = (1.0,)
        # A Kopf that has failed would otherwise have the process killed after ten minutes.
        settings.process.ultimate_exiting_timeout = None

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        scheme, _space, token = (connection.credentials.header() or "").partition(" ")
        return kopf.ConnectionInfo(
            server=connection.server,
            insecure=connection.insecure,
            ca_path=connection.ca_path,
            certificate_path=connection.certificate_path,
            private_key_path=connection.private_key_path,
            scheme=scheme or None,
            token=token or None,
            default_namespace=connection.namespace,
        )


def close_quietly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that no task handles, as the loop's exception handler.

    Kopf's watches may be cancelled where they are suspended, so that they are left to the end of the loop. It
    closes a watch and the context within it at once, and the watch complains that its context is not through
    yet. A scan for kinds that fails leaves requests behind, which fail, too. Neither loses anything, so these
    errors are logged for debugging only, and all others as usual.
    """
    if "asyncgen" in context or _is_of_kopf(context.get("future")):
        logger.debug(context["message"], exc_info=context.get("exception"))
    else:
        loop.default_exception_handler(context)


def _is_of_kopf(future: object) -> bool:
    code = getattr(future.get_coro(), "cr_code", None) if isinstance(future, asyncio.Task) else None
    return code is not None and Path(code.co_filename).is_relative_to(_KOPF)
