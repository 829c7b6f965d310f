"""Live copies of resources, for commands that keep running."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Generic, TypeVar

from tidelock.cli.session import Session
from tidelock.kube.client import ApiResource
from tidelock.kube.watch import EventHandler, HasMeta, Reflector
from tidelock.running import background

_T = TypeVar("_T", bound=HasMeta)


class ChangeSignal:
    """A handler that only notes that something has changed. The objects are in the reflector's store."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()

    def upsert(self, old: Any, new: Any) -> None:
        """Note that an object is new or changed."""
        del old, new
        self.changed.set()

    def remove(self, last: Any) -> None:
        """Note that an object is gone."""
        del last
        self.changed.set()

    def synced(self) -> None:
        """Note that a list is complete."""
        self.changed.set()


@asynccontextmanager
async def followed(
    session: Session,
    resource: ApiResource,
    decode: Callable[[bytes], _T],
    sink: EventHandler[_T],
    **narrowed: Any,
) -> AsyncIterator[Reflector[_T]]:
    """Follow a resource while the context lasts. `narrowed` are a Reflector's namespace and selectors."""
    rng = Random()  # noqa: S311 -- for jitter
    reflector = Reflector(session.client, resource, decode, sink, rng=rng, **narrowed)
    async with background(reflector.run()):
        yield reflector


class _Settling(Generic[_T]):
    """Follows the versions of one object. `found` is done once it is settled, or gone."""

    def __init__(self, first: _T, settled: Callable[[_T], bool], step: Callable[[_T], None]) -> None:
        self._settled = settled
        self._step = step
        self.newest = first
        self.found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.upsert(None, first)

    def upsert(self, old: _T | None, new: _T) -> None:
        del old
        if new.meta.uid != self.newest.meta.uid or self.found.done():
            return
        self.newest = new
        self._step(new)
        if self._settled(new):
            self.found.set_result("")

    def remove(self, last: _T) -> None:
        if last.meta.uid == self.newest.meta.uid and not self.found.done():
            self.found.set_result("it was deleted meanwhile")

    def synced(self) -> None:
        pass


async def settling(
    session: Session,
    resource: ApiResource,
    decode: Callable[[bytes], _T],
    first: _T,
    settled: Callable[[_T], bool],
    *,
    seconds: float,
    step: Callable[[_T], None] = lambda _: None,
) -> tuple[_T, str]:
    """Follow an object until it is settled, and call `step` with each version.

    Returns its newest version and, if it is not settled in time, or gone, a sentence about that.
    """
    sink = _Settling(first, settled, step)
    narrowed = {"namespace": first.meta.namespace, "field_selector": f"metadata.name={first.meta.name}"}
    async with followed(session, resource, decode, sink, **narrowed):
        try:
            async with asyncio.timeout(seconds):
                end = await sink.found
        except TimeoutError:
            end = "no answer in time: kubectl tidelock check shows whether the operator runs"
    return sink.newest, end
