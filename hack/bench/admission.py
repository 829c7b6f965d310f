"""A benchmark of binding reviews: python -m bench.admission [--quick] [--json FILE].

A new control plane has nodes without kubelets, each with a reservation. The benchmark sends reviews of
bindings to `tidelock run --admission`, as the API server would, one at a time and many at once. It uses the
token in the webhooks' path, and TLS connections that stay open. It then creates each admitted binding, so
that the operator counts its pod and no longer expects it. The exit status is 1 if a review had no answer, or
an answer that contradicts the free capacity.
"""

import argparse
import asyncio
import base64
import ssl
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec

from bench.command import add_json, is_quick, run_alone
from bench.figures import Figure, percentile, table
from bench.programs import cpu_seconds, tidelock
from bench.record import Record
from bench.world import NAMESPACE, add_nodes, admin, each, install
from devcluster import LocalCluster
from devcluster.binders import webhook_configuration
from devcluster.identity import EXTENDER, SYSTEM_NAMESPACE, operator_kubeconfig
from devcluster.loopback import HOST, free_ports
from devcluster.output import say
from tidelock.binders.tokens import ADMISSION_PATH
from tidelock.binders.webhooks import CONFIGURATION
from tidelock.kube.client import PODS, RESERVATIONS, SECRETS, WEBHOOKS, KubeClient

_MILLI = 1000
_TARGET = 10  # ms
_AT_ONCE = 16
_WAIT = 0.2  # seconds between two looks


async def run(cluster: LocalCluster, options: argparse.Namespace) -> int:
    """Measure, print the figures and return the exit status."""
    record = Record.begin(options)
    install(cluster)
    kubeconfig = operator_kubeconfig(cluster, cluster.directory, EXTENDER)
    (port,) = free_ports(1)
    program = tidelock(cluster, kubeconfig)
    program = replace(
        program, command=(*program.command, "--admission", f"--tls-port={port}", f"--tls-names={HOST}")
    )
    wrong = 0
    async with admin(cluster) as client:
        await add_nodes(client, options.nodes)
        configuration = webhook_configuration(cluster, port)
        for webhook in configuration["webhooks"]:
            webhook["objectSelector"] = {"matchLabels": {"asked": "by-the-api-server-too"}}  # none is
        await client.create(WEBHOOKS.collection(), configuration)
        await asyncio.to_thread(program.start)
        await each(lambda number: _make_reservation(client, number), range(options.nodes))
        async with _reviews(client) as post:
            await _until_reserved(client, options.nodes)
            for name, workers in (("one at a time", 1), (f"{_AT_ONCE} at once", _AT_ONCE)):
                say(f"{options.reviews} reviews, {name}.")
                used = cpu_seconds(program)
                seconds, errors = await _measure(client, post, workers, options)
                used = cpu_seconds(program) - used
                wrong += errors
                # The operator's processor time includes the pod's events.
                figures = [
                    Figure.once("p50", "ms", percentile(seconds, 50) * _MILLI),
                    Figure.once("p99", "ms", percentile(seconds, 99) * _MILLI, _TARGET),
                    Figure.once("processor time of the operator", "ms", used / len(seconds) * _MILLI),
                ]
                print(f"{name}\n{table(figures)}")
                record.add(figures, name)
    print(
        f"{options.nodes} nodes, each with a reservation; half of the bindings would take reserved capacity."
    )
    print(f"{wrong} reviews were answered wrongly." if wrong else "Every review was answered rightly.")
    record.faults = [f"{wrong} wrong answers"] if wrong else []
    record.write(options.json)
    return 1 if wrong else 0


