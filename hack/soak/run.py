"""One run of a soak, from its nodes to its final checks."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from bench.audit import of_pods, overcommitted, read_all
from devcluster import Component
from devcluster.output import say
from soak.accounts import of_api, of_ledger
from soak.churn import Churn, LongLived
from soak.histories import LostError, watching
from soak.lives import SoakClient
from soak.nodes import CHANGING, STABLE, change_nodes, create_nodes, delete_nodes, node_names, recreate
from soak.outcome import Outcome
from soak.samples import Sample, look, metrics_of
from tidelock.kube.client import NODES, PODS, RESERVATIONS, KubeClient
from tidelock.kube.errors import ApiError

_SECOND, _MINUTE = 1.0, 60.0
_STEADY = 5.0  # seconds without a new task
_SAMPLES = 240  # samples of a run, but at most one a second
# Open files and tasks that may be added until the end, as some connections are kept for a while.
_MORE_FILES, _MORE_TASKS = 8, 4


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of a soak.

    Attributes:
        minutes: time in which lives begin.
        rate: reservations and pods per second.
        nodes: number of nodes that last.
        changing_nodes: number of nodes that are changed all the time.
        patience: seconds after which a missing result counts as lost.
        seed: seed of all random choices.

    """

    minutes: float
    rate: float
    nodes: int
    changing_nodes: int
    patience: float
    seed: int


async def soak(client: KubeClient, namespace: str, program: Component, plan: Plan) -> Outcome:
    """Execute a plan against a running operator, and delete all objects."""
    run = _Soak(client, namespace, program, plan)
    try:
        await run.execute()
    except* (LostError, ApiError, OSError) as group:  # OSError: the operator does not answer a scrape
        run.outcome.faults += _words(group)
    finally:
        for resource in (RESERVATIONS, PODS):
            await client.delete(resource.collection(namespace))
        await delete_nodes(client)
    return run.outcome


class _Soak:
    def __init__(self, client: KubeClient, namespace: str, program: Component, plan: Plan) -> None:
        self._client = client
        self._namespace = namespace
        self._program = program
        self._plan = plan
        self._begin = time.perf_counter()
        self.outcome = Outcome()

    async def execute(self) -> None:
        plan, outcome = self._plan, self.outcome
        rng = Random(plan.seed)  # noqa: S311 -- chance, no secret
        changing = node_names(CHANGING, plan.changing_nodes)
        await create_nodes(self._client, [*node_names(STABLE, plan.nodes), *changing])
        async with watching(self._client, self._namespace, plan.patience) as seen:
            actor = SoakClient(self._client, self._namespace, seen, rng)
            churn, long_lived = Churn(actor, outcome), LongLived(actor, plan.nodes)
            await long_lived.up()
            await self._agree("before the churn")
            before = await self._steady_sample()
            async with _beside(change_nodes(self._client, changing, rng), self._observe()):
                await churn.go(plan.rate, plan.minutes * _MINUTE)
            for name in changing:
                await recreate(self._client, name)
            await self._agree("after the churn")
            outcome.faults += await long_lived.lost() + await self._overcommitted()
            await long_lived.down()
            await self._agree("with everything removed")
            outcome.faults += await self._left_over()
            await self._calm(before)

    async def _steady_sample(self) -> Sample:
        """Take a sample once no more tasks begin: Kopf starts after the first decisions."""
        sample = await look(self._program, self._begin)
        last = begin = time.perf_counter()
        while (now := time.perf_counter()) < min(last + _STEADY, begin + self._plan.patience):
            await asyncio.sleep(_SECOND)
            earlier, sample = sample, await look(self._program, self._begin)
            if sample.tasks > earlier.tasks:
                last = now
        return sample

    async def _observe(self) -> None:
        pause = max(self._plan.minutes * _MINUTE / _SAMPLES, _SECOND)
        printed = time.perf_counter()
        while True:
            await asyncio.sleep(pause)
            sample = await look(self._program, self._begin)
            self.outcome.samples.append(sample)
            if time.perf_counter() - printed >= _MINUTE:
                printed += _MINUTE
                say(
                    f"{sample.at:.0f} s: {sample.memory:.1f} MiB, {sample.files} files, {sample.tasks} tasks."
                )

    async def _agree(self, when: str) -> None:
        """Wait until the ledger equals the API server's state. A difference that stays is a fault."""

        async def differences() -> list[str]:
            lists = [await read_all(self._client, each.collection()) for each in (NODES, PODS, RESERVATIONS)]
            return of_ledger(await metrics_of(self._program)).differences(of_api(*lists))

        self.outcome.faults += [f"{when}: {each}" for each in await self._settle(differences)]

    async def _calm(self, before: Sample) -> None:
        """Wait until the operator has released the open files and tasks of the churn."""

        async def held() -> list[str]:
            now = await look(self._program, self._begin)
            return [
                f"{count} {what} are left of the churn, {earlier} were there before it"
                for what, count, earlier, more in (
                    ("open files", now.files, before.files, _MORE_FILES),
                    ("tasks", now.tasks, before.tasks, _MORE_TASKS),
                )
                if count > earlier + more
            ]

        self.outcome.faults += await self._settle(held)

    async def _settle(self, faults: Callable[[], Awaitable[list[str]]]) -> list[str]:
        """Repeat a check until it finds no fault, or until the patience ends, and return the last faults."""
        deadline = time.perf_counter() + self._plan.patience
        while (found := await faults()) and time.perf_counter() < deadline:  # noqa: ASYNC110 -- a probe
            await asyncio.sleep(_SECOND)
        return found

    async def _overcommitted(self) -> list[str]:
        nodes, pods = [await read_all(self._client, each.collection()) for each in (NODES, PODS)]
        return overcommitted(nodes, of_pods(pods), "taken")

    async def _left_over(self) -> list[str]:
        return [
            f"{resource.kind} {item['metadata']['name']} is left over"
            for resource in (PODS, RESERVATIONS)
            for item in await read_all(self._client, resource.collection(self._namespace))
        ]


def _words(group: BaseExceptionGroup[BaseException]) -> list[str]:
    """Return a text for each error of a group, and of the groups in it."""
    words: list[str] = []
    for error in group.exceptions:
        words += (
            _words(error) if isinstance(error, BaseExceptionGroup) else [f"{type(error).__name__}: {error}"]
        )
    return words


@asynccontextmanager
async def _beside(*work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run endless coroutines while the context lasts."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        yield
        for task in tasks:
            task.cancel()
