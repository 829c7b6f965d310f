"""A schedule, its controller, and an API server that outlives both."""

from collections.abc import Iterable
from typing import Any

from builders import NAMESPACE, NOW, Json, encode, node
from tidelock.kube.client import RESERVATIONSCHEDULES
from tidelock.kube.errors import Unreachable
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.reservation_schedule import ReservationSchedule, decode_schedule
from unit.scheduler.machinery import Shell, lock_path, turns

MINUTE, HOUR = 60, 3600
FIRST = 30 * MINUTE
"""Seconds from NOW to the start of the first window."""
KEY = Key(NAMESPACE, "nightly")
PATH = RESERVATIONSCHEDULES.item("nightly", NAMESPACE)
OWNERS = [{"selector": {"matchLabels": {"app": "nightly"}}}]
_LOCKS = lock_path("")


def schedule_json(*, uid: str = "uid-nightly", created: float = NOW, **spec: Any) -> Json:
    """Build a schedule of a window of ten minutes at half past each hour."""
    metadata = {
        "name": "nightly",
        "namespace": NAMESPACE,
        "uid": uid,
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": format_instant(created),
    }
    template = {"spec": {"resources": {"cpu": "1"}, "owners": OWNERS, "pendingDeadlineSeconds": 86_400}}
    wanted = {"schedule": "30 * * * *", "durationSeconds": 600, "template": template} | spec
    return {"metadata": metadata, "spec": wanted, "status": {"observedGeneration": -1}}


def schedule(**fields: Any) -> ReservationSchedule:
    return decode_schedule(encode(schedule_json(**fields)))


class ScheduleScene:
    """A scheduler and a schedule controller. `restart` replaces both, and keeps API server and clock."""

    def __init__(self, cpu: str = "64") -> None:
        self._cpu = cpu
        self._begin(Shell(node("node-a", cpu=cpu)))

    def restart(self) -> None:
        """Start another process with the objects of the API server."""
        before = self.shell
        shell = Shell(node("node-a", cpu=self._cpu))
        shell.clock.time = before.clock.time
        shell.api.objects = before.api.objects
        self._begin(shell)
        self._see()

    def _begin(self, shell: Shell) -> None:
        self.shell, self.api, self.clock = shell, shell.api, shell.clock
        self.controller = shell.controllers.schedules

    def ask(self, **fields: Any) -> None:
        """Create a schedule and deliver it by the watch."""
        self.api.objects[PATH] = schedule_json(created=self.clock.now(), **fields)
        self.see()

    def edit(self, **spec: Any) -> None:
        """Edit the spec of the schedule and deliver it by the watch."""
        stored = self.api.edit(PATH, {"spec": spec})
        stored["metadata"]["generation"] += 1
        self.see()

    def see(self) -> None:
        """Deliver the stored version by the watch."""
        self.controller.upsert(None, decode_schedule(encode(self.api.objects[PATH])))

    async def go_on(self) -> None:
        """Run controller, decisions and writers until they send no more requests."""
        asked = -1
        while asked < len(self.api.asked):
            asked = len(self.api.asked)
            self.controller.reconcile(KEY)
            await self.shell.settle()
            self._see()
            self.shell.decide()
            await self.shell.publish()
            self._see()

    async def at(self, instant: float) -> None:
        """Set the time to an instant, and run everything that is due then."""
        self.clock.time = instant
        await self.go_on()

    def bind_owner(self) -> None:
        """Deliver a bound pod that owns the windows, beside the window that has begun."""
        self.shell.step()
        self.shell.store_pod(
            "report", labels={"app": "nightly"}, node_name="node-a", bound_at=self.clock.now()
        )
        self.shell.answer()

    async def go_untold(self) -> None:
        """Create windows and consume them while this process can write no status."""
        self.api.refuses["PUT"] = Unreachable("gone")
        self.controller.reconcile(KEY)
        await turns(30)
        self._see()
        self.bind_owner()
        self.shell.flush()
        await turns(30)
        self._see()

    async def take(self, *starts: float) -> None:
        """Consume the reservations of windows, so that they are removed."""
        for start in starts:
            self.api.objects.pop(lock_path(name(start)), None)
        self._see()
        await turns()

    def _see(self) -> None:
        """Deliver all stored objects and all deletions by the watches."""
        there = set(self._stored())
        for entry in tuple(self.shell.ledger.entries.values()):
            if entry.key.name not in there:
                self.shell.event_handlers.reservations.remove(entry.reservation)
        for each in there:
            known = self.shell.ledger.entries.get(Key(NAMESPACE, each))
            version = self.api.objects[lock_path(each)]["metadata"]["resourceVersion"]
            if known is None or known.reservation.meta.resource_version != version:
                self.shell.see_reservation(each)
        if PATH in self.api.objects:
            self.see()

    def _stored(self) -> Iterable[str]:
        return [path.removeprefix(_LOCKS) for path in self.api.objects if path.startswith(_LOCKS)]

    @property
    def windows(self) -> list[float]:
        """Starts of the windows with stored reservations, in seconds from now."""
        return sorted(int(each.removeprefix("nightly-")) * 60 - NOW for each in self._stored())

    @property
    def posted(self) -> list[str]:
        """Names of the reservations that this process has tried to create, once for each attempt."""
        return [asked.body["metadata"]["name"] for asked in self.api.asked if asked.method == "POST"]

    @property
    def status(self) -> Json:
        status: Json = self.api.objects[PATH]["status"]
        return status

    def condition(self, kind: str) -> Json:
        return next((each for each in self.status["conditions"] if each["type"] == kind), {})


def name(start: float) -> str:
    """Return the name of the window that begins so many seconds from now."""
    return f"nightly-{int(NOW + start) // 60}"
