"""A race of many claimants for the last capacity of nodes: python -m bench.contend [--quick].

A new control plane has `tidelock run --extender --admission`, and a stock kube-scheduler that calls its
extender. In every round, many claimants want the last capacity of a few nodes at once. They are Reservations,
pods of either scheduler, and bindings that the benchmark posts itself. An independent watch observes them.
The exit status is 1 if it ever sees more claimants on a node than fit, or if capacity stayed free.
"""

import argparse
import asyncio
import base64
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from bench.audit import audit_pods
from bench.claims import Claimant, ClaimMethod, Claims, attempt, claims
from bench.command import add_counts, add_json, is_quick, run_alone
from bench.comparison import PEER
from bench.figures import Figure, percentile, table
from bench.nodes import ready_node
from bench.pods import clear
from bench.programs import kube_scheduler, tidelock
from bench.record import Record
from bench.world import NAMESPACE, admin, each, install, install_kube_scheduler, put_nodes
from devcluster import LocalCluster
from devcluster.binders import NAMES, scheduler_configuration, scheduler_keys, webhook_configuration
from devcluster.identity import EXTENDER, SYSTEM_NAMESPACE, operator_kubeconfig
from devcluster.loopback import free_ports
from devcluster.output import say
from tidelock.binders.webhooks import CONFIGURATION
from tidelock.kube.client import NODES, PODS, RESERVATIONS, SECRETS, WEBHOOKS, KubeClient
from tidelock.kube.errors import ApiError, NotFound
from tidelock.settings import DEFAULT_SCHEDULER_NAME

_MILLI = 1000
_LABEL = "bench.tidelock.dev/round"
_WAIT = 0.2  # seconds between two looks
_PATIENCE = 120.0  # seconds that a round may take
_SCHEDULERS = {
    ClaimMethod.POD: DEFAULT_SCHEDULER_NAME,
    ClaimMethod.STOCK: PEER,
    ClaimMethod.BINDING: "nobody",
    ClaimMethod.RESERVATION: "",
}


@dataclass
class Contest:
    """The parameters and the results of all rounds.

    Attributes:
        claimants: claimants of a round, a quarter in each way.
        nodes: nodes of a round.
        capacity: number of claimants that fit on a node.
        seconds: from each claim to its first answer, by way.
        winners: number of claimants that got capacity, by way.
        unreviewed: bindings that were refused because no review came in time.
        faults: a text for each fault.

    """

    claimants: int
    nodes: int
    capacity: int
    seconds: dict[ClaimMethod, list[float]] = field(default_factory=lambda: {way: [] for way in ClaimMethod})
    winners: dict[ClaimMethod, int] = field(default_factory=lambda: dict.fromkeys(ClaimMethod, 0))
    unreviewed: int = 0
    faults: list[str] = field(default_factory=list)

    async def run(self, client: KubeClient, rounds: int) -> None:
        """Run so many rounds and add up their results."""
        async with claims(client, NAMESPACE, self.capacity) as seen:
            for number in range(rounds):
                await self._round(client, seen, number)
            self.faults += seen.faults
            self.unreviewed += seen.unreviewed

    async def _round(self, client: KubeClient, seen: Claims, number: int) -> None:
        label = {_LABEL: f"round-{number:03}"}
        nodes = [f"round-{number:03}-{each}" for each in range(self.nodes)]
        await put_nodes(client, (_node(name, label, self.capacity) for name in nodes))
        claimants = self._claimants(number, label, nodes)
        await each(lambda claimant: claimant.prepare(client, NAMESPACE), claimants)
        try:
            async with asyncio.timeout(_PATIENCE):
                await each(lambda claimant: attempt(claimant, client, NAMESPACE, seen), claimants)
                await seen.until(lambda: self._decided(seen))
        except TimeoutError:
            self.faults.append(
                f"round {number}: capacity for {self.nodes * self.capacity}, {len(seen.won)} got some and "
                f"{len(claimants) - len(seen.answered)} no answer"
            )
        self.faults += await audit_pods(client, beside_reservations=True)
        for claimant in claimants:
            if claimant.name in seen.answered:
                taken = seen.answered[claimant.name] - seen.begun[claimant.name]
                self.seconds[claimant.way].append(taken)
            self.winners[claimant.way] += claimant.name in seen.won
        seen.clear()
        for resource in (RESERVATIONS, PODS):
            await clear(client, resource.collection(NAMESPACE))
        for name in nodes:
            await client.delete(NODES.item(name))

    def _decided(self, seen: Claims) -> bool:
        return len(seen.answered) >= len(seen.begun) and len(seen.won) >= self.nodes * self.capacity

    def _claimants(self, number: int, label: dict[str, str], nodes: Sequence[str]) -> list[Claimant]:
        """Return the claimants of a round in random order, which is the same in each run."""
        rng = Random(number)  # noqa: S311 -- no secret
        ways = list(ClaimMethod)
        made = [
            Claimant(f"claim-{number:03}-{each:03}", way, _SCHEDULERS[way], label, rng.choice(nodes))
            for each in range(self.claimants)
            for way in [ways[each % len(ways)]]
        ]
        rng.shuffle(made)
        return made

    @property
    def figures(self) -> dict[str, list[Figure]]:
        """The figures of each way, and of all claimants."""
        everybody = [each for seconds in self.seconds.values() for each in seconds]
        return {way.value: _figures(self.seconds[way], self.winners[way]) for way in ClaimMethod} | {
            "all": _figures(everybody, sum(self.winners.values()), headline=True)
        }


