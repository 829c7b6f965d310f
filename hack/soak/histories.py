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
class History:
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


class Histories:
    """The histories of all reservations and pods of unfinished lives."""

    def __init__(self, patience: float) -> None:
        """Prepare with the limit of each wait in seconds."""
        self._patience = patience
        self._histories: dict[tuple[str, str], History] = {}

    def expect(self, resource: ApiResource, name: str) -> History:
        """Begin the history of an object, before it is created."""
        return self._histories.setdefault((resource.plural, name), History())

    def forget(self, resource: ApiResource, name: str) -> None:
        """Drop the history of an object that is no longer needed."""
        self._histories.pop((resource.plural, name), None)

    async def until(
        self, resource: ApiResource, name: str, accept: Callable[[History], object], what: str
    ) -> History:
        """Wait until an object is in an accepted state.

        Raises:
            LostError: the state was not reached in time. `what` completes "Reservation web-0 was not ...".

        """
        history = self._histories[resource.plural, name]
        try:
            async with asyncio.timeout(self._patience):
                while not accept(history):
                    await history.changed.wait()
        except TimeoutError:
            raise LostError(
                f"{resource.kind} {name} was not {what} after {self._patience:g} s: "
                f"phase {history.phase!r}, node {history.node!r}, gone {history.gone}"
            ) from None
        return history

    def take_reservation(self, line: bytes, _: float) -> str:
        """Handle an event of a reservation."""
        return self._take(RESERVATIONS, line)

    def take_pod(self, line: bytes, _: float) -> str:
        """Handle an event of a pod."""
        return self._take(PODS, line)

    def _take(self, resource: ApiResource, line: bytes) -> str:
        event = decode_event(line)
        meta, status = event.object.metadata, event.object.status
        history = self._histories.get((resource.plural, meta.name))
        if history is not None:
            history.node = event.object.spec.node_name if resource is PODS else status.node_name
            history.phase = status.phase
            history.was_active = history.was_active or status.active
            history.gone = event.type == "DELETED"
            history.changed.set()  # wakes all waiting tasks
            history.changed = asyncio.Event()
        return meta.resource_version


@asynccontextmanager
async def watching(client: KubeClient, namespace: str, patience: float) -> AsyncIterator[Histories]:
    """Watch the reservations and pods of a namespace while the context lasts."""
    seen = Histories(patience)
    async with (
        following(client, RESERVATIONS.collection(namespace), seen.take_reservation),
        following(client, PODS.collection(namespace), seen.take_pod),
    ):
        yield seen
