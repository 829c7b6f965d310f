"""A benchmark of the time without bindings after a leader has ended: python -m bench.failover [--quick].

On a new control plane, pods are created at a fixed rate, and two `tidelock run` share a Lease. The leader
ends in three ways, again and again. It is killed (SIGKILL), stopped and continued after the other leads
(SIGSTOP, SIGCONT), or asked to end (SIGTERM). An independent watch notes when pods are bound. The exit status
is 1 if a pod was not bound, or bound twice, if a node got more than it has, or if a stopped leader wrote
anything.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from math import ceil
from pathlib import Path

import msgspec

from bench.audit import audit, audit_pods
from bench.bindings import Bindings, bindings
from bench.command import add_counts, add_json, is_quick, run_alone
from bench.figures import Figure, percentile, table
from bench.following import following
from bench.locks import Reservations
from bench.pods import clear, pod_name
from bench.programs import tidelock
from bench.record import Record
from bench.reservation_observer import observing
from bench.scenarios import plain_pod, pod_object
from bench.world import BACKGROUND, NAMESPACE, add_nodes, admin, each, install
from devcluster import Component, LocalCluster
from devcluster.identity import SYSTEM_NAMESPACE
from devcluster.output import say
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.lease import LEASES, LeaseObject
from tidelock.settings import DEFAULT_SCHEDULER_NAME

_PATIENCE = 180.0  # seconds that a round may take
_WAIT = 0.05  # seconds between two looks
# Assumptions for the number of nodes: seconds of a take-over, and how full nodes get.
_SPARE = 30
_PODS_ON_A_NODE = 50
_RESERVATIONS_ON_A_NODE = 8
_FAULTLESS = "No pod was lost or bound twice, no lock was lost; who did not lead wrote nothing."
_WRITES = ("pods/binding", "reservations/status")


class _Event(msgspec.Struct):
    type: str
    object: LeaseObject


_decode_event = msgspec.json.Decoder(_Event).decode


@dataclass
class Leaderships:
    """The observed leaderships of the Lease.

    Attributes:
        epoch: number of the last leadership.
        began: when each leadership began, by number, as of `time.perf_counter`.

    """

    epoch: int = 0
    began: dict[int, float] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, line: bytes, now: float) -> str:
        """Handle an event of a Lease."""
        found = _decode_event(line).object
        epoch = found.spec.lease_transitions or 0
        if found.spec.holder_identity and epoch > self.epoch:
            self.epoch = epoch
            self.began[epoch] = now
            self._changed.set()
        return found.meta.resource_version

    async def after(self, epoch: int) -> float:
        """Wait for a leadership after the given one, and return when it began."""
        while self.epoch <= epoch:
            self._changed.clear()
            await self._changed.wait()
        return self.began[self.epoch]


@dataclass
class FailoverDurations:
    """The results of the rounds of one kind, in seconds.

    Attributes:
        signal: signal to the leader.
        meaning: effect of the signal, in words.
        strike: sends the signal.
        gaps: the longest time without a binding after each signal.
        vacant: time from each signal until the other program held the Lease.
        starts: time from then until the other program had bound a pod.

    """

    signal: str
    meaning: str
    strike: Callable[[Component], None]
    gaps: list[float] = field(default_factory=list)
    vacant: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The effect and the signal."""
        return f"{self.meaning} ({self.signal})"

    @property
    def figures(self) -> list[Figure]:
        """The 50th and 99th percentiles of the rounds."""
        return [
            Figure.once(
                f"{name}, p{percent}", "s", percentile(seconds, percent), headline=seconds is self.gaps
            )
            for name, seconds in (
                ("without bindings", self.gaps),
                ("until the other leads", self.vacant),
                ("then to a first binding", self.starts),
            )
            if seconds
            for percent in (50, 99)
        ]


