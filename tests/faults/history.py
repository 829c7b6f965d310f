"""The API's history as a watch of the checker's own tells it, past all proxies."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tidelock.kube.client import (
    NODES,
    PODS,
    RESERVATIONGROUPS,
    RESERVATIONQUOTAS,
    RESERVATIONQUOTES,
    RESERVATIONS,
    RESERVATIONSCHEDULES,
    KubeClient,
    Params,
)
from tidelock.kube.lines import LineSplitter
from tidelock.scheduler.watches import OTHERS

WORLD_LABEL = "test.tidelock.dev/world"

BUDGETS = OTHERS["pod_disruption_budgets"][0]

RESOURCES = (
    *(NODES, PODS, RESERVATIONS, RESERVATIONGROUPS),
    *(RESERVATIONQUOTES, RESERVATIONQUOTAS, RESERVATIONSCHEDULES, BUDGETS),
)
"""What the operator watches or writes."""

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
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, kind: str, event: Json) -> None:
        """Note an event of a watch."""
        assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
        state, gone = event["object"], event["type"] == "DELETED"
        version, at = int(state["metadata"]["resourceVersion"]), asyncio.get_running_loop().time()
        self.happenings.append(Happening(version, kind, gone, state, self.clock(), at))
        self.news.set()

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


@asynccontextmanager
async def recording(client: KubeClient, world: str, clock: Callable[[], float]) -> AsyncIterator[Record]:
    """Record what happens in a world while the context lasts; the clock is its operator's."""
    record = Record(clock)
    followers = []
    for resource in RESOURCES:
        path = resource.collection(world)
        params = {} if resource.namespaced else {"labelSelector": f"{WORLD_LABEL}={world}"}
        listed = json.loads(await client.get(path, params))
        assert not listed["items"], f"{world} is not new"
        version = listed["metadata"]["resourceVersion"]
        watch = params | {"watch": "true", "resourceVersion": version, "timeoutSeconds": "7200"}
        followers.append(asyncio.create_task(_follow(client, resource.plural, path, watch, record)))
    try:
        yield record
    finally:
        ended = [task for task in followers if task.done()]
        for task in followers:
            task.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
        for task in ended:
            task.result()


async def _follow(client: KubeClient, kind: str, path: str, params: Params, record: Record) -> None:
    lines = LineSplitter()
    async with client.stream(path, params, silence_seconds=_SILENCE) as stream:
        while chunk := await stream.read():
            for line in lines.feed(chunk):
                record.note(kind, json.loads(line))
    raise AssertionError(f"the watch of {kind} has ended")


def _gist(kind: str, state: Json) -> str:
    spec, status = state.get("spec", {}), state.get("status", {})
    leaving = " leaving" if state["metadata"].get("deletionTimestamp") else ""
    if kind == "nodes":
        return (
            f"{status.get('allocatable', {}).get('cpu')} cpu{' cordoned' * bool(spec.get('unschedulable'))}"
        )
    if kind == "pods":
        cpu = spec["containers"][0].get("resources", {}).get("requests", {}).get("cpu")
        marks = [
            each["reason"] for each in status.get("conditions", []) if each["type"] == "DisruptionTarget"
        ]
        return " ".join([f"{cpu} cpu on {spec.get('nodeName', '')!r}{leaving}", *marks])
    if kind == BUDGETS.plural:
        return f"{spec['minAvailable']} at least, allows {status.get('disruptionsAllowed')}"
    if kind != "reservations":
        return f"{spec}: {status.get('phase', '')} {told(state)}"
    conditions: dict[str, Json] = {each["type"]: each for each in status.get("conditions", [])}
    active, moves = (conditions.get(name, {}) for name in ("Active", "MovePlanned"))
    return " ".join(
        [
            f"{status.get('phase')} on {status.get('nodeName', '')!r}",
            f"asks {spec.get('resources')} has {status.get('resources')} until {status.get('expiresAt')}:",
            f"{active.get('reason')} {active.get('message')}{leaving}",
            *(f"{name} {spec.get(name, '')} {status.get(name, '')}" for name in _KEPT_UP if name in spec),
            *(f"{name} {spec[name]}" for name in _SHARED if name in spec),
            *(f"{name} {status[name]}" for name in ("plan", "moved") if name in status),
            moves["message"] if moves.get("status") == "False" else "",
        ]
    )


def told(state: Json) -> dict[str, str]:
    """Give the conditions of an object."""
    return {each["type"]: each["status"] for each in state.get("status", {}).get("conditions", [])}


# What a lock may be beside a plain one, by the fields of its spec.
_KEPT_UP = ("lease", "commit")
_SHARED = ("reuse", "borrowable", "anyOf", "startAt", "runSeconds", "mayMove")
