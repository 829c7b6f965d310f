"""A simulated cluster with the scheduler that serves a real one: the same decider and event handlers.

A restart discards all their state, and lists the objects to a new process, as from an API server.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import nan
from typing import Any

import msgspec
import numpy as np

from tidelock.cluster.usage.levels import MEASURED_RESOURCES, WINDOWS
from tidelock.cluster.usage.measurements import at_once
from tidelock.framework.config import Configuration
from tidelock.model.nodes import Node, decode_node
from tidelock.model.pods import Pod, PodStatus, assigned_to, decode_pod
from tidelock.model.usage_annotations import (
    NODE_LEVEL,
    MeasuredUses,
    NodeLevel,
    PodMeans,
    PodUsage,
    Stat,
    Windows,
    WorkloadKey,
    encode_node_level,
)
from tidelock.model.water_level import WaterLevel, decode_water_level
from tidelock.model.workloads import Workload as Controller
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.driver import due_steps
from tidelock.scheduler.scheduler_core import assemble_core
from tidelock.simulation.measuring import Reading
from tidelock.simulation.world import Machine, SimulatedWorkload, SimulatedWorld

NAMESPACE = "simulation"
SCHEDULER = "simulated"
GPU = "nvidia.com/gpu"
_NONE = ("0", "0m")

EPOCH = 1_800_000_000.0
"""Start of a world in the API's time, which annotations and bindings carry."""


class VirtualClock:
    """A clock that is set by hand, in seconds since the start of the world."""

    def __init__(self) -> None:
        self.elapsed = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return EPOCH + self.elapsed

    def monotonic(self) -> float:
        """Return the same, as this clock never jumps."""
        return self.now()


