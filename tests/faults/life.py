"""One life of the operator, wired as `main.operate` does it.

What it lacks: Kopf, whose second look must not be needed; the Lease, which `tests/model` and
`tests/cluster/test_lease.py` look after; measurements, and watches of what only some plugins read.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from faults.hasty import JumpingClock
from tidelock.framework.config import default_configuration
from tidelock.kube.client import NODES, PODS, RESERVATIONS, KubeClient
from tidelock.kube.config import Connection
from tidelock.kube.events import EventRecorder
from tidelock.kube.watch import HasMeta, Reflector, WatchSettings
from tidelock.ledger.entry import Entry
from tidelock.ledger.status import render
from tidelock.model.locks import decode_reservation
from tidelock.model.meta import Key
from tidelock.model.nodes import decode_node
from tidelock.model.pods import decode_pod
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.binding import Binder
from tidelock.scheduler.decider import Decider
from tidelock.scheduler.evictions import Evictor
from tidelock.scheduler.extenders import Extenders
from tidelock.scheduler.feed import Feed
from tidelock.scheduler.loop import Loop
from tidelock.scheduler.publisher import Publisher
from tidelock.scheduler.queue import Place
from tidelock.scheduler.recent import Recent
from tidelock.scheduler.tasks import Tasks, TurnTaking
from tidelock.scheduler.tools import Tools
from tidelock.telemetry import Telemetry

SCHEDULER = "tidelock-scheduler"

# Small pages, so that lists can break between them, and less patience, as nobody needs to wait for bookmarks.
_WATCHES = WatchSettings(page_limit=2, silence=15.0)

_LOOK = 0.05


class Life:
    """An operator from its start to its end, which may be a crash."""

    def __init__(self, connection: Connection, url: str, clock: JumpingClock, rng: Random) -> None:
        self.clock = clock
        configuration = default_configuration(SCHEDULER, BUILTINS)
        self._client = KubeClient(replace(connection, server=url), user_agent="tidelock/faults")
        self.tasks = Tasks(rng)
        telemetry = Telemetry(clock.monotonic, rng)
        self.decider = Decider(configuration, api=TurnTaking(self._client, self.tasks), recorder=telemetry)
        self._extenders = Extenders(())
        self._recorder = EventRecorder(
            self._client,
            "tidelock.dev/operator",
            "faults",
            busy=lambda: self.tasks.busy,
            monotonic=clock.monotonic,
        )
        tools = Tools(self._client, self._recorder, telemetry, clock, self.tasks, Recent())
        self.publisher = Publisher(tools, self.decider.book)
        self._loop = Loop(
            self.decider,
            Binder(tools, self.decider, self._extenders),
            Evictor(tools, self.decider),
            self.publisher,
            telemetry,
            clock,
        )
        decider = self.decider
        self.feed = Feed(
            decider.cache, decider.book, decider.queue, decider.waiting_pods, clock, self._loop.wake
        )
        client, feed = self._client, self.feed
        self.nodes = Reflector(client, NODES, decode_node, feed.nodes, rng=rng, settings=_WATCHES)
        self.pods = Reflector(client, PODS, decode_pod, feed.pods, rng=rng, settings=_WATCHES)
        self.locks = Reflector(
            client, RESERVATIONS, decode_reservation, feed.reservations, rng=rng, settings=_WATCHES
        )

    async def live(self) -> None:
        """Run until cancelled, which is a crash: nothing that is under way comes to an end."""
        async with self._client, self._extenders:
            await self._recorder.__aenter__()
            work = [
                asyncio.create_task(each)
                for each in (
                    *(reflector.run() for reflector in (self.nodes, self.pods, self.locks)),
                    self._loop.run(self.feed),
                    self.tasks.crash(),
                )
            ]
            try:
                await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in work:
                    task.cancel()
                ended = await asyncio.gather(*work, return_exceptions=True)
                while self.tasks:  # a time-out at the same instant hides that a task was cancelled
                    await self.tasks.drain(0.0)
                    await asyncio.sleep(_LOOK)
                await self._recorder.aclose(0.0)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    def unrest(self, now: float) -> str:
        """Tell what keeps the operator from having nothing to do; empty if it is at rest."""
        decider = self.decider
        due = decider.next_due()
        lagging = [
            self._lag(entry) for key, entry in decider.book.entries.items() if self.publisher.lags(key)
        ]
        hoping = [
            f"{waiting.pod.key} {waiting.place}"
            for waiting in decider.queue._pods.values()
            if waiting.place not in {Place.UNSCHEDULABLE, Place.GATED}
        ]
        reasons = {
            "it has not listed everything": not self.feed.ready,
            "it has something to decide": due is not None and due <= now,
            f"writes are under way ({len(self.tasks)})": bool(self.tasks),
            f"statuses lag: {lagging}": bool(lagging),
            "changes or claims are unheard": bool(decider.book.changed or decider.book.hearsay),
            f"pods hope: {hoping}": bool(hoping),
        }
        return "; ".join(text for text, holds in reasons.items() if holds)

    def _lag(self, entry: Entry) -> str:
        """Tell how a lock's object is not as it ought to be."""
        wanted, stored = render(entry, self.clock.now()), entry.reservation.status
        fields = [name for name in wanted.keys() | stored.keys() if wanted.get(name) != stored.get(name)]
        version, due = entry.reservation.meta.resource_version, entry.removable_at()
        return f"{entry.key} at {version}, to be removed at {due}, differs in {fields}"

    def knows(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Give uid and version of each object in its copies, by kind and name."""
        copies: dict[str, Mapping[Key, HasMeta]] = {
            "nodes": self.nodes.store,
            "pods": self.pods.store,
            "reservations": self.locks.store,
        }
        return {
            (kind, key.name): (stored.meta.uid, stored.meta.resource_version)
            for kind, copy in copies.items()
            for key, stored in copy.items()
        }


async def end(task: asyncio.Task[Any]) -> None:
    """Crash a life."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
