"""The scheduler over a clock that is set by hand and an API server that is a dictionary."""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from builders import NAMESPACE, NOW, SCHEDULER, Json, encode, pod_json, reservation_json
from tidelock.kube.client import PODS, RESERVATIONS, KubeClient, Params
from tidelock.kube.errors import ApiError, Conflict, NotFound
from tidelock.kube.events import EventRecorder, EventType, ObjectReference
from tidelock.ledger.entry import Entry
from tidelock.model.locks import decode_reservation
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod, decode_pod
from tidelock.scheduler.binding import Binder
from tidelock.scheduler.cycle import Assumed
from tidelock.scheduler.decider import Decider, Outcome, Unschedulable
from tidelock.scheduler.feed import Feed
from tidelock.scheduler.loop import Loop
from tidelock.scheduler.publisher import Publisher
from tidelock.scheduler.tasks import Tasks
from tidelock.telemetry import Telemetry

_MOST_TURNS = 200


class HandClock:
    """Stands still unless it is moved; each look at `monotonic` may take `tick` seconds."""

    def __init__(self, tick: float = 0.0) -> None:
        self.time = NOW
        self.tick = tick

    def now(self) -> float:
        return round(self.time, 3)

    def monotonic(self) -> float:
        self.time += self.tick
        return self.time - NOW

    def advance(self, seconds: float) -> None:
        self.time += seconds


class Core:
    """Feed and decider, as pure as they are."""

    def __init__(self, *nodes: Node, listed: bool = True) -> None:
        self.clock = HandClock()
        self.decider = Decider(SCHEDULER, on_enqueue=self._enqueued)
        self.book, self.cache, self.queue = self.decider.book, self.decider.cache, self.decider.queue
        self.enqueued: list[tuple[str, str]] = []
        self.wakes = 0
        self.feed = Feed(self.cache, self.book, self.queue, self.clock, self._wake)
        for node in nodes:
            self.feed.nodes.upsert(None, node)
        if listed:
            self.list_all()

    def list_all(self) -> None:
        self.feed.nodes.synced()
        self.feed.pods.synced()
        self.feed.reservations.synced()

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.feed.pods.upsert(None, pod)

    def lock(self, name: str = "lock", **fields: Any) -> Entry:
        """Have a Reservation be seen, new or in a newer version."""
        new = decode_reservation(encode(reservation_json(name, **fields)))
        known = self.book.entries.get(new.key)
        self.feed.reservations.upsert(known.reservation if known else None, new)
        return self.book.entries[new.key]

    def step(self) -> Outcome | None:
        return self.decider.step(self.clock.now())

    def place(self) -> Assumed:
        """Decide, and expect a pod to be placed."""
        outcome = self.step()
        assert isinstance(outcome, Assumed), outcome
        return outcome

    def refuse(self) -> Unschedulable:
        """Decide, and expect a pod to be refused."""
        outcome = self.step()
        assert isinstance(outcome, Unschedulable), outcome
        return outcome

    def used(self, node_name: str = "node-a", resource: str = "cpu") -> int:
        """Give what pods have taken of a node, cpu in thousandths."""
        columns = self.decider.columns
        return int(columns.requested[columns.row_of[node_name], columns.resources.index(resource)])

    def locked(self, node_name: str = "node-a", resource: str = "cpu") -> int:
        """Give what locks hold of a node, cpu in thousandths."""
        columns = self.decider.columns
        return int(columns.locked[columns.row_of[node_name], columns.resources.index(resource)])

    def _enqueued(self, place: str, event: str) -> None:
        self.enqueued.append((place, event))

    def _wake(self) -> None:
        self.wakes += 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was sent."""

    method: str
    path: str
    body: Any
    content_type: str


class FakeApi(KubeClient):
    """Objects by their paths, with versions and preconditions; failures come as they are ordered."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.asked: list[Asked] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._faults: deque[tuple[ApiError, bool]] = deque()

    def fails(self, *errors: ApiError) -> None:
        """Refuse the next requests."""
        self._faults.extend((error, False) for error in errors)

    def loses(self, error: ApiError) -> None:
        """Carry out the next request, but lose the answer."""
        self._faults.append((error, True))

    @property
    def verbs(self) -> list[str]:
        return [asked.method for asked in self.asked]

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float | None = None,  # noqa: ASYNC109 -- the client's signature
    ) -> bytes:
        self.asked.append(Asked(method, path, body, content_type))
        await self.gate.wait()
        error, carried_out = self._faults.popleft() if self._faults else (None, True)
        answer = self._carry_out(method, path, body) if carried_out else {}
        if error is not None:
            raise error
        return encode(answer)

    def edit(self, path: str, patch: Json) -> Json:
        """Change an object, as somebody else would."""
        stored = merged(self.objects[path], patch)
        stored["metadata"]["resourceVersion"] = str(int(stored["metadata"]["resourceVersion"]) + 1)
        self.objects[path] = stored
        return stored

    def _carry_out(self, method: str, path: str, body: Any) -> Json:
        path = path.removesuffix("/status").removesuffix("/binding")
        if path not in self.objects:
            raise NotFound("no such object", status=404)
        if method == "GET":
            return self.objects[path]
        if method == "DELETE":
            self._check(path, body["preconditions"])
            return self.objects.pop(path)
        self._check(path, body["metadata"])
        if method == "POST":
            return self.edit(path, {"spec": {"nodeName": body["target"]["name"]}})
        return self.edit(path, {"status": body["status"]})

    def _check(self, path: str, wanted: Json) -> None:
        stored = self.objects[path]["metadata"]
        if any(wanted.get(field, stored[field]) != stored[field] for field in ("uid", "resourceVersion")):
            raise Conflict("the object has been modified", status=409)


