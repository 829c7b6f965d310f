"""Playing of a plan, and judgement of the run."""

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
from faults.checker import Checker
from faults.hasty import JumpingClock, awaiting_answer, run
from faults.history import WORLD_LABEL, Json, Record, recording
from faults.household import Household
from faults.life import Life, end
from faults.outages import ApiOutages
from faults.plan import Plan
from faults.proxy import Proxy, Stamps
from faults.rest import check_memory, check_nothing_left
from faults.story import Site, Story
from faults.verdict import Evidence, Verdict
from faults.world import Circumstances
from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.config import load_connection
from tidelock.kube.errors import TooManyRequests
from tidelock.logs import TextFormatter

# Seconds of the loop. An operator that converges needs a few. Machines that stall need more.
_PATIENCE = 1200.0
_STAYS_FOR = 3.0
_LOOK = 0.2
# Longer than the life of any reservation, and than Rejected ones stay.
_FAR_FUTURE = 5000.0

_NAMESPACES = ApiResource("", "v1", "namespaces", "Namespace", namespaced=False)


Identities = dict[tuple[str, str], tuple[str, str]]
"""Uid and version of each object, by kind and name."""


def play(
    admin: Path,
    operator: Path,
    plan: Plan,
    patience: float = _PATIENCE,
    breakable: LocalCluster | None = None,
) -> Verdict:
    """Play a plan in a world of its own, with the identities of two kubeconfigs.

    `patience` is in seconds of the loop. A plan with outages breaks a cluster, which no other run may use.
    """
    return run(_try(admin, operator, plan, patience, breakable))


async def _try(
    admin: Path, operator: Path, plan: Plan, patience: float, breakable: LocalCluster | None
) -> Verdict:
    world = f"faults-{plan.seed}-{secrets.token_hex(3)}"
    clock = JumpingClock(time.time())
    connection = load_connection(operator)
    async with (
        _Admin(load_connection(admin), user_agent="faults", timeout_seconds=_PATIENCE) as client,
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
        )
        story = Story(Site(client, session, connection), plan, world, clock, proxy)
        story.outages = ApiOutages(breakable, story, record) if breakable is not None else None
        with logged() as log:
            violations = await _judged(story, record, patience)
    evidence = Evidence(_circumstances(story), record.ordered(), log.lines)
    violations += evidence.judged()
    violations += [f"the operator has logged: {error}" for error in log.errors]
    violations += record.failures
    parts = {"fired": proxy.fired, "done": story.log, "happened": evidence.happenings}
    tale = [line for name, part in parts.items() for line in (f"{name}:", *(f"  {each}" for each in part))]
    return Verdict(plan, list(dict.fromkeys(violations)), tale, evidence)


class _Admin(KubeClient):
    """A client with all rights. It waits at normal speed, and has patience while a CRD is new."""

    async def request(self, *what: Any, **how: Any) -> bytes:
        while True:
            try:
                with awaiting_answer():
                    return await super().request(*what, **how)
            except TooManyRequests:
                await asyncio.sleep(_LOOK)


async def _judged(story: Story, record: Record, patience: float) -> list[str]:
    """Play to the end and return the violations. A run that fails on its own is evidence as well."""
    try:
        return await _with_operator(story, record, patience)
    except Exception:  # noqa: BLE001 -- whatever it is
        return [f"the run itself has failed: {traceback.format_exc()}"]
    finally:
        if story.outages is not None:  # for the next run
            await story.outages.mend()


async def _with_operator(story: Story, record: Record, patience: float) -> list[str]:
    living = asyncio.create_task(story.keep_alive())
    household = Household(story, record)
    telling = asyncio.create_task(_tell(story, record, household, patience))
    keeping = asyncio.create_task(household.keep())
    try:
        await asyncio.wait((living, telling), return_when=asyncio.FIRST_COMPLETED)
        if not telling.done():
            return [f"the operator has failed: {_traceback(living)}"]
        return telling.result()
    finally:
        for task in (telling, keeping, living):
            if not task.done():
                await end(task)


