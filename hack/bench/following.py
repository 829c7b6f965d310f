"""A plain watch of a collection in the benchmark's own process, without a store."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import msgspec

from tidelock.kube.client import KubeClient
from tidelock.kube.errors import TransientError

_RETRY = 0.1  # seconds, between a watch that ended and the next

Take = Callable[[bytes, float], str]
"""Handles one event and the time of its arrival, as of `time.perf_counter`.

Returns the object's resource version."""


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str


class _List(msgspec.Struct):
    metadata: _Meta


@asynccontextmanager
async def following(
    client: KubeClient, collection: str, take: Take, params: Mapping[str, str] | None = None
) -> AsyncIterator[None]:
    """Pass each change of a collection from now on to `take`, while the context lasts."""
    listed = msgspec.json.decode(await client.get(collection, {"limit": "1"}), type=_List)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(
            _follow(client, collection, take, params or {}, listed.metadata.resource_version)
        )
        yield
        task.cancel()


async def _follow(
    client: KubeClient, collection: str, take: Take, params: Mapping[str, str], version: str
) -> None:
    """Watch for ever. If the server ends a watch, the next one continues at its end."""
    while True:
        with suppress(TransientError):
            query = {**params, "watch": "true", "resourceVersion": version, "timeoutSeconds": "3600"}
            async with client.stream(collection, query, silence_seconds=3600.0) as stream:
                rest = b""
                while chunk := await stream.read():
                    now = time.perf_counter()
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        version = take(line, now)
        await asyncio.sleep(_RETRY)
