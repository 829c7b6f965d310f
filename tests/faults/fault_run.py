"""A run: users, nodes and foreign schedulers act as planned while the operator crashes and returns."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

import aiohttp

from faults.creations import Creations
from faults.devices import CLAIMING, Devices, claiming_template
from faults.draws import NUMBERS
from faults.hasty import JumpingClock
from faults.history import BUDGETS, WORLD_LABEL, Json
from faults.kinds import LEVELS
from faults.operator_instance import SCHEDULER, OperatorInstance, cancel
from faults.plan import Plan
from faults.proxy import Proxy
from faults.reading import answers_of
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
)
from tidelock.kube.config import Connection
from tidelock.kube.errors import AlreadyExists, ApiError, NotFound
from tidelock.model.instants import format_instant

NODE_LABEL = "kubernetes.io/hostname"

RUN_SECONDS = "tidelock.dev/run-seconds"
_MOVABLE = "tidelock.dev/movable"

_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "part", "uid": "part", "controller": True}

# Seconds after which a pod that has run for its time is certainly gone.
_GRACE = 2
# Seconds of the loop.
_DEAD_FOR = 0.5
_LONGEST_WAIT = 20.0
_LOOK = 0.1
_RANKS = 9  # number of the quota that allows the drawn priorities, which no drawn quota has


Action = Callable[..., Awaitable[object]]
"""An action on a run, with the arguments of a step."""


class UnfitError(Exception):
    """The action is impossible for the object of this number, but may be possible for another one."""


class Outages(Protocol):
    """Outages of the API server as a whole."""

    @property
    def actions(self) -> Mapping[str, Action]:
        """The outages, and their ends, by the names of steps."""

    async def elect(self) -> int:
        """Begin another leadership, and return its number."""

    async def mend(self) -> None:
        """End all outages."""


@dataclass(frozen=True, slots=True)
class Site:
    """The place of a run: an API server, a client with all rights there, and the operator's connection."""

    admin: KubeClient
    session: aiohttp.ClientSession
    operator: Connection


