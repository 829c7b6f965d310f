"""An independent observer of bindings, which notes when it sees each pod bound."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from bench.following import following
from bench.world import NAMESPACE
from tidelock.kube.client import PODS, KubeClient


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Event(msgspec.Struct):
    type: str
    object: _Object


_decode_event = msgspec.json.Decoder(_Event).decode


@dataclass
class Bindings:
    """The observed bindings of pods, by the pods' names.

    Attributes:
        seen: when each pod was first seen bound, as of `time.perf_counter`.
        nodes: the node of each pod.
        doubled: a text for each pod that was seen bound to one node and then to another.

    """

    seen: dict[str, float] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    doubled: list[str] = field(default_factory=list)
    _waits: list[tuple[int, asyncio.Event]] = field(default_factory=list)

    async def wait(self, count: int) -> None:
        """Wait until so many pods have been seen bound."""
        if len(self.seen) < count:
            reached = asyncio.Event()
            self._waits.append((count, reached))
            await reached.wait()

    def take(self, line: bytes, now: float) -> str:
        """Handle an event of a bound pod."""
        event = _decode_event(line)
        name, node = event.object.metadata.name, event.object.spec.node_name
        if self.nodes.get(name, node) != node:
            self.doubled.append(f"{name} was bound to {self.nodes[name]} and then to {node}")
        if event.type == "ADDED" and name not in self.seen:
            self.seen[name] = now
            self.nodes[name] = node
            for count, reached in self._waits:
                if len(self.seen) >= count:
                    reached.set()
        return event.object.metadata.resource_version


@asynccontextmanager
async def bindings(client: KubeClient) -> AsyncIterator[Bindings]:
    """Watch for pods that get a node while the context lasts."""
    seen = Bindings()
    # This watch adds a pod when it is bound. Earlier events of the pod are filtered by the API server.
    async with following(client, PODS.collection(NAMESPACE), seen.take, {"fieldSelector": "spec.nodeName!="}):
        yield seen
