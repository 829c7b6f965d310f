"""The tasks of the schedulers: nodes, pods that are already bound, and pods to place.

All functions are pure: they make objects from numbers, so every round and every program gets the same.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tidelock.kube.client import ApiResource

Json = dict[str, Any]

Placement = Mapping[int, int]
"""The node of each pod, both by their numbers."""

Rule = Callable[[Placement], list[str]]

ZONES = 3
BOUND = "pods bound"  # the figure of a drain
LOW, HIGH = "bench-low", "bench-high"  # priority classes

_NODE_SIZE = {"cpu": "16", "memory": "64Gi", "pods": "110"}
_POD_SIZE = {"cpu": "100m", "memory": "256Mi"}
_QUARTER = {"cpu": "4", "memory": "1Gi"}  # a quarter of a node's cpu
_ON_A_FULL_NODE = 4
_STEADY_RATE = 100  # pods a second of the open loop with a goal
_DEDICATED = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
_IMAGE = "pause"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A task for schedulers.

    Attributes:
        name: name on the command line.
        title: title for people.
        nodes: number of nodes. `node` makes each from its number.
        pods: number of pods to place. `pod` makes the spec and labels of each from its number.
        rate: pods a second that are created while the program runs. With None all are created before.
        placed: pods that are bound from the start, as the node's number and the spec.
        gated: pods that wait at a gate all the time.
        reservations: number of active Reservations.
        cluster: objects that exist as long as the nodes, in addition to them.
        claim: makes the resource claim of each pod from the pod's number, or None without claims.
        plugins: plugins that Tidelock's registry must have.
        rule: returns a text for each fault of a placement.
        goal: the figure that is compared with kube-scheduler's, and the lowest ratio that meets the target.

    """

    name: str
    title: str
    nodes: int
    pods: int
    node: Callable[[int], Json]
    pod: Callable[[int], Json]
    rate: float | None = None
    placed: Sequence[tuple[int, Json]] = ()
    gated: int = 0
    reservations: int = 0
    cluster: Sequence[tuple[ApiResource, Json]] = ()
    claim: Callable[[int], Json] | None = None
    plugins: frozenset[str] = frozenset()
    rule: Rule = field(default=lambda _placement: [])
    goal: tuple[str, float] | None = (BOUND, 1.2)

    def missing(self, registry: Collection[str]) -> list[str]:
        """Return the names of the plugins that a registry lacks."""
        return sorted(self.plugins.difference(registry))


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of the scenarios. `drain_nodes` has one number of nodes for each plain drain."""

    drain_nodes: Sequence[int]
    pods: int
    gated: int
    reservations: int
    placed: int
    open_loop_seconds: int

    @property
    def nodes(self) -> int:
        """Number of nodes of the scenarios that are not plain drains."""
        return self.drain_nodes[0]


def scenarios(sizes: Sizes) -> list[Scenario]:
    """Return all scenarios in the order of the run."""
    nodes, pods = sizes.nodes, sizes.pods
    group_size = max(nodes // 2, 1)
    # A drain of plain pods on plain nodes, of which each scenario changes some fields.
    drain = partial(Scenario, nodes=nodes, pods=pods, node=plain_node, pod=plain_pod)
    open_loops = [
        drain(
            name=f"open-{rate}",
            title=f"{rate} pods/s, {nodes} nodes",
            pods=rate * sizes.open_loop_seconds,
            rate=float(rate),
            goal=("create to bound, p99", 1.0) if rate == _STEADY_RATE else None,
        )
        for rate in (50, _STEADY_RATE, 200)
    ]
    return [
        *(
            drain(
                name="drain",
                title=f"drain, {count} nodes",
                nodes=count,
                goal=(BOUND, 3.0) if count == nodes else None,
            )
            for count in sizes.drain_nodes
        ),
        *open_loops,
        drain(
            name="spread",
            title=f"drain, spread over {ZONES} zones, {nodes} nodes",
            pod=spread_pod,
            rule=unevenly_spread,
            plugins=frozenset({"PodTopologySpread"}),
        ),
        drain(
            name="anti-affinity",
            title=f"drain, one of a group on a host, {nodes} nodes",
            pod=lambda number: lonely_pod(number, group_size),
            rule=lambda placement: not_alone(placement, group_size),
            plugins=frozenset({"InterPodAffinity"}),
        ),
        drain(
            name="node-affinity",
            title=f"drain, node affinity and taints, {nodes} nodes",
            node=mixed_node,
            pod=choosy_pod,
            rule=not_wanted,
        ),
        drain(
            name="preemption",
            title=f"preemption on full nodes, {nodes} nodes",
            pods=min(pods, nodes) // 20,
            pod=important_pod,
            placed=[(node, unimportant_pod()) for node in range(nodes) for _ in range(_ON_A_FULL_NODE)],
            plugins=frozenset({"DefaultPreemption"}),
            goal=("launch to last bound", 1.2),
        ),
        drain(
            name="gated",
            title=f"drain beside {sizes.gated} gated pods, {nodes} nodes",
            gated=sizes.gated,
        ),
        drain(
            name="reservations",
            title=f"drain beside {sizes.reservations} locks, {nodes} nodes",
            reservations=sizes.reservations,
        ),
        drain(
            name="crowded",
            title=f"drain beside {sizes.placed} placed pods, {nodes} nodes",
            placed=[(number % nodes, plain_pod(number)) for number in range(sizes.placed)],
        ),
    ]


def growth(nodes: int, pods: int, density: int) -> Scenario:
    """Return a drain on nodes that each have as many placed pods as `density` says."""
    return Scenario(
        name="growth",
        title=f"{nodes} nodes, {nodes * density} placed pods",
        nodes=nodes,
        pods=pods,
        node=plain_node,
        pod=plain_pod,
        placed=[(number % nodes, plain_pod(number)) for number in range(nodes * density)],
    )


def node_name(number: int) -> str:
    """Return the name of a node."""
    return f"node-{number:05}"


def plain_node(number: int, labels: Mapping[str, str] | None = None, taints: Sequence[Json] = ()) -> Json:
    """Return a node that is Ready, with 16 cores, 64Gi and 110 pods, in one of the zones."""
    name = node_name(number)
    ready = {"type": "Ready", "status": "True", "reason": "Bench", "message": "", "lastHeartbeatTime": None}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/region": "region",
                "topology.kubernetes.io/zone": f"zone-{number % ZONES}",
                **(labels or {}),
            },
        },
        "spec": {"taints": list(taints)},
        "status": {"capacity": _NODE_SIZE, "allocatable": _NODE_SIZE, "conditions": [ready]},
    }


def mixed_node(number: int) -> Json:
    """Return a node of a mixed cluster. Every other one is dedicated, and every third has an SSD."""
    disk = {"disk": "ssd" if number % 3 == 0 else "hdd"}
    return plain_node(number, disk, [_DEDICATED] if number % 2 else [])


def pod_object(name: str, scheduler: str, shape: Json) -> Json:
    """Return a pod of a shape, which has `spec` and perhaps `labels`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": shape.get("labels", {})},
        "spec": {"schedulerName": scheduler, **shape["spec"]},
    }