@dataclass(slots=True)
class FaultRun:
    """A run under way."""

    site: Site
    plan: Plan
    world: str
    clock: JumpingClock
    proxy: Proxy
    outages: Outages | None = None
    instance: OperatorInstance | None = None
    starts: int = 0
    epoch: int = 0
    foreign: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)
    crashes: list[float] = field(default_factory=list)
    holders: set[asyncio.Task[None]] = field(default_factory=set)
    creations: Creations = field(init=False)
    devices: Devices = field(init=False)

    def __post_init__(self) -> None:
        """Prepare creations that ask for an answer, and devices."""
        self.devices = Devices(self.site.admin, self.world)
        self.creations = Creations(
            self.proxy, lambda: self.instance, lambda: self.epoch, self._post_reservation
        )

    # The operator.

    async def run_operator(self) -> None:
        """Run the operator, and start it again after each crash. End if the operator fails on its own."""
        while True:
            url = await self.proxy.open()
            self.starts += 1
            rng = Random(f"{self.plan.seed}/{self.starts}")  # noqa: S311 -- to be repeated
            async with self.creations.fence:
                self.epoch = await self.outages.elect() if self.outages is not None else self.starts
            # An operator replaces a key long after any answer that it has signed. So no key may be replaced
            # twice by crashes that follow each other within seconds.
            newest = self.starts // 3
            keys = [f"{self.plan.seed}/{number}".encode() for number in (newest, newest - 1)]
            levels = LEVELS.name in self.plan.kinds
            self.instance = OperatorInstance(
                self.site.operator,
                url,
                self.clock,
                rng,
                self.epoch,
                keys=keys,
                levels=levels,
                devices=self.plan.devices,
            )
            running = asyncio.create_task(self.instance.run())
            crash = asyncio.create_task(self.proxy.crash.wait())
            try:
                await asyncio.wait((running, crash), return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    running.result()
                    raise AssertionError("the operator has ended")
                self.note("the operator crashes")
                self.crashes.append(asyncio.get_running_loop().time())
            finally:
                crash.cancel()
                self.instance = None
                shutting = asyncio.create_task(self.proxy.shut())
                if not running.done():
                    await cancel(running)
                await shutting
            await asyncio.sleep(_DEAD_FOR)

    def note(self, what: str) -> None:
        self.log.append(f"at {asyncio.get_running_loop().time():.2f}: {what}")

    # Steps.

    async def execute(self) -> None:
        """Execute all planned steps. A step that the API server refuses has no effect."""
        await self.create_quota(_RANKS, {"maxPriority": 9, "preemptionPolicy": "PreemptLowerPriority"})
        if self.plan.devices:
            await self.devices.create_class()
        for name, cpu in self.plan.sizes.items():
            await self.put_node(name, cpu)
        actions = _ACTIONS | dict(self.outages.actions if self.outages is not None else {})
        for step in self.plan.steps:
            await (self._until_idle() if step.pause is None else asyncio.sleep(step.pause))
            self.note(f"{step.action} {dict(step.arguments)}")
            await self._do(actions[step.action], step.arguments)
        if self.outages is not None:
            await self.outages.mend()
        await self.creations.done()
        for holder in self.holders:
            holder.cancel()
        for number in range(NUMBERS):  # otherwise an eviction might wait for ever
            with suppress(NotFound):
                await self.delete_budget(number)

    async def _do(self, action: Action, arguments: Mapping[str, Any]) -> None:
        """Apply an action to the first object, from its number on, for which it is possible."""
        for shift in range(NUMBERS):
            number = {"number": (arguments["number"] + shift) % NUMBERS} if "number" in arguments else {}
            try:
                await action(self, **{**arguments, **number})
            except (NotFound, AlreadyExists, UnfitError) as error:
                self.note(f"  not of {number}: {error}")
            except ApiError as error:
                self.note(f"  refused: {error}")
                return
            else:
                return

    async def _until_idle(self) -> None:
        """Wait until the operator reports that it has nothing to do, but not for long, as it may be dead."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_WAIT):
                while self.instance is None or self.instance.unrest(self.clock.now()):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK)

    def name_of(self, node: str) -> str:
        return f"{self.world}-{node}"

    async def put_node(self, node: str, cpu: str = "4") -> None:
        size = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        body = {
            "metadata": {
                "name": self.name_of(node),
                "labels": {WORLD_LABEL: self.world, NODE_LABEL: self.name_of(node)},
            },
            "status": {
                "capacity": size,
                "allocatable": size,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        await self.site.admin.create(NODES.collection(), body)
        # Admission taints every new node, and the controllers that remove the taint do not run here.
        await self.site.admin.patch(NODES.item(self.name_of(node)), {"spec": {"taints": None}})
        if self.plan.devices:
            await self.devices.publish(node, self.name_of(node))

    async def resize_node(self, node: str, cpu: str) -> None:
        path = NODES.item(self.name_of(node), subresource="status")
        await self.site.admin.patch(path, {"status": {"allocatable": {"cpu": cpu}, "capacity": {"cpu": cpu}}})

    async def cordon(self, node: str, *, on: bool) -> None:
        await self.site.admin.patch(NODES.item(self.name_of(node)), {"spec": {"unschedulable": on}})

    async def delete_node(self, node: str) -> None:
        await self.site.admin.delete(NODES.item(self.name_of(node)))

    async def replace_node(self, node: str) -> None:
        with suppress(ApiError):
            await self.delete_node(node)
        await self.put_node(node)

    async def create_reservation(self, number: int, owner: int | str, node: str, **wanted: Any) -> None:
        term = (
            {"pod": {"name": f"web-{owner}"}}
            if owner != "web"
            else {"selector": {"matchLabels": {"app": owner}}}
        )
        cpu = wanted["cpu"]
        spec = {
            **({"template": claiming_template(cpu)} if "gpu" in wanted else {"resources": {"cpu": cpu}}),
            "owners": [term],
            "retention": wanted["retention"],
            "priority": wanted["priority"],
            "pendingDeadlineSeconds": wanted["deadline"],
            **({"nodeName": self.name_of(node)} if node else {}),
            **self._ends(wanted),
            **({"startAt": self._in(wanted["starts_in"])} if "starts_in" in wanted else {}),
            **wanted.get("also", {}),
            **({"answer": "Immediate"} if "answer" in wanted else {}),
        }
        await self._create_reservation(number, spec, **wanted.get("answer", {}))

    async def _create_reservation(self, number: int, spec: Json, **answer: Any) -> None:
        """Create a reservation, with an answer if it asks for one."""
        if "answer" not in spec:
            await self._create(RESERVATIONS, f"lock-{number}", spec)
        else:
            await self.creations.create(self._reservation_body(f"lock-{number}", spec), **answer)

    async def _post_reservation(self, body: Json) -> Json:
        made: Json = json.loads(await self.site.admin.create(RESERVATIONS.collection(self.world), body))
        self.proxy.stamps.note_made(made["metadata"]["uid"])
        return made

    def _reservation_body(self, name: str, spec: Json) -> Json:
        meta = {"name": name, "namespace": self.world}
        return {
            "apiVersion": RESERVATIONS.api_version,
            "kind": RESERVATIONS.kind,
            "metadata": meta,
            "spec": spec,
        }

    async def copy_answer(self, number: int, other: int, how: str) -> None:
        """Bring the answer of a reservation to another one, by an update or in its creation.

        With `replay` the reservation is deleted before, and the other one has its name.
        """
        stored = await self.stored(self._reservation(number))
        answers = answers_of(stored)
        if not answers:
            raise UnfitError(f"lock-{number} has no answer")
        if how == "update":
            body = {"metadata": {"annotations": answers}}
            await self.site.admin.patch(self._reservation(other), body)
            return
        if how == "replay":
            await self.delete_lock(number)
            other = number
        body = self._reservation_body(f"lock-{other}", stored["spec"])
        body["metadata"]["annotations"] = answers
        await self.creations.create(body)

    def _ends(self, wanted: Mapping[str, Any]) -> Json:
        if "ttl" in wanted:
            return {"ttlSeconds": wanted["ttl"]}
        return {"expireAt": self._in(wanted["expires_in"])}

    def _in(self, seconds: float) -> str:
        return format_instant(int(self.clock.now() + seconds))

    async def edit_reservation(self, number: int, spec: Mapping[str, Any]) -> None:
        await self.site.admin.patch(self._reservation(number), {"spec": dict(spec)})

    async def touch_reservation(self, number: int) -> None:
        """Write an irrelevant annotation, so that the next writer has an outdated version."""
        stamp = str(asyncio.get_running_loop().time())
        await self.site.admin.patch(
            self._reservation(number), {"metadata": {"annotations": {"touched": stamp}}}
        )

    async def delete_lock(self, number: int) -> Json:
        path = self._reservation(number)
        stored = await self.stored(path)
        self.deleted.add(stored["metadata"]["uid"])
        await self.site.admin.delete(path, uid=stored["metadata"]["uid"])
        return stored

    async def replace_reservation(self, number: int) -> None:
        """Delete a reservation and create it again, as GitOps tools sometimes do."""
        stored = await self.delete_lock(number)
        await self._create_reservation(number, stored["spec"])

    async def hold_lease(self, number: int, every: float, times: int) -> None:
        """Begin to renew a reservation's lease regularly, for a number of times or until the faults stop."""
        stored = await self.stored(self._reservation(number))
        if "lease" not in stored["spec"]:
            raise UnfitError(f"lock-{number} has no lease")
        await self._renew(number, stored["metadata"]["uid"])
        holder = asyncio.create_task(self._keep_renewing(number, stored["metadata"]["uid"], every, times))
        self.holders.add(holder)
        holder.add_done_callback(self.holders.discard)

    async def _keep_renewing(self, number: int, uid: str, every: float, times: int) -> None:
        with suppress(ApiError):  # the reservation is over, or gone
            for _ in range(times):
                await asyncio.sleep(every)
                await self._renew(number, uid)

    async def _renew(self, number: int, uid: str) -> None:
        """Renew a lease with the clock of its holder, which is wrong by years."""
        mark = format_instant(round(asyncio.get_running_loop().time(), 3))
        body = {"metadata": {"uid": uid}, "spec": {"lease": {"renewTime": mark}}}
        await self.site.admin.patch(self._reservation(number), body)

    async def commit_reservation(self, number: int, *, stale: bool) -> None:
        """Commit a reservation with the token of its status, or with an older one."""
        stored = await self.stored(self._reservation(number))
        told = stored.get("status", {}).get("commit", {})
        if "token" not in told:
            raise UnfitError(f"lock-{number} has no token")
        giver, _, _ = told["token"].rpartition(".")
        token = f"{giver}.{told['holds'] - stale}"
        body = {"metadata": {"uid": stored["metadata"]["uid"]}, "spec": {"commit": {"token": token}}}
        await self.site.admin.patch(self._reservation(number), body)

    # Groups.

    async def create_group(self, number: int, members: list[Json], **wanted: Any) -> None:
        """Create a group for the pods that have its name as their label."""
        name = f"gang-{number}"
        owners = [{"selector": {"matchLabels": {"app": name}}}]
        kinds = [
            {
                "name": each["name"],
                "count": each["count"],
                "resources": {"cpu": each["cpu"]},
                "owners": owners,
            }
            for each in members
        ]
        spec = {
            "members": kinds,
            "retention": wanted["retention"],
            "priority": wanted["priority"],
            "pendingDeadlineSeconds": wanted["deadline"],
            **({"minMembers": wanted["least"]} if wanted["least"] else {}),
            **({"topology": {"mode": "Spread", "key": NODE_LABEL}} if wanted["spread"] else {}),
            **self._ends(wanted),
        }
        await self._create(RESERVATIONGROUPS, name, spec)

    async def delete_group(self, number: int) -> None:
        await self.site.admin.delete(RESERVATIONGROUPS.item(f"gang-{number}", self.world))

    async def delete_member(self, number: int, which: int) -> None:
        """Delete one of the reservations of a group by hand."""
        await self._delete_made(f"gang-{number}", which)

    async def _delete_made(self, maker: str, which: int) -> None:
        listed = (await self.stored(RESERVATIONS.collection(self.world)))["items"]
        made = [each for each in listed if each["metadata"]["name"].startswith(f"{maker}-")]
        if not made:
            raise UnfitError(f"{maker} has no locks")
        await self.delete_unwanted(made[which % len(made)]["metadata"])

    async def delete_unwanted(self, meta: Json) -> None:
        """Delete a reservation that is known by its metadata."""
        self.deleted.add(meta["uid"])
        await self.site.admin.delete(RESERVATIONS.item(meta["name"], self.world), uid=meta["uid"])

    async def create_gang(self, number: int, count: int, cpu: str) -> None:
        """Create the pods for a group's reservations, as far as they do not exist yet."""
        for which in range(count):
            with suppress(AlreadyExists):
                await self._create_pod(_of_gang(number, which), cpu, {"app": f"gang-{number}"}, {})

    async def end_gang_pod(self, number: int, which: int) -> None:
        await self._end_pod(_of_gang(number, which))

    # Migrations.

    async def create_part(self, number: int, cpu: str, grace: int, *, stays: bool) -> None:
        """Create a pod of a StatefulSet, which is replaced when it is gone."""
        annotations = {_MOVABLE: "false"} if stays else {}
        await self._create_pod(
            f"part-{number}",
            cpu,
            {"app": "part"},
            annotations,
            owner=_SET,
            terminationGracePeriodSeconds=grace,
        )

    async def tell_part(self, number: int, *, stays: bool) -> None:
        """Set whether a pod of the StatefulSet must stay on its node."""
        annotations = {_MOVABLE: "false" if stays else None}
        path = PODS.item(f"part-{number}", self.world)
        await self.site.admin.patch(path, {"metadata": {"annotations": annotations}})

    async def end_part(self, number: int) -> None:
        await self._end_pod(f"part-{number}")

    async def restart_pod(self, state: Json) -> None:
        """Remove a leaving pod, and create another one of its name."""
        meta, spec = state["metadata"], state["spec"]
        await self.delete_pod(PODS.item(meta["name"], self.world), 0, meta["uid"])
        kept = {field: spec[field] for field in ("containers", "terminationGracePeriodSeconds")}
        await self._create_pod(
            meta["name"], "", meta["labels"], meta.get("annotations", {}), owner=_SET, **kept
        )

    async def approve_moves(self, number: int, *, stale: bool) -> None:
        """Approve the plan that a reservation's status shows, or an outdated one."""
        stored = await self.stored(self._reservation(number))
        plan = stored.get("status", {}).get("plan")
        if plan is None or "mayMove" not in stored["spec"]:
            raise UnfitError(f"lock-{number} has no plan")
        await self._answer_plan(stored, "outdated" if stale else plan["token"])

    async def withdraw_approval(self, number: int) -> None:
        """Withdraw an approval."""
        stored = await self.stored(self._reservation(number))
        if "approve" not in stored["spec"].get("mayMove", {}):
            raise UnfitError(f"lock-{number} has no approval")
        await self._answer_plan(stored, None)

    async def _answer_plan(self, stored: Json, token: str | None) -> None:
        meta = stored["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "spec": {"mayMove": {"approve": token}}}
        await self.site.admin.patch(RESERVATIONS.item(meta["name"], self.world), body)

    async def create_budget(self, number: int, least: int) -> None:
        """Create a budget that keeps at least this many pods of the StatefulSet."""
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "part"}}}
        await self._create(BUDGETS, f"budget-{number}", spec)

    async def edit_budget(self, number: int, least: int) -> None:
        await self.site.admin.patch(self._budget(number), {"spec": {"minAvailable": least}})

    async def delete_budget(self, number: int) -> None:
        await self.site.admin.delete(self._budget(number))

    async def settle_budget(self, meta: Json, status: Json) -> None:
        """Write the status of a budget as its controller does, unless the budget has changed since."""
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        await self.site.admin.patch(BUDGETS.item(meta["name"], self.world, "status"), body)

    def _budget(self, number: int) -> str:
        return BUDGETS.item(f"budget-{number}", self.world)

    # Schedules.

    async def create_schedule(self, number: int, spec: Json) -> None:
        await self._create(RESERVATIONSCHEDULES, f"daily-{number}", spec)

    async def edit_schedule(self, number: int, spec: Json) -> None:
        path = RESERVATIONSCHEDULES.item(f"daily-{number}", self.world)
        await self.site.admin.patch(path, {"spec": spec})

    async def delete_schedule(self, number: int) -> None:
        await self.site.admin.delete(RESERVATIONSCHEDULES.item(f"daily-{number}", self.world))

    async def delete_window(self, number: int, which: int) -> None:
        """Delete one of the reservations of a schedule by hand."""
        await self._delete_made(f"daily-{number}", which)

    async def end_schedules(self) -> None:
        """Delete all schedules, which would otherwise continue for ever."""
        for number in range(NUMBERS):
            with suppress(NotFound):
                await self.delete_schedule(number)

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def await_minute(self, offset: float) -> None:
        """Wait until the start of the next minute by the operator's clock, plus an offset in seconds."""
        await asyncio.sleep(60 - self.clock.now() % 60 + offset)

    # Water levels.

    async def create_level(self, number: int, refresh: int) -> None:
        """Create a WaterLevel with a source that does not exist."""
        body = {
            "apiVersion": WATERLEVELS.api_version,
            "kind": WATERLEVELS.kind,
            "metadata": {"name": self._level(number), "labels": {WORLD_LABEL: self.world}},
            "spec": {
                "nodeSelector": {"matchLabels": {WORLD_LABEL: self.world}},
                "source": {"metricsServer": {}},
                "refreshSeconds": refresh,
            },
        }
        await self.site.admin.create(WATERLEVELS.collection(), body)

    async def edit_level(self, number: int, refresh: int) -> None:
        path = WATERLEVELS.item(self._level(number))
        await self.site.admin.patch(path, {"spec": {"refreshSeconds": refresh}})

    async def delete_level(self, number: int) -> None:
        await self.site.admin.delete(WATERLEVELS.item(self._level(number)))

    def _level(self, number: int) -> str:
        return f"{self.world}-level-{number}"

    # Quotes and quotas.

    async def create_quote(self, number: int, cpu: str, node: str, ttl: int) -> None:
        place = {"nodeName": self.name_of(node)} if node else {}
        spec = {"resources": {"cpu": cpu}, "ttlSeconds": ttl, **place}
        await self._create(RESERVATIONQUOTES, f"quote-{number}", spec)

    async def delete_quote(self, number: int) -> None:
        await self.site.admin.delete(RESERVATIONQUOTES.item(f"quote-{number}", self.world))

    async def create_quota(self, number: int, spec: Json) -> None:
        await self._create(RESERVATIONQUOTAS, f"quota-{number}", spec)

    async def edit_quota(self, number: int, spec: Json) -> None:
        """Replace the limits of a quota."""
        path = RESERVATIONQUOTAS.item(f"quota-{number}", self.world)
        stored = await self.stored(path)
        none = dict.fromkeys(stored["spec"])
        await self.site.admin.patch(path, {"spec": none | spec})

    async def delete_quota(self, number: int) -> None:
        await self.site.admin.delete(RESERVATIONQUOTAS.item(f"quota-{number}", self.world))

    async def _create(self, resource: ApiResource, name: str, spec: Json) -> None:
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        made = json.loads(await self.site.admin.create(resource.collection(self.world), body))
        self.proxy.stamps.note_made(made["metadata"]["uid"])

    # Pods.

    async def create_borrower(self, number: int, cpu: str) -> None:
        """Create a pod that borrows reserved capacity until it is evicted."""
        await self._create_pod(f"batch-{number}", cpu, {}, {"tidelock.dev/borrows": "true"})

    async def create_passing(self, number: int, cpu: str, run: int, app: str) -> None:
        """Create a pod that leaves its node some seconds after it has started there."""
        annotations = {RUN_SECONDS: str(run)}
        await self._create_pod(
            f"web-{number}", cpu, {"app": app}, annotations, terminationGracePeriodSeconds=_GRACE
        )

    async def start_pod(self, name: str) -> None:
        """Start a pod as its kubelet would, by the operator's clock."""
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "startTime": format_instant(int(self.clock.now())), "conditions": ready}
        path = PODS.item(name, self.world, "status")
        await self.site.admin.patch(path, {"status": status}, kind="strategic")

    async def end_borrower(self, number: int) -> None:
        await self.delete_pod(PODS.item(f"batch-{number}", self.world), 30)

    async def create_pod(self, number: int, cpu: str, app: str, *, requires: bool, gpu: bool = False) -> None:
        annotations = {"tidelock.dev/require-reservation": "true"} if requires else {}
        claiming = CLAIMING if gpu else {}
        await self._create_pod(f"web-{number}", cpu, {"app": app}, annotations, **claiming)

    async def stranger(self, node: str, cpu: str) -> None:
        """Create a pod that is bound without a scheduler."""
        await self._create_pod(f"stranger-{len(self.log)}", cpu, {}, {}, nodeName=self.name_of(node))

    async def _create_pod(
        self, name: str, cpu: str, labels: Json, annotations: Json, owner: Json | None = None, **spec: Any
    ) -> None:
        owners = [owner] if owner else []
        container = {"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": cpu}}}
        body = {
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": owners,
            },
            "spec": {"schedulerName": SCHEDULER, "containers": [container], **spec},
        }
        await self.site.admin.create(PODS.collection(self.world), body)

    async def end_pod(self, number: int) -> None:
        await self._end_pod(f"web-{number}")

    async def _end_pod(self, name: str) -> None:
        """Ask a pod to end, as its kubelet would not end it here. A pod that is asked again is removed."""
        path = PODS.item(name, self.world)
        stored = await self.stored(path)
        leaving = "deletionTimestamp" in stored["metadata"]
        await self.delete_pod(path, 0 if leaving else 30)

    async def replace_pod(self, number: int) -> None:
        """Delete a pod at once, and create another one of its name."""
        path = PODS.item(f"web-{number}", self.world)
        stored = await self.stored(path)
        await self.delete_pod(path, 0)
        cpu = stored["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        claiming = CLAIMING if "resourceClaims" in stored["spec"] else {}
        await self._create_pod(f"web-{number}", cpu, stored["metadata"].get("labels", {}), {}, **claiming)

    async def delete_pod(self, path: str, grace: int, uid: str | None = None) -> None:
        """Delete a pod, at once if there is no grace period, and only with this uid if one is given."""
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": grace,
            "preconditions": {"uid": uid},
        }
        await self.site.admin.request("DELETE", path, body=options)

    async def bind_by_another(self, number: int, node: str) -> None:
        path = PODS.item(f"web-{number}", self.world)
        uid = (await self.stored(path))["metadata"]["uid"]
        bound_before = uid in self.foreign
        self.foreign.add(uid)
        self.proxy.stamps.note(uid)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": f"web-{number}", "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.name_of(node)},
        }
        try:
            await self.site.admin.create(f"{path}/binding", body)
        except ApiError as error:
            if not bound_before and not error.outcome_unknown:
                self.foreign.discard(uid)
            raise

    async def jump(self, seconds: float) -> None:
        self.clock.jump(seconds)

    async def storm(self, code: int, seconds: float) -> None:
        self.proxy.storm(code, seconds)

    async def crash(self) -> None:
        self.proxy.crash.set()

    async def stored(self, path: str) -> Json:
        """Return an object, or a list of objects, as the API server has it."""
        found: Json = json.loads(await self.site.admin.get(path))
        return found

    def _reservation(self, number: int) -> str:
        return RESERVATIONS.item(f"lock-{number}", self.world)