class SimulatedCluster:
    """The API objects of a world, and the scheduler that receives them.

    Attributes:
        clock: the time of the world.
        means_only: whether it needs no other statistics of nodes, which it does.
        nodes, pods: the objects as they are now, pods by name.
        controllers: the ReplicaSets of the pods.

    """

    means_only = False

    def __init__(
        self,
        world: SimulatedWorld,
        configuration: Configuration,
        water_level: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the objects; `water_level` is the spec of the WaterLevel that selects all nodes."""
        self.clock = VirtualClock()
        self.nodes = [node_of(machine) for machine in world.machines]
        self.pods: dict[str, Pod] = {}
        self.controllers = [_replica_set(workload) for workload in world.workloads]
        self._templates = [pod_of(workload) for workload in world.workloads]
        self._keys = [WorkloadKey("Deployment", NAMESPACE, each.name) for each in world.workloads]
        self._row_of = {machine.name: row for row, machine in enumerate(world.machines)}
        self._workload = world.workload
        self._water_levels = [] if water_level is None else [water_level_of(water_level)]
        self._configuration = configuration
        self._start()

    def restart(self) -> None:
        """Replace the scheduler by a new process."""
        self._start()

    def show(self, reading: Reading) -> None:
        """Show a reading to the scheduler: nodes by annotations, as the annotator would write them."""
        for row, statistics in zip(reading.nodes.tolist(), np.moveaxis(reading.use, -1, 0), strict=True):
            level = NodeLevel(EPOCH + reading.at, _windows(statistics.tolist()))
            self._replace_node(row, {NODE_LEVEL: encode_node_level(level)})
        at_once(self._decider.measurements.take(self._uses(reading)))

    def _uses(self, reading: Reading) -> MeasuredUses:
        """Return the use of the pods that still run, and of a pod of each workload.

        For workloads all statistics except the mean are NaN, as they are not needed.
        """
        at, names = EPOCH + reading.at, map(pod_name, reading.pods.tolist())
        means = reading.of_pods.reshape(len(reading.pods), len(WINDOWS) * len(MEASURED_RESOURCES)).tolist()
        known = np.flatnonzero(~np.isnan(reading.workloads[:, 0, 0])).tolist()
        return MeasuredUses(
            {name: PodMeans(at, of) for name, of in zip(names, means, strict=True) if name in self.pods},
            {
                self._keys[workload]: PodUsage(at, _mean_windows(reading.workloads[workload].tolist()))
                for workload in known
            },
        )

    def _replace_node(self, row: int, annotations: dict[str, str]) -> None:
        """Change a node's annotations."""
        old = self.nodes[row]
        new = msgspec.structs.replace(
            old, metadata=msgspec.structs.replace(old.metadata, annotations=annotations)
        )
        vars(new).update(vars(old))  # values computed from its size and conditions
        self.nodes[row] = new
        self._event_handlers.nodes.upsert(old, new)

    def add_pod(self, number: int) -> None:
        """Create a pod of the world."""
        name = pod_name(number)
        template = self._templates[self._workload[number]]
        meta = msgspec.structs.replace(
            template.metadata, name=name, uid=name, creation_timestamp=_instant(self.clock.now())
        )
        pod = msgspec.structs.replace(template, metadata=meta)
        self.pods[name] = pod
        self._event_handlers.pods.upsert(None, pod)

    def end_pod(self, number: int) -> None:
        """Delete a pod."""
        self._event_handlers.pods.remove(self.pods.pop(pod_name(number)))

    def decide(self) -> Iterator[tuple[int, int]]:
        """Decide all that is due now, and yield each pod that was bound, with the row of its node."""
        for step in due_steps(self._decider, self.clock.now):
            if isinstance(step.outcome, AssumedPod):
                self._bind(step.outcome)
                name = step.outcome.pod.meta.name
                yield int(name.removeprefix("pod-")), self._row_of[step.outcome.node_name]

    def next_due(self) -> float | None:
        """Second of the world at which a decision is due without any event, or None for never."""
        due = self._decider.next_due()
        return None if due is None else due - EPOCH

    def _bind(self, assumed: AssumedPod) -> None:
        now = self.clock.now()
        old = self.pods[assumed.pod.meta.name]
        status = PodStatus(phase="Running", start_time=_instant(now))
        new = msgspec.structs.replace(assigned_to(old, assumed.node_name), status=status)
        self.pods[new.meta.name] = new
        self._decider.bound(assumed, now)
        self._event_handlers.pods.upsert(old, new)

    def _start(self) -> None:
        core = assemble_core(self._configuration, self.clock)
        self._decider, self._event_handlers = core.decider, core.event_handlers
        decider, event_handlers = core.decider, core.event_handlers
        for controller in self.controllers:
            decider.objects.replica_sets.upsert(None, controller)
        for water_level in self._water_levels:
            decider.objects.water_levels.upsert(None, water_level)
        for node in self.nodes:
            event_handlers.nodes.upsert(None, node)
        for pod in self.pods.values():
            event_handlers.pods.upsert(None, pod)
        core.all_listed()


def pod_name(number: int) -> str:
    """Name of a world's pod, which is also its uid."""
    return f"pod-{number:06}"


def node_of(machine: Machine) -> Node:
    """Return the node for a machine, Ready."""
    amounts = {"cpu": f"{machine.cpu}m", "memory": str(machine.memory), "pods": str(machine.pods)}
    if machine.gpus:
        amounts[GPU] = str(machine.gpus)
    labels = {"kubernetes.io/hostname": machine.name}
    body = {
        "metadata": {"name": machine.name, "uid": machine.name, "labels": labels},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return decode_node(msgspec.json.encode(body))


def _replica_set(workload: SimulatedWorkload) -> Controller:
    body = {
        "metadata": {
            "name": workload.name,
            "namespace": NAMESPACE,
            "uid": workload.name,
            "ownerReferences": [_owner("Deployment", workload)],
        },
        "spec": {"selector": {"matchLabels": {"app": workload.name}}},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Controller)


def water_level_of(spec: Mapping[str, Any]) -> WaterLevel:
    """Return the WaterLevel of a spec without a source, or raise ValueError for an invalid one."""
    source = {"prometheus": {"address": "http://prometheus"}}  # which is never queried
    body = {"metadata": {"name": "all", "uid": "all"}, "spec": {"source": source, **spec}}
    decoded = decode_water_level(msgspec.json.encode(body))
    if decoded.spec is None:
        raise ValueError(f"the policy's WaterLevel: {decoded.problem}")
    return decoded


def pod_of(workload: SimulatedWorkload) -> Pod:
    """Return the common part of all pods of a workload."""
    requests = {"cpu": f"{workload.cpu}m", "memory": str(workload.memory)}
    limits = {"cpu": f"{workload.cpu_limit}m", "memory": str(workload.memory_limit)}
    body = {
        "metadata": {
            "name": workload.name,
            "namespace": NAMESPACE,
            "labels": {"app": workload.name},
            "ownerReferences": [_owner("ReplicaSet", workload)],
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "containers": [
                {
                    "name": "main",
                    "resources": {
                        "requests": requests,
                        "limits": {name: amount for name, amount in limits.items() if amount not in _NONE},
                    },
                }
            ],
        },
    }
    return decode_pod(msgspec.json.encode(body))


def _windows(statistics: list[list[list[float]]]) -> Windows:
    """Arrange the statistics of a node (S x W x R) by window and resource."""
    mean, highest, p95 = statistics
    return {
        window: {
            resource: Stat(mean[row][column], highest[row][column], p95[row][column])
            for column, resource in enumerate(MEASURED_RESOURCES)
        }
        for row, window in enumerate(WINDOWS)
    }


def _mean_windows(means: list[list[float]]) -> Windows:
    """Arrange means (W x R) by window and resource."""
    return {
        window: {
            resource: Stat(mean, nan, nan) for resource, mean in zip(MEASURED_RESOURCES, of, strict=True)
        }
        for window, of in zip(WINDOWS, means, strict=True)
    }


def _owner(kind: str, workload: SimulatedWorkload) -> dict[str, object]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": workload.name,
        "uid": workload.name,
        "controller": True,
    }


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
