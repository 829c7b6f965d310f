"""What the controllers of a cluster and its kubelets do, as none of them runs here.

Locks go with the group or the schedule that made them; a pod that was evicted ends, and so does one that has
run for as long as it said.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import NoReturn

from faults.history import Json, Record
from faults.story import RUN_SECONDS, Story
from tidelock.kube.client import PODS, RESERVATIONGROUPS, RESERVATIONSCHEDULES
from tidelock.kube.errors import ApiError, NotFound
from tidelock.model.instants import parse_instant

# Seconds of the loop that they take.
_PAUSE = 0.3
_LOOK = 1.0


class Household:
    """Looks after the objects of a run.

    Attributes:
        done: how many things it has done so far.

    """

    def __init__(self, story: Story, record: Record) -> None:
        self._story = story
        self._record = record
        self.done = 0

    async def keep(self) -> NoReturn:
        """Do what there is to do, for ever."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self._record.news.wait()
            self._record.news.clear()
            await asyncio.sleep(_PAUSE)
            for work in list(self._work()):
                self.done += 1
                with suppress(ApiError):
                    await work()

    @property
    def busy(self) -> bool:
        """Whether there is something to do yet."""
        return next(self._work(), None) is not None

    def _work(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """Give all that there is to do now, as far as is known."""
        current, now = self._record.current(), self._story.clock.now()
        owners = {state["metadata"]["uid"] for (kind, _), state in current.items() if kind in _OWNERS}
        for (kind, name), state in current.items():
            meta = state["metadata"]
            if kind == "reservations":
                if any(owner["uid"] not in owners for owner in meta.get("ownerReferences", ())):
                    yield partial(self._delete_orphan, meta)
            elif kind == "pods" and _is_over(state, now):
                yield partial(self._story.delete_pod, PODS.item(name, self._story.world), 0)
            elif kind == "pods" and _is_to_start(state):
                yield partial(self._story.start_pod, name)

    async def _delete_orphan(self, meta: Json) -> None:
        """Delete a lock unless its owner is there after all, as the garbage collector would."""
        (owner,) = meta["ownerReferences"]
        try:
            stored = await self._story.stored(_KINDS[owner["kind"]].item(owner["name"], self._story.world))
        except NotFound:
            stored = None
        if stored is None or stored["metadata"]["uid"] != owner["uid"]:
            await self._story.delete_unwanted(meta)


_KINDS = {resource.kind: resource for resource in (RESERVATIONGROUPS, RESERVATIONSCHEDULES)}
_OWNERS = {resource.plural for resource in _KINDS.values()}


def _is_over(pod: Json, now: float) -> bool:
    """Whether a pod was evicted, or has run for as long as it said."""
    annotations, started = pod["metadata"].get("annotations", {}), pod["status"].get("startTime")
    if "deletionTimestamp" in pod["metadata"]:
        return "tidelock.dev/borrows" in annotations or RUN_SECONDS in annotations
    return bool(started) and parse_instant(started) + int(annotations.get(RUN_SECONDS, "0")) <= now


def _is_to_start(pod: Json) -> bool:
    annotations, started = pod["metadata"].get("annotations", {}), pod["status"].get("startTime")
    return RUN_SECONDS in annotations and bool(pod["spec"].get("nodeName")) and started is None
