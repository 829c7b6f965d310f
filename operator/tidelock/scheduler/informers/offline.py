"""An offline cluster: listed objects in the same decider that serves a live cluster.

Its decisions are those of the live cluster, but nothing is written, and no other program learns of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from tidelock.framework.config import Configuration
from tidelock.model.pods import Pod
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.informers.event_handlers import EventHandlers
from tidelock.scheduler.informers.informers import decoder_of
from tidelock.scheduler.scheduler_core import assemble_core


class _EventHandler(Protocol):
    def upsert(self, old: Any, new: Any) -> None: ...

    def synced(self) -> None: ...


class _Stopped:
    """A clock that stands still."""

    def __init__(self, instant: float) -> None:
        self._instant = instant

    def now(self) -> float:
        """Return the one instant."""
        return self._instant

    def monotonic(self) -> float:
        """Return the one instant."""
        return self._instant


@dataclass(frozen=True, slots=True)
class OfflineScheduler:
    """The decider of a cluster as it was at an instant, in seconds since the epoch.

    `unreadable` names the objects that are not used, because a part that decisions need can't be read.
    """

    decider: Decider
    event_handlers: EventHandlers
    now: float
    unreadable: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        configuration: Configuration,
        objects: Mapping[str, Iterable[bytes | msgspec.Raw]],
        now: float,
        without: str = "",
    ) -> "OfflineScheduler":
        """Load the JSON of objects, by `nodes`, `pods`, `reservations` and the fields of Objects.

        A resource that is missing counts as listed and empty. The pod with the uid `without` is left out, so
        it can be judged like a new one.

        Raises:
            ConfigurationError: a profile can't be created as it is configured.

        """
        core = assemble_core(configuration, _Stopped(now))
        decider, event_handlers = core.decider, core.event_handlers
        picture = cls(decider, event_handlers, now)
        sinks: dict[str, _EventHandler] = {
            **event_handlers.others,
            "nodes": event_handlers.nodes,
            "pods": event_handlers.pods,
            "reservations": event_handlers.reservations,
        }
        for name, sink in sinks.items():
            decode = decoder_of(name)
            for raw in objects.get(name, ()):
                try:
                    decoded = decode(raw)
                except ValueError as error:  # it has no name
                    picture.unreadable.append(f"{name} without a name: {error}")
                    continue
                if decoded.meta.unreadable:
                    picture.unreadable.append(f"{name} {decoded.meta.key}: {decoded.meta.unreadable}")
                if not without or not isinstance(decoded, Pod) or decoded.uid != without:
                    sink.upsert(None, decoded)
            sink.synced()
        while not decider.ledger.advance(now):
            pass
        return picture
