"""The churn: lives of objects that begin at a steady rate, and objects that last for the whole run."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bench.world import each
from soak.histories import LostError
from soak.lives import KINDS, SoakClient
from soak.nodes import STABLE, node_names
from soak.outcome import Outcome
from tidelock.kube.client import PODS, RESERVATIONS
from tidelock.kube.errors import ApiError

# Limit of lives at once. On a machine that is too slow for the rate, the rate decreases before capacity runs
# out.
_LIVES = 150
_SIZE = {"cpu": "1", "memory": "2Gi"}


class Churn:
    """The lives of a run and their results."""

    def __init__(self, actor: SoakClient, outcome: Outcome) -> None:
        self._actor = actor
        self._outcome = outcome

    async def go(self, rate: float, seconds: float) -> None:
        """Begin lives for so long, at so many objects a second, and wait until all have ended."""
        room = asyncio.Semaphore(_LIVES)
        begin = due = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number, name in enumerate(self._kinds()):
                if due >= begin + seconds:
                    break
                await room.acquire()
                task = group.create_task(self._live(name, f"{name}-{number:06}"))
                task.add_done_callback(lambda _: room.release())
                self._outcome.objects += KINDS[name].objects
                due = max(due, time.perf_counter() - 1.0) + KINDS[name].objects / rate
                await asyncio.sleep(due - time.perf_counter())

    def _kinds(self) -> Iterator[str]:
        """Yield one of each kind, and then random ones for ever."""
        yield from KINDS
        kinds, weights = list(KINDS), [kind.weight for kind in KINDS.values()]
        while True:
            yield from self._actor.rng.choices(kinds, weights)

    async def _live(self, kind: str, name: str) -> None:
        try:
            await KINDS[kind].live(self._actor, name)
            self._outcome.lives[kind] += 1
        except (LostError, ApiError) as error:
            self._outcome.faults.append(f"{kind}: {error}")


@dataclass
class LongLived:
    """Reservations and pods that last for the whole run, one of each on every stable node."""

    actor: SoakClient
    nodes: int
    held: dict[str, tuple[str, str]] = field(default_factory=dict)

    async def up(self) -> None:
        """Create the objects, and wait until they are active and bound."""
        where = dict(enumerate(node_names(STABLE, self.nodes)))

        async def create(number: int) -> None:
            reservation, pod = f"long-lived-lock-{number:03}", f"long-lived-pod-{number:03}"
            await self.actor.reservation(reservation, nodeName=where[number], resources=_SIZE)
            await self.actor.active(reservation)
            await self.actor.pod(pod, nodeSelector={"kubernetes.io/hostname": where[number]})
            await self.actor.bound(pod)
            self.held[reservation] = _grant(
                await self._read(RESERVATIONS.item(reservation, self.actor.namespace))
            )
            self.held[pod] = (where[number], "")

        await each(create, where)

    async def lost(self) -> list[str]:
        """Return a text for each object that has changed."""
        now: dict[str, tuple[str, str]] = {}
        for resource in (RESERVATIONS, PODS):
            listed = await self._read(resource.collection(self.actor.namespace))
            now |= {item["metadata"]["name"]: _grant(item) for item in listed["items"]}
        return [
            f"{name} had {' '.join(held).strip()}, has {' '.join(now.get(name, ('nothing',))).strip()}"
            for name, held in self.held.items()
            if now.get(name) != held
        ]

    async def down(self) -> None:
        """Delete the objects."""
        for name in self.held:
            await self.actor.remove(RESERVATIONS if "lock" in name else PODS, name)

    async def _read(self, path: str) -> Any:
        return msgspec.json.decode(await self.actor.client.get(path))


def _grant(item: dict[str, Any]) -> tuple[str, str]:
    """Return the node of an object, and the instant at which a reservation became active."""
    status = item.get("status", {})
    active = status.get("phase") == "Active"
    return (status["nodeName"], status["activatedAt"]) if active else (item["spec"].get("nodeName", ""), "")
