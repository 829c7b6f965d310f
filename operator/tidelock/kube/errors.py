# ruff: noqa: N818 -- these are the API's own failure reasons, known to every reader of Kubernetes code
"""Failures between Tidelock and the API server, as one tree of types.

``ApiError`` is the root. Its branch ``TransientError`` holds the failures that may pass by themselves, so the
same request may be sent again. All other failures last until a user changes something.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from tidelock.model.nesting import depth_bounded
from tidelock.model.printable import shortened

_TEXT_LIMIT = 256  # characters of a response that is not JSON, such as a proxy's whole error page
_MESSAGE_LIMIT = 4096  # characters of the API server's message, which can quote a whole refused value
_FIRST_SERVER_ERROR = 500


class ApiError(Exception):
    """The API server refused a request or could not be reached.

    Attributes:
        status: HTTP status code, or 0 if there was no response.
        reason: the API's word for the failure, such as ``AlreadyExists``; may be empty.
        message: the API server's message, for people.
        retry_after: seconds to wait before the next try, if the server asked for that.
        outcome_unknown: whether a write may have been applied in spite of the error.
        fields: paths of the fields that the API server refuses, such as ``spec.ttlSeconds``.

    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after: float | None = None,
        outcome_unknown: bool = False,
        fields: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        self.outcome_unknown = outcome_unknown
        self.fields = fields

    def __str__(self) -> str:
        label = " ".join(filter(None, (str(self.status or ""), self.reason)))
        return f"{label}: {self.message}" if label else self.message


class TransientError(ApiError):
    """A failure that may pass: the same request may succeed later."""


class Unauthorized(ApiError):
    """401: the credentials are not accepted, even after they were read again."""


class Forbidden(ApiError):
    """403: RBAC, admission or a quota refuses the request."""


class NotFound(ApiError):
    """404: no such object, or no such resource (its CRD is not installed)."""


class Conflict(ApiError):
    """409: the object is not in the state that the request presumes."""


class AlreadyExists(ApiError):
    """409 with reason AlreadyExists: the name is taken."""


class Gone(ApiError):
    """410: the resource version or the continue token is too old. List from the start."""


class Invalid(ApiError):
    """422: the object is not valid. The message names the fields."""


class TooManyRequests(TransientError):
    """429: priority and fairness, or a disruption budget, asks to come back later."""


class ServerError(TransientError):
    """5xx: the API server or etcd failed. A write may have been applied."""


class Unreachable(TransientError):
    """No complete response: connection failure or time-out."""


class MalformedResponse(TransientError):
    """The response is not one of the API server: cut short, or from a proxy on the way."""


class AdmissionUnavailable(TransientError):
    """403 or 422: admission could not judge the request, so it was refused without a judgement.

    An admission policy with `failurePolicy: Fail` does that while its parameters can't be read, and each
    plugin of the API server until it has listed what it needs.
    """


class NotLeading(ApiError):
    """Never sent: this process does not lead any more, or does not lead yet."""


class StatusCause(msgspec.Struct, frozen=True):
    """One of the causes of a failure."""

    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a Status' details that are read."""

    retry_after_seconds: float = 0.0
    causes: tuple[StatusCause, ...] | None = None


class ErrorStatus(msgspec.Struct, frozen=True):
    """The API's own description of a failure, in responses and in ERROR events of a watch."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


# The texts of k8s.io/apiserver 1.34 to 1.37. The beginnings are those of admission.NewForbidden, and of the
# dispatchers of policies and webhooks in pkg/admission/plugin. They are required because a message about a
# wrong field shows its value, which a tenant chooses.
_ADMISSION = re.compile(
    r"(?:[a-z0-9./-]+ (?:\"[^\"]*\" )?is )?forbidden: "
    r"|(?=admission webhook \"[^\"]*\" denied the request: )"
    r"|(?=policy (?:'[^']*'|\"[^\"]*\") [^:]*denied request: )"
)
# A policy without its parameter is one of them: it may come yet, or the API server has not seen it
# (kubernetes/kubernetes#130887).
_UNJUDGED = re.compile(
    r"not yet ready to handle request|status unknown for quota: |"
    r"(?:ValidatingAdmissionPolicy|policy) (?:'[^']*'|\"[^\"]*\")(?: with binding '[^']*')? denied request: "
    r"failed to configure (?:policy|binding): "
)
_TIMED_OUT = (
    "context deadline exceeded",
    "operation interrupted",  # an expression, by the end of its request
    "etcdserver: request timed out",
    "etcdserver: leader changed",
)

_decode_status = depth_bounded(msgspec.json.Decoder(ErrorStatus).decode)

_TYPES: Mapping[int, type[ApiError]] = MappingProxyType(
    {
        401: Unauthorized,
        403: Forbidden,
        404: NotFound,
        409: Conflict,
        410: Gone,
        422: Invalid,
        429: TooManyRequests,
    }
)
_OF_ADMISSION = frozenset({400, 403, 422})


def error_from_response(code: int, body: bytes, *, retry_after: str | None, writing: bool) -> ApiError:
    """Return the error for an HTTP response.

    Args:
        code: HTTP status code.
        body: the response, which is usually a Status object, but proxies can reply with anything.
        retry_after: the Retry-After header; dates, which the API server does not send, are ignored.
        writing: whether the request would have changed an object.

    """
    status = _parse_status(body)
    return _type_of(code, status)(
        status.message,
        status=code,
        reason=status.reason,
        retry_after=_seconds(retry_after) or _requested_delay(status),
        outcome_unknown=writing and code >= _FIRST_SERVER_ERROR,
        fields=_refused_fields(status),
    )


def error_from_event(body: bytes) -> ApiError:
    """Return the error for the object of a watch's ERROR event."""
    status = _parse_status(body)
    return _type_of(status.code, status)(
        status.message, status=status.code, reason=status.reason, retry_after=_requested_delay(status)
    )


def _type_of(code: int, status: ErrorStatus) -> type[ApiError]:
    if status.reason == "AlreadyExists":
        return AlreadyExists
    if code in _OF_ADMISSION and _is_unjudged(status.message):
        return AdmissionUnavailable
    if code >= _FIRST_SERVER_ERROR:
        return ServerError
    return _TYPES.get(code, ApiError)


def _is_unjudged(message: str) -> bool:
    """Return whether admission refused a request only because it could not judge it at that time.

    A policy or a webhook may repeat a tenant's text, which then looks like that. So an error of this kind
    only means that the same request is tried again, less and less often.
    """
    if (beginning := _ADMISSION.match(message)) is None:
        return False
    return bool(_UNJUDGED.match(message, beginning.end())) or any(text in message for text in _TIMED_OUT)


def _parse_status(body: bytes) -> ErrorStatus:
    try:
        status = _decode_status(body)
    except ValueError:
        status = ErrorStatus()
    if status.kind == "Status":
        return msgspec.structs.replace(status, message=shortened(status.message, _MESSAGE_LIMIT))
    return ErrorStatus(message=body[: 4 * _TEXT_LIMIT].decode(errors="replace")[:_TEXT_LIMIT].strip())


def _requested_delay(status: ErrorStatus) -> float | None:
    return (status.details and status.details.retry_after_seconds) or None


def _refused_fields(status: ErrorStatus) -> tuple[str, ...]:
    causes = (status.details and status.details.causes) or ()
    return tuple(cause.field for cause in causes if cause.field)


def _seconds(header: str | None) -> float | None:
    return float(header) if header and header.isdecimal() else None
