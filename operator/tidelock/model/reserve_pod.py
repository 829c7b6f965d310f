"""The pod in place of a reservation."""

from functools import cached_property

import msgspec

from tidelock.model.meta import ObjectMeta
from tidelock.model.pods import Pod, PodSpec
from tidelock.model.quantities import PODS, Resources, format_resources
from tidelock.model.requests import Container, ContainerPort, ResourceRequirements

_ENCODER = msgspec.json.Encoder()


class ReservePod(Pod, frozen=True, dict=True):
    """The pod in place of a reservation: it is placed as that pod, and runs nothing."""

    @cached_property
    def neighbourly(self) -> bool:
        """Whether other pods can notice it: by a label, a term of its affinity to pods, or a host port."""
        affinity, spec = self.spec.affinity, self.spec
        if self.metadata.labels or (affinity and (affinity.pod_affinity or affinity.pod_anti_affinity)):
            return True
        return any(each.ports for each in (*spec.containers, *spec.init_containers)) and bool(self.host_ports)

    @cached_property
    def neighbour_key(self) -> bytes:
        """A key that is equal for reserve pods of a namespace with the same relation to neighbours."""
        affinity = self.spec.affinity
        near, far = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else (None, None)
        labels = sorted(self.metadata.labels.items())
        return _ENCODER.encode((labels, near, far, self.spec.topology_spread_constraints))


def reserve_pod_of(meta: ObjectMeta, spec: PodSpec, requests: Resources) -> ReservePod:
    """Return the pod that a reservation is placed as, with these requests instead of the containers'."""
    pod = ReservePod(metadata=meta, spec=spec)
    pod.__dict__["requests"] = requests
    return pod


def pinned_to(pod: ReservePod, node_name: str) -> ReservePod:
    """Return the same reserve pod, restricted to one node."""
    return reserve_pod_of(pod.metadata, msgspec.structs.replace(pod.spec, node_name=node_name), pod.requests)


def granted_part(pod: ReservePod, amounts: Resources) -> ReservePod:
    """Return the pod as it counts while its reservation has only a part of the amounts that it asks for.

    One container requests the amounts, and has all host ports. No limit exceeds them.
    """
    ports = tuple(
        ContainerPort(host_port=each.port, host_ip=each.ip, protocol=each.protocol)
        for each in pod.host_ports
    )
    requests = format_resources({name: units for name, units in amounts.items() if name != PODS})
    container = Container(ports=ports, resources=ResourceRequirements(requests=dict(requests)))
    spec = msgspec.structs.replace(
        pod.spec, containers=(container,), init_containers=(), overhead={}, resources=None
    )
    return reserve_pod_of(pod.metadata, spec, amounts)