def _figures(seconds: Sequence[float], winners: int, *, headline: bool = False) -> list[Figure]:
    return [
        Figure.once("claims", "", len(seconds)),
        Figure.once("got capacity", "", winners, more_is_better=True, headline=headline),
        *(
            Figure.once(
                f"first answer, p{percent}", "ms", percentile(seconds, percent) * _MILLI, headline=headline
            )
            for percent in (50, 99)
            if seconds
        ),
    ]


def _node(name: str, labels: dict[str, str], capacity: int) -> dict[str, Any]:
    return ready_node(name, {"cpu": str(capacity), "memory": "16Gi", "pods": "110"}, labels)


async def _authority(client: KubeClient) -> bytes:
    """Wait for the operator's certificate, and for the webhooks to trust it. Returns its authority in PEM."""
    while True:
        try:
            secret = msgspec.json.decode(await client.get(SECRETS.item("tidelock-tls", SYSTEM_NAMESPACE)))
            webhooks = msgspec.json.decode(await client.get(WEBHOOKS.item(CONFIGURATION)))["webhooks"]
        except NotFound:
            webhooks = [{"clientConfig": {}}]
        if all(each["clientConfig"].get("caBundle") for each in webhooks):
            return base64.b64decode(secret["data"]["ca.crt"])
        await asyncio.sleep(_WAIT)


async def _until_reviewed(client: KubeClient) -> None:
    """Wait until the API server calls the webhook and trusts its answer.

    The answer is there as soon as a pod that requests more than its node has is refused.
    """
    label = {_LABEL: "none"}
    await put_nodes(client, [_node("reviewed", label, 0)])
    trial = Claimant("trial", ClaimMethod.BINDING, "nobody", label, "reviewed")
    pod = trial.pod | {"spec": trial.pod["spec"] | {"nodeName": "reviewed"}}
    while True:
        try:
            await client.request("POST", PODS.collection(NAMESPACE), params={"dryRun": "All"}, body=pod)
        except ApiError as error:
            if "Insufficient cpu" in str(error):
                break
        await asyncio.sleep(_WAIT)
    await client.delete(NODES.item("reviewed"))


async def run(cluster: LocalCluster, options: argparse.Namespace) -> int:
    """Run all rounds, print the figures and return the exit status."""
    record = Record.begin(options)
    install(cluster)
    kubeconfig, peers_kubeconfig = (
        operator_kubeconfig(cluster, cluster.directory, EXTENDER),
        install_kube_scheduler(cluster),
    )
    (port,) = free_ports(1)
    ours = tidelock(cluster, kubeconfig)
    keys = scheduler_keys(cluster)
    serving = ("--extender", f"--extender-clients={keys.authority}", "--admission", f"--tls-port={port}")
    names = f"--tls-names={','.join(NAMES)}"
    ours = replace(ours, command=(*ours.command, *serving, names))
    contest = Contest(options.claimants, options.nodes, options.capacity)
    async with admin(cluster) as client:
        await client.create(WEBHOOKS.collection(), webhook_configuration(cluster, port))
        await asyncio.to_thread(ours.start)
        async with asyncio.timeout(_PATIENCE):
            authority = cluster.directory / "ca.crt"
            authority.write_bytes(await _authority(client))
            await _until_reviewed(client)
        settings = scheduler_configuration(port, authority, keys)
        peer = kube_scheduler(cluster, peers_kubeconfig, PEER, settings)
        await asyncio.to_thread(peer.start)
        say(f"{options.rounds} rounds.")
        await contest.run(client, options.rounds)
    places = options.nodes * options.capacity
    print(
        f"{options.rounds} rounds, {options.claimants} claimants for {places} places "
        f"on {options.nodes} nodes; from the claim to the first answer, capacity or refusal, "
        "as an independent watch sees it; "
        f"{contest.unreviewed} bindings were refused unreviewed."
    )
    for way, figures in contest.figures.items():
        print(f"\n{way}\n{table(figures)}")
        record.add(figures, way)
    record.faults = contest.faults
    record.write(options.json)
    print(
        "\n".join(contest.faults) or "In every round as many got capacity as fit, and no node had too much."
    )
    return 1 if contest.faults else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(
        prog="bench.contend", description="Let many claimants race for the last capacity."
    )
    quick = is_quick(parser, arguments, "fewer rounds, for a first look")
    counts = (
        ("rounds", 100, 5, "rounds"),
        ("claimants", 200, 200, "claimants of a round, a quarter in each way"),
        ("nodes", 5, 5, "nodes of a round"),
        ("capacity", 4, 4, "number of claimants that fit on a node"),
    )
    add_counts(parser, counts, quick=quick)
    add_json(parser, arguments)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark on a new control plane, and return the exit status."""
    options = parse(arguments)
    return run_alone(run, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
