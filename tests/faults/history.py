"""The API's history, recorded by watches of the checker's own past all proxies."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from tidelock.kube.client import (
    NODES,
    PODS,
    RESERVATIONGROUPS,
    RESERVATIONQUOTAS,
    RESERVATIONQUOTES,
    RESERVATIONS,
    RESERVATIONSCHEDULES,
    WATERLEVELS,
    ApiResource,
    KubeClient,
    Params,
)
from tidelock.kube.errors import ApiError
from tidelock.kube.lines import LineSplitter
from tidelock.scheduler.informers.informers import OTHERS

WORLD_LABEL = "test.tidelock.dev/world"

BUDGETS = OTHERS["pod_disruption_budgets"][0]

RESOURCES = (
    *(NODES, PODS, RESERVATIONS, RESERVATIONGROUPS),
    *(RESERVATIONQUOTES, RESERVATIONQUOTAS, RESERVATIONSCHEDULES, BUDGETS, WATERLEVELS),
)
"""Resources that the operator watches or writes."""
OF_DEVICES = {
    name: OTHERS[name]
    for name in ("resource_claims", "resource_claim_templates", "resource_slices", "device_classes")
}
"""Those of runs with devices, with their decoders, by their field of Objects."""
CLAIMS, CLAIM_TEMPLATES, SLICES, CLASSES = (resource for resource, _ in OF_DEVICES.values())

_SILENCE = 36000.0  # seconds of the loop, as no fault is planned for these watches

_PAUSE = 1.0

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A version of an object, or its removal.

    `clock` is the operator's clock when the event came, and `at` the loop's time. Versions are etcd's
    revisions, which give all resources one order.
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
    """The events of one world, in the order of their versions once all watches have delivered them.

    Attributes:
        failures: reasons why the record is incomplete, or empty.
        followed: kinds with an open watch.

    """

    clock: Callable[[], float]
    changes: list[Change] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    followed: set[str] = field(default_factory=set)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, kind: str, event: Json) -> None:
        """Note an event of a watch."""
        if event["type"] not in {"ADDED", "MODIFIED", "DELETED"}:
            raise ConnectionError(f"the watch of {kind} tells {event}")
        state, gone = event["object"], event["type"] == "DELETED"
        version, at = int(state["metadata"]["resourceVersion"]), asyncio.get_running_loop().time()
        self.changes.append(Change(version, kind, gone, state, self.clock(), at))
        self.news.set()

    def note_list(self, kind: str, listed: Json) -> None:
        """Note the differences between a list and the record. The versions in between are lost."""
        known = self._newest(kind)
        for state in listed["items"]:
            meta, before = state["metadata"], known.pop(_place(state), None)
            if before is not None and before["metadata"]["uid"] != meta["uid"]:
                self._note_end(kind, before, meta["resourceVersion"])
                before = None
            if before is None or before["metadata"]["resourceVersion"] != meta["resourceVersion"]:
                self.note(kind, {"type": "MODIFIED", "object": state})
        for state in known.values():
            self._note_end(kind, state, listed["metadata"]["resourceVersion"])

    def _note_end(self, kind: str, last: Json, version: str) -> None:
        meta = last["metadata"] | {"resourceVersion": version}
        self.note(kind, {"type": "DELETED", "object": last | {"metadata": meta}})

    def _newest(self, kind: str) -> dict[tuple[str, str], Json]:
        """Return the current objects of a kind, by namespace and name."""
        newest = {_place(each.state): each for each in self.ordered() if each.kind == kind}
        return {place: each.state for place, each in newest.items() if not each.gone}

    def ordered(self) -> list[Change]:
        """Return all events in the order of their versions."""
        return sorted(self.changes, key=lambda each: each.version)

    def current(self) -> dict[tuple[str, str], Json]:
        """Return the current objects, by kind and name."""
        found: dict[tuple[str, str], Json] = {}
        for each in self.ordered():
            if each.gone:
                found.pop((each.kind, each.name), None)
            else:
                found[each.kind, each.name] = each.state
        return found


@asynccontextmanager
async def recording(
    client: KubeClient,
    world: str,
    clock: Callable[[], float],
    resources: Sequence[ApiResource] = RESOURCES,
    *,
    lasting: bool = False,
) -> AsyncIterator[Record]:
    """Record the events of a world while the context lasts, with the clock of its operator.

    A lasting record continues when the API server has been away.
    """
    record = Record(clock)
    watched = []
    for resource in resources:
        path = resource.collection(world)
        selector = {} if resource.namespaced else {"labelSelector": f"{WORLD_LABEL}={world}"}
        listed = json.loads(await client.get(path, selector))
        assert not listed["items"], f"{world} is not new"
        watched.append(_Watched(resource.plural, path, selector, listed["metadata"]["resourceVersion"]))
    async with _followed(client, watched, record, _outlast if lasting else _follow):
        yield record


@asynccontextmanager
async def recording_all(
    client: KubeClient, clock: Callable[[], float], resources: Sequence[ApiResource]
) -> AsyncIterator[Record]:
    """Record the objects of a whole cluster, and their events while the context lasts.

    The API server ends the watches of a kind when its CRD changes. They begin again with a list.
    """
    record = Record(clock)
    watched = []
    for resource in resources:
        listed = json.loads(await client.get(resource.collection()))
        for state in listed["items"]:
            record.note(resource.plural, {"type": "ADDED", "object": state})
        version = listed["metadata"]["resourceVersion"]
        watched.append(_Watched(resource.plural, resource.collection(), {}, version))
    async with _followed(client, watched, record, _outlast):
        yield record


@dataclass(frozen=True, slots=True)
class _Watched:
    """The collection that a watch follows, from a version on."""

    kind: str
    path: str
    selector: Params
    version: str


@asynccontextmanager
async def _followed(
    client: KubeClient,
    watched: Sequence[_Watched],
    record: Record,
    follow: Callable[[KubeClient, _Watched, Record], Coroutine[Any, Any, NoReturn]],
) -> AsyncIterator[None]:
    """Add the events of collections to a record while the context lasts, and the errors of watches."""
    followers = [asyncio.create_task(follow(client, each, record)) for each in watched]
    try:
        yield
    finally:
        for task in followers:
            task.cancel()
        ends = await asyncio.gather(*followers, return_exceptions=True)
        record.failures += [f"the record is not whole: {end!r}" for end in ends if isinstance(end, Exception)]


async def _follow(client: KubeClient, watched: _Watched, record: Record) -> NoReturn:
    lines, kind = LineSplitter(), watched.kind
    version = {"resourceVersion": watched.version}
    params = {**watched.selector, **version, "watch": "true", "timeoutSeconds": "7200"}
    async with client.stream(watched.path, params, silence_seconds=_SILENCE) as stream:
        record.followed.add(kind)
        try:
            while chunk := await stream.read():
                for line in lines.split(chunk):
                    record.note(kind, json.loads(line))
        finally:
            record.followed.discard(kind)
    raise ConnectionError(f"the watch of {kind} has ended")


async def _outlast(client: KubeClient, watched: _Watched, record: Record) -> NoReturn:
    """Follow a kind, and list it again whenever the watch has ended."""
    while True:
        with suppress(ApiError, ConnectionError):
            await _follow(client, watched, record)
        with suppress(ApiError):  # the API server is away, or does not know the kind
            listed = json.loads(await client.get(watched.path, watched.selector))
            record.note_list(watched.kind, listed)
            watched = replace(watched, version=listed["metadata"]["resourceVersion"])
        await asyncio.sleep(_PAUSE)


def _place(state: Json) -> tuple[str, str]:
    return state["metadata"].get("namespace", ""), state["metadata"]["name"]


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
    if kind == CLAIMS.plural:
        return f"has {devices_of(state)} for {[user['name'] for user in status.get('reservedFor', [])]}"
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


def devices_of(claim: Json) -> list[tuple[str, str]]:
    """Return pool and name of each device that a claim has."""
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return [(each["pool"], each["device"]) for each in results]


def told(state: Json) -> dict[str, str]:
    """Return the status of each condition of an object."""
    return {each["type"]: each["status"] for each in state.get("status", {}).get("conditions", [])}


# Features of a reservation beyond a plain one, by the fields of its spec.
_KEPT_UP = ("lease", "commit")
_SHARED = ("reuse", "borrowable", "anyOf", "startAt", "runSeconds", "mayMove")
