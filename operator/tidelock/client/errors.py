# ruff: noqa: N818 -- these are outcomes by their usual names, as in tidelock.kube.errors
"""Failures of a manager's requests, as one tree of types with the cluster, the reason and the numbers."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pydantic import ValidationError

from tidelock.client.advice import DELETED, NO_CAPACITY
from tidelock.kube import errors
from tidelock.model.api.reservation import ReservationStatus
from tidelock.model.api.wire import spec_problems
from tidelock.model.meta import field_path


class ClientError(Exception):
    """A request of a manager failed.

    Attributes:
        cluster: name of the cluster, or empty if the failure is about several.
        reason: one word for programs: the reason of a condition, or the API server's word.
        message: explanation for people, with numbers.

    """

    def __init__(self, message: str, *, cluster: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.cluster = cluster
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.cluster, self.reason, self.message)))


class Refused(ClientError):
    """The reservation got no capacity and will get none, or its commit does not count.

    Attributes:
        status: the last status of the reservation, if there was one.

    """

    status: ReservationStatus | None = None


class NoCapacity(Refused):
    """No node has the capacity, or the namespace's quota is used up. The message has the numbers."""


class Lost(ClientError):
    """A reservation ended, or lost its capacity, while its holder relied on it."""


class Taken(ClientError):
    """The pod of the reservation is in a cluster already, as an earlier run of the manager has sent it.

    Attributes:
        pod: name of the pod.
        node: name of its node, or empty while it is not bound.

    """

    def __init__(
        self, message: str, *, cluster: str, reason: str = "", pod: str = "", node: str = ""
    ) -> None:
        super().__init__(message, cluster=cluster, reason=reason)
        self.pod = pod
        self.node = node


class AllRefused(ClientError):
    """No cluster of a race holds a committed reservation.

    Attributes:
        failures: the failure of each cluster, by the name of the cluster.

    """

    def __init__(self, failures: Mapping[str, ClientError]) -> None:
        super().__init__("; ".join(map(str, failures.values())))
        self.failures = failures


class Unknown(ClientError):
    """A cluster of a race can't be asked, so an earlier run may have sent the pod there.

    Attributes:
        failures: the failure of each such cluster, by the name of the cluster.

    """

    def __init__(self, failures: Mapping[str, ClientError]) -> None:
        super().__init__(f"an earlier run may have sent the pod: {'; '.join(map(str, failures.values()))}")
        self.failures = failures


class TimedOut(ClientError):
    """The API server accepted the request, and the operator did not answer in time."""


class Misconfigured(ClientError):
    """The kubeconfig, a certificate or the service account can't be read."""


class Unauthorized(ClientError):
    """401: the credentials are not accepted."""


class Forbidden(ClientError):
    """403: the manager lacks a right, or an admission policy refuses the request."""


class NotFound(ClientError):
    """404: the object is gone, the namespace does not exist, or the cluster has no Tidelock."""


class Conflict(ClientError):
    """409: the object is not in the state that the request presumes."""


class AlreadyExists(Conflict):
    """409: a reservation of this name asks for something else."""


class Invalid(ClientError):
    """422, or a spec that the client refuses itself.

    Attributes:
        fields: paths of the wrong fields, such as `spec.ttlSeconds`.

    """

    fields: tuple[str, ...] = ()


class Unavailable(ClientError):
    """429 or 5xx, or an admission that could not judge. The same request may succeed later."""


class Unreachable(Unavailable):
    """No answer within the time-out of the cluster. A write may have been carried out all the same."""


_TYPES: Mapping[type[errors.ApiError], Callable[..., ClientError]] = MappingProxyType(
    {
        errors.Unauthorized: Unauthorized,
        errors.Forbidden: Forbidden,
        errors.NotFound: NotFound,
        errors.AlreadyExists: AlreadyExists,
        errors.Conflict: Conflict,
        errors.Invalid: Invalid,
        errors.TooManyRequests: Unavailable,
        errors.ServerError: Unavailable,
        errors.AdmissionUnavailable: Unavailable,
        errors.Unreachable: Unreachable,
        errors.MalformedResponse: Unreachable,
    }
)


def translated(error: errors.ApiError, cluster: str) -> ClientError:
    """Return the client's error for an error of the API server."""
    made = _TYPES.get(type(error), ClientError)(error.message, cluster=cluster, reason=error.reason)
    if isinstance(made, Invalid):
        made.fields = error.fields
    return made


def invalid(error: ValidationError) -> Invalid:
    """Return the error for a spec that the client refuses itself."""
    made = Invalid(spec_problems(error), reason="Invalid")
    made.fields = tuple(field_path(("spec", *problem["loc"])) for problem in error.errors())
    return made


def refusal(cluster: str, reason: str, message: str, status: ReservationStatus | None = None) -> Refused:
    """Return the error for a reservation that was not granted, by the reason of its condition."""
    kind = NoCapacity if reason in NO_CAPACITY else Refused
    made = kind(message, cluster=cluster, reason=reason)
    made.status = status
    return made


def deleted(cluster: str) -> Refused:
    """Return the error for a reservation that another client has deleted."""
    return refusal(cluster, DELETED, "another client deleted the reservation")
