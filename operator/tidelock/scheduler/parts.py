"""Parts of the process: a controller, an integration or a server, with its watches and its endless work.

A part lives in its own folder and joins by a line in `tidelock.assembly.PARTS`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from tidelock.clock import Clock
from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.config import Connection
from tidelock.kube.errors import ApiError
from tidelock.kube.lease import Leadership
from tidelock.kube.watch import EventHandler, HasMeta, Reflector
from tidelock.model.meta import ObjectMeta
from tidelock.pace import Pace
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.scheduler_core import SchedulerCore
from tidelock.settings import Settings

_T = TypeVar("_T", bound=HasMeta)


@dataclass(frozen=True, slots=True)
class ProcessPart:
    """A part that runs for as long as this process leads.

    Attributes:
        name: the step under which its faults are counted.
        run: its endless work. It gets an event that is set when decisions begin. After a fault of the program
            it begins again.
        reflectors: its watches.
        fatal: errors of `run` that end the process.

    """

    name: str
    run: Callable[[asyncio.Event], Awaitable[object]]
    reflectors: tuple[Reflector[Any], ...] = ()
    fatal: tuple[type[Exception], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartContext:
    """The material of a part.

    Attributes:
        settings: the settings of the process.
        connection: how to reach the API server.
        client: connection to it.
        leadership: whether this process leads.
        clock: the process' clock.
        rng: random generator for pauses.
        writers: the parts that all writers share.
        core: the decider and the event handlers.
        wakeup: set to let the decision loop look again.
        pace: periods that are no settings.
        on_faults: takes the objects that can't be read in full.

    """

    settings: Settings
    connection: Connection
    client: KubeClient
    leadership: Leadership
    clock: Clock
    rng: Random
    writers: WriterContext
    core: SchedulerCore
    wakeup: asyncio.Event
    pace: Pace
    on_faults: Callable[[ApiResource, ObjectMeta], None]

    def reflector(
        self,
        resource: ApiResource,
        decode: Callable[[bytes], _T],
        sink: EventHandler[_T],
        **options: Any,
    ) -> Reflector[_T]:
        """Make the watch of a resource; `options` are those of Reflector."""
        return Reflector(
            self.client,
            resource,
            decode,
            sink,
            rng=self.rng,
            on_faults=self.on_faults,
            on_failure=self.writers.isolation.failed,
            settings=self.pace.watches,
            clock=self.clock.monotonic,
            **options,
        )

    def may_answer(self) -> bool:
        """Return whether to answer other programs: all is known, and no other process admits."""
        try:
            self.leadership.check()
        except ApiError:
            return False
        return self.core.event_handlers.ready
