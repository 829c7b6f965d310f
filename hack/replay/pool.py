"""Nodes and Deployments of a world in a real cluster, and the use of their pods."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from replay.exporter import Exporter
from tidelock.kube.client import NODES, PODS, ApiResource, KubeClient
from tidelock.simulation.engine import NOT_PLACED
from tidelock.simulation.world import Floats, Indices, SimulatedWorkload, SimulatedWorld

DEPLOYMENTS = ApiResource("apps", "v1", "deployments", "Deployment")
LABEL = "replay.tidelock.dev/pool"

_NAMESPACES = ApiResource("", "v1", "namespaces", "Namespace", namespaced=False)
_APP = "app"
_CORE = 1000
_PATIENCE = 180.0  # limit in seconds of each wait
_LOOK_AGAIN = 0.2


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    taints: list[dict[str, object]] = []


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec


class _List(msgspec.Struct, frozen=True):
    items: list[_Object]


_decode = msgspec.json.Decoder(_List).decode


class Placement(NamedTuple):
    """The nodes of the pods at one time, for P pods in the order of their names.

    Attributes:
        names: names of the pods. P.
        workload: index of each pod's workload. P.
        node: row of each pod's node, or NOT_PLACED. P.

    """

    names: tuple[str, ...]
    workload: Indices
    node: Indices


class Use(NamedTuple):
    """The use at one time, of N nodes and P pods.

    Attributes:
        cpu: percent of each node's CPU. N.
        memory: percent of each node's memory. N.
        cores: cores of each pod. P.

    """

    cpu: Floats
    memory: Floats
    cores: Floats


@dataclass(frozen=True)
class Pool:
    """A world in a cluster, with its own nodes, its own namespace, and pods for one scheduler name.

    All replicas of a Deployment have the same use, so they are interchangeable.

    Attributes:
        client: client with the rights of an administrator.
        world: nodes and workloads.
        name: name of the namespace, of the nodes' label and of the scheduler.

    """

    client: KubeClient
    world: SimulatedWorld
    name: str

    @property
    def selector(self) -> dict[str, str]:
        """Labels of the nodes."""
        return {LABEL: self.name}

    def node_name(self, row: int) -> str:
        """Return the name of a node."""
        return f"{self.name}-{self.world.machines[row].name}"

    def row_of(self, node: str) -> int:
        """Return the row of a node by its name, or NOT_PLACED for any other name."""
        return self._rows.get(node, NOT_PLACED)

    def workload_of(self, labels: Mapping[str, str]) -> int:
        """Return the index of a pod's workload."""
        return self._workloads[labels[_APP]]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {self.node_name(row): row for row in range(len(self.world.machines))}

    @cached_property
    def _workloads(self) -> dict[str, int]:
        return {each.name: index for index, each in enumerate(self.world.workloads)}

    async def furnish(self) -> None:
        """Create namespace, nodes and Deployments without replicas, and wait until the nodes take pods."""
        await self.client.create(_NAMESPACES.collection(), {"metadata": {"name": self.name}})
        for row in range(len(self.world.machines)):
            await self.client.create(NODES.collection(), self._node(row))
        for workload in self.world.workloads:
            await self.client.create(DEPLOYMENTS.collection(self.name), self._deployment(workload))
        await _until(self._ready)

    async def clear(self) -> None:
        """Delete all objects, Deployments first, so that they create no pods again."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        for path in (DEPLOYMENTS.collection(self.name), PODS.collection(self.name)):
            await self.client.request("DELETE", path, body=options | {"gracePeriodSeconds": 0})
        for row in range(len(self.world.machines)):
            await self.client.delete(NODES.item(self.node_name(row)))
        await self.client.delete(_NAMESPACES.item(self.name))

    async def scale(self, workloads: Collection[int], replicas: int) -> None:
        """Scale some Deployments, and wait until all replicas are bound."""
        deployments = self.world.workloads
        for workload in workloads:
            name = deployments[workload].name
            await self.client.patch(DEPLOYMENTS.item(name, self.name), {"spec": {"replicas": replicas}})

        async def bound() -> bool:
            placement = await self.placement()
            counts = np.bincount(placement.workload[placement.node != NOT_PLACED], minlength=len(deployments))
            return all(counts[workload] == replicas for workload in workloads)

        await _until(bound)

    async def placement(self) -> Placement:
        """Read the placement of the pods that are not being deleted."""
        pods = sorted(
            (
                pod
                for pod in _decode(await self.client.get(PODS.collection(self.name))).items
                if pod.metadata.deletion_timestamp is None
            ),
            key=lambda pod: pod.metadata.name,
        )
        return Placement(
            tuple(pod.metadata.name for pod in pods),
            np.array([self.workload_of(pod.metadata.labels) for pod in pods], np.intp),
            np.array([self.row_of(pod.spec.node_name) for pod in pods], np.intp),
        )

    async def end_pod(self, name: str) -> None:
        """Delete a pod at once. Its Deployment creates another."""
        await self.client.request("DELETE", PODS.item(name, self.name), body={"gracePeriodSeconds": 0})

    def use(self, placement: Placement, step: int) -> Use:
        """Compute the use in a step, which is the demand of the pods, up to the size of their node."""
        world = self.world
        there = placement.node != NOT_PLACED
        nodes, workloads = placement.node[there], placement.workload[there]
        wanted = loads(world)[placement.workload, step]
        cores = np.array([each.cpu for each in world.machines], np.float64)
        sizes = np.array([each.memory for each in world.machines], np.float64)
        total = np.bincount(nodes, wanted[there], len(cores))
        granted = np.minimum(cores / np.maximum(total, 1), 1)
        memory = np.bincount(nodes, memory_use(world)[workloads], len(cores))
        got = np.zeros(len(wanted))
        got[there] = wanted[there] * granted[nodes] / _CORE
        return Use(100 * total * granted / cores, 100 * np.minimum(memory / sizes, 1), got)

    def tell(self, exporter: Exporter, placement: Placement, use: Use) -> None:
        """Let the exporter show this use from now on."""
        memory = memory_use(self.world)
        exporter.show(
            {name: each for name, each in exporter.nodes.items() if not name.startswith(f"{self.name}-")}
            | {
                self.node_name(row): (cpu / 100, part / 100)
                for row, (cpu, part) in enumerate(zip(use.cpu.tolist(), use.memory.tolist(), strict=True))
            },
            {key: each for key, each in exporter.pods.items() if key[0] != self.name}
            | {
                (self.name, name): (cores, float(memory[workload]))
                for name, workload, node, cores in zip(
                    placement.names, placement.workload, placement.node, use.cores.tolist(), strict=True
                )
                if node != NOT_PLACED
            },
        )

    async def _ready(self) -> bool:
        nodes = await self.client.get(NODES.collection(), {"labelSelector": f"{LABEL}={self.name}"})
        return not any(node.spec.taints for node in _decode(nodes).items)

    def _node(self, row: int) -> dict[str, object]:
        machine = self.world.machines[row]
        name = self.node_name(row)
        size = {"cpu": f"{machine.cpu}m", "memory": str(machine.memory), "pods": str(machine.pods)}
        metadata = {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **self.selector},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        }
        return {"metadata": metadata, "status": {"capacity": size, "allocatable": size}}

    def _deployment(self, workload: SimulatedWorkload) -> dict[str, object]:
        labels = {_APP: workload.name}
        requests = {"cpu": f"{workload.cpu}m", "memory": str(workload.memory)}
        limits = {"cpu": f"{workload.cpu_limit}m", "memory": str(workload.memory_limit)}
        container = {
            "name": "main",
            "image": "example.org/none",
            "resources": {"requests": requests, "limits": limits},
        }
        spec = {
            "schedulerName": self.name,
            "nodeSelector": self.selector,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }
        template = {"metadata": {"labels": labels}, "spec": spec}
        return {
            "metadata": {"name": workload.name},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        }


async def _until(reached: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not await reached():  # noqa: ASYNC110 -- polling is simple, and fast enough
            await asyncio.sleep(_LOOK_AGAIN)


def loads(world: SimulatedWorld) -> Floats:
    """Return the millicores that one pod of each workload wants in each step: W x T."""
    wanted: Floats = world.cpu[_examples(world)].astype(np.float64)
    return wanted


def memory_use(world: SimulatedWorld) -> Floats:
    """Return the bytes that one pod of each workload uses: W."""
    used: Floats = world.memory[_examples(world)]
    return used


def _examples(world: SimulatedWorld) -> Indices:
    """Return one pod of each workload: W. Every workload of a world has at least one."""
    return np.unique(world.workload, return_index=True)[1]
