"""A kube-scheduler that decides the pods of scenarios, with a real API server."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from devcluster import Component, LocalCluster
from differential.scenario import FINALIZER, SCENARIO, UPSTREAM, Json, Scenario
from tidelock.kube.client import NODES, PODS, ApiResource, KubeClient
from tidelock.kube.config import load_connection
from tidelock.scheduler.informers.informers import OTHERS

_NAMESPACES, _SERVICES, _VOLUMES, _CLAIMS, _CSI_NODES = (
    OTHERS[name][0]
    for name in ("namespaces", "services", "persistent_volumes", "persistent_volume_claims", "csi_nodes")
)

# It scores every node, and its log has each plugin's score. With batching, a pod that equals its predecessor
# would be placed by the answers for that pod, and the log would not show them.
SETTINGS: Mapping[str, Any] = {"percentageOfNodesToScore": 100}
FLAGS = ("--vmodule=schedule_one=10", "--feature-gates=OpportunisticBatching=false")

_ROUND = "round"  # a label that no scenario selects
_AT_ONCE = 16
_POLL_SECONDS = 0.05
_DECISION_SECONDS = 200.0
_SCORE = re.compile(
    r'"Plugin scored node for pod".* pod="(?P<pod>[^"]+)" plugin="(?P<plugin>[^"]+)" '
    r'node="(?P<node>[^"]+)" score=(?P<score>-?\d+)'
)
_PREEMPTION = " preemption: "
_UNHELPFUL = re.compile(r"(\d+) Preemption is not helpful for scheduling")


@dataclass(frozen=True)
class Decision:
    """The outcome for a pod: the node to which it was bound, or the message of the refusal.

    `scores` are weighted, by plugin and node. There are none if only one node was feasible.
    """

    raw: bytes
    node_name: str
    message: str
    scores: dict[str, dict[str, int]]

    @property
    def feasible(self) -> set[str]:
        """Names of the nodes that were not ruled out."""
        scored = {node for nodes in self.scores.values() for node in nodes}
        return scored or {self.node_name} - {""}

    @property
    def reasons(self) -> str:
        """The message without its part about preemption."""
        return self.message.partition(_PREEMPTION)[0]

    @property
    def beyond_help(self) -> int | None:
        """The number of nodes where no preemption would help, or None if it was not tried."""
        if _PREEMPTION not in self.message:
            return None
        found = _UNHELPFUL.search(self.message.partition(_PREEMPTION)[2])
        return int(found[1]) if found else 0


class Upstream:
    """One kube-scheduler, which gets a batch of scenarios at a time."""

    def __init__(self, client: KubeClient, scheduler: Component) -> None:
        self._client = client
        self._log = scheduler.log
        self._read = self._log.stat().st_size
        self._rounds = 0
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def list(self, resource: ApiResource, selector: str = "") -> list[bytes]:
        """Read the objects of a resource, each as the JSON that a watch would send."""
        answer = await self._client.get(resource.collection(), {"labelSelector": selector})
        return [bytes(item) for item in msgspec.json.decode(answer, type=_List).items]

    async def build(self, scenarios: Sequence[Scenario]) -> None:
        """Create everything except the pods in `wanting`, and wait until the scheduler knows it."""
        await self.create(_NAMESPACES, (each for s in scenarios for each in s.namespaces))
        await self.create(_SERVICES, (each for s in scenarios for each in s.services))
        await self.create(_VOLUMES, (each for s in scenarios for each in s.volumes))
        await self.create(_CLAIMS, (each for s in scenarios for each in s.claims))
        await self.create(_CSI_NODES, (each for s in scenarios for each in s.csi_nodes))
        await self._all(self._create_node, NODES, (each for s in scenarios for each in s.nodes))
        await self.create(PODS, (each for s in scenarios for each in s.residents))
        await self._all(self._report, PODS, (each for s in scenarios for each in s.residents))
        await self._all(self._delete, PODS, _leaving(scenarios))
        await self._until_known(sum(len(each.nodes) for each in scenarios), scenarios[0].name)

    async def decide(self, pods: Iterable[Json]) -> dict[str, Decision]:
        """Create pods, return the decisions by "namespace/name", and delete the refused pods."""
        wanted = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in pods}
        self._rounds += 1
        for pod in wanted.values():
            pod["metadata"].setdefault("labels", {})[_ROUND] = str(self._rounds)
        await self.create(PODS, wanted.values())
        decided: dict[str, tuple[bytes, str, str]] = {}
        async with asyncio.timeout(_DECISION_SECONDS):
            while len(decided) < len(wanted):
                await asyncio.sleep(_POLL_SECONDS)
                for raw in await self.list(PODS, f"{_ROUND}={self._rounds}"):
                    key, node_name, message = _verdict(raw)
                    if node_name or message:
                        decided[key] = (raw, node_name, message)
        refused = [wanted[key] for key, (_, node_name, _) in decided.items() if not node_name]
        await self._all(self._delete, PODS, refused)
        scores = self._scores()
        return {key: Decision(*filter_result, scores.get(key, {})) for key, filter_result in decided.items()}

    async def clear(self, scenarios: Sequence[Scenario]) -> None:
        """Delete the objects that would disturb the next batch."""
        await self._all(self._release, PODS, _leaving(scenarios))
        names = [each["metadata"]["name"] for scenario in scenarios for each in scenario.namespaces]
        for resource in (PODS, _SERVICES):
            for name in names:
                await self.delete_all(resource.collection(name))
        await self.delete_all(f"{NODES.collection()}?labelSelector={SCENARIO}")

    async def delete_all(self, path: str) -> None:
        """Delete the objects that a collection has at once."""
        await self._client.request("DELETE", path, timeout=_DECISION_SECONDS)

    async def create(self, resource: ApiResource, objects: Iterable[Json]) -> None:
        """Create objects."""
        await self._all(self._create, resource, objects)

    async def create_nodes(self, nodes: Sequence[Json], namespace: str) -> None:
        """Create nodes, and wait until the scheduler knows them. All other nodes must be gone by then."""
        await self._all(self._create_node, NODES, nodes)
        await self._until_known(len(nodes), namespace)

    async def _until_known(self, nodes: int, namespace: str) -> None:
        """Create impossible pods until a refusal counts all nodes, and none of the batch before."""
        async with asyncio.timeout(_DECISION_SECONDS):
            while True:
                decision = (await self.decide([_probe(namespace)]))[f"{namespace}/probe"]
                if decision.message.startswith(f"0/{nodes} nodes"):
                    return

    async def _all(
        self,
        act: Callable[[ApiResource, Json], Awaitable[None]],
        resource: ApiResource,
        objects: Iterable[Json],
    ) -> None:
        async def limited(each: Json) -> None:
            async with self._slots:
                await act(resource, each)

        await asyncio.gather(*map(limited, objects))

    async def _create(self, resource: ApiResource, each: Json) -> None:
        await self._client.create(resource.collection(each["metadata"].get("namespace")), each)

    async def _create_node(self, resource: ApiResource, each: Json) -> None:
        await self._create(resource, each)
        taints = {"spec": {"taints": each["spec"]["taints"] or None}}  # admission has added one
        await self._client.patch(resource.item(each["metadata"]["name"]), taints)

    async def _report(self, resource: ApiResource, each: Json) -> None:
        """Write the status of a pod as its kubelet would, because the creation has dropped it."""
        if "status" in each:
            metadata = each["metadata"]
            path = f"{resource.item(metadata['name'], metadata['namespace'])}/status"
            await self._client.patch(path, {"status": each["status"]})

    async def _release(self, resource: ApiResource, each: Json) -> None:
        metadata = each["metadata"]
        path = resource.item(metadata["name"], metadata["namespace"])
        await self._client.patch(path, {"metadata": {"finalizers": None}})

    async def _delete(self, resource: ApiResource, each: Json) -> None:
        metadata = each["metadata"]
        await self._client.delete(resource.item(metadata["name"], metadata["namespace"]))

    def _scores(self) -> dict[str, dict[str, dict[str, int]]]:
        """Read the new part of the log, and return the scores by pod, plugin and node."""
        with self._log.open() as log:
            log.seek(self._read)
            text = log.read()
            self._read = log.tell()
        found: defaultdict[str, defaultdict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        for match in _SCORE.finditer(text):
            found[match["pod"]][match["plugin"]][match["node"]] = int(match["score"])
        return {pod: dict(plugins) for pod, plugins in found.items()}


@asynccontextmanager
async def upstream(cluster: LocalCluster) -> AsyncIterator[Upstream]:
    """Connect to the scheduler of a cluster."""
    async with KubeClient(load_connection(cluster.kubeconfig), user_agent="differential") as client:
        yield Upstream(client, cluster.components["kube-scheduler"])


def _leaving(scenarios: Iterable[Scenario]) -> list[Json]:
    residents = (pod for scenario in scenarios for pod in scenario.residents)
    return [pod for pod in residents if FINALIZER in pod["metadata"].get("finalizers", ())]


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


def _verdict(raw: bytes) -> tuple[str, str, str]:
    pod = json.loads(raw)
    key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    messages = (
        each.get("message", "")
        for each in pod["status"].get("conditions", ())
        if each["type"] == "PodScheduled" and each["status"] == "False"
    )
    return key, pod["spec"].get("nodeName", ""), next(messages, "")


def _probe(namespace: str) -> Json:
    containers = [{"name": "main", "image": "none"}]
    spec = {"schedulerName": UPSTREAM, "nodeSelector": {"none": "none"}, "containers": containers}
    return {"metadata": {"name": "probe", "namespace": namespace}, "spec": spec}
