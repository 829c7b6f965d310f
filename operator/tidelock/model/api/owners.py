"""Wire types of the owners of a reservation: the pods that may take it."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, Field

from tidelock.model.api.placement import LabelExpression, LabelSelector
from tidelock.model.api.wire import Refused, Rule, Subdomain, Wire

MOST_CONDITIONS = 64
"""Most labels and expressions that the owners' selectors of one reservation may have together."""
OWNER_TEXT_LENGTH = 320
CONSUMED_REQUEST = "autoscaling.x-k8s.io/consume-provisioning-request"
"""Annotation of a pod: the ProvisioningRequest that it consumes, by the API of the Cluster Autoscaler."""
# As the CRD allows: only the versions of the core group lack a group, and all of these begin with a v.
_API_VERSION = r"^(v[a-z0-9]+|[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z]([a-z0-9-]*[a-z0-9])?)$"


class _OwnerPart(Wire):
    """Fields that every part of an owner refuses."""

    refused = MappingProxyType(
        {"namespace": Refused("string", "owners are matched in the reservation's own namespace")}
    )


class PodOwner(_OwnerPart):
    """A pod by its name."""

    name: Subdomain
    """Name of the pod."""


class ControllerOwner(_OwnerPart):
    """Pods of one workload, found by the owner reference that marks their controller."""

    api_version: Annotated[str, Field(max_length=317, pattern=_API_VERSION)]
    """API version of the workload, such as apps/v1."""
    kind: Annotated[str, Field(max_length=63, pattern="^[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?$")]
    """Kind of the workload, such as StatefulSet."""
    name: Subdomain
    """Name of the workload."""


class ProvisioningRequestOwner(_OwnerPart):
    """Pods that consume a ProvisioningRequest, found by the annotation that the autoscaler's API defines."""

    name: Subdomain
    """Name of the ProvisioningRequest."""


class Owner(_OwnerPart):
    """Pods that may take the reservation: those that satisfy every field that is set."""

    pod: PodOwner | None = None
    """Name of the pod that may take the reservation."""
    controller: ControllerOwner | None = None
    """Workload of the pods that may take the reservation."""
    selector: LabelSelector | None = None
    """Labels of the pods that may take the reservation."""
    provisioning_request: ProvisioningRequestOwner | None = None
    """ProvisioningRequest that the pods consume, by their annotation
    autoscaling.x-k8s.io/consume-provisioning-request."""
    service_account_name: Subdomain | None = None
    """ServiceAccount of the pods that may take the reservation. Unlike a label, it can't be edited into a
    pod."""

    rules = (
        Rule(
            "has(self.pod) || has(self.controller) || has(self.selector) || has(self.provisioningRequest)"
            " || has(self.serviceAccountName)",
            "an empty owner is refused: give pod, controller, selector, provisioningRequest or"
            " serviceAccountName",
            reason="FieldValueRequired",
        ),
    )


def _few_conditions(owners: list[Owner]) -> list[Owner]:
    count = sum(owner.selector.conditions for owner in owners if owner.selector is not None)
    if count > MOST_CONDITIONS:
        raise ValueError(f"has {count} labels and expressions in its selectors: {_FEW_CONDITIONS}")
    return owners


_FEW_CONDITIONS = f"all owners together have at most {MOST_CONDITIONS} labels and expressions"
Owners = Annotated[
    list[Owner],
    Field(min_length=1, max_length=16),
    AfterValidator(_few_conditions),
    Rule(
        "self.map(owner, !has(owner.selector) ? 0"
        " : (has(owner.selector.matchLabels) ? size(owner.selector.matchLabels) : 0)"
        " + (has(owner.selector.matchExpressions) ? size(owner.selector.matchExpressions) : 0)"
        f").sum() <= {MOST_CONDITIONS}",
        _FEW_CONDITIONS,
    ),
]


def owner_text(owners: Sequence[Owner]) -> str:
    """Return a short name of the owners: `pod/web-0`, `app=web,tier=x`, or the first and a count."""
    first, *others = owners
    count = f" +{len(others)}" if others else ""
    text = _term_text(first)
    length = OWNER_TEXT_LENGTH - len(count)
    return (text if len(text) <= length else text[: length - 1] + "…") + count


def _term_text(owner: Owner) -> str:
    parts: list[str] = []
    if owner.pod:
        parts.append(f"pod/{owner.pod.name}")
    if owner.controller:
        parts.append(f"{owner.controller.kind}/{owner.controller.name}")
    if owner.selector:
        parts.extend(f"{key}={value}" for key, value in (owner.selector.match_labels or {}).items())
        parts.extend(_expression_text(each) for each in owner.selector.match_expressions or [])
    if owner.provisioning_request:
        parts.append(f"provisioningrequest/{owner.provisioning_request.name}")
    if owner.service_account_name:
        parts.append(f"serviceaccount/{owner.service_account_name}")
    return ",".join(parts)


def _expression_text(expression: LabelExpression) -> str:
    match expression.operator:
        case "Exists":
            return expression.key
        case "DoesNotExist":
            return f"!{expression.key}"
        case _:
            return f"{expression.key} {expression.operator.lower()} ({','.join(expression.values or [])})"
