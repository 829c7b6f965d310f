"""Requests of a pod: the sum that kube-scheduler and the kubelet agree on.

Source: k8s.io/component-helpers/resource `PodRequests`, as of Kubernetes 1.37. Containers and sidecars run
together. Other init containers run one after the other, beside the sidecars started before them. Overhead is
added. Requests of the pod as a whole replace the sum for the resources that they name.

A pod that is resized in place counts at the largest of three sums: by its spec, by the kubelet's allocation
and by the actual resources. The sum by the spec is left out if the kubelet has found the resize infeasible.
What is not reported counts by the spec, too, unless the resize is infeasible. Sums are cut off at CEILING.
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
    """The kubelet's report of a container or of a whole pod, where `resources` are the actual ones."""

    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int] = {}

    @property
    def actual(self) -> Mapping[str, str | int]:
        """The requests of the actual resources, or none if they are not reported."""
        return {} if self.resources is None else self.resources.requests


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

    def allocated(self, container: Container) -> Mapping[str, str | int]:
        """Return the requests of a container by the allocation, or by its spec if that is not reported."""
        reported = self.containers.get(container.name, _UNREPORTED).allocated_resources
        return reported or ({} if self.infeasible else container.resources.requests)

    def actual(self, container: Container) -> Mapping[str, str | int]:
        """Return the actual requests of a container, or its allocated ones if they are not reported."""
        return self.containers.get(container.name, _UNREPORTED).actual or self.allocated(container)


_UNREPORTED = Allocation()
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
        total |= of(_pod_level(spec.resources))
    return plus(total, parse_resources(spec.overhead))


def nonzero_requests(spec: WorkloadResources, report: Report = UNREPORTED) -> tuple[int, int]:
    """Return cpu and memory as they count on the pod's node, in scores.

    A container without such a request weighs DEFAULT_WEIGHTS, unless the pod as a whole has requests and some
    of that resource is requested.
    """
    weights = DEFAULT_WEIGHTS
    if spec.resources is not None and any(map(_is_pod_level, spec.resources.requests)):
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
    total = {} if report.infeasible else _sum_of_containers(spec, _requested, weights)
    whole = report.whole
    if whole.allocated_resources and whole.actual:  # the sums over the containers, as the kubelet has them
        total = _largest(total, whole.allocated_resources, whole.actual)
    elif report.containers or report.infeasible:
        for requests_of in (report.allocated, report.actual):
            total = at_least(total, _sum_of_containers(spec, requests_of, weights))
    asked = {} if spec.resources is None else spec.resources.requests
    if any(map(_is_pod_level, asked)):
        if whole.resources is not None:
            granted = (whole.actual, whole.allocated_resources)
            effective = _largest({} if report.infeasible else parse_resources(asked), *granted)
        else:
            effective = parse_resources(asked)
        total |= {name: units for name, units in effective.items() if _is_pod_level(name)}
    if spec.overhead:
        total = plus(total, parse_resources(spec.overhead))
    return {resource: min(units, CEILING) for resource, units in total.items()}


def _sum_of_containers(
    spec: WorkloadResources, requests_of: Callable[[Container], Mapping[str, str | int]], weights: Resources
) -> dict[str, int]:
    """Return the sum of some requests of the containers, at the peak of the pod's life."""
    total: dict[str, int] = {}
    for container in spec.containers:
        total = plus(total, {**weights, **parse_resources(requests_of(container))})
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        requests = {**weights, **parse_resources(requests_of(container))}
        if container.restart_policy == "Always":
            total = plus(total, requests)
            sidecars = plus(sidecars, requests)
            peak = at_least(peak, sidecars)
        else:
            peak = at_least(peak, plus(sidecars, requests))
    return at_least(total, peak) if peak else total


def _requested(container: Container) -> Mapping[str, str | int]:
    return container.resources.requests


def _largest(amounts: Resources, *others: Mapping[str, str | int]) -> dict[str, int]:
    """Return the largest amount of each resource."""
    largest = dict(amounts)
    for other in others:
        largest = at_least(largest, parse_resources(other))
    return largest


def _pod_level(whole: ResourceRequirements) -> ResourceRequirements:
    """Return the amounts that a pod as a whole can have. Others, which nobody checks, have no effect."""
    requests, limits = (
        {name: amount for name, amount in amounts.items() if _is_pod_level(name)}
        for amounts in (whole.requests, whole.limits)
    )
    return ResourceRequirements(requests, limits)


def _is_pod_level(name: str) -> bool:
    """Return whether a pod as a whole can request a resource."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")
