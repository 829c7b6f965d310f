"""A Reservation object, decoded once into the form that the ledger and the scheduler use."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import pydantic

from tidelock.model.api.reservation import Ask, Membership, ReservationSpec, spec_problems
from tidelock.model.instants import from_datetime, parse_instant
from tidelock.model.label_keys import with_label_keys
from tidelock.model.lenient import Reader, convert
from tidelock.model.meta import Key, ObjectMeta, StoredObject
from tidelock.model.pod_limits import excess
from tidelock.model.pods import PodSpec
from tidelock.model.quantities import PODS, QuantityError, Resources, parse_resources
from tidelock.model.requests import Container, ResourceRequirements, total_requests
from tidelock.model.reserve_pod import ReservePod, reserve_pod_of


@dataclass(frozen=True)
class Reservation:
    """One version of a Reservation.

    A spec that cannot be read is no error here. `problem` then describes the error, `pod` is None, and `spec`
    has the readable part, or is None. `failure` says why the operator failed to process the reservation, in
    which case there is also no spec. `status` is the stored status as plain JSON values. `asked_by` is the
    first field manager that wrote the spec, as far as the API server remembers. `asked_at` is the instant of
    the last write that was not of the status, or 0 if it is unknown.
    """

    meta: ObjectMeta
    spec: ReservationSpec | None = None
    pod: ReservePod | None = None
    problem: str = ""
    status: dict[str, Any] = field(default_factory=dict)
    asked_by: str = ""
    asked_at: float = 0.0
    failure: str = ""

    @cached_property
    def key(self) -> Key:
        """Namespace and name."""
        return self.meta.key

    @property
    def decided(self) -> bool:
        """Whether the operator has written a status. The API server fills in an empty one."""
        return "phase" in self.status

    @property
    def requests(self) -> Resources:
        """The capacity that the spec requests, with its pod as one of `pods`."""
        if self.pod is None:
            raise ValueError(f"{self.key}: {self.problem}")
        return self.pod.requests

    @property
    def parts(self) -> Mapping[str, str]:
        """Digests of the parts of its template (`ReservePod.parts`), or none without a readable spec."""
        return {} if self.pod is None else self.pod.parts

    @cached_property
    def priority(self) -> int:
        """The priority that the spec asks for, or 0 without a readable spec."""
        return self.spec.priority if self.spec is not None else 0

    @property
    def pinned(self) -> bool:
        """Whether it can be on one node only: the spec names the node, or is unreadable."""
        return self.spec is None or self.spec.node_name is not None

    @property
    def preempts(self) -> bool:
        """Whether the spec asks for evictions of pods and reservations of lower priority."""
        return self.spec is not None and self.spec.preemption_policy != "Never"

    @property
    def retained(self) -> bool:
        """Whether the object is kept after its end."""
        return self.spec is not None and self.spec.retention == "Retain"

    @cached_property
    def reusable(self) -> bool:
        """Whether it keeps its capacity for the next owner when one has come."""
        return self.spec is not None and self.spec.reuse == "Always"

    @cached_property
    def borrowable(self) -> bool:
        """Whether pods that borrow may use its capacity until an owner comes."""
        return self.spec is not None and self.spec.borrowable is True

    @cached_property
    def membership(self) -> Membership | None:
        """Its group, if it is a member of one."""
        return self.spec.group if self.spec is not None else None

    @property
    def expire_at(self) -> float | None:
        """The instant at which the reservation ends, if the spec sets one."""
        return from_datetime(self.spec.expire_at) if self.spec and self.spec.expire_at else None

    @property
    def start_at(self) -> float | None:
        """The instant at which the reservation begins to hold capacity, if the spec sets one."""
        return from_datetime(self.spec.start_at) if self.spec and self.spec.start_at else None

    @property
    def run_seconds(self) -> float:
        """Longest time of its pod on the node in seconds, once it is bound, or infinite if it is unknown."""
        seconds = self.spec.run_seconds if self.spec is not None else None
        return math.inf if seconds is None else float(seconds)

    @cached_property
    def lifetime(self) -> int | None:
        """Lifetime in whole seconds by the spec, if known: its time to live, or from start to end."""
        if self.spec is not None and self.spec.ttl_seconds is not None:
            return self.spec.ttl_seconds
        if self.expire_at is None:
            return None
        begins = max(self.meta.created, self.start_at or 0.0)
        return max(math.ceil(round(self.expire_at - begins, 3)), 0)


class _Managed(msgspec.Struct, frozen=True):
    manager: str = ""
    subresource: str = ""
    time: str = ""


class _Meta(ObjectMeta, frozen=True, rename="camel"):
    managed_fields: tuple[_Managed, ...] = ()

    @property
    def asked(self) -> tuple[str, float]:
        """The first manager that wrote more than the status, and the instant of the last such write."""
        writes = [each for each in self.managed_fields if not each.subresource]
        if not writes:
            return "", 0.0
        writes.sort(key=lambda each: each.time)
        return writes[0].manager, parse_instant(writes[-1].time) if writes[-1].time else 0.0


class _Stored(StoredObject, frozen=True):
    metadata: _Meta


_READ = Reader(_Stored)


def decode_reservation(raw: bytes | msgspec.Raw) -> Reservation:
    """Decode a Reservation from its JSON; a bad spec becomes the result's `problem`."""
    stored = _READ(raw)
    spec: ReservationSpec | None = None
    pod, problem = None, ""
    try:
        spec = ReservationSpec.model_validate(stored.spec)
        problem = spec.conflict or stored.problem
        if not problem:
            members = spec.group.members if spec.group is not None else 1
            pod = make_reserve_pod(stored.metadata, spec, stored.spec, spec.preemption_policy, members)
    except pydantic.ValidationError as error:
        spec, problem = _legible(stored.spec, error), spec_problems(error)
    except (QuantityError, msgspec.ValidationError) as error:
        problem = f"spec: {error}"
    asked_by, asked_at = stored.metadata.asked
    return Reservation(stored.metadata, spec, pod, problem, stored.status, asked_by, asked_at)


