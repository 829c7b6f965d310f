"""What became of locks and pods: an independent watch in the soak's own process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bench.events import decode_event
from bench.following import following
from tidelock.kube.client import PODS, RESERVATIONS, ApiResource, KubeClient


class LostError(Exception):
    """What had to come did not, in all the time that it was given; says what."""


@dataclass
class Story:
    """What a watch has told of one object.

    Attributes:
        node: where it is, or has its room.
        phase: a lock's phase; empty before the operator has answered, and for pods.
        was_active: whether a lock has ever been told to hold.
        gone: whether it has been deleted.

    """

    node: str = ""
    phase: str = ""
    was_active: bool = False
    gone: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Seen:
    """The stories of all locks and pods that somebody still asks about."""

    def __init__(self, patience: float) -> None:
        """Take for how many seconds anything is waited for."""
        self._patience = patience
        self._stories: dict[tuple[str, str], Story] = {}

    def expect(self, resource: ApiResource, name: str) -> Story:
        """Begin the story of an object, before it is made."""
        return self._stories.setdefault((resource.plural, name), Story())

    def forget(self, resource: ApiResource, name: str) -> None:
        """End the story of an object that nobody asks about any more."""
        self._stories.pop((resource.plural, name), None)

    async def until(
        self, resource: ApiResource, name: str, accept: Callable[[Story], object], what: str
    ) -> Story:
        """Wait until an object is as described.

        Raises:
            LostError: it was not in time; `what` completes the sentence "Reservation web-0 was not ...".

        """
        story = self._stories[resource.plural, name]
        try:
            async with asyncio.timeout(self._patience):
                while not accept(story):
                    await story.changed.wait()
        except TimeoutError:
            raise LostError(
                f"{resource.kind} {name} was not {what} after {self._patience:g} s: "
                f"phase {story.phase!r}, node {story.node!r}, gone {story.gone}"
            ) from None
        return story

    def take_reservation(self, line: bytes, _: float) -> str:
        """Take an event of a lock."""
        return self._take(RESERVATIONS, line)

    def take_pod(self, line: bytes, _: float) -> str:
        """Take an event of a pod."""
        return self._take(PODS, line)

    def _take(self, resource: ApiResource, line: bytes) -> str:
        event = decode_event(line)
        meta, status = event.object.metadata, event.object.status
        story = self._stories.get((resource.plural, meta.name))
        if story is not None:
            story.node = event.object.spec.node_name if resource is PODS else status.node_name
            story.phase = status.phase
            story.was_active = story.was_active or status.active
            story.gone = event.type == "DELETED"
            story.changed.set()  # who waits looks again
            story.changed = asyncio.Event()
        return meta.resource_version


@asynccontextmanager
async def watching(client: KubeClient, namespace: str, patience: float) -> AsyncIterator[Seen]:
    """Watch the locks and pods of a namespace while the context lasts."""
    seen = Seen(patience)
    async with (
        following(client, RESERVATIONS.collection(namespace), seen.take_reservation),
        following(client, PODS.collection(namespace), seen.take_pod),
    ):
        yield seen
