"""Runs a plan, and checks the run."""

import asyncio
import json
import logging
import secrets
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import aiohttp

from devcluster import LocalCluster
from devcluster.loopback import HOST
from faults.actions.sets import end_schedules
from faults.checker import Checker
from faults.controllers import SimulatedControllers
from faults.exceptions import PLANTED
from faults.fault_run import FaultRun, Site, Start
from faults.hasty import JumpingClock, awaiting_answer, run
from faults.history import WORLD_LABEL, Json, Record, recording
from faults.observations import Stamps
from faults.operator_instance import OperatorInstance, cancel
from faults.outages import ApiOutages
from faults.plan import Plan
from faults.proxy import Proxy
from faults.rest import check_memory, check_nothing_left
from faults.steps import execute
from faults.verdict import Evidence, Verdict
from faults.world import Circumstances
from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.config import load_connection
from tidelock.kube.errors import TooManyRequests
from tidelock.logs import TextFormatter

# Seconds of the loop. An operator that converges needs a few. Machines that stall need more.
PATIENCE = 1200.0
_STAYS_FOR = 3.0
_LOOK = 0.2
# Longer than the instance of any reservation, and than Rejected ones stay.
_FAR_FUTURE = 5000.0

_NAMESPACES = ApiResource("", "v1", "namespaces", "Namespace", namespaced=False)


Identities = dict[tuple[str, str], tuple[str, str]]
"""Uid and version of each object, by kind and name."""


def run_plan(
    admin: Path,
    operator: Path,
    plan: Plan,
    patience: float = PATIENCE,
    breakable: LocalCluster | None = None,
) -> Verdict:
    """Run a plan in a world of its own, with the identities of two kubeconfigs.

    `patience` is in seconds of the loop. A plan with outages breaks a cluster, which no other run may use.
    """
    return run(try_plan(admin, operator, plan, patience, breakable))


async def try_plan(
    admin: Path,
    operator: Path,
    plan: Plan,
    patience: float = PATIENCE,
    breakable: LocalCluster | None = None,
    *,
    host: str = HOST,
    start: Start = asyncio.create_task,
) -> Verdict:
    """Run a plan on the present loop. Operators are started by `start`, and reach it by the name `host`."""
    world = f"faults-{plan.seed}-{secrets.token_hex(3)}"
    clock = JumpingClock(time.time())
    connection = load_connection(operator)
    async with (
        _Admin(load_connection(admin), user_agent="faults", timeout_seconds=PATIENCE) as client,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=connection.ssl_context()),
            timeout=aiohttp.ClientTimeout(total=None),
        ) as session,
        recording(client, world, clock.now, plan.resources, lasting=plan.outages) as record,
    ):
        await client.create(_NAMESPACES.collection(), {"metadata": {"name": world}})
        proxy = Proxy(
            session,
            connection.server,
            namespace=world,
            selector=f"{WORLD_LABEL}={world}",
            faults=plan.faults,
            stamps=Stamps(clock.now),
            host=host,
        )
        fault_run = FaultRun(Site(client, session, connection, start), plan, world, clock, proxy)
        exceptions = fault_run.exceptions
        fault_run.outages = ApiOutages(breakable, fault_run, record) if breakable is not None else None
        with logged() as log, exceptions.planted():
            violations = await _violations(fault_run, record, patience)
    evidence = Evidence(_circumstances(fault_run), record.ordered(), log.lines)
    violations += evidence.judged()
    violations += [f"the operator has logged: {error}" for error in log.errors]
    violations += record.failures
    parts = {
        "fired": proxy.fired,
        "raised": exceptions.raised,
        "done": fault_run.log,
        "happened": evidence.changes,
    }
    description = [
        line for name, part in parts.items() for line in (f"{name}:", *(f"  {each}" for each in part))
    ]
    fired = (*proxy.fired, *(f"raised {each}" for each in exceptions.raised))
    return Verdict(plan, list(dict.fromkeys(violations)), description, evidence, fired)


class _Admin(KubeClient):
    """A client with all rights. It waits at normal speed, and has patience while a CRD is new."""

    async def request(self, *what: Any, **how: Any) -> bytes:
        while True:
            try:
                with awaiting_answer():
                    return await super().request(*what, **how)
            except TooManyRequests:
                await asyncio.sleep(_LOOK)


async def _violations(fault_run: FaultRun, record: Record, patience: float) -> list[str]:
    """Run to the end and return the violations. A run that fails on its own is evidence as well."""
    try:
        return await _with_operator(fault_run, record, patience)
    except Exception:  # noqa: BLE001 -- whatever it is
        return [f"the run itself has failed: {traceback.format_exc()}"]
    finally:
        if fault_run.outages is not None:  # for the next run
            await fault_run.outages.mend()


async def _with_operator(fault_run: FaultRun, record: Record, patience: float) -> list[str]:
    operating = asyncio.create_task(fault_run.run_operator())
    controllers = SimulatedControllers(fault_run, record)
    executing = asyncio.create_task(_execute(fault_run, record, controllers, patience))
    controlling = asyncio.create_task(controllers.run())
    try:
        await asyncio.wait((operating, executing), return_when=asyncio.FIRST_COMPLETED)
        if not executing.done():
            return [f"the operator has failed: {_traceback(operating)}"]
        return executing.result()
    finally:
        for task in (executing, controlling, operating):
            if not task.done():
                await cancel(task)


