"""One run of the fuzzer, which creates, changes and removes cases, and measures the operator's health."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.nodes import Json, ready_node
from bench.world import put_nodes
from devcluster import Component
from devcluster.output import say
from fuzz.health import HealthSamples, LatencyProbe, probing
from fuzz.objects import NODE_LABEL, Case, Source
from fuzz.verdict import answered, decode, of_answer, of_refusal
from tidelock.kube.client import RESERVATIONQUOTES as QUOTES
from tidelock.kube.client import KubeClient
from tidelock.kube.errors import ApiError, NotFound

_SIZE = {"cpu": "64", "memory": "256Gi", "pods": "250"}
_VAST = {"cpu": "100000", "memory": "1000Ti", "pods": "100000"}
_PROBE_NODE = "fuzz-probe"
_NODES = 4
_WORKERS = 6
_RECENT = 40  # number of cases that a finding about the process names
_PROGRESS = 500


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of a run.

    Attributes:
        seed: seed of all random choices. With a case's number it decides the case.
        objects: number of cases.
        first: number of the first case.
        alive: number of objects that stay in the cluster at once.
        patience: seconds in which the operator must answer an object.
        folder: folder for the files of findings.

    """

    seed: str
    objects: int
    first: int = 0
    alive: int = 200
    patience: float = 30.0
    folder: Path = Path("build/fuzz")


class Tenancy(NamedTuple):
    """The clients of an admin and of a team, and the namespaces in which they write."""

    admin: KubeClient
    team: KubeClient
    namespace: str
    limited: str
    probes: str


@dataclass
class Outcome:
    """The result of a run.

    Attributes:
        verdicts: number of requests by kind and result.
        patches: number of changes that were sent.
        slowest: seconds of the slowest answer, and its object.
        health: measurements of the operator's health.
        findings: a text for each fault, which names a file with the object.

    """

    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    patches: int = 0
    slowest: tuple[float, str] = (0.0, "")
    health: HealthSamples = field(default_factory=HealthSamples)
    findings: list[str] = field(default_factory=list)

    def accepted(self, kind: str) -> float:
        """Return the share of the drawn objects of a kind that the API server accepted."""
        taken, refused = (self.verdicts[kind, f"POST {end}"] for end in ("accepted", "refused"))
        return taken / max(taken + refused, 1)


async def fuzz(tenancy: Tenancy, source: Source, program: Component, plan: Plan) -> Outcome:
    """Execute a plan against a running operator, and delete all objects."""
    run = _Run(tenancy, source, program, plan)
    await run.execute()
    return run.outcome


