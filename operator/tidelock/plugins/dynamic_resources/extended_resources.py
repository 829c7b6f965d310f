"""Extended resources that devices provide: the requests of a pod as a claim.

Semantics of kube-scheduler 1.37, plugins/dynamicresources (createRequestsAndMappings). A node that has some
of a resource itself provides it by its device plugin. On other nodes devices of the resource's class do.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidelock.model.devices import DeviceClass
from tidelock.model.meta import ObjectMeta
from tidelock.model.pods import Pod
from tidelock.model.quantities import NANOS, parse_nanos
from tidelock.model.requests import Container
from tidelock.model.resource_claims import ClaimRequest, DeviceRequest, ResourceClaim, devices_claim

UNNAMED = "<extended-resources>"
"""The name of a claim before the API server has given it one. No stored claim can have it."""


@dataclass(frozen=True, slots=True)
class RequestMapping:
    """The request of the claim from which a container gets an extended resource."""

    container_name: str
    resource_name: str
    request_name: str


@dataclass(slots=True)
class _Request:
    """Devices of a class for a container, or for several init containers one after the other."""

    name: str
    of_class: str
    count: int


@dataclass(slots=True)
class _ForResource:
    """The requests and mappings for one extended resource.

    Attributes:
        lasting: the requests of regular containers and sidecars, by the index of the container.
        largest: the largest request of an init container that ends, apart from the devices of the former.

    """

    resource: str
    of_class: str
    lasting: dict[int, _Request] = field(default_factory=dict)
    largest: _Request | None = None
    mappings: list[tuple[str, _Request]] = field(default_factory=list)
    brief: list[tuple[str, _Request]] = field(default_factory=list)
    spare: list[str] = field(default_factory=list)

    def add_lasting(self, index: int, container: Container) -> None:
        """Add the request of a container that runs beside the others."""
        if count := _count(container, self.resource):
            request = _Request(_name(index, container, self.resource), self.of_class, count)
            self.lasting[index] = request
            self.mappings.append((container.name, request))

    def add_brief(self, index: int, container: Container) -> None:
        """Add an init container that ends. It uses the devices of containers that start after it first."""
        left = _count(container, self.resource)
        for later, request in self.lasting.items():
            if left > 0 and later >= index:
                self.brief.append((container.name, request))
                left -= request.count
        if left > 0:
            own = _Request(_name(index, container, self.resource), self.of_class, left)
            self.brief.append((container.name, own))
            self.spare.append(own.name)
            if self.largest is None or self.largest.count < left:
                self.largest = own

    def requests(self) -> Iterator[_Request]:
        """Yield all requests."""
        if self.largest is not None:
            yield self.largest
        yield from self.lasting.values()

    def all_mappings(self) -> Iterator[RequestMapping]:
        """Yield the mappings. Init containers that end share the largest request of them."""
        for container, request in (*self.mappings, *self.brief):
            name = request.name
            if self.largest is not None and name in self.spare:
                name = self.largest.name
            yield RequestMapping(container, self.resource, name)


def backed_resources(pod: Pod, classes: Mapping[str, DeviceClass]) -> tuple[str, ...]:
    """Return the requested extended resources that devices can provide."""
    return tuple(sorted(name for name, units in pod.requests.items() if units > 0 and name in classes))


def claim_for(
    pod: Pod, resources: Collection[str], classes: Mapping[str, DeviceClass]
) -> tuple[ResourceClaim, tuple[RequestMapping, ...]]:
    """Return the claim for some extended resources of a pod, and which containers get which requests."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    found = [_ForResource(name, classes[name].meta.name) for name in sorted(resources)]
    for each in found:
        brief = []
        for index, container in enumerate(containers):
            if index < len(pod.spec.init_containers) and container.restart_policy != "Always":
                brief.append((index, container))
            else:
                each.add_lasting(index, container)
        for index, container in brief:
            each.add_brief(index, container)
    requests = sorted((one for each in found for one in each.requests()), key=lambda one: one.name)
    meta = ObjectMeta(f"{UNNAMED} of {pod.uid}", pod.meta.namespace, pod.uid)
    claim = ResourceClaim(meta, devices_claim(tuple(map(_claim_request, requests))))
    return claim, tuple(mapping for each in found for mapping in each.all_mappings())


def _claim_request(request: _Request) -> ClaimRequest:
    exactly = DeviceRequest(device_class_name=request.of_class, count=request.count)
    return ClaimRequest(request.name, exactly)


def _count(container: Container, resource: str) -> int:
    """Return a requested number, or 0 if it is not a whole one."""
    whole, rest = divmod(parse_nanos(container.resources.requests.get(resource, 0)), NANOS)
    return 0 if rest else whole


def _name(index: int, container: Container, resource: str) -> str:
    """Return the name of a request: by the container and by the resource's place among its sorted ones."""
    names: Sequence[str] = sorted(container.resources.requests)
    return f"container-{index}-request-{names.index(resource)}"