@dataclass
class FailoverRun:
    """Two replicas, the pods that they bind, and the observers.

    Attributes:
        leader: the program that holds the Lease.
        standby: the other program.
        faults: a text for each fault.

    """

    client: KubeClient
    options: argparse.Namespace
    leader: Component
    standby: Component
    seen: Bindings
    terms: Leaderships
    faults: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    async def round(self, ends: FailoverDurations) -> None:
        """End the leader while pods are created, so that the other program leads and the first stands by."""
        made: list[str] = []
        epoch, struck = self.terms.epoch, self.leader
        async with asyncio.timeout(_PATIENCE), self._load(made):
            await asyncio.sleep(self.options.seconds)
            start = time.perf_counter()
            striking = asyncio.create_task(asyncio.to_thread(ends.strike, struck))
            began = await self.terms.after(epoch)
            bound = len(self.seen.seen)
            await self.seen.wait(bound + 1)
            first = time.perf_counter()
            await asyncio.sleep(self.options.seconds)
            await striking
        await self._until_bound(made)
        instants = sorted(instant for name in made if (instant := self.seen.seen.get(name)) is not None)
        ends.gaps.append(max(later - earlier for earlier, later in pairwise(instants) if later > start))
        ends.vacant.append(began - start)
        ends.starts.append(first - began)
        self.leader, self.standby = self.standby, self.leader
        if struck.running:
            await self._let_go(struck)
        self.faults += await audit_pods(self.client, beside_reservations=True)
        await clear(self.client, PODS.collection(NAMESPACE))
        await asyncio.to_thread(struck.start)

    async def _let_go(self, stopped: Component) -> None:
        """Continue a stopped leader while the other program writes nothing, and check that it ends silently.

        Any write that the API server counts meanwhile is a fault.
        """
        await asyncio.sleep(self.options.seconds)
        before = await self._writes()
        stopped.thaw()
        while stopped.running:  # noqa: ASYNC110 -- no event reports the end
            await asyncio.sleep(_WAIT)
        for what, number in (await self._writes() - before).items():
            self.faults.append(f"a leader that had been stopped wrote: {what} {number} times")

    @asynccontextmanager
    async def _load(self, made: list[str]) -> AsyncIterator[None]:
        """Create pods at a fixed rate while the context lasts, whether they are bound or not."""
        stop = asyncio.Event()

        async def make(number: int) -> None:
            pod = pod_object(pod_name(number), DEFAULT_SCHEDULER_NAME, plain_pod(number))
            await self.client.create(PODS.collection(NAMESPACE), pod)
            made.append(pod_name(number))

        async def go_on() -> None:
            start = time.perf_counter()
            for nth in count():
                await asyncio.sleep(max(start + nth / self.options.rate - time.perf_counter(), 0.0))
                if stop.is_set():
                    return
                group.create_task(make(next(self._numbers)))

        async with asyncio.TaskGroup() as group:
            group.create_task(go_on())
            yield
            stop.set()

    async def _until_bound(self, made: Sequence[str]) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                while not self.seen.seen.keys() >= set(made):  # noqa: ASYNC110 -- a lost pod never comes
                    await asyncio.sleep(_WAIT)
        except TimeoutError:
            lost = set(made) - self.seen.seen.keys()
            self.faults.append(f"{len(lost)} pods were not bound, such as {min(lost)}")

    async def _writes(self) -> Counter[str]:
        """Count the successful writes of bindings and of statuses of Reservations."""
        text = (await self.client.get("/metrics")).decode()
        found: Counter[str] = Counter()
        for line in text.splitlines():
            if line.startswith("apiserver_request_total{") and 'code="2' in line:
                for what in _WRITES:
                    resource, _, subresource = what.partition("/")
                    if f'resource="{resource}"' in line and f'subresource="{subresource}"' in line:
                        found[what] += int(float(line.rpartition(" ")[2]))
        return found


def _end(program: Component) -> None:
    """Ask a program to end, and wait for its end."""
    process = program.process
    if process is not None:
        process.send(signal.SIGTERM)
        process.wait(_PATIENCE)


_STRIKES: dict[str, tuple[str, Callable[[Component], None]]] = {
    "SIGKILL": ("killed", Component.kill),
    "SIGSTOP": ("stopped", Component.freeze),
    "SIGTERM": ("terminated", _end),
}