def merged(old: Json, patch: Json) -> Json:
    """Apply a JSON merge patch."""
    new = dict(old)
    for field, value in patch.items():
        if value is None:
            new.pop(field, None)
        elif isinstance(value, dict):
            new[field] = merged(new.get(field, {}), value)
        else:
            new[field] = value
    return new


@dataclass(frozen=True, slots=True)
class Told:
    """An event that was recorded."""

    regarding: ObjectReference
    type: str
    reason: str
    action: str
    note: str


class FakeRecorder(EventRecorder):
    """Keeps events instead of sending them."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def record(
        self,
        regarding: ObjectReference,
        type: EventType,  # noqa: A002 -- the recorder's signature
        reason: str,
        action: str,
        note: str,
    ) -> None:
        self.told.append(Told(regarding, type, reason, action, note))

    def __iter__(self) -> Iterator[Told]:
        return iter(self.told)

    @property
    def reasons(self) -> list[str]:
        return [told.reason for told in self.told]


class Shell(Core):
    """Core and everything around it; make it inside of a running event loop."""

    def __init__(self, *nodes: Node, listed: bool = True) -> None:
        super().__init__(*nodes, listed=listed)
        self.api, self.recorder, self.telemetry, self.tasks = FakeApi(), FakeRecorder(), Telemetry(), Tasks()
        writers = (self.recorder, self.telemetry, self.clock, self.tasks, Random(1))
        self.binder = Binder(self.api, self.decider, *writers)
        self.publisher = Publisher(self.api, self.book, *writers)
        self.loop = Loop(self.decider, self.binder, self.publisher, self.telemetry, self.clock)
        self.feed.wake = self.loop.wake

    def store_lock(self, name: str = "lock", **fields: Any) -> Entry:
        """Have a Reservation be created and seen."""
        self.api.objects[lock_path(name)] = reservation_json(name, **fields)
        return self.see_lock(name)

    def see_lock(self, name: str = "lock") -> Entry:
        """Have the watch tell of the stored version."""
        new = decode_reservation(encode(self.api.objects[lock_path(name)]))
        self.feed.reservations.upsert(None, new)
        return self.book.entries[Key(NAMESPACE, name)]

    def store_pod(self, name: str = "web-0", **fields: Any) -> Pod:
        """Have a pod be created and seen."""
        self.api.objects[pod_path(name)] = pod_json(name, **fields)
        return self.see_pod(name)

    def see_pod(self, name: str = "web-0") -> Pod:
        """Have the watch tell of the stored version."""
        new = decode_pod(encode(self.api.objects[pod_path(name)]))
        self.feed.pods.upsert(None, new)
        return new

    def stored_status(self, name: str = "lock") -> Json:
        status: Json = self.api.objects[lock_path(name)]["status"]
        return status

    async def settle(self) -> None:
        """Let all writes under way come to their end."""
        for _ in range(_MOST_TURNS):
            if not len(self.tasks):
                return
            await asyncio.sleep(0)
        raise AssertionError("the writes do not end")

    async def publish(self) -> None:
        """Write all that has changed."""
        self.publisher.flush()
        await self.settle()

    def metric(self, name: str, **labels: str) -> float | None:
        return self.telemetry.registry.get_sample_value(name, labels)


async def turns(count: int = 10) -> None:
    """Let the event loop turn so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


def lock_path(name: str = "lock") -> str:
    return RESERVATIONS.item(name, NAMESPACE)


def pod_path(name: str = "web-0") -> str:
    return PODS.item(name, NAMESPACE)