class _Run:
    def __init__(self, tenancy: Tenancy, source: Source, program: Component, plan: Plan) -> None:
        self._tenancy, self._source, self._program, self._plan = tenancy, source, program, plan
        self._live: deque[Case] = deque()
        self._recent: deque[Case] = deque(maxlen=_RECENT)
        self._dead = False
        self.outcome = Outcome()

    async def execute(self) -> None:
        await put_nodes(self._tenancy.admin, _nodes())
        probe = LatencyProbe(self._tenancy.admin, self._tenancy.probes, _PROBE_NODE)
        await probe.measure()
        numbers = iter(range(self._plan.first, self._plan.first + self._plan.objects))
        with probing(self.outcome.health, self._program.health.port):
            async with asyncio.TaskGroup() as group:
                measuring = group.create_task(probe.repeat(self.outcome.health))
                workers = [group.create_task(self._work(numbers)) for _ in range(_WORKERS)]
                await asyncio.wait(workers)
                while self._live and not self._dead:
                    await self._remove(self._live.popleft())
                measuring.cancel()
            self._look_at_log()

    async def _work(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            if self._dead:
                return
            case = self._source.draw(number)
            self._recent.append(case)
            await self._try(case)
            self._look()
            if number % _PROGRESS == _PROGRESS - 1:
                found = len(self.outcome.findings)
                say(f"{number + 1} objects, {self.outcome.patches} patches, {found} findings")

    async def _try(self, case: Case) -> None:
        """Create an object and change it. Each request must be refused with a reason, or answered."""
        collection = case.resource.collection(self._namespace(case))
        if not await self._send(case, "POST", collection, case.manifest):
            return
        self._live.append(case)
        await self._await_answer(case)
        for patch in case.patches:
            self.outcome.patches += 1
            if await self._send(case, "PATCH", self._path(case), patch):
                await self._await_answer(case)
        for patch in case.forged:  # a forged status counts until the operator writes again
            self.outcome.patches += 1
            await self._send(case, "PATCH", f"{self._path(case)}/status", patch, forged=True)
        if len(self._live) > self._plan.alive:
            await self._remove(self._live.popleft())

    async def _send(self, case: Case, method: str, path: str, body: object, *, forged: bool = False) -> bool:
        """Send a request with a client that has the right, and return whether it was accepted."""
        by_admin = forged or case.by_admin or case.limited or (method == "PATCH" and case.resource is QUOTES)
        client = self._tenancy.admin if by_admin else self._tenancy.team
        validation = {"fieldValidation": "Strict" if case.strict else "Ignore"}
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            await client.request(method, path, params=validation, body=body, content_type=content_type)
        except ApiError as refusal:
            self.outcome.verdicts[case.kind, f"{method} refused"] += 1
            if wrong := of_refusal(case, refusal):
                self._found(case, wrong)
            return False
        self.outcome.verdicts[case.kind, f"{method} accepted"] += 1
        return True

    async def _await_answer(self, case: Case) -> None:
        begin = time.perf_counter()
        pause = 0.01
        while not self._dead:
            try:
                raw = await self._tenancy.admin.get(self._path(case))
            except NotFound:
                return  # the object was consumed, or has expired
            except ApiError:
                raw = b""
            with suppress(msgspec.MsgspecError, RecursionError):
                seen = decode(raw)
                if answered(case, seen):
                    took = time.perf_counter() - begin, f"{case.kind} {case.name}"
                    self.outcome.slowest = max(self.outcome.slowest, took)
                    if wrong := of_answer(seen):
                        self._found(case, wrong)
                    return
            if time.perf_counter() - begin > self._plan.patience:
                self._found(case, f"no answer after {self._plan.patience:g} s: {raw[-600:]!r}")
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.5)
            self._look()

    async def _remove(self, case: Case) -> None:
        """Delete an object without waiting for finalizers."""
        path = self._path(case)
        with suppress(ApiError):
            if case.manifest["metadata"].get("finalizers") or any(
                "metadata" in each for each in case.patches
            ):
                await self._tenancy.admin.patch(path, {"metadata": {"finalizers": None}})
            await self._tenancy.admin.request("DELETE", path, params={"gracePeriodSeconds": "0"})

    def _path(self, case: Case) -> str:
        return case.resource.item(str(case.manifest["metadata"]["name"]), self._namespace(case))

    def _namespace(self, case: Case) -> str:
        return self._tenancy.limited if case.limited else self._tenancy.namespace

    def _look(self) -> None:
        """Check whether the operator still runs."""
        if not self._dead and not self._program.running:
            self._dead = True
            log = self._program.log.read_text(errors="replace")
            self._found_together("the operator ended; its log ends with:\n" + log[-3000:])

    def _look_at_log(self) -> None:
        """Search for exceptions that did not end the operator, and keep its log."""
        log = self._program.log.read_text(errors="replace")
        self._plan.folder.mkdir(parents=True, exist_ok=True)
        (self._plan.folder / f"operator-{self._plan.seed}.log").write_text(log)
        if "Traceback" in log:
            begin = log.index("Traceback")
            self._found_together(f"{log.count('Traceback')} tracebacks: {log[max(begin - 500, 0) :][:3000]}")

    def _found(self, case: Case, what: str) -> None:
        file = self._write(case)
        self.outcome.findings.append(f"{case.kind} {case.name}: {what}\n  the object is in {file}")

    def _found_together(self, what: str) -> None:
        files = [str(self._write(each)) for each in self._recent]
        self.outcome.findings.append(f"{what}\n  the last objects are {' '.join(files)}")

    def _write(self, case: Case) -> Path:
        """Write a case to its own file, with raw JSON exactly as it was sent."""
        self._plan.folder.mkdir(parents=True, exist_ok=True)
        file = self._plan.folder / f"{case.name}.json"
        file.write_bytes(msgspec.json.encode([case.manifest, *case.patches, *case.forged]))
        return file


def _nodes() -> list[Json]:
    """Return the nodes for cases, and one for the latency probe alone."""
    taint = {"key": "fuzz.tidelock.dev/probe", "effect": "NoSchedule"}
    names = [f"fuzz-node-{number}" for number in range(_NODES)]
    nodes = [ready_node(name, _SIZE, {NODE_LABEL: "fuzz"}) for name in names]
    return [*nodes, ready_node(_PROBE_NODE, _VAST, taints=[taint])]
