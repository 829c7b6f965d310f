"""An independent witness of locks: a plain watch in the benchmark's own process."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import msgspec

from bench.world import NAMESPACE
from tidelock.kube.client import RESERVATIONS, KubeClient
from tidelock.kube.errors import TransientError

_RETRY = 0.1  # seconds, between a watch that ended and the next
_COLLECTION = RESERVATIONS.collection(NAMESPACE)


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    node_name: str = ""
    activated_at: str = ""

    @property
    def active(self) -> bool:
        return any(each.type == "Active" and each.status == "True" for each in self.conditions)


class _Object(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Object


class _List(msgspec.Struct):
    metadata: _Meta


_decode_event = msgspec.json.Decoder(_Event).decode


@dataclass
class Witness:
    """What was seen of the locks, as the events came.

    Attributes:
        faults: locks that were taken back or given again while their object was there, in words.

    """

    faults: list[str] = field(default_factory=list)
    _seen: defaultdict[str, asyncio.Future[float]] = field(
        default_factory=lambda: defaultdict(asyncio.get_running_loop().create_future)
    )
    _grants: dict[str, tuple[str, str]] = field(default_factory=dict)

    async def active(self, name: str) -> float:
        """Wait for a lock's Active=True; gives when it was seen, as of `time.perf_counter`."""
        return await asyncio.shield(self._seen[name])

    def take(self, event: _Event, now: float) -> None:
        """Take an event in."""
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
async def witness(client: KubeClient) -> AsyncIterator[Witness]:
    """Watch the locks while the context lasts."""
    listed = msgspec.json.decode(await client.get(_COLLECTION, {"limit": "1"}), type=_List)
    seen = Witness()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_watch(client, seen, listed.metadata.resource_version))
        yield seen
        task.cancel()


async def _watch(client: KubeClient, seen: Witness, version: str) -> None:
    """Follow the locks for ever; a watch that the server ends goes on where it ended."""
    while True:
        with suppress(TransientError):
            params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "3600"}
            async with client.stream(_COLLECTION, params, silence_seconds=3600.0) as stream:
                rest = b""
                while chunk := await stream.read():
                    now = time.perf_counter()
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = _decode_event(line)
                        version = event.object.metadata.resource_version
                        seen.take(event, now)
        await asyncio.sleep(_RETRY)
