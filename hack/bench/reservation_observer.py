"""An independent observer of reservations, by a plain watch in the benchmark's own process."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bench.events import Event, decode_event
from bench.following import following
from bench.world import NAMESPACE
from tidelock.kube.client import RESERVATIONS, KubeClient


@dataclass
class ReservationObserver:
    """The observed states of reservations.

    Attributes:
        faults: a text for each reservation that lost its capacity or was granted again while it existed.

    """

    faults: list[str] = field(default_factory=list)
    _seen: defaultdict[str, asyncio.Future[float]] = field(
        default_factory=lambda: defaultdict(asyncio.get_running_loop().create_future)
    )
    _grants: dict[str, tuple[str, str]] = field(default_factory=dict)

    async def active(self, name: str) -> float:
        """Wait for a reservation's Active=True, and return when it was seen, as of `time.perf_counter`."""
        return await asyncio.shield(self._seen[name])

    def take(self, event: Event, now: float) -> None:
        """Handle an event."""
        meta, status = event.object.metadata, event.object.status
        if event.type == "DELETED":
            self._grants.pop(meta.uid, None)
            return
        grant = (status.node_name, status.activated_at) if status.active else None
        earlier = self._grants.get(meta.uid)
        if earlier is not None and earlier != grant:
            self.faults.append(f"{meta.name} was Active as {earlier} and then as {grant}")
        if grant is not None:
            self._grants[meta.uid] = grant
            if not self._seen[meta.name].done():
                self._seen[meta.name].set_result(now)


@asynccontextmanager
async def observing(client: KubeClient) -> AsyncIterator[ReservationObserver]:
    """Watch the reservations while the context lasts."""
    seen = ReservationObserver()

    def take(line: bytes, now: float) -> str:
        event = decode_event(line)
        seen.take(event, now)
        return event.object.metadata.resource_version

    async with following(client, RESERVATIONS.collection(NAMESPACE), take):
        yield seen
