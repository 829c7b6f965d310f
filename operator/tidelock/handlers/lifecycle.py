"""Kopf's settings, login and end, in the terms of the rest of the process."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import kopf

from tidelock.kube.config import Connection

logger = logging.getLogger(__name__)


class _NoDiffs(kopf.DiffBaseStorage):
    """Tells no differences: no handler asks for them, and they are a third of Kopf's work on an event."""

    def build(
        self, *, body: kopf.Body, extra_fields: Iterable[kopf.FieldSpec] | None = None
    ) -> kopf.BodyEssence:
        """Keep nothing of an object."""
        del body, extra_fields
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> None:
        """Remember nothing."""

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Write nothing."""


@asynccontextmanager
async def running(
    registry: kopf.OperatorRegistry, started: asyncio.Event, stop: asyncio.Event
) -> AsyncIterator[asyncio.Task[None]]:
    """Run Kopf while the context lasts, once `started` is set; gives its task, which ends only if it fails.

    Locks come first, and once a first decision was made the CRDs are known to be there. Signals set `stop`.
    """
    ended = asyncio.Event()

    async def run() -> None:
        await started.wait()
        others = asyncio.all_tasks()
        tasks = await kopf.spawn_tasks(registry=registry, clusterwide=True, standalone=True, stop_flag=ended)
        set_on_signals(stop)  # Kopf has put handlers of its own in their place
        await kopf.run_tasks(tasks, ignored=others)

    task = asyncio.create_task(run())
    try:
        yield task
    finally:
        ended.set()  # else Kopf would have the process killed if that takes it long
        task.cancel()  # else it would wait for tasks that are not its own, such as those of open connections
        await asyncio.gather(task, return_exceptions=True)


def set_on_signals(stop: asyncio.Event) -> None:
    """Have the signals that ask a process to end set a flag."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


def register(registry: kopf.OperatorRegistry, connection: Connection) -> None:
    """Add the handlers to the registry."""

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        # Events are told by one recorder for the whole process; Kopf would tell of each handler's every run.
        settings.posting.enabled = False
        # The CRDs are there before the operator is, so Kopf need not watch what resources there are.
        settings.scanning.disabled = True
        # One object after the other and a rest after each, so some 150 a second: Kopf's second look must
        # not hold up the first, nor fall behind for good, as what waits for it is kept.
        settings.queueing.worker_limit = 1
        settings.queueing.idle_timeout = 0.005
        settings.watching.reconnect_backoff = 0.1
        settings.persistence.diffbase_storage = _NoDiffs()
        settings.persistence.progress_storage = kopf.StatusProgressStorage()

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
    """Handle an error that no task has, as the loop's exception handler.

    Kopf's watches may be cancelled where they are suspended, so that they are left to the end of the loop. It
    closes a watch and the context within it at once, and the watch complains that its context is not through
    yet. Nothing is lost by that, so nobody needs to see a traceback; all else is told as ever.
    """
    if "asyncgen" in context:
        logger.debug(context["message"], exc_info=context.get("exception"))
    else:
        loop.default_exception_handler(context)
