"""Pods, foreign pods and reservations that come and go all the time, beside reservations that last."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any

from devcluster.identity import SYSTEM_NAMESPACE
from e2e.judging import Judgement, judge
from faults.history import Json, Record
from faults.reading import amounts, requests, says, total, uses_room_of
from tidelock.kube.client import NODES, PODS, RESERVATIONS, ApiResource, KubeClient
from tidelock.kube.errors import NotFound

SCHEDULER = "tidelock-scheduler"
STOCK = "default-scheduler"

_TICK = 0.5  # seconds between two pods
_LIFE = 6.0  # seconds of a pod after its binding
_FREE = Decimal(1)  # cores of each node that reservations and the operator leave to the stream
_GREEDY = "1050m"
_PATIENCE = 150.0
_LOOK = 0.2
_MOVING = frozenset({SYSTEM_NAMESPACE})  # its pods move from node to node


def pod(name: str, cpu: str, scheduler: str = SCHEDULER, **spec: Any) -> Json:
    """Return a pod that a kubelet admits and never starts, as a volume is missing.

    Hundreds of pods cost the nodes next to nothing. A deletion needs a grace period of 0, as a kubelet waits
    for the volume meanwhile.
    """
    missing = {"name": "missing", "configMap": {"name": "missing"}}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    whole: Json = {"schedulerName": scheduler, "containers": [container], "volumes": [missing]}
    return {"metadata": {"name": name}, "spec": whole | spec}


def reservation(name: str, cpu: str, **spec: Any) -> Json:
    """Return a Reservation for the pod of its name."""
    whole = {"resources": {"cpu": cpu}, "owners": [{"pod": {"name": name}}], "ttlSeconds": 3600}
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name},
        "spec": whole | spec,
    }


@dataclass(slots=True)
class Stream:
    """A stream in a namespace. `greedy` pods fit on no node, unless reserved capacity is given twice.

    Attributes:
        current: the newest state of each object of the namespace, by kind and name.

    """

    client: KubeClient
    record: Record
    namespace: str
    workers: list[str]
    current: dict[tuple[str, str], Json] = field(default_factory=dict)
    _leaving: deque[tuple[float, str]] = field(default_factory=deque)
    _read: int = 0

    async def create(self, resource: ApiResource, body: Json) -> Json:
        """Create an object in the stream's namespace."""
        made: Json = json.loads(await self.client.create(resource.collection(self.namespace), body))
        return made

    async def fill(self) -> None:
        """Reserve on each worker all but a core, and create a pod for either scheduler that needs more."""
        pods = json.loads(await self.client.get(PODS.collection()))["items"]
        for worker in self.workers:
            node = json.loads(await self.client.get(NODES.item(worker)))
            there = [one for one in pods if one["metadata"]["namespace"] not in _MOVING]
            used = total(requests(one) for one in there if uses_room_of(one, worker))
            kept = amounts(node["status"]["allocatable"])["cpu"] - used.get("cpu", Decimal(0)) - _FREE
            await self.create(RESERVATIONS, reservation(f"keep-{worker}", str(kept), nodeName=worker))
        await self.until("the lasting reservations are active", self.keeps)
        for scheduler in (SCHEDULER, STOCK):
            await self.create(PODS, pod(f"greedy-{scheduler}", _GREEDY, scheduler))

    def keeps(self) -> bool:
        """Return whether all lasting reservations are active."""
        return all(self._is_active(f"keep-{worker}") for worker in self.workers)

    def _is_active(self, name: str) -> bool:
        self._follow()
        state = self.current.get(("reservations", name))
        return state is not None and says(state, "Active")

    async def run(self) -> None:
        """Create a pod twice a second, and delete those that have been bound for a while."""
        async with asyncio.TaskGroup() as tasks:
            for number in count():
                tasks.create_task(self._add(number))
                await self._clean()
                await asyncio.sleep(_TICK)

    async def _add(self, number: int) -> None:
        match number % 4:
            case 0:
                await self.create(PODS, pod(f"foreign-{number}", "10m", STOCK))
            case 2:
                name = f"owner-{number}"
                answered = {"answer": "Immediate"} if number % 8 == 2 else {}
                await self.create(RESERVATIONS, reservation(name, "20m", **answered))
                await self.until(f"{name} is active", lambda: self._is_active(name))
                await self.create(PODS, pod(name, "20m"))
            case _:
                await self.create(PODS, pod(f"own-{number}", "10m"))
                if number % 10 == 1:
                    await self.create(RESERVATIONS, reservation(f"brief-{number}", "20m", ttlSeconds=5))

    def _follow(self) -> None:
        """Read the newer changes of the record."""
        changes, self._read = self.record.changes[self._read :], len(self.record.changes)
        for each in changes:
            key = each.kind, each.name
            if each.state["metadata"].get("namespace") != self.namespace:
                continue
            if each.gone:
                self.current.pop(key, None)
                continue
            before = self.current.get(key)
            self.current[key] = each.state
            if each.kind == "pods" and _node_of(each.state) and not (before and _node_of(before)):
                self._leaving.append((each.at + _LIFE, each.name))

    async def _clean(self) -> None:
        self._follow()
        while self._leaving and self._leaving[0][0] <= asyncio.get_running_loop().time():
            _, name = self._leaving.popleft()
            with suppress(NotFound):
                await self.client.delete(PODS.item(name, self.namespace), grace_seconds=0)

    def waiting(self) -> list[str]:
        """Return the pods and reservations that wait, apart from those that have to."""
        self._follow()
        return [
            name
            for (kind, name), state in self.current.items()
            if not name.startswith("greedy-")
            and not (_node_of(state) if kind == "pods" else state.get("status", {}).get("activatedAt"))
        ]

    async def until(self, what: str, probe: Callable[[], object]) -> None:
        """Wait until a probe is true, for longer than the loss of a leader and its node may last."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while not probe():
            late = asyncio.get_running_loop().time() > deadline
            assert not late, f"not within {_PATIENCE:g} s: {what}; waiting: {self.waiting()}"
            await asyncio.sleep(_LOOK)

    def judged(self) -> Judgement:
        """Judge the record of all namespaces, and return the waits in this one."""
        found, own = judge(self.record.ordered()), self.namespace
        mine = {each.name for each in self.record.changes if each.state["metadata"].get("namespace") == own}
        mine -= {f"greedy-{scheduler}" for scheduler in (SCHEDULER, STOCK)}
        return Judgement(
            found.violations,
            [wait for wait in found.pods if wait.name in mine],
            [wait for wait in found.reservations if wait.name in mine],
        )


@asynccontextmanager
async def streaming(
    client: KubeClient, record: Record, namespace: str, workers: list[str]
) -> AsyncIterator[Stream]:
    """Run a stream while the context lasts, and then wait until all that it created is placed.

    Then the lasting reservations must be active, and the greedy pods must wait.
    """
    stream = Stream(client, record, namespace, workers)
    await stream.fill()
    running = asyncio.create_task(stream.run())
    try:
        yield stream
        assert not running.done(), f"the stream has ended: {running!r}"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await stream.until("all is placed", lambda: not stream.waiting())
    assert stream.keeps()
    for scheduler in (SCHEDULER, STOCK):
        assert not _node_of(stream.current["pods", f"greedy-{scheduler}"])


def _node_of(pod: Json) -> str:
    return str(pod["spec"].get("nodeName", ""))
