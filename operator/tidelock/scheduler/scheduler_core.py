"""The decisions of a process, of offline work, simulations, tests and benchmarks: a decider and its handlers.

This is the one place that makes them. It does no I/O, and needs none of the packages of a process.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tidelock.clock import Clock
from tidelock.framework.config import Configuration
from tidelock.kube.watch import EventHandler
from tidelock.scheduler.core.decider import Decider, DeciderOptions
from tidelock.scheduler.informers.event_handlers import EventHandlers
from tidelock.scheduler.informers.informers import listers_of


@dataclass(frozen=True, slots=True)
class SchedulerCore:
    """The decider and the event handlers that feed it. It does no I/O."""

    decider: Decider
    event_handlers: EventHandlers

    def all_listed(self, *, but: Collection[str] = ()) -> None:
        """Note that every resource is known, but those with these names. The rest of them is empty."""
        handlers = self.event_handlers
        sinks: dict[str, EventHandler[Any]] = {
            **handlers.others,
            "nodes": handlers.nodes,
            "pods": handlers.pods,
            "reservations": handlers.reservations,
        }
        for name, sink in sinks.items():
            if name not in but:
                sink.synced()


def assemble_core(
    configuration: Configuration,
    clock: Clock,
    wake: Callable[[], None] = lambda: None,
    options: DeciderOptions | None = None,
) -> SchedulerCore:
    """Make a decider and its event handlers.

    Args:
        configuration: profiles, their plugins and extenders.
        clock: the time of events.
        wake: called after each event. By default decisions are asked for, and nobody sleeps.
        options: waits, and the parts of a process that the decider uses. By default it is alone.

    Raises:
        ConfigurationError: a profile can't be made as it is configured.

    """
    decider = Decider(configuration, options or DeciderOptions())
    handlers = EventHandlers(
        decider.cache, decider.ledger, decider.queue, decider.waiting_pods, clock, wake, listers_of(decider)
    )
    return SchedulerCore(decider, handlers)