async def _execute(
    fault_run: FaultRun, record: Record, controllers: SimulatedControllers, patience: float
) -> list[str]:
    """Execute the plan, check the state after the faults, and check that nothing is left in the end."""
    await execute(fault_run)
    fault_run.note("calm")
    fault_run.proxy.calm()
    fault_run.exceptions.calm()
    try:
        instance, now = await _rest(fault_run, record, controllers, patience)
        violations = Checker(_circumstances(fault_run)).check_rest(record.ordered(), now)
        violations += check_memory(instance.decider, _as_received(fault_run, record), now)
        writes, due, done = fault_run.proxy.writes, instance.next_due(), controllers.done
        await asyncio.sleep(_STAYS_FOR)
        idle = controllers.done == done and (due is None or due > fault_run.clock.now())
        if fault_run.proxy.writes > writes and idle:
            violations.append(f"I5: {fault_run.proxy.writes - writes} writes at rest")
        await end_schedules(fault_run)
        for _ in range(2):  # the first jump rejects the waiting reservations, and the second removes them
            fault_run.clock.jump(_FAR_FUTURE + fault_run.clock.behind)
            await asyncio.sleep(_STAYS_FOR)
            instance, now = await _rest(fault_run, record, controllers, patience)
        violations += check_memory(instance.decider, _as_received(fault_run, record), now)
    except RestlessError as error:
        return [f"I5: {error}"]
    return violations + check_nothing_left(instance.decider, record.current())


class RestlessError(Exception):
    """The operator does not come to rest."""


async def _rest(
    fault_run: FaultRun, record: Record, controllers: SimulatedControllers, patience: float
) -> tuple[OperatorInstance, float]:
    """Wait until the operator has nothing to do and knows all objects. Return its instance and its clock."""
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        unrest = _unrest(fault_run, record, controllers)
        if not unrest:  # operator and record agree, but may both be outdated
            writes, stored = fault_run.proxy.writes, await _stored(fault_run)
            unrest = _unrest(fault_run, record, controllers)
            quiet = fault_run.proxy.writes == writes  # otherwise the stored objects may be newer by now
            if (
                fault_run.instance is not None
                and quiet
                and not unrest
                and fault_run.instance.knows() == stored
            ):
                return fault_run.instance, fault_run.clock.now()
        if asyncio.get_running_loop().time() > deadline:
            raise RestlessError(f"no rest within {patience:g} s: {unrest or 'watches lag'}")
        await asyncio.sleep(_LOOK)


def _unrest(fault_run: FaultRun, record: Record, controllers: SimulatedControllers) -> str:
    """Return why a run is not at rest, as far as watches have delivered, or an empty text."""
    instance, told = fault_run.instance, _identities(record.current())
    if instance is None:
        return "it is dead"
    if controllers.busy:
        return "the controllers has something to do"
    if unrest := instance.unrest(fault_run.clock.now()):
        return unrest
    return f"it knows {instance.knows()}, and there is {told}" if instance.knows() != told else ""


async def _stored(fault_run: FaultRun) -> Identities:
    """Return uid and version of each object in the API server."""
    selector = {"labelSelector": f"{WORLD_LABEL}={fault_run.world}"}
    found: dict[tuple[str, str], Json] = {}
    for resource in fault_run.plan.resources:
        params = {} if resource.namespaced else selector
        listed = json.loads(await fault_run.site.admin.get(resource.collection(fault_run.world), params))
        found |= {(resource.plural, item["metadata"]["name"]): item for item in listed["items"]}
    return _identities(found)


def _identities(objects: Mapping[tuple[str, str], Json]) -> Identities:
    metas = {key: state["metadata"] for key, state in objects.items()}
    return {key: (meta["uid"], meta["resourceVersion"]) for key, meta in metas.items()}


def _as_received(fault_run: FaultRun, record: Record) -> dict[tuple[str, str], Json]:
    """Return the objects as any operator would receive them."""
    correct, current = fault_run.proxy.stamps.corrected, record.current()
    return {key: correct(deepcopy(state)) for key, state in current.items()}


def _circumstances(fault_run: FaultRun) -> Circumstances:
    return Circumstances(
        asked=fault_run.proxy.log,
        foreign=fault_run.foreign,
        deleted=fault_run.deleted,
        peaks=fault_run.clock.peaks,
        deliveries=fault_run.proxy.deliveries,
        crashes=fault_run.crashes,
        granted=fault_run.creations.granted,
    )


def _traceback(task: asyncio.Task[None]) -> str:
    error = task.exception()
    return "".join(traceback.format_exception(error)) if error is not None else "it has ended"


class _Log(logging.Handler):
    """Keeps the log of the operator, and of Kopf in it, by the loop's time.

    Attributes:
        lines: all lines.
        errors: the operator's own errors, without those that Kopf logs whenever the API server fails.

    """

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.setFormatter(TextFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self.lines.append(f"at {asyncio.get_running_loop().time():.2f}: {text}")
        own = record.levelno >= logging.ERROR and record.name.startswith("tidelock")
        if own and PLANTED not in text:
            self.errors.append(text)


@contextmanager
def logged() -> Iterator[_Log]:
    """Collect the operator's log. No planned fault may be logged as an error."""
    handler, loggers = _Log(), [logging.getLogger(name) for name in ("tidelock", "kopf")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
            logger.removeHandler(handler)