async def _tell(story: Story, record: Record, household: Household, patience: float) -> list[str]:
    """Play the plan, check the state after the faults, and check that nothing is left in the end."""
    await story.play()
    story.note("calm")
    story.proxy.calm()
    try:
        life, now = await _rest(story, record, household, patience)
        violations = Checker(_circumstances(story)).check_rest(record.ordered(), now)
        violations += check_memory(life.decider, _as_told(story, record), now)
        writes, due, done = story.proxy.writes, life.next_due(), household.done
        await asyncio.sleep(_STAYS_FOR)
        idle = household.done == done and (due is None or due > story.clock.now())
        if story.proxy.writes > writes and idle:
            violations.append(f"I5: {story.proxy.writes - writes} writes at rest")
        await story.end_schedules()
        for _ in range(2):  # the first jump rejects the waiting reservations, and the second removes them
            story.clock.jump(_FAR_FUTURE + story.clock.behind)
            await asyncio.sleep(_STAYS_FOR)
            life, now = await _rest(story, record, household, patience)
        violations += check_memory(life.decider, _as_told(story, record), now)
    except RestlessError as error:
        return [f"I5: {error}"]
    return violations + check_nothing_left(life.decider, record.current())


class RestlessError(Exception):
    """The operator does not come to rest."""


async def _rest(story: Story, record: Record, household: Household, patience: float) -> tuple[Life, float]:
    """Wait until the operator has nothing to do and knows all objects, and return its life and its clock."""
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        unrest = _unrest(story, record, household)
        if not unrest:  # operator and record agree, but may both be outdated
            writes, stored = story.proxy.writes, await _stored(story)
            unrest = _unrest(story, record, household)
            quiet = story.proxy.writes == writes  # otherwise the stored objects may be newer by now
            if story.life is not None and quiet and not unrest and story.life.knows() == stored:
                return story.life, story.clock.now()
        if asyncio.get_running_loop().time() > deadline:
            raise RestlessError(f"no rest within {patience:g} s: {unrest or 'watches lag'}")
        await asyncio.sleep(_LOOK)


def _unrest(story: Story, record: Record, household: Household) -> str:
    """Return why a run is not at rest, as far as watches have delivered, or an empty text."""
    life, told = story.life, _identities(record.current())
    if life is None:
        return "it is dead"
    if household.busy:
        return "the household has something to do"
    if unrest := life.unrest(story.clock.now()):
        return unrest
    return f"it knows {life.knows()}, and there is {told}" if life.knows() != told else ""


async def _stored(story: Story) -> Identities:
    """Return uid and version of each object in the API server."""
    selector = {"labelSelector": f"{WORLD_LABEL}={story.world}"}
    found: dict[tuple[str, str], Json] = {}
    for resource in story.plan.resources:
        params = {} if resource.namespaced else selector
        listed = json.loads(await story.site.admin.get(resource.collection(story.world), params))
        found |= {(resource.plural, item["metadata"]["name"]): item for item in listed["items"]}
    return _identities(found)


def _identities(objects: Mapping[tuple[str, str], Json]) -> Identities:
    metas = {key: state["metadata"] for key, state in objects.items()}
    return {key: (meta["uid"], meta["resourceVersion"]) for key, meta in metas.items()}


def _as_told(story: Story, record: Record) -> dict[tuple[str, str], Json]:
    """Return the objects as any operator would receive them."""
    correct, current = story.proxy.stamps.corrected, record.current()
    return {key: correct(deepcopy(state)) for key, state in current.items()}


def _circumstances(story: Story) -> Circumstances:
    return Circumstances(
        asked=story.proxy.log,
        foreign=story.foreign,
        deleted=story.deleted,
        peaks=story.clock.peaks,
        told=story.proxy.told,
        crashes=story.crashes,
        granted=story.creations.granted,
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
        if record.levelno >= logging.ERROR and record.name.startswith("tidelock"):
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
