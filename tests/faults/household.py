"""What the controllers of a cluster and its kubelets do, as none of them runs here.

Members go with their group, and a pod that was evicted ends.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import NoReturn

from faults.history import Json, Record
from faults.story import Story
from tidelock.kube.client import PODS, RESERVATIONGROUPS
from tidelock.kube.errors import ApiError, NotFound

# Seconds of the loop that they take.
_PAUSE = 0.3


class Household:
    """Looks after the objects of a run."""

    def __init__(self, story: Story, record: Record) -> None:
        self._story = story
        self._record = record

    async def keep(self) -> NoReturn:
        """Do what there is to do, for ever."""
        while True:
            await self._record.news.wait()
            self._record.news.clear()
            await asyncio.sleep(_PAUSE)
            for member in list(self._orphans()):
                with suppress(ApiError):
                    await self._delete_orphan(member["metadata"])
            for name in list(self._evicted()):
                with suppress(ApiError):
                    await self._story.delete_pod(PODS.item(name, self._story.world), 0)

    @property
    def busy(self) -> bool:
        """Whether there is something to do yet."""
        return any(True for _ in self._orphans()) or any(True for _ in self._evicted())

    def _orphans(self) -> Iterator[Json]:
        """Give the locks whose group is gone, as far as is known."""
        current = self._record.current()
        groups = {state["metadata"]["uid"] for (kind, _), state in current.items() if kind == _GROUPS}
        for (kind, _), state in current.items():
            owners = state["metadata"].get("ownerReferences", ())
            if kind == "reservations" and any(owner["uid"] not in groups for owner in owners):
                yield state

    async def _delete_orphan(self, meta: Json) -> None:
        """Delete a member unless its group is there after all, as the garbage collector would."""
        (owner,) = meta["ownerReferences"]
        try:
            stored = await self._story.stored(RESERVATIONGROUPS.item(owner["name"], self._story.world))
        except NotFound:
            stored = None
        if stored is None or stored["metadata"]["uid"] != owner["uid"]:
            await self._story.delete_unwanted(meta)

    def _evicted(self) -> Iterator[str]:
        """Name the borrowers that have been asked to end."""
        for (kind, name), state in self._record.current().items():
            meta = state["metadata"]
            if kind == "pods" and "deletionTimestamp" in meta and _BORROWS in meta.get("annotations", {}):
                yield name


_GROUPS = RESERVATIONGROUPS.plural
_BORROWS = "tidelock.dev/borrows"
