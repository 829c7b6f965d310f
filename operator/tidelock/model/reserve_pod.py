"""The pod in place of a reservation."""

from collections.abc import Collection, Mapping
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec

from tidelock.model.meta import ObjectMeta
from tidelock.model.pod_placement import PodAffinity
from tidelock.model.pods import Pod, PodSpec
from tidelock.model.quantities import PODS, Resources, format_resources, parse_resources
from tidelock.model.requests import Container, ContainerPort, ResourceRequirements, lasting_use

LABELS, AFFINITY, HOST_PORTS, LIMITS = "labels", "affinity", "hostPorts", "limits"
"""The parts of a template, beside its requests, by which a reserve pod counts on its node."""
DIGEST_LENGTH = 16

_ENCODER = msgspec.json.Encoder(order="sorted")


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
        labels = sorted(self.metadata.labels.items())
        return _ENCODER.encode((labels, *self._neighbours, self.spec.topology_spread_constraints))

    @cached_property
    def parts(self) -> Mapping[str, str]:
        """A digest of each part of its template by which it counts on its node, if it has that part."""
        near_and_far = self._neighbours
        limits = lasting_use(self.spec, lambda each: parse_resources(each.limits))
        found = {
            LABELS: self.metadata.labels,
            AFFINITY: near_and_far if any(near_and_far) else None,
            HOST_PORTS: self.host_ports,
            LIMITS: limits,
        }
        return {name: _digest(part) for name, part in found.items() if part}

    @property
    def _neighbours(self) -> tuple[PodAffinity | None, PodAffinity | None]:
        """The affinity to pods, and the anti-affinity."""
        affinity = self.spec.affinity
        return (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else (None, None)


def reserve_pod_of(meta: ObjectMeta, spec: PodSpec, requests: Resources) -> ReservePod:
    """Return the pod that a reservation is placed as, with these requests instead of the containers'."""
    pod = ReservePod(metadata=meta, spec=spec)
    pod.__dict__["requests"] = requests
    return pod


def pinned_to(pod: ReservePod, node_name: str) -> ReservePod:
    """Return the same reserve pod, restricted to one node."""
    return reserve_pod_of(pod.metadata, msgspec.structs.replace(pod.spec, node_name=node_name), pod.requests)


def granted_part(pod: ReservePod, amounts: Resources, pending: Collection[str]) -> ReservePod:
    """Return the pod as it counts on its node while an edit of its reservation waits.

    It has no limits, and one container, which requests the granted amounts.

    Args:
        pod: the pod that the spec asks for.
        amounts: the amounts that the reservation has.
        pending: parts of the template that are not granted.

    """
    ports = (
        ContainerPort(host_port=each.port, host_ip=each.ip, protocol=each.protocol)
        for each in (() if HOST_PORTS in pending else pod.host_ports)
    )
    requests = format_resources({name: units for name, units in amounts.items() if name != PODS})
    container = Container(ports=tuple(ports), resources=ResourceRequirements(requests={**requests}))
    affinity = pod.spec.affinity
    if affinity is not None and AFFINITY in pending:
        affinity = msgspec.structs.replace(affinity, pod_affinity=None, pod_anti_affinity=None)
    spec = msgspec.structs.replace(
        pod.spec, containers=(container,), init_containers=(), overhead={}, resources=None, affinity=affinity
    )
    labels = {} if LABELS in pending else pod.metadata.labels
    return reserve_pod_of(msgspec.structs.replace(pod.metadata, labels=labels), spec, amounts)


def _digest(part: object) -> str:
    """Return a digest that a later version also has, if it knows more fields that are not set here."""
    plain = _set_fields(msgspec.to_builtins(part, order="sorted"))
    return sha256(_ENCODER.encode(plain)).hexdigest()[:DIGEST_LENGTH]


def _set_fields(value: Any) -> Any:
    """Return plain JSON values without the fields that are null or an empty list, which are the defaults."""
    if isinstance(value, dict):
        return {name: _set_fields(each) for name, each in value.items() if each not in (None, [], ())}
    return [_set_fields(each) for each in value] if isinstance(value, list | tuple) else value
