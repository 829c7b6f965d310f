"""How much of a node a pod takes: the sum that kube-scheduler and the kubelet agree on.

Source: k8s.io/component-helpers/resource `PodRequests`, as of Kubernetes 1.36: containers and sidecars run
together, other init containers run one after the other beside the sidecars started before them, overhead
comes on top; requests given for the pod as a whole replace the sum for the resources that they name; a
running container that is being resized counts at the larger of what it has and what it asks for, unless the
kubelet has found that infeasible. Sums are cut off at CEILING.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from tidelock.model.quantities import (
    CEILING,
    CPU,
    MEMORY,
    NOTHING,
    PODS,
    Resources,
    at_least,
    parse_resources,
    plus,
)

# What a container without a request weighs in scoring, as in kube-scheduler: 0.1 core and 200 MiB.
DEFAULT_WEIGHTS: Resources = {CPU: 100, MEMORY: 200 * 1024 * 1024}

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 -- what the API means by no address


class ResourceRequirements(msgspec.Struct, frozen=True):
    """What is asked for, and the most that may be used."""

    requests: dict[str, str | int] = {}
    limits: dict[str, str | int] = {}


class HostPort(NamedTuple):
    """A port of a node, on one of its addresses or on all of them."""

    ip: str
    protocol: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """Whether no two pods on a node may have these."""
        return (self.protocol, self.port) == (other.protocol, other.port) and (
            self.ip == other.ip or ALL_ADDRESSES in (self.ip, other.ip)
        )


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    """A port that a container listens on; a host port is one of the node's."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class RestartRule(msgspec.Struct, frozen=True):
    """What is done when a container ends in some way; the way is not read."""

    action: str = ""


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """A container or init container; the restart policy Always makes the latter a sidecar."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] = ()


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What a running container really has."""

    name: str
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int] = {}


class WorkloadResources(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a pod spec that say how much it takes."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str | int] = {}
    resources: ResourceRequirements | None = None


def host_ports(spec: WorkloadResources, *, host_network: bool) -> tuple[HostPort, ...]:
    """List the node's ports that a pod has for as long as it lives: those of its containers and sidecars.

    In the network of its host every port is one of the node's, as the API server fills in.
    """
    lasting = (each for each in spec.init_containers if each.restart_policy == "Always")
    ports = (port for container in (*lasting, *spec.containers) for port in container.ports)
    taken = ((port, port.host_port or (port.container_port if host_network else 0)) for port in ports)
    return tuple(
        HostPort(port.host_ip or ALL_ADDRESSES, port.protocol or "TCP", number)
        for port, number in taken
        if number > 0
    )


def total_requests(
    spec: WorkloadResources, statuses: Iterable[ContainerStatus] = (), *, infeasible: bool = False
) -> dict[str, int]:
    """Sum the requests of a pod, and count the pod itself as one of `pods`.

    Args:
        spec: what the pod asks for.
        statuses: what its containers have, as far as they run.
        infeasible: whether what it asks for is a resize that its node can never grant.

    Raises:
        QuantityError: a request is no quantity.

    """
    running = {status.name: status for status in statuses}

    def requests_of(container: Container) -> Resources:
        requests = parse_resources(container.resources.requests)
        status = running.get(container.name)
        if status is None:
            return requests
        actual = _actual(status)
        return actual if infeasible else at_least(requests, actual)

    return _sum(spec, requests_of) | {PODS: 1}


def lasting_use(spec: WorkloadResources, of: Callable[[ResourceRequirements], Resources]) -> dict[str, int]:
    """Sum what is made of the amounts of each container that runs for as long as the pod, and its overhead.

    What is made of the amounts of the pod as a whole goes before the sum.
    """
    sidecars = (each for each in spec.init_containers if each.restart_policy == "Always")
    total: dict[str, int] = {}
    for container in (*spec.containers, *sidecars):
        total = plus(total, of(container.resources))
    if spec.resources is not None:
        total |= of(spec.resources)
    return plus(total, parse_resources(spec.overhead))


def nonzero_requests(spec: WorkloadResources) -> tuple[int, int]:
    """Sum cpu and memory as they count on the pod's node, in scores.

    A container that asks for none of it weighs DEFAULT_WEIGHTS, unless the pod as a whole asks for something
    and some of that resource is asked for.
    """
    weights = DEFAULT_WEIGHTS
    if spec.resources is not None and spec.resources.requests:
        asked = _sum(spec, lambda container: parse_resources(container.resources.requests))
        weights = {name: units for name, units in weights.items() if name not in asked}
    return _weigh(spec, weights)


def container_weights(spec: WorkloadResources) -> tuple[int, int]:
    """Sum cpu and memory as they count where the pod is scored on a node that it is not yet on.

    kube-scheduler leaves out what the pod asks for as a whole there, in NodeResourcesFit.
    """
    return _weigh(msgspec.structs.replace(spec, resources=None), DEFAULT_WEIGHTS)


def _weigh(spec: WorkloadResources, weights: Resources) -> tuple[int, int]:
    total = _sum(spec, lambda container: {**weights, **parse_resources(container.resources.requests)})
    return total.get(CPU, 0), total.get(MEMORY, 0)


def _sum(spec: WorkloadResources, requests_of: Callable[[Container], Resources]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in spec.containers:
        total = plus(total, requests_of(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        requests = requests_of(container)
        if container.restart_policy == "Always":
            total = plus(total, requests)
            sidecars = plus(sidecars, requests)
            peak = at_least(peak, sidecars)
        else:
            peak = at_least(peak, plus(sidecars, requests))
    if peak:
        total = at_least(total, peak)
    if spec.resources is not None:
        total |= parse_resources(spec.resources.requests)
    if spec.overhead:
        total = plus(total, parse_resources(spec.overhead))
    return {resource: min(units, CEILING) for resource, units in total.items()}


def _actual(status: ContainerStatus) -> Resources:
    applied = parse_resources(status.resources.requests) if status.resources else NOTHING
    return at_least(applied, parse_resources(status.allocated_resources))