async def run(cluster: LocalCluster, options: argparse.Namespace) -> int:
    """Run all rounds, print the figures and return the exit status."""
    record = Record.begin(options)
    kubeconfig = install(cluster)
    first, second = (_replica(cluster, kubeconfig, name, options.lease) for name in ("first", "second"))
    ends = [FailoverDurations(name, *_STRIKES[name]) for name in options.signals]
    async with (
        admin(cluster) as client,
        bindings(client) as seen,
        observing(client) as reservations,
        _terms(client) as terms,
    ):
        nodes = max(options.nodes, _nodes(options))
        say(f"{nodes} nodes, {options.placed} placed pods.")
        await add_nodes(client, nodes)
        await each(lambda number: _place(client, number, nodes), range(options.placed))
        await asyncio.to_thread(first.start)
        await terms.after(0)
        say(f"{options.locks} locks.")
        await Reservations(client, reservations).burst(options.locks)
        await asyncio.to_thread(second.start)
        failover = FailoverRun(client, options, first, second, seen, terms)
        try:
            for kind in ends:
                for number in range(options.kills):
                    say(f"{kind.signal}: {number + 1} of {options.kills}.")
                    await failover.round(kind)
        except TimeoutError:
            failover.faults.append(f"no pod was bound within {_PATIENCE:g} s")
        record.faults = [*failover.faults, *seen.doubled, *reservations.faults, *await audit(client)]
    print(
        f"{options.rate} pods a second on {nodes} nodes, beside {options.locks} live locks and "
        f"{options.placed} placed pods; a Lease of {options.lease} s; {os.cpu_count()} CPUs for everything."
    )
    for kind in ends:
        print(f"\n{kind.title}, {len(kind.gaps)} times\n{table(kind.figures)}")
        record.add(kind.figures, kind.title, key=kind.signal.lower())
    print("\n".join(record.faults) or _FAULTLESS)
    record.write(options.json)
    return 1 if record.faults else 0


def _replica(cluster: LocalCluster, kubeconfig: Path, name: str, lease: int) -> Component:
    program = tidelock(cluster, kubeconfig)
    return replace(program, name=name, command=(*program.command, f"--lease-duration-seconds={lease}"))


async def _place(client: KubeClient, number: int, nodes: int) -> None:
    """Create a pod that is already bound to a node."""
    shape = {"spec": {**plain_pod(number)["spec"], "nodeName": f"node-{number % nodes:04}"}}
    await client.create(PODS.collection(BACKGROUND), pod_object(f"placed-{number:06}", "nobody", shape))


def _nodes(options: argparse.Namespace) -> int:
    """Return the number of nodes on which all reservations and the pods of a round fit."""
    seconds = 2 * options.seconds + options.lease + _SPARE
    pods: int = options.rate * seconds
    reservations: int = options.locks
    return ceil(reservations / _RESERVATIONS_ON_A_NODE) + ceil(pods / _PODS_ON_A_NODE)


@asynccontextmanager
async def _terms(client: KubeClient) -> AsyncIterator[Leaderships]:
    """Watch the leaderships while the context lasts."""
    seen = Leaderships()
    async with following(client, LEASES.collection(SYSTEM_NAMESPACE), seen.take):
        yield seen


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(prog="bench.failover", description="Let leaders end in three ways.")
    quick = is_quick(parser, arguments, "smaller counts, for a first look")
    counts = (
        ("kills", 10, 2, "how often a leader ends in each of the ways"),
        ("rate", 100, 50, "pods a second"),
        ("locks", 2_500, 100, "active reservations"),
        ("nodes", 0, 0, "nodes without kubelets, or more if needed"),
        ("placed", 0, 0, "pods that are already placed"),
        ("seconds", 3, 2, "how long pods are created before a leader ends, and after another has followed"),
        ("lease", 5, 3, "duration of the Lease in seconds, which is 15 in installations"),
    )
    add_counts(parser, counts, quick=quick)
    parser.add_argument("--signals", nargs="+", choices=_STRIKES, default=list(_STRIKES), help="only these")
    add_json(parser, arguments)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark on a new control plane, and return the exit status."""
    options = parse(arguments)
    return run_alone(run, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