def _of_gang(number: int, which: int) -> str:
    return f"gang-{number}-pod-{which}"


_ACTIONS: dict[str, Action] = {
    "lock": FaultRun.create_reservation,
    "edit lock": FaultRun.edit_reservation,
    "touch lock": FaultRun.touch_reservation,
    "delete lock": FaultRun.delete_lock,
    "replace lock": FaultRun.replace_reservation,
    "hold lease": FaultRun.hold_lease,
    "commit lock": FaultRun.commit_reservation,
    "copy answer": FaultRun.copy_answer,
    "group": FaultRun.create_group,
    "delete group": FaultRun.delete_group,
    "delete member": FaultRun.delete_member,
    "gang": FaultRun.create_gang,
    "schedule": FaultRun.create_schedule,
    "edit schedule": FaultRun.edit_schedule,
    "delete schedule": FaultRun.delete_schedule,
    "delete window": FaultRun.delete_window,
    "time passes": FaultRun.pass_time,
    "a minute begins": FaultRun.await_minute,
    "borrower": FaultRun.create_borrower,
    "passing pod": FaultRun.create_passing,
    "end borrower": FaultRun.end_borrower,
    "water level": FaultRun.create_level,
    "edit water level": FaultRun.edit_level,
    "delete water level": FaultRun.delete_level,
    "quote": FaultRun.create_quote,
    "delete quote": FaultRun.delete_quote,
    "quota": FaultRun.create_quota,
    "edit quota": FaultRun.edit_quota,
    "delete quota": FaultRun.delete_quota,
    "part": FaultRun.create_part,
    "tell part": FaultRun.tell_part,
    "end part": FaultRun.end_part,
    "approve": FaultRun.approve_moves,
    "withdraw": FaultRun.withdraw_approval,
    "budget": FaultRun.create_budget,
    "edit budget": FaultRun.edit_budget,
    "delete budget": FaultRun.delete_budget,
    "end gang pod": FaultRun.end_gang_pod,
    "pod": FaultRun.create_pod,
    "end pod": FaultRun.end_pod,
    "replace pod": FaultRun.replace_pod,
    "resize node": FaultRun.resize_node,
    "cordon": FaultRun.cordon,
    "delete node": FaultRun.delete_node,
    "replace node": FaultRun.replace_node,
    "stranger": FaultRun.stranger,
    "bind by another": FaultRun.bind_by_another,
    "clock jumps": FaultRun.jump,
    "storm": FaultRun.storm,
    "crash": FaultRun.crash,
}
