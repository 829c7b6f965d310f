"""Refusals of requests, as Status objects with the words of the real API server."""

from collections.abc import Iterable, Sequence
from typing import Any

from world.api.causes import Cause
from world.api.kinds import Kind

Json = dict[str, Any]

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class RefusedRequestError(Exception):
    """A request that the server answers with a failure.

    Attributes:
        code: HTTP status.
        reason: the API's word for the failure, may be empty.
        message: the sentence for people.
        details: details of the Status, or None.
        list_meta: metadata of the Status, such as the token with which a list can go on.
        plain: the response as plain text instead of a Status, or empty.

    """

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.list_meta: Json = {}
        self.plain = ""

    @property
    def status(self) -> Json:
        """The Status object of the response."""
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_meta,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status | {"code": self.code}

    @property
    def retry_after(self) -> int:
        """Seconds for the header Retry-After, or 0 without one."""
        seconds = (self.details or {}).get("retryAfterSeconds", 0)
        return int(seconds)


def details_of(name: str, group: str, kind: str, causes: Iterable[Cause] = ()) -> Json:
    """Return the details of a Status. Empty fields are left out."""
    listed = [{"reason": each.reason, "message": each.message, "field": each.field} for each in causes]
    found = {"name": name, "group": group, "kind": kind, "causes": listed}
    return {field: value for field, value in found.items() if value}


def not_found(kind: Kind, name: str) -> RefusedRequestError:
    """Return the refusal for an object that is not stored."""
    details = details_of(name, kind.group, kind.plural)
    return RefusedRequestError(404, "NotFound", f'{kind.resource} "{name}" not found', details)


def no_such_path() -> RefusedRequestError:
    """Return the refusal of a path that the server does not serve."""
    return RefusedRequestError(404, "NotFound", "the server could not find the requested resource", {})


def no_such_page() -> RefusedRequestError:
    """Return the refusal of a path below a group of custom kinds, which is no Status."""
    refused = no_such_path()
    refused.plain = "404 page not found\n"
    return refused


def already_exists(kind: Kind, name: str, *, leaving: bool) -> RefusedRequestError:
    """Return the refusal of a creation with a name that is taken, perhaps by an object that is deleted."""
    details = details_of(name, kind.group, kind.plural)
    prefix = "object is being deleted: " if leaving else ""
    return RefusedRequestError(
        409, "AlreadyExists", f'{prefix}{kind.resource} "{name}" already exists', details
    )


def conflict(
    kind: Kind, name: str, detail: str, *, by_kind: bool = False, subresource: str = ""
) -> RefusedRequestError:
    """Return the refusal of a write that presumes another state."""
    shown = (
        kind.qualified if by_kind else kind.plural + subresource + (f".{kind.group}" if kind.group else "")
    )
    group = kind.kind_group if by_kind else kind.group
    details = details_of(name, group, kind.kind if by_kind else kind.plural + subresource)
    message = f'Operation cannot be fulfilled on {shown} "{name}": {detail}'
    return RefusedRequestError(409, "Conflict", message, details)


def other_uid(kind: Kind, namespace: str, name: str, wanted: str, found: str) -> RefusedRequestError:
    """Return the refusal of an update for an object with another uid."""
    prefix = "/registry/" + (f"{kind.group}/" if kind.custom is not None else "")
    place = f"{prefix}{storage_name(kind)}/{kind.key(namespace, name)}"
    detail = (
        f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
    return conflict(kind, name, detail)


def storage_name(kind: Kind) -> str:
    """Return the folder of a kind in etcd, which differs from its plural for some kinds."""
    return {"nodes": "minions", "services": "services/specs", "endpoints": "services/endpoints"}.get(
        kind.plural, kind.plural
    )


def invalid(
    kind: Kind, name: str, causes: Sequence[Cause], *, resource: bool = False, shown: str = ""
) -> RefusedRequestError:
    """Return the refusal of an object with wrong fields. `shown` is the kind that the object itself has."""
    named = kind.plural if resource else shown or kind.kind
    group = kind.group if resource else kind.kind_group
    qualified = f"{named}.{group}" if group else named
    return invalid_of(qualified, details_of(name, group, named, causes), causes)


def invalid_of(qualified: str, details: Json, causes: Sequence[Cause]) -> RefusedRequestError:
    """Return the refusal of wrong fields with given details. The message has each error once."""
    texts = list(dict.fromkeys(cause.text for cause in causes))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{qualified} "{details.get("name", "")}" is invalid: {listed}'
    return RefusedRequestError(422, "Invalid", message, details)


def invalid_options(kind: str, causes: Sequence[Cause]) -> RefusedRequestError:
    """Return the refusal of the options of a request."""
    return invalid_of(f"{kind}.meta.k8s.io", details_of("", "meta.k8s.io", kind, causes), causes)


def bad_request(message: str) -> RefusedRequestError:
    """Return the refusal of a request that can't be read."""
    return RefusedRequestError(400, "BadRequest", message)


def unreadable(kind: Kind, problem: str, named: str = "", api_version: str = "") -> RefusedRequestError:
    """Return the refusal of a body that is no object of its kind, with the kind and version that it has."""
    shown, version = named or kind.kind, (api_version or kind.version).rpartition("/")[2]
    return bad_request(f'{shown} in version "{version}" cannot be handled as a {kind.kind}: {problem}')


def forbidden(kind: Kind, name: str, detail: str, causes: Sequence[Cause] = ()) -> RefusedRequestError:
    """Return the refusal of admission."""
    details = details_of(name, kind.group, kind.plural, causes)
    shown = f'"{name}" ' if name else ""
    return RefusedRequestError(403, "Forbidden", f"{kind.resource} {shown}is forbidden: {detail}", details)


def internal(message: str) -> RefusedRequestError:
    """Return an error of the server itself."""
    return RefusedRequestError(500, "", message)


def expired(message: str) -> RefusedRequestError:
    """Return the refusal of a version that was compacted."""
    return RefusedRequestError(410, "Expired", message)


def too_large_version(kind: Kind, asked: int, current: int) -> RefusedRequestError:
    """Return the refusal of a version from the future. For events no delay is asked for."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details: Json = {"causes": [cause]} | ({} if kind.kind == "Event" else {"retryAfterSeconds": 1})
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return RefusedRequestError(504, "Timeout", message, details)


def too_many_disruptions(cause: str, retry_after: int) -> RefusedRequestError:
    """Return the refusal of an eviction by a budget."""
    details: Json = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return RefusedRequestError(429, "TooManyRequests", message, details)


def method_not_allowed() -> RefusedRequestError:
    """Return the refusal of a method that a path does not have."""
    message = "the server does not allow this method on the requested resource"
    return RefusedRequestError(405, "MethodNotAllowed", message, {})


def unsupported_media(accepted: Sequence[str]) -> RefusedRequestError:
    """Return the refusal of a body with a type that the server does not read."""
    known = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {known}"
    return RefusedRequestError(415, "UnsupportedMediaType", message)


def unknown_media() -> RefusedRequestError:
    """Return the refusal of a patch with a type that no kind of Kubernetes reads."""
    return RefusedRequestError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def invalid_patch(problem: str) -> RefusedRequestError:
    """Return the refusal of a patch that makes an object unreadable."""
    causes = [Cause("FieldValueInvalid", "patch", f"Invalid value: {problem}")]
    return invalid_of("", details_of("", "", "", causes), causes)


def unprocessable() -> RefusedRequestError:
    """Return the refusal of a JSON patch that does not apply."""
    return RefusedRequestError(
        422, "Invalid", "the server rejected our request due to an error in our request", {}
    )
