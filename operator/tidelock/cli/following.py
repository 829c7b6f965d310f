"""Live copies of resources, for commands that go on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from tidelock.cli.connect import Session
from tidelock.kube.client import Resource
from tidelock.kube.watch import Reflector, Sink, T
from tidelock.running import background


class News:
    """A sink that tells that there is news; what it is stands in the reflector's store."""

    def __init__(self) -> None:
        self.come = asyncio.Event()

    def upsert(self, old: Any, new: Any) -> None:
        """Tell that an object is there, or another."""
        del old, new
        self.come.set()

    def remove(self, last: Any) -> None:
        """Tell that an object is gone."""
        del last
        self.come.set()

    def synced(self) -> None:
        """Tell that a list is complete."""
        self.come.set()


@asynccontextmanager
async def followed(
    session: Session, resource: Resource, decode: Callable[[bytes], T], sink: Sink[T], **narrowed: Any
) -> AsyncIterator[Reflector[T]]:
    """Follow a resource while the context lasts; `narrowed` are a Reflector's namespace and selectors."""
    rng = Random()  # noqa: S311 -- for jitter
    reflector = Reflector(session.client, resource, decode, sink, rng=rng, **narrowed)
    async with background(reflector.run()):
        yield reflector
