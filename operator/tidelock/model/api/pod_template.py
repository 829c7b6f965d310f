"""Wire type of a pod template. It declares the fields that choose a node, and keeps all others."""

from typing import Annotated, Literal

from pydantic import Field

from tidelock.model.api.placement import NodeLabels, PodAffinities, Tolerations
from tidelock.model.api.reserved_devices import MOST_TEMPLATE_CLAIMS
from tidelock.model.api.resource_list import PodAmounts
from tidelock.model.api.wire import DnsLabel, Labels, OpenWire, Subdomain, exactly_one, list_map

Annotation = Annotated[str, Field(max_length=262_144)]


class ResourceRequirements(OpenWire):
    """Requests and limits of a container or pod."""

    requests: PodAmounts | None = None
    """Amounts that the container or pod requests. The reservation holds these amounts."""
    limits: PodAmounts | None = None
    """Largest amounts that the container or pod may use. A limit stands for an absent request."""


class Container(OpenWire):
    """One container of the pod."""

    name: DnsLabel
    """Name of the container."""
    resources: ResourceRequirements | None = None
    """Requests and limits of the container."""


class InitContainer(Container):
    """A container that runs before the others, or beside the others if it always restarts."""

    restart_policy: Literal["Always", "Never", "OnFailure"] | None = None
    """Always makes the container a sidecar. Its requests are added to those of the other containers."""


class TemplateClaim(OpenWire):
    """A resource claim of the pod."""

    name: DnsLabel
    """Name of the claim in the pod."""
    resource_claim_template_name: Subdomain | None = None
    """Name of the ResourceClaimTemplate from which the claim of the pod is created. The reservation holds
    devices for such a claim. Exactly one of resourceClaimTemplateName and resourceClaimName is required."""
    resource_claim_name: Subdomain | None = None
    """Name of an existing ResourceClaim. The reservation holds devices for it, unless it has some."""

    rules = exactly_one("resourceClaimTemplateName", "resourceClaimName")


class TemplateMetadata(OpenWire):
    """Metadata of the pod."""

    labels: Labels | None = None
    """Labels of the pod, by which the reservation is placed, and by which other pods are placed beside it."""
    annotations: Annotated[dict[str, Annotation], Field(max_length=256)] | None = None
    """Annotations of the pod. They have no effect on the reservation."""


class TemplateSpec(OpenWire):
    """Spec of the pod."""

    containers: Annotated[list[Container], Field(min_length=1, max_length=32)]
    """Containers that run side by side."""
    init_containers: Annotated[list[InitContainer], Field(max_length=16)] | None = None
    """Containers that run before the other containers, and sidecars."""
    resources: ResourceRequirements | None = None
    """Requests and limits of the whole pod, which replace the sum over its containers."""
    overhead: PodAmounts | None = None
    """Amounts that the runtime class adds to the pod."""
    node_selector: NodeLabels | None = None
    """Labels that the node must have."""
    affinity: PodAffinities | None = None
    """Affinity to nodes and pods. The reservation is placed by it, and its anti-affinity applies to other
    pods."""
    tolerations: Tolerations | None = None
    """Tolerations of the pod."""
    resource_claims: (
        Annotated[
            list[TemplateClaim],
            Field(max_length=MOST_TEMPLATE_CLAIMS, json_schema_extra=list_map("name")),
        ]
        | None
    ) = None
    """Resource claims of the pod. The reservation holds the devices that these claims would get."""
    priority: Annotated[int, Field(ge=-(2**31), le=2_000_001_000)] | None = None
    """Priority of the pod."""
    priority_class_name: Subdomain | None = None
    """Priority class of the pod."""

    @property
    def names_claims(self) -> bool:
        """Whether a claim of the pod exists before the pod, so other pods may share it."""
        return any(each.resource_claim_name is not None for each in self.resource_claims or ())


class PodTemplate(OpenWire):
    """A pod as a workload would create it. The reservation is placed like this pod."""

    metadata: TemplateMetadata | None = None
    """Metadata of the pod."""
    spec: TemplateSpec
    """Spec of the pod."""
