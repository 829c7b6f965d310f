"""The states of reservations and pods, from an independent watch in the soak's own process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bench.events import decode_event
from bench.following import following
from tidelock.kube.client import PODS, RESERVATIONS, ApiResource, KubeClient


class LostError(Exception):
    """An object did not reach its expected state in time. The message names both."""


@dataclass
class Story:
    """The observed history of one object.

    Attributes:
        node: node of a pod or a reservation.
        phase: phase of a reservation, empty before the operator has answered, and for pods.
        was_active: whether a reservation has ever reported Active.
        gone: whether the object has been deleted.

    """

    node: str = ""
    phase: str = ""
    was_active: bool = False
    gone: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Seen:
    """The histories of all reservations and pods of unfinished lives."""

    def __init__(self, patience: float) -> None:
        """Prepare with the limit of each wait in seconds."""
        self._patience = patience
        self._stories: dict[tuple[str, str], Story] = {}

    def expect(self, resource: ApiResource, name: str) -> Story:
        """Begin the history of an object, before it is created."""
        return self._stories.setdefault((resource.plural, name), Story())

    def forget(self, resource: ApiResource, name: str) -> None:
        """Drop the history of an object that is no longer needed."""
        self._stories.pop((resource.plural, name), None)

    async def until(
        self, resource: ApiResource, name: str, accept: Callable[[Story], object], what: str
    ) -> Story:
        """Wait until an object is in an accepted state.

        Raises:
            LostError: the state was not reached in time. `what` completes "Reservation web-0 was not ...".

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
        """Handle an event of a reservation."""
        return self._take(RESERVATIONS, line)

    def take_pod(self, line: bytes, _: float) -> str:
        """Handle an event of a pod."""
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
            story.changed.set()  # wakes all waiting tasks
            story.changed = asyncio.Event()
        return meta.resource_version


@asynccontextmanager
async def watching(client: KubeClient, namespace: str, patience: float) -> AsyncIterator[Seen]:
    """Watch the reservations and pods of a namespace while the context lasts."""
    seen = Seen(patience)
    async with (
        following(client, RESERVATIONS.collection(namespace), seen.take_reservation),
        following(client, PODS.collection(namespace), seen.take_pod),
    ):
        yield seen
