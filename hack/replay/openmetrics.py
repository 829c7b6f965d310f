"""A run of the simulator as the series that Prometheus has of a real cluster, in the OpenMetrics format.

They are those of kube-state-metrics and of the kubelets' cAdvisor. `promtool tsdb create-blocks-from` makes
blocks of them. Each node also has a pod of a DaemonSet, with a request beyond the size of the machine.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from devcluster.tools import find_program
from tidelock.simulation.engine import NOT_PLACED, Run
from tidelock.simulation.world import SimulatedWorld

AGENT_CORES, AGENT_BYTES = 0.5, 2**29
"""Request of the DaemonSet's pod on each node, which uses a tenth of it."""

_CORE = 1000
_NAMESPACE = "shop"


def write_blocks(text: Iterator[str], folder: Path) -> None:
    """Write series to the data folder of a Prometheus server."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder.with_suffix(".openmetrics")
    with source.open("w") as file:
        file.writelines(text)
    promtool = find_program("promtool")
    command = [
        str(promtool),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "--quiet",
        "--max-block-duration=168h",
    ]
    subprocess.run([*command, str(source), str(folder)], check=True, capture_output=True, timeout=120)
    source.unlink()


def series_of(world: SimulatedWorld, run: Run, start: int, scrape: int, more: int) -> Iterator[str]:
    """Yield the lines of a run that began at a second of the epoch.

    A scrape is every so many seconds. After the end of the world, the pods go on for `more` seconds.
    """
    ends = run.bound + world.lives
    placed = np.flatnonzero(run.node != NOT_PLACED)
    seconds = np.zeros(world.pods)
    for elapsed in range(0, round(world.steps * world.step) + more, scrape):
        at, step = start + elapsed, min(int(elapsed // world.step), world.steps - 1)
        for machine in world.machines:
            yield from _node_lines(machine.name, machine.cpu, machine.memory, machine.pods, at)
            yield from _pod_lines(f"agent-{machine.name}", machine.name, "DaemonSet", "agent", at)
            amounts = (AGENT_CORES, AGENT_BYTES), (0.0, 0.0)
            yield from _container_lines(f"agent-{machine.name}", machine.name, *amounts, at)
            yield from _use_lines(f"agent-{machine.name}", AGENT_CORES * elapsed / 10, AGENT_BYTES / 10, at)
        for pod in placed[(run.bound[placed] <= elapsed) & (elapsed < ends[placed])].tolist():
            workload = world.workloads[world.workload[pod]]
            name, node = f"{workload.name}-7d9f-{pod}", world.machines[run.node[pod]].name
            yield from _pod_lines(name, node, "ReplicaSet", f"{workload.name}-7d9f", at)
            labels = f'namespace="{_NAMESPACE}",pod="{name}",uid="uid-{name}"'
            yield f"kube_pod_created{{{labels}}} {start + world.arrives[pod]} {at}\n"
            requests = workload.cpu / _CORE, float(workload.memory)
            limits = workload.cpu_limit / _CORE, float(workload.memory_limit)
            yield from _container_lines(name, node, requests, limits, at)
            yield from _use_lines(name, float(seconds[pod]), float(world.memory[pod]), at)
            seconds[pod] += world.cpu[pod, step] / _CORE * scrape
        for workload in world.workloads:
            labels = f'namespace="{_NAMESPACE}",replicaset="{workload.name}-7d9f",owner_kind="Deployment"'
            yield f'kube_replicaset_owner{{{labels},owner_name="{workload.name}"}} 1 {at}\n'
    yield "# EOF\n"


def _node_lines(name: str, cpu: int, memory: int, pods: int, at: int) -> Iterator[str]:
    amounts = {"cpu": cpu / _CORE + AGENT_CORES, "memory": memory + AGENT_BYTES, "pods": pods + 1}
    for resource, amount in amounts.items():
        yield f'kube_node_status_allocatable{{node="{name}",resource="{resource}"}} {amount} {at}\n'


def _pod_lines(name: str, node: str, kind: str, owner: str, at: int) -> Iterator[str]:
    labels = f'namespace="{_NAMESPACE}",pod="{name}",uid="uid-{name}"'
    made = f'created_by_kind="{kind}",created_by_name="{owner}"'
    yield f'kube_pod_info{{{labels},node="{node}",{made}}} 1 {at}\n'
    for phase in ("Pending", "Running", "Succeeded"):
        yield f'kube_pod_status_phase{{{labels},phase="{phase}"}} {int(phase == "Running")} {at}\n'


def _container_lines(
    name: str, node: str, requests: tuple[float, float], limits: tuple[float, float], at: int
) -> Iterator[str]:
    labels = f'namespace="{_NAMESPACE}",pod="{name}",uid="uid-{name}",container="main",node="{node}"'
    for kind, amounts in (("requests", requests), ("limits", limits)):
        for resource, amount in zip(("cpu", "memory"), amounts, strict=True):
            if amount:
                metric = f"kube_pod_container_resource_{kind}"
                yield f'{metric}{{{labels},resource="{resource}"}} {amount} {at}\n'


def _use_lines(name: str, seconds: float, memory: float, at: int) -> Iterator[str]:
    labels = f'namespace="{_NAMESPACE}",pod="{name}",container="main"'
    yield f"container_cpu_usage_seconds_total{{{labels}}} {seconds} {at}\n"
    yield f"container_memory_working_set_bytes{{{labels}}} {memory} {at}\n"
