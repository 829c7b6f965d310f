"""A schedule, who keeps it, and an API server that outlives them."""

from collections.abc import Iterable
from typing import Any

from builders import NAMESPACE, NOW, Json, encode, node
from tidelock.kube.client import RESERVATIONSCHEDULES
from tidelock.kube.errors import Unreachable
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.reservation_schedule import ReservationSchedule, decode_schedule
from tidelock.scheduler.controllers.schedules import ScheduleController
from unit.scheduler.machinery import Shell, lock_path, turns

KEY = Key(NAMESPACE, "nightly")
PATH = RESERVATIONSCHEDULES.item("nightly", NAMESPACE)
OWNERS = [{"selector": {"matchLabels": {"app": "nightly"}}}]
_LOCKS = lock_path("")


def schedule_json(*, uid: str = "uid-nightly", created: float = NOW, **spec: Any) -> Json:
    """Give a schedule of a window of ten minutes at half past each hour."""
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


class Works:
    """A scheduler, and who keeps schedules; `restart` ends them, but not the API server and the clock."""

    def __init__(self, cpu: str = "64") -> None:
        self._cpu = cpu
        self._begin(Shell(node("node-a", cpu=cpu)))

    def restart(self) -> None:
        """Have another process take over what the API server has."""
        before = self.shell
        shell = Shell(node("node-a", cpu=self._cpu))
        shell.clock.time = before.clock.time
        shell.api.objects = before.api.objects
        self._begin(shell)
        self._see()

    def _begin(self, shell: Shell) -> None:
        self.shell, self.api, self.clock = shell, shell.api, shell.clock
        self.keeper = ScheduleController(shell.context, shell.ledger)

    def ask(self, **fields: Any) -> None:
        """Have a schedule be created and seen."""
        self.api.objects[PATH] = schedule_json(created=self.clock.now(), **fields)
        self.see()

    def edit(self, **spec: Any) -> None:
        """Have its spec be edited, and the edit be seen."""
        stored = self.api.edit(PATH, {"spec": spec})
        stored["metadata"]["generation"] += 1
        self.see()

    def see(self) -> None:
        """Have the watch tell of the stored version."""
        self.keeper.upsert(None, decode_schedule(encode(self.api.objects[PATH])))

    async def go_on(self) -> None:
        """Let all go its way until nothing changes any more."""
        asked = -1
        while asked < len(self.api.asked):
            asked = len(self.api.asked)
            self.keeper.reconcile(KEY)
            await self.shell.settle()
            self._see()
            self.shell.decide()
            await self.shell.publish()
            self._see()

    async def at(self, instant: float) -> None:
        """Let time pass until an instant, and all go its way then."""
        self.clock.time = instant
        await self.go_on()

    def bind_owner(self) -> None:
        """Have a pod that is an owner of windows be seen bound, beside the window that has begun."""
        self.shell.step()
        self.shell.store_pod(
            "report", labels={"app": "nightly"}, node_name="node-a", bound_at=self.clock.now()
        )
        self.shell.answer()

    async def go_untold(self) -> None:
        """Let windows be made and consumed while this process can write no status."""
        self.api.refuses["PUT"] = Unreachable("gone")
        self.keeper.reconcile(KEY)
        await turns(30)
        self._see()
        self.bind_owner()
        self.shell.flush()
        await turns(30)
        self._see()

    async def take(self, *starts: float) -> None:
        """Have locks of windows be consumed, so that they go."""
        for start in starts:
            self.api.objects.pop(lock_path(name(start)), None)
        self._see()
        await turns()

    def _see(self) -> None:
        """Have the watches tell of all that there is, and is no more."""
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
        """Starts of the windows whose locks are stored, in seconds from now."""
        return sorted(int(each.removeprefix("nightly-")) * 60 - NOW for each in self._stored())

    @property
    def posted(self) -> list[str]:
        """Names of the locks that this process has asked for, again and again if it has."""
        return [asked.body["metadata"]["name"] for asked in self.api.asked if asked.method == "POST"]

    @property
    def status(self) -> Json:
        status: Json = self.api.objects[PATH]["status"]
        return status

    def condition(self, kind: str) -> Json:
        return next((each for each in self.status["conditions"] if each["type"] == kind), {})


def name(start: float) -> str:
    """Name the window that begins so many seconds from now."""
    return f"nightly-{int(NOW + start) // 60}"
