"""Wire type of a pod template: what decides where its pod fits is declared, the rest is kept as it is."""

from typing import Annotated, Literal

from pydantic import Field

from tidelock.model.api.placement import NodeLabels, PodAffinities, Tolerations
from tidelock.model.api.resource_list import PodAmounts
from tidelock.model.api.wire import DnsLabel, Labels, OpenWire, Subdomain

Annotation = Annotated[str, Field(max_length=262_144)]


class ResourceRequirements(OpenWire):
    """What a container or pod may use."""

    requests: PodAmounts | None = None
    """What is set aside; it is this that the lock holds."""
    limits: PodAmounts | None = None
    """The most that may be used; it stands for a request that is absent."""


class Container(OpenWire):
    """One container of the pod."""

    name: DnsLabel
    """Name of the container."""
    resources: ResourceRequirements | None = None
    """What the container may use."""


class InitContainer(Container):
    """A container that runs before the others, or beside them if it restarts always."""

    restart_policy: Literal["Always", "Never", "OnFailure"] | None = None
    """Always makes it a sidecar, whose requests are added to those of the containers."""


class TemplateMetadata(OpenWire):
    """Metadata of the pod."""

    labels: Labels | None = None
    """Labels of the pod, by which the lock is placed, and others beside it."""
    annotations: Annotated[dict[str, Annotation], Field(max_length=256)] | None = None
    """Annotations of the pod; they mean nothing for the lock."""


class TemplateSpec(OpenWire):
    """Spec of the pod."""

    containers: Annotated[list[Container], Field(min_length=1, max_length=32)]
    """Containers that run side by side."""
    init_containers: Annotated[list[InitContainer], Field(max_length=16)] | None = None
    """Containers that run first, and sidecars."""
    resources: ResourceRequirements | None = None
    """What the pod as a whole may use, instead of the sum of its containers."""
    overhead: PodAmounts | None = None
    """What the pod's runtime class adds."""
    node_selector: NodeLabels | None = None
    """Labels that the node must have."""
    affinity: PodAffinities | None = None
    """Affinity to nodes and pods; the lock is placed by it, and its anti-affinity holds against others."""
    tolerations: Tolerations | None = None
    """Taints that the pod ignores."""
    priority: Annotated[int, Field(ge=-(2**31), le=2_000_001_000)] | None = None
    """Priority of the pod."""
    priority_class_name: Subdomain | None = None
    """Priority class of the pod."""


class PodTemplate(OpenWire):
    """A pod as a workload would make it; the lock is placed as this pod."""

    metadata: TemplateMetadata | None = None
    """Metadata of the pod."""
    spec: TemplateSpec
    """Spec of the pod."""
