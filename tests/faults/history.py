"""The API's history as a watch of the checker's own tells it, past all proxies."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tidelock.kube.client import NODES, PODS, RESERVATIONS, KubeClient, Resource
from tidelock.kube.lines import LineSplitter

WORLD_LABEL = "test.tidelock.dev/world"

_SILENCE = 36000.0  # seconds of the loop: nothing is planned to go wrong here

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Happening:
    """An object came to a state, or went with it.

    `clock` is what the operator's showed when the event came, and `at` the loop's time. Versions are etcd's
    revisions: one order for all resources.
    """

    version: int
    kind: str
    gone: bool
    state: Json
    clock: float
    at: float

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.state["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Identity of the object."""
        return str(self.state["metadata"]["uid"])

    def __str__(self) -> str:
        what = "gone" if self.gone else _gist(self.kind, self.state)
        return f"{self.version} at {self.at:.2f}: {self.kind[:-1]} {self.name} ({self.uid[:8]}) {what}"


@dataclass(slots=True)
class Record:
    """What happened in one world, in the order of the versions once all watches have told of it."""

    clock: Callable[[], float]
    happenings: list[Happening] = field(default_factory=list)

    def ordered(self) -> list[Happening]:
        """List everything in the order in which it happened."""
        return sorted(self.happenings, key=lambda each: each.version)

    def current(self) -> dict[tuple[str, str], Json]:
        """Give the objects that there are, by kind and name."""
        found: dict[tuple[str, str], Json] = {}
        for each in self.ordered():
            if each.gone:
                found.pop((each.kind, each.name), None)
            else:
                found[each.kind, each.name] = each.state
        return found


class History:
    """Watches the whole cluster once, for all worlds in it."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def record(self, world: str, clock: Callable[[], float]) -> Record:
        """Begin to note what happens in a world; the clock is its operator's."""
        return self._records.setdefault(world, Record(clock))

    async def follow(self, client: KubeClient, resource: Resource, version: str) -> None:
        """Note what happens to a resource, from a version on."""
        lines = LineSplitter()
        params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "7200"}
        async with client.stream(resource.collection(), params, silence_seconds=_SILENCE) as stream:
            while chunk := await stream.read():
                for line in lines.feed(chunk):
                    self._note(resource.plural, json.loads(line))
        raise AssertionError(f"the watch of {resource.plural} has ended")

    def _note(self, kind: str, event: Json) -> None:
        assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
        state = event["object"]
        meta = state["metadata"]
        world = meta.get("namespace") or meta.get("labels", {}).get(WORLD_LABEL, "")
        record = self._records.get(world)
        if record is not None:
            at = asyncio.get_running_loop().time()
            gone = event["type"] == "DELETED"
            version = int(meta["resourceVersion"])
            record.happenings.append(Happening(version, kind, gone, state, record.clock(), at))


@asynccontextmanager
async def history(client: KubeClient) -> AsyncIterator[History]:
    """Watch a cluster while the context lasts."""
    made = History()
    tasks = []
    for resource in (NODES, PODS, RESERVATIONS):
        listed = json.loads(await client.get(resource.collection(), {"limit": "1"}))
        version = listed["metadata"]["resourceVersion"]
        tasks.append(asyncio.create_task(made.follow(client, resource, version)))
    try:
        yield made
    finally:
        ended = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in ended:
            task.result()


def _gist(kind: str, state: Json) -> str:
    spec, status = state.get("spec", {}), state.get("status", {})
    leaving = " leaving" if state["metadata"].get("deletionTimestamp") else ""
    if kind == "nodes":
        return (
            f"{status.get('allocatable', {}).get('cpu')} cpu{' cordoned' * bool(spec.get('unschedulable'))}"
        )
    if kind == "pods":
        cpu = spec["containers"][0].get("resources", {}).get("requests", {}).get("cpu")
        return f"{cpu} cpu on {spec.get('nodeName', '')!r}{leaving}"
    active: Json = next((each for each in status.get("conditions", []) if each["type"] == "Active"), {})
    return " ".join(
        [
            f"{status.get('phase')} on {status.get('nodeName', '')!r}",
            f"asks {spec.get('resources')} has {status.get('resources')} until {status.get('expiresAt')}:",
            f"{active.get('reason')} {active.get('message')}{leaving}",
        ]
    )
