"""Hostile objects of every kind: python -m fuzz [--objects 10000] [--seed SEED] [--only NUMBER].

On a new control plane, the operator runs as it is installed. Objects of all kinds that it reads are created
and changed with a tenant's rights, or by an administrator if a tenant may not write the kind. Their fields
are drawn from the schemas. The run fails if the operator ends or raises, if /healthz gets slow, or if
another tenant's small Reservation is answered late. Each object needs a status, or a refusal that names a
field. A finding names a file with the object, and `--seed SEED --only NUMBER` repeats that object alone.
"""

import argparse
import asyncio
import json
import math
import secrets
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from bench.figures import columns
from bench.programs import tidelock
from bench.world import admin
from devcluster import LocalCluster, start_cluster
from devcluster.output import say
from devcluster.tenants import AUTHOR, MANAGER, tenant_account
from fuzz.health import HealthSamples
from fuzz.objects import RESOURCES, Source
from fuzz.run import Outcome, Plan, Tenancy, fuzz
from fuzz.schema import Schema, of_openapi
from soak.__main__ import install
from tidelock.kube.client import KubeClient
from tidelock.kube.config import load_connection

PROBE_SECONDS = 0.25
"""Limit for 99 of 100 probes of /healthz."""
RESERVATION_SECONDS = 2.0
"""Limit for each small Reservation of the other tenant."""

_NAMESPACE, _LIMITED, _PROBES = "fuzz", "fuzz-limited", "fuzz-probe"


async def run_plan(cluster: LocalCluster, plan: Plan) -> Outcome:
    """Run the operator and execute the plan."""
    program = tidelock(cluster, await asyncio.to_thread(install, cluster))
    for namespace in (_NAMESPACE, _LIMITED, _PROBES):
        manifest = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        cluster.kubectl("apply", "--server-side", "-f", "-", input=manifest)
    file = tenant_account(cluster, _NAMESPACE, "team", (MANAGER, AUTHOR), cluster.directory)
    await asyncio.to_thread(program.start)
    try:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(admin(cluster))
            team = await stack.enter_async_context(
                KubeClient(load_connection(file), user_agent="fuzz", timeout_seconds=60.0)
            )
            source = Source(plan.seed, await _schemas(client))
            outcome = await fuzz(Tenancy(client, team, _NAMESPACE, _LIMITED, _PROBES), source, program, plan)
    finally:
        await asyncio.to_thread(program.stop)
    return outcome


async def _schemas(client: KubeClient) -> dict[str, Schema]:
    """Read the schemas of Kubernetes' own kinds from the API server."""
    groups = {
        f"apis/{each.group}/{each.version}" if each.group else f"api/{each.version}"
        for each in RESOURCES.values()
        if each.group != "tidelock.dev"
    }
    found: dict[str, Schema] = {}
    for group in sorted(groups):
        found |= of_openapi(msgspec.json.decode(await client.get(f"/openapi/v3/{group}")))
    return found


def slowness(health: HealthSamples) -> list[str]:
    """Return a text for each measurement in which the operator was too slow."""
    found = []
    if (probe := _percentile(health.probes, 0.99)) > PROBE_SECONDS:
        found.append(f"/healthz: the 99th percentile of {len(health.probes)} probes is {probe:.3f} s")
    late = [seconds for seconds in health.reservations if seconds > RESERVATION_SECONDS]
    if late:
        found.append(
            f"{len(late)} of {len(health.reservations)} reservations were answered late: {late[:10]} s"
        )
    return found


def _percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of the values does not exceed, or 0 without values."""
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0.0


def report(plan: Plan, outcome: Outcome) -> None:
    """Print the numbers of objects and the findings."""
    health = outcome.health
    ends = sorted({end for _, end in outcome.verdicts})
    rows = [("kind", *ends, "accepted")] + [
        (kind, *(str(outcome.verdicts[kind, end]) for end in ends), f"{outcome.accepted(kind):.0%}")
        for kind in sorted({kind for kind, _ in outcome.verdicts})
    ]
    print(columns(rows))
    print(
        f"seed {plan.seed}: {plan.objects} objects, {outcome.patches} patches, "
        f"slowest answer {outcome.slowest[0]:.2f} s ({outcome.slowest[1]})"
    )
    print(
        f"/healthz: p99 {_percentile(health.probes, 0.99):.3f} s of {len(health.probes)}; "
        f"reservations: p99 {_percentile(health.reservations, 0.99):.3f} s, "
        f"most {max(health.reservations, default=0.0):.3f} s of {len(health.reservations)}"
    )
    print("\n".join(outcome.findings) or "Nothing was found.")


def parse(arguments: Sequence[str]) -> Plan:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Hostile objects of every kind.")
    parser.add_argument("--objects", type=int, default=10_000, help="how many objects are created")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="of all random choices")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="create only the object of this number")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="where findings are written")
    options = parser.parse_args(arguments)
    if options.only is not None:
        return Plan(seed=options.seed, objects=1, first=options.only, folder=options.folder)
    return Plan(seed=options.seed, objects=options.objects, folder=options.folder)


def main(arguments: Sequence[str]) -> int:
    """Fuzz on a new control plane, and return the exit status."""
    plan = parse(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="tidelock-fuzz-") as directory,
        start_cluster(Path(directory), controller_manager=False, kwok=False) as cluster,
    ):
        say(f"seed {plan.seed}, {plan.objects} objects.")
        outcome = asyncio.run(run_plan(cluster, plan))
    outcome.findings += slowness(outcome.health)
    report(plan, outcome)
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