def plain_pod(_number: int) -> Json:
    """Return the shape of a pod that any node can take."""
    return _shape()


def gated_pod(_number: int) -> Json:
    """Return the shape of a pod that must not be scheduled yet."""
    return _shape(schedulingGates=[{"name": "bench.tidelock.dev/wait"}])


def spread_pod(_number: int) -> Json:
    """Return the shape of a pod with a constraint that spreads it and its peers evenly over the zones."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return _shape({"app": "spread"}, topologySpreadConstraints=[constraint])


def lonely_pod(number: int, group_size: int) -> Json:
    """Return the shape of a pod that shares its host with no other pod of its group."""
    labels = {"group": f"group-{number // group_size}"}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return _shape(
        labels, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    )


def choosy_pod(number: int) -> Json:
    """Return the shape of a pod that excludes a zone and prefers SSDs.

    Every other pod tolerates dedicated nodes.
    """
    key = "topology.kubernetes.io/zone"
    required = [
        {"matchExpressions": [{"key": key, "operator": "NotIn", "values": [f"zone-{number % ZONES}"]}]}
    ]
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": ssd}],
    }
    toleration = {"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}
    return _shape(affinity={"nodeAffinity": affinity}, tolerations=[toleration] if number % 2 else [])


def unevenly_spread(placement: Placement) -> list[str]:
    """Return a text for each zone with too many of the pods that must be spread."""
    pods = Counter(node % ZONES for node in placement.values())
    least = min(pods[zone] for zone in range(ZONES))
    return [
        f"zone-{zone} has {count} pods, another {least}" for zone, count in pods.items() if count > least + 1
    ]


def not_alone(placement: Placement, group_size: int) -> list[str]:
    """Return a text for each node with several pods of a group that must not share a host."""
    pods = Counter((pod // group_size, node) for pod, node in placement.items())
    return [
        f"{node_name(node)} has {count} pods of group-{group}"
        for (group, node), count in pods.items()
        if count > 1
    ]


def not_wanted(placement: Placement) -> list[str]:
    """Return a text for each pod in an excluded zone, or on a dedicated node that it does not tolerate."""
    return [
        f"pod {pod} is on {node_name(node)}"
        for pod, node in placement.items()
        if pod % ZONES == node % ZONES or pod % 2 < node % 2
    ]


def unimportant_pod() -> Json:
    """Return the shape of a low-priority pod that fills a quarter of a node and ends at once when evicted."""
    return _shape(size=_QUARTER, priorityClassName=LOW, terminationGracePeriodSeconds=0)


def important_pod(_number: int) -> Json:
    """Return the shape of a high-priority pod that must preempt a low-priority one."""
    return _shape(size=_QUARTER, priorityClassName=HIGH)


def _shape(
    labels: Mapping[str, str] | None = None, size: Mapping[str, str] | None = None, **spec: Any
) -> Json:
    container = {"name": "main", "image": _IMAGE, "resources": {"requests": size or _POD_SIZE}}
    return {"labels": dict(labels or {}), "spec": {"containers": [container], **spec}}
