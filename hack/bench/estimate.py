"""A benchmark of estimates for Karmada: python -m bench.estimate [--quick] [--rate N] [--json FILE].

A client in a process of its own sends requests over mutual TLS at a constant rate, as the schedulers of a
Karmada would, whether or not earlier ones are answered. The server is that of `tidelock run`, over a decider
with nodes, pods and reservations and without an API server. The client measures from the planned time of a
request to its answer, so a stall counts for each request that it delays.
"""

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from random import Random

import uvloop

from bench.command import add_json, is_quick
from bench.decisions import Stopped, furnished, workloads
from bench.figures import Figure, percentile, table
from bench.record import Record
from devcluster.karmada import CLUSTER, EstimatorClient, assumed, component, replica, tls_folder
from devcluster.keys import Keys, make_keys
from devcluster.loopback import HOST, free_ports
from tidelock.binders.endpoint import Endpoint
from tidelock.clock import SystemClock
from tidelock.integrations.karmada.server import ENDPOINT, EstimatorServer
from tidelock.isolation import Isolation
from tidelock.kube.client import KubeClient
from tidelock.model.meta import Key
from tidelock.running import collect_seldom
from tidelock.scheduler.core.decider import Decider
from tidelock.telemetry import Telemetry

_MILLI = 1000
_TARGET = 50.0  # ms
_WARM_UP = 20
_CONNECTIONS = 4
_KINDS = 32  # of replicas, among which requests alternate


class _NoApiServer(KubeClient):
    """A client that is never asked: the estimates are computed from memory, and no endpoint is announced."""

    def __init__(self) -> None:
        """Connect to nothing."""


async def _serve(decider: Decider, folder: Path, port: int, done: asyncio.Event) -> None:
    """Serve until the client is done."""
    clock, client = SystemClock(), _NoApiServer()
    server = EstimatorServer(
        decider,
        client,
        Endpoint(client, Key("bench", ENDPOINT), "", port, "grpc"),
        Stopped(),
        Telemetry(clock.monotonic, Random(1)),  # noqa: S311 -- no secret
        Isolation(lambda *_: None, lambda *_: None, clock.monotonic),
        cluster=CLUSTER,
        folder=folder,
        address=HOST,
        port=port,
        ready=lambda: True,
    )
    serving = asyncio.create_task(server.run())
    await done.wait()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


def _send(port: int, keys: Keys, options: argparse.Namespace, results: Pipe) -> None:
    """Run the client, and send the seconds of each request."""
    results.send(uvloop.run(_requests(port, keys, options)))


async def _requests(port: int, keys: Keys, options: argparse.Namespace) -> dict[str, list[float]]:
    """Send requests of each kind at the rate, and return the seconds from their planned times."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(EstimatorClient(port, keys)) for _ in range(_CONNECTIONS)]

        async def replicas(number: int) -> int:
            kind = {"cpu": "1", "memory": f"{1024 + number % _KINDS}Mi"}
            return await clients[number % _CONNECTIONS].replicas(replica(kind))

        async def beside(number: int) -> int:
            workload = assumed(*(component("web", 3, {"cpu": f"{each + 1}00m"}) for each in range(4)))
            return await clients[number % _CONNECTIONS].replicas(replica({"cpu": "1"}), workload)

        async def sets(number: int) -> int:
            tasks = {"cpu": f"{500 + number % _KINDS}m"}
            parts = component("jobs", 1, {"cpu": "1"}), component("tasks", 4, tasks)
            return await clients[number % _CONNECTIONS].sets(*parts)

        kinds = {"replicas": replicas, "replicas beside four assumed components": beside, "sets of two": sets}
        return {name: await _paced(ask, options.rate, options.requests) for name, ask in kinds.items()}


async def _paced(ask: Callable[[int], Awaitable[int]], rate: int, count: int) -> list[float]:
    """Send requests at a rate, and return the seconds of each from its planned time."""
    for number in range(_WARM_UP):
        await ask(number)
    loop = asyncio.get_running_loop()
    begin = loop.time()

    async def timed(number: int) -> float:
        planned = begin + number / rate
        await asyncio.sleep(planned - loop.time())
        if await ask(number) <= 0:
            raise ValueError("nothing fits, so this measures something else")
        return loop.time() - planned

    return await asyncio.gather(*(timed(number) for number in range(count)))


async def _measure(decider: Decider, options: argparse.Namespace) -> tuple[dict[str, list[float]], float]:
    """Return the seconds of each request by kind, and the processor seconds of the server for all of them."""
    with tempfile.TemporaryDirectory(prefix="tidelock-bench-") as directory:
        keys = make_keys(Path(directory) / "keys")
        (port,) = free_ports(1)
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        client = context.Process(target=_send, args=(port, keys, options, sender))
        done = asyncio.Event()
        serving = asyncio.create_task(_serve(decider, tls_folder(Path(directory) / "tls", keys), port, done))
        used = time.process_time()
        client.start()
        sender.close()  # so that a client that fails ends the wait
        results = await asyncio.to_thread(receiver.recv)
        client.join()
        done.set()
        await serving
        return results, time.process_time() - used


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark. The exit status is 0 with any figures."""
    parser = argparse.ArgumentParser(prog="bench.estimate", description="Measure estimates for Karmada.")
    quick = is_quick(parser, arguments, "fewer requests, for a first look")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=30_000, help="placed pods")
    parser.add_argument("--locks", type=int, default=10_000, help="active reservations")
    parser.add_argument("--rate", type=int, default=200, help="requests a second")
    parser.add_argument("--requests", type=int, default=400 if quick else 6_000, help="requests of each kind")
    add_json(parser, arguments)
    options = parser.parse_args(arguments)
    record = Record.begin(options)
    collect_seldom()  # as the operator does
    (workload,) = [each for each in workloads(options.locks) if each.name == "locks"]
    decider, _ = furnished(workload, options.nodes, options.pods)
    counts = f"{options.nodes} nodes, {options.pods} placed pods, {options.locks} locks"
    print(f"{counts}, {options.rate} requests a second.")
    results, used = uvloop.run(_measure(decider, options))
    for name, seconds in results.items():
        figures = [
            Figure.once("p50", "ms", percentile(seconds, 50) * _MILLI),
            Figure.once("p99", "ms", percentile(seconds, 99) * _MILLI, _TARGET),
        ]
        print(f"\n{name}\n{table(figures)}")
        record.add(figures, name)
    share = used / sum(map(len, results.values()))
    figures = [Figure.once("processor time of the server", "ms", share * _MILLI)]
    print(f"\neach request\n{table(figures)}")
    record.add(figures, "each request")
    record.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
