"""An hour of churn, and checks of its result: python -m soak [--minutes 60] [--rate 20] [--json FILE].

A new control plane has nodes without kubelets, and the operator as it is installed. Reservations and pods are
created, consumed, expired, edited and deleted at a steady rate. Meanwhile nodes are cordoned, resized and
removed. The run prints whether the operator's memory, open files and tasks grow. At the end the ledger must
equal the state of the API server. Reservations and pods that existed from the start must be unchanged, and
nothing may be left over. The exit status is 1 if anything was lost or is left over, and 0 otherwise.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.figures import columns
from bench.programs import tidelock
from bench.world import admin
from devcluster import LocalCluster, start_cluster
from devcluster.identity import BASE, operator_kubeconfig
from devcluster.output import say
from soak.outcome import Outcome
from soak.run import Plan, soak
from soak.samples import Sample, trend

NAMESPACE = "soak"

_DEFINITIONS = ("crd/reservations.tidelock.dev", "crd/waterlevels.tidelock.dev")
# The growth in an hour that matters, by quantity.
_LIMITS = {"memory": ("MiB", 8.0), "files": ("open files", 4.0), "tasks": ("tasks", 4.0)}


def install(cluster: LocalCluster) -> Path:
    """Install the manifests and the namespace, and return the kubeconfig of the operator's ServiceAccount."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(BASE))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *_DEFINITIONS)
    namespace = msgspec.json.encode(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    ).decode()
    cluster.kubectl("apply", "--server-side", "-f", "-", input=namespace)
    return operator_kubeconfig(cluster, cluster.directory)


async def run_plan(cluster: LocalCluster, plan: Plan) -> Outcome:
    """Run the operator and execute the plan."""
    program = tidelock(cluster, install(cluster))
    await asyncio.to_thread(program.start)
    try:
        async with admin(cluster) as client:
            outcome = await soak(client, NAMESPACE, program, plan)
    finally:
        await asyncio.to_thread(program.stop)
    log = program.log.read_text(errors="replace")
    if "Traceback" in log:
        outcome.faults.append("the operator's log has a traceback:\n" + log[log.index("Traceback") :][:2000])
    return outcome


def growth(samples: Sequence[Sample]) -> str:
    """Format the operator's memory, open files and tasks, with their growth."""
    rows: list[tuple[str, ...]] = [("", "first", "last", "most", "an hour (95 %)", "")]
    if not samples:
        return "No sample was taken."
    for name, (unit, limit) in _LIMITS.items():
        values = [float(getattr(sample, name)) for sample in samples]
        found = trend([sample.at for sample in samples], values)
        rows.append(
            (
                unit,
                *(f"{value:.1f}" for value in (values[0], values[-1], max(values))),
                f"{found.slope:+.1f} ({found.low:+.1f} to {found.high:+.1f})" if found else "",
                found.verdict(limit) if found else "too short to tell",
            )
        )
    return columns(rows)


def report(plan: Plan, outcome: Outcome) -> None:
    """Print the numbers of objects, the growth and the faults."""
    done = ", ".join(f"{count} {kind}" for kind, count in sorted(outcome.lives.items()))
    pace = outcome.objects / (plan.minutes * 60)
    print(f"{outcome.objects} locks and pods in {plan.minutes:g} min, {pace:.1f}/s. Lives: {done}.")
    print(growth(outcome.samples))
    print("\n".join(outcome.faults) or "Nothing was lost, and nothing is left over.")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="soak", description="An hour of churn, and checks of its result.")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long objects are created")
    parser.add_argument("--rate", type=float, default=20.0, help="reservations and pods per second")
    parser.add_argument("--nodes", type=int, default=16, help="nodes that last")
    parser.add_argument("--changing-nodes", type=int, default=4, help="nodes that are changed all the time")
    parser.add_argument(
        "--patience", type=float, default=120.0, help="seconds after which a missing result counts as lost"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random choices")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write samples and faults there too")
    options = parser.parse_args(arguments)
    for name in ("minutes", "rate", "nodes", "changing_nodes", "patience"):
        if not getattr(options, name) > 0:
            parser.error(f"--{name.replace('_', '-')}: {getattr(options, name):g}: should be more than 0")
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the soak on a new control plane, and return the exit status."""
    options = vars(parse(arguments))
    target: Path | None = options.pop("json")
    plan = Plan(**options)
    with (
        tempfile.TemporaryDirectory(prefix="tidelock-soak-") as directory,
        start_cluster(Path(directory), controller_manager=False, kwok=False) as cluster,
    ):
        say(f"{plan.minutes:g} min at {plan.rate:g} objects a second.")
        outcome = asyncio.run(run_plan(cluster, plan))
    report(plan, outcome)
    if target:
        target.write_bytes(msgspec.json.format(msgspec.json.encode({"plan": plan, "outcome": outcome})))
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