def decode_written(raw: bytes) -> Reservation:
    """Decode the metadata and the status of a Reservation whose spec is known already."""
    stored = _READ(raw)
    return Reservation(stored.metadata, status=stored.status)


def _legible(plain: dict[str, Any], error: pydantic.ValidationError) -> ReservationSpec | None:
    """Return the readable fields of a spec, or None if its owners are not among them."""
    bad = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
    try:
        return ReservationSpec.model_validate({name: plain[name] for name in plain if name not in bad})
    except pydantic.ValidationError:
        return None


def make_reserve_pod(
    meta: ObjectMeta,
    spec: Ask,
    plain: dict[str, Any],
    preemption_policy: str = "Never",
    members: int = 1,
) -> ReservePod:
    """Return the pod in place of a reservation: the same amounts, labels and demands on its node.

    Labels are those of the template. An annotation affects the scheduling of a pod, and means nothing for a
    reservation: neither those of the reservation nor those of its template count.

    Args:
        meta: the reservation's own metadata, of which the pod only takes the identity.
        spec: the validated spec.
        plain: the same as plain JSON values.
        preemption_policy: whether it may preempt others.
        members: number of reservations that are placed together, itself included.

    Raises:
        QuantityError: an amount is no quantity.
            msgspec.ValidationError: the template is missing, no pod template, or one of a pod that is
            too large.

    """
    labels: dict[str, str] = {}
    if spec.resources is not None:
        constraints = {
            name: plain[name] for name in ("nodeSelector", "affinity", "tolerations") if name in plain
        }
        wanted = Container(resources=ResourceRequirements(requests=plain["resources"]))
        pod_spec = msgspec.structs.replace(convert(constraints, PodSpec), containers=(wanted,))
        requests: Resources = {**parse_resources(spec.resources), PODS: 1}
    elif spec.template is None:  # refused by a rule of the CRD, which can have been edited
        raise msgspec.ValidationError("exactly one of resources and template is required")
    else:
        if spec.template.metadata is not None:
            labels = spec.template.metadata.labels or {}
        pod_spec = _with_default_requests(convert(plain["template"]["spec"], PodSpec))
        pod_spec = with_label_keys(pod_spec, labels)
        requests = total_requests(pod_spec)
    pinned = msgspec.structs.replace(
        pod_spec,
        node_name=spec.node_name or "",
        priority=spec.priority,
        preemption_policy=preemption_policy,
        # The claim of an ephemeral volume is created with the pod.
        volumes=tuple(volume for volume in pod_spec.volumes if volume.ephemeral is None),
    )
    pod = reserve_pod_of(msgspec.structs.replace(meta, labels=labels, annotations={}), pinned, requests)
    if too_much := excess(pod, members):
        raise msgspec.ValidationError(f"the template's pod is too large: {too_much}")
    return pod


def _with_default_requests(spec: PodSpec) -> PodSpec:
    """Fill absent requests from the limits, as the API server does when it stores a pod."""
    containers = tuple(map(_filled, spec.containers))
    init_containers = tuple(map(_filled, spec.init_containers))
    resources = spec.resources
    if resources is not None:
        named = {name for each in (*containers, *init_containers) for name in each.resources.requests}
        # The requests of the containers take precedence over the pod's limit, except for huge pages.
        spare = {
            name: amount
            for name, amount in resources.limits.items()
            if name not in named or name.startswith("hugepages-")
        }
        resources = ResourceRequirements(spare | resources.requests, resources.limits)
    return msgspec.structs.replace(
        spec, containers=containers, init_containers=init_containers, resources=resources
    )


def _filled(container: Container) -> Container:
    resources = container.resources
    requests = resources.limits | resources.requests
    return msgspec.structs.replace(container, resources=ResourceRequirements(requests, resources.limits))
