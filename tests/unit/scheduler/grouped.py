"""A group, its controller, and an API server that outlives both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from builders import NAMESPACE, NOW, Json, encode, node
from tidelock.kube.client import RESERVATIONGROUPS
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.reservation_group import ReservationGroup, decode_group
from unit.scheduler.gang import OWNERS
from unit.scheduler.machinery import Shell, lock_path, turns

KEY = Key(NAMESPACE, "train")
PATH = RESERVATIONGROUPS.item("train", NAMESPACE)
WORKERS = ["train-worker-0", "train-worker-1"]


def group_json(
    *, uid: str = "uid-train", created: float = NOW, status: Json | None = None, **spec: Any
) -> Json:
    metadata = {"name": "train", "namespace": NAMESPACE, "uid": uid, "generation": 1, "resourceVersion": "1"}
    metadata["creationTimestamp"] = format_instant(created)
    members = [{"name": "worker", "count": 2, "resources": {"cpu": "1"}, "owners": OWNERS}]
    wanted = {"members": members, "ttlSeconds": 600} | spec
    return {"metadata": metadata, "spec": wanted, "status": status or {"observedGeneration": -1}}


def group(**fields: Any) -> ReservationGroup:
    return decode_group(encode(group_json(**fields)))


class GroupScene:
    """A scheduler and a group controller."""

    def __init__(self, cpu: str = "4") -> None:
        self.shell = shell = Shell(node("node-a", cpu=cpu))
        self.api = shell.api
        self.controller = shell.controllers.groups

    def ask(self, **fields: Any) -> None:
        """Create a group and deliver it by the watch."""
        self.api.objects[PATH] = group_json(**fields)
        self.see()

    def see(self) -> None:
        """Deliver the stored version by the watch."""
        self.controller.upsert(None, decode_group(encode(self.api.objects[PATH])))

    def see_members(self) -> None:
        for name in WORKERS:
            self.shell.see_reservation(name)

    async def go_on(self) -> None:
        """Run controller, decisions and writers for several rounds."""
        for _ in range(8):
            await turns(30)
            for name in WORKERS:
                if lock_path(name) in self.api.objects:
                    self.shell.see_reservation(name)
            self.shell.decide()
            await self.shell.publish()

    @property
    def status(self) -> Json:
        status: Json = self.api.objects[PATH]["status"]
        return status

    def condition(self, kind: str) -> Json:
        return next((each for each in self.status["conditions"] if each["type"] == kind), {})

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        started = asyncio.Event()
        started.set()
        running = asyncio.create_task(self.controller.run(started))
        await turns(30)
        yield
        running.cancel()
        await asyncio.wait([running])
