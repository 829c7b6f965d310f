"""Requests of a pod: the sum that kube-scheduler and the kubelet agree on.

Source: k8s.io/component-helpers/resource `PodRequests`, as of Kubernetes 1.36. Containers and sidecars run
together. Other init containers run one after the other, beside the sidecars started before them. Overhead is
added. Requests of the pod as a whole replace the sum for the resources that they name.

A container, a sidecar or a whole pod that is resized in place counts at the largest of its spec, its
allocation and its actual resources. Its spec is left out if the kubelet has found the resize infeasible.
Plain init containers are never resized. Sums are cut off at CEILING.
"""

from collections.abc import Callable, Mapping
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

# Weight of a container without a request in scoring, as in kube-scheduler: 0.1 core and 200 MiB.
DEFAULT_WEIGHTS: Resources = {CPU: 100, MEMORY: 200 * 1024 * 1024}

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 -- the API's meaning of no address


class ResourceRequirements(msgspec.Struct, frozen=True):
    """Requests, and limits on use."""

    requests: dict[str, str | int] = {}
    limits: dict[str, str | int] = {}


class HostPort(NamedTuple):
    """A port of a node, on one of its addresses or on all of them."""

    ip: str
    protocol: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """Return whether two pods on one node can't both have these ports."""
        return (self.protocol, self.port) == (other.protocol, other.port) and (
            self.ip == other.ip or ALL_ADDRESSES in (self.ip, other.ip)
        )


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    """A port that a container listens on. A host port is a port of the node."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class RestartRule(msgspec.Struct, frozen=True):
    """An action when a container ends in some way. The way is not read."""

    action: str = ""


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """A container or init container. The restart policy Always makes an init container a sidecar."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] = ()


class Allocation(msgspec.Struct, frozen=True, rename="camel"):
    """The kubelet's report of a container or of a whole pod, where `resources` are the actual ones.

    kube-scheduler ignores an allocation without actual resources.
    """

    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int] = {}


class ContainerStatus(Allocation, frozen=True, rename="camel", kw_only=True):
    """The kubelet's report of a container or init container."""

    name: str


class Report(NamedTuple):
    """Allocations of a pod's containers by name, and of the pod as a whole.

    `infeasible` means that the pod's node can never grant its requests.
    """

    containers: Mapping[str, Allocation]
    whole: Allocation
    infeasible: bool

    def counted(self, asked: Mapping[str, str | int], reported: Allocation | None) -> Resources:
        """Return the requests of a container or pod as they count with its allocation.

        Raises:
            QuantityError: a request is no quantity.

        """
        if reported is None or reported.resources is None:
            return parse_resources(asked)
        actual, allocated = reported.resources.requests, reported.allocated_resources
        if actual == allocated == asked:  # as for most running pods
            return parse_resources(asked)
        granted = at_least(parse_resources(actual), parse_resources(allocated))
        return granted if self.infeasible else at_least(parse_resources(asked), granted)


UNREPORTED = Report({}, Allocation(), infeasible=False)


class WorkloadResources(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a pod spec from which its requests follow."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str | int] = {}
    resources: ResourceRequirements | None = None


def host_ports(spec: WorkloadResources, *, host_network: bool) -> tuple[HostPort, ...]:
    """List the node's ports that a pod has throughout its life: those of its containers and sidecars.

    In the network of its host, every port is a port of the node, and the API server fills it in.
    """
    lasting = (each for each in spec.init_containers if each.restart_policy == "Always")
    ports = (port for container in (*lasting, *spec.containers) for port in container.ports)
    taken = ((port, port.host_port or (port.container_port if host_network else 0)) for port in ports)
    return tuple(
        HostPort(port.host_ip or ALL_ADDRESSES, port.protocol or "TCP", number)
        for port, number in taken
        if number > 0
    )


def total_requests(spec: WorkloadResources, report: Report = UNREPORTED) -> dict[str, int]:
    """Return the requests of a pod, and count the pod itself as one of `pods`.

    Raises:
        QuantityError: a request is no quantity.

    """
    return _sum(spec, report) | {PODS: 1}


def lasting_use(spec: WorkloadResources, of: Callable[[ResourceRequirements], Resources]) -> dict[str, int]:
    """Return the sum of a function over the containers that run as long as the pod, and its overhead.

    The result for the pod as a whole replaces the sum.
    """
    sidecars = (each for each in spec.init_containers if each.restart_policy == "Always")
    total: dict[str, int] = {}
    for container in (*spec.containers, *sidecars):
        total = plus(total, of(container.resources))
    if spec.resources is not None:
        total |= of(spec.resources)
    return plus(total, parse_resources(spec.overhead))


def nonzero_requests(spec: WorkloadResources, report: Report = UNREPORTED) -> tuple[int, int]:
    """Return cpu and memory as they count on the pod's node, in scores.

    A container without such a request weighs DEFAULT_WEIGHTS, unless the pod as a whole has requests and some
    of that resource is requested.
    """
    weights = DEFAULT_WEIGHTS
    if spec.resources is not None and spec.resources.requests:
        asked = _sum(spec, report)
        weights = {name: units for name, units in weights.items() if name not in asked}
    return _weigh(spec, report, weights)


def container_weights(spec: WorkloadResources) -> tuple[int, int]:
    """Return cpu and memory as they count where the pod is scored on a node before it is placed.

    There kube-scheduler leaves out the requests of the pod as a whole, in NodeResourcesFit.
    """
    return _weigh(msgspec.structs.replace(spec, resources=None), UNREPORTED, DEFAULT_WEIGHTS)


def _weigh(spec: WorkloadResources, report: Report, weights: Resources) -> tuple[int, int]:
    total = _sum(spec, report, weights)
    return total.get(CPU, 0), total.get(MEMORY, 0)


def _sum(spec: WorkloadResources, report: Report, weights: Resources = NOTHING) -> dict[str, int]:
    """Return the requests of a pod, where a container without a request for a resource has its weight."""
    total: dict[str, int] = {}
    for container in spec.containers:
        reported = report.containers.get(container.name)
        total = plus(total, {**weights, **report.counted(container.resources.requests, reported)})
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        sidecar = container.restart_policy == "Always"
        reported = report.containers.get(container.name) if sidecar else None
        requests = {**weights, **report.counted(container.resources.requests, reported)}
        if sidecar:
            total = plus(total, requests)
            sidecars = plus(sidecars, requests)
            peak = at_least(peak, sidecars)
        else:
            peak = at_least(peak, plus(sidecars, requests))
    if peak:
        total = at_least(total, peak)
    if spec.resources is not None:
        whole = report.counted(spec.resources.requests, report.whole)
        total |= {name: whole.get(name, 0) for name in spec.resources.requests}
    if spec.overhead:
        total = plus(total, parse_resources(spec.overhead))
    return {resource: min(units, CEILING) for resource, units in total.items()}