async def _measure(
    client: KubeClient, post: Any, workers: int, options: argparse.Namespace
) -> tuple[list[float], int]:
    """Send reviews of bindings, and create the admitted ones.

    Returns the seconds of each review and the number of wrong answers.
    """
    numbers = iter(range(options.reviews))
    seconds: list[float] = []
    wrong = 0

    async def worker() -> None:
        nonlocal wrong
        for number in numbers:
            fits = number % 2 == 0
            name = f"pod-{workers}-{number}"
            uid = await _make_pod(client, name, "10m" if fits else "11")
            node = f"node-{number % options.nodes:04}"
            binding = {"metadata": {"name": name, "uid": uid}, "target": {"kind": "Node", "name": node}}
            started = time.perf_counter()
            allowed = await post(name, binding)
            seconds.append(time.perf_counter() - started)
            wrong += allowed is not fits
            if allowed:
                await client.create(PODS.item(name, NAMESPACE, "binding"), binding)

    await asyncio.gather(*(worker() for _ in range(workers)))
    return seconds, wrong


@asynccontextmanager
async def _reviews(client: KubeClient) -> AsyncIterator[Any]:
    """Yield a function that posts a review of a binding, and returns whether it is allowed."""
    secret = msgspec.json.decode(await client.get(SECRETS.item("tidelock-tls", SYSTEM_NAMESPACE)))
    tls = ssl.create_default_context(cadata=base64.b64decode(secret["data"]["ca.crt"]).decode())
    url = await _webhook_url(client)
    async with aiohttp.ClientSession() as session:

        async def post(name: str, binding: dict[str, Any]) -> bool:
            request = {
                "uid": name,
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "subResource": "binding",
                "namespace": NAMESPACE,
                "name": name,
                "object": binding,
            }
            nonlocal url
            while True:
                async with session.post(url, json={"request": request}, ssl=tls) as response:
                    if response.status != HTTPStatus.NOT_FOUND:
                        answer: bool = (await response.json())["response"]["allowed"]
                        return answer
                url = await _webhook_url(client)  # the token was replaced

        yield post


async def _webhook_url(client: KubeClient) -> str:
    """Return the URL of the webhook, once the operator has written it."""
    while True:
        webhooks = msgspec.json.decode(await client.get(WEBHOOKS.item(CONFIGURATION)))["webhooks"]
        url: str = webhooks[0]["clientConfig"]["url"]
        if ADMISSION_PATH in url:
            return url
        await asyncio.sleep(_WAIT)


async def _make_pod(client: KubeClient, name: str, cpu: str) -> str:
    container = {"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": cpu}}}
    body = {"metadata": {"name": name}, "spec": {"schedulerName": "nobody", "containers": [container]}}
    made = msgspec.json.decode(await client.create(PODS.collection(NAMESPACE), body))
    return str(made["metadata"]["uid"])


async def _make_reservation(client: KubeClient, number: int) -> None:
    spec = {
        "nodeName": f"node-{number:04}",
        "resources": {"cpu": "2"},
        "owners": [{"pod": {"name": "nobody"}}],
        "ttlSeconds": 86_400,
    }
    meta = {"name": f"lock-{number:04}"}
    kind = {"apiVersion": RESERVATIONS.api_version, "kind": RESERVATIONS.kind}
    await client.create(RESERVATIONS.collection(NAMESPACE), kind | {"metadata": meta, "spec": spec})


async def _until_reserved(client: KubeClient, count: int) -> None:
    while True:
        reservations = msgspec.json.decode(await client.get(RESERVATIONS.collection(NAMESPACE)))["items"]
        if sum(reservation["status"].get("phase") == "Active" for reservation in reservations) == count:
            return
        await asyncio.sleep(_WAIT)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark on a new control plane, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="bench.admission", description="Measure how long a binding's review takes."
    )
    quick = is_quick(parser, arguments, "smaller counts, for a first look")
    parser.add_argument("--nodes", type=int, default=100 if quick else 1_000, help="bare nodes")
    parser.add_argument("--reviews", type=int, default=200 if quick else 1_000, help="reviews in each run")
    add_json(parser, arguments)
    options = parser.parse_args(arguments)
    return run_alone(run, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
