"""AdmissionReviews of admission.k8s.io/v1 for bindings and allocations: their questions and answers.

They cover bindings (`pods/binding` and the older `bindings`), pods that are created with a nodeName, and the
devices of claims (`resourceclaims/status`).
"""

from dataclasses import dataclass

import msgspec

from tidelock.model.meta import Key
from tidelock.model.nesting import depth_bounded
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.resource_claims import ResourceClaim, decode_resource_claim

REVIEW_API_VERSION = "admission.k8s.io/v1"
REVIEW_KIND = "AdmissionReview"


class BadReviewError(ValueError):
    """A body that is no review, or a review of another kind of object."""


@dataclass(frozen=True, slots=True)
class BindingReview:
    """Question whether a pod may be bound to a node.

    Attributes:
        uid: identity of the question.
        key: namespace and name of the pod.
        node_name: the node of the binding.
        pod: the pod, if the review contains it because it is about to be created.
        pod_uid: uid of the pod in the binding, or empty if any pod of the name is meant.
        dry_run: whether the binding will not be stored.

    """

    uid: str
    key: Key
    node_name: str
    pod: Pod | None = None
    pod_uid: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class AllocationReview:
    """Question whether a claim may get the devices in its new status.

    Attributes:
        uid: identity of the question.
        claim: the claim as it would be stored.
        dry_run: whether it will not be stored.

    """

    uid: str
    claim: ResourceClaim
    dry_run: bool = False

    @property
    def key(self) -> Key:
        """Namespace and name of the claim."""
        return self.claim.key


class ReviewedResource(msgspec.Struct, frozen=True):
    """The group and the plural name of the objects that a review is about."""

    group: str = ""
    resource: str = ""


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Target(msgspec.Struct, frozen=True):
    name: str = ""


class _Binding(msgspec.Struct, frozen=True):
    target: _Target
    metadata: _Meta = _Meta()


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    resource: ReviewedResource
    object: msgspec.Raw
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    dry_run: bool | None = None


class _Review(msgspec.Struct, frozen=True):
    request: _Request


_decode_review = depth_bounded(msgspec.json.Decoder(_Review).decode)
_decode_binding = depth_bounded(msgspec.json.Decoder(_Binding).decode)


def read_review(body: bytes) -> BindingReview | AllocationReview:
    """Return the question of an AdmissionReview, or raise BadReviewError."""
    try:
        request = _decode_review(body).request
        asked = (request.resource.group, request.resource.resource, request.sub_resource)
        if asked == ("", "pods", ""):
            return _about_pod(request)
        if asked in {("", "pods", "binding"), ("", "bindings", "")}:
            return _about_binding(request)
        if asked == ("resource.k8s.io", "resourceclaims", "status"):
            return _about_allocation(request)
    except ValueError as error:
        raise BadReviewError(str(error)) from error
    raise BadReviewError(f"{'/'.join(part for part in asked if part)} is not reviewed")


def answer(question: BindingReview | AllocationReview, refusal: str) -> bytes:
    """Return the review's answer. Without a refusal the write passes."""
    response: dict[str, object] = {"uid": question.uid, "allowed": not refusal}
    if refusal:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": refusal}
    return respond(response)


def respond(response: dict[str, object]) -> bytes:
    """Return an AdmissionReview with a response."""
    return msgspec.json.encode({"apiVersion": REVIEW_API_VERSION, "kind": REVIEW_KIND, "response": response})


def _about_pod(request: _Request) -> BindingReview:
    pod = decode_pod(request.object)
    if pod.meta.unreadable:
        raise BadReviewError(pod.meta.unreadable)
    key = Key(request.namespace, pod.meta.name)
    return BindingReview(request.uid, key, pod.node_name, pod, pod.uid, bool(request.dry_run))


def _about_allocation(request: _Request) -> AllocationReview:
    claim = decode_resource_claim(request.object)
    if claim.meta.unreadable:
        raise BadReviewError(claim.meta.unreadable)
    return AllocationReview(request.uid, claim, bool(request.dry_run))


def _about_binding(request: _Request) -> BindingReview:
    binding = _decode_binding(request.object)
    key = Key(request.namespace, request.name or binding.metadata.name)
    return BindingReview(
        request.uid, key, binding.target.name, None, binding.metadata.uid, bool(request.dry_run)
    )
