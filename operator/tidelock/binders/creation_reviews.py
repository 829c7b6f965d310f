"""AdmissionReviews of admission.k8s.io/v1 for reservations that are created: their questions and answers.

The answer patches annotations into the object, by a JSON patch (RFC 6902).
"""

import base64
from dataclasses import dataclass
from typing import Any

import msgspec

from tidelock.binders.reviews import BadReviewError, ReviewedResource, respond
from tidelock.model.answer import ANSWER, SIGNATURE
from tidelock.model.instants import format_instant
from tidelock.model.nesting import depth_bounded
from tidelock.model.reservation import Reservation, decode_reservation

# No object can have a name with this character.
_MARK = "~"


@dataclass(frozen=True, slots=True)
class CreationReview:
    """Question about a reservation that is being created.

    Attributes:
        uid: identity of the question.
        nonce: identity of the creation.
        reservation: the reservation, with the nonce as uid and a name that no object can have.
        name: its name, or empty if the API server generates one.
        generate_name: then its first part.
        dry_run: whether the object will not be stored.
        answered: whether the client has written an answer by itself.
        annotated: whether the object has annotations.

    """

    uid: str
    nonce: str
    reservation: Reservation
    name: str
    generate_name: str
    dry_run: bool
    answered: bool
    annotated: bool


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    generate_name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    resource: ReviewedResource
    operation: str
    object: _Object
    namespace: str = ""
    sub_resource: str = ""
    dry_run: bool | None = None


class _Review(msgspec.Struct, frozen=True):
    request: _Request


_decode = depth_bounded(msgspec.json.Decoder(_Review).decode)


def read_creation(body: bytes, nonce: str, now: float) -> CreationReview:
    """Return the question of an AdmissionReview, or raise BadReviewError."""
    try:
        request = _decode(body).request
        asked = (request.resource.group, request.resource.resource, request.sub_resource, request.operation)
        if asked != ("tidelock.dev", "reservations", "", "CREATE"):
            raise BadReviewError(f"{request.operation} of {request.resource.resource} is not reviewed")
        meta = request.object.metadata
        stored = {
            "metadata": {
                "name": f"{meta.name or meta.generate_name}{_MARK}{nonce}",
                "namespace": request.namespace,
                "uid": nonce,
                "generation": 1,
                "creationTimestamp": format_instant(int(now)),
                "labels": meta.labels or {},
            },
            "spec": request.object.spec,
        }
        reservation = decode_reservation(msgspec.json.encode(stored))
    except ValueError as error:
        raise BadReviewError(str(error)) from error
    annotations = meta.annotations or {}
    return CreationReview(
        request.uid,
        nonce,
        reservation,
        meta.name,
        "" if meta.name else meta.generate_name,
        bool(request.dry_run),
        ANSWER in annotations or SIGNATURE in annotations,
        bool(meta.annotations),
    )


def patched(review: CreationReview, annotations: dict[str, str]) -> bytes:
    """Return the response that creates the reservation, with further annotations."""
    response: dict[str, Any] = {"uid": review.uid, "allowed": True}
    if annotations:
        patch: list[dict[str, Any]] = [
            {"op": "add", "path": f"/metadata/annotations/{name.replace('/', '~1')}", "value": value}
            for name, value in annotations.items()
        ]
        if not review.annotated:
            patch = [{"op": "add", "path": "/metadata/annotations", "value": annotations}]
        encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": encoded}
    return respond(response)


def refused(review: CreationReview) -> bytes:
    """Return the response that refuses a client's own answer."""
    problem = (
        f"metadata.annotations: {ANSWER} and {SIGNATURE} are written by the operator alone;"
        " create the reservation without them"
    )
    status = {"code": 422, "reason": "Invalid", "message": problem}
    return respond({"uid": review.uid, "allowed": False, "status": status})
