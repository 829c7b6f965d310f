import json

import pytest

from tidelock.kube.errors import (
    AdmissionUnavailable,
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    MalformedResponse,
    NotFound,
    ServerError,
    TooManyRequests,
    TransientError,
    Unauthorized,
    Unreachable,
    error_from_event,
    error_from_response,
)


def _status(code: int, reason: str = "", details: dict[str, object] | None = None) -> bytes:
    return json.dumps(
        {"kind": "Status", "code": code, "reason": reason, "message": "because", "details": details}
    ).encode()


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", ApiError),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (504, "Timeout", ServerError),
    ],
)
def test_each_failure_has_its_type(code: int, reason: str, expected: type[ApiError]) -> None:
    body = _status(code, reason)
    for error in (error_from_response(code, body, retry_after=None, writing=False), error_from_event(body)):
        assert type(error) is expected
        assert (error.status, error.reason, error.message) == (code, reason, "because")
        assert str(error) == f"{code} {reason}: because"


def test_a_message_of_the_api_server_is_limited() -> None:
    """A refused value of any length is part of the message."""
    body = _status(422, "Invalid").replace(b"because", b"x" * 1_000_000)
    for error in (error_from_response(422, body, retry_after=None, writing=False), error_from_event(body)):
        assert len(error.message) == 4096


def test_only_failures_that_can_pass_are_transient() -> None:
    transient = {kind for kind in ApiError.__subclasses__() if issubclass(kind, TransientError)}
    assert transient == {TransientError}
    assert set(TransientError.__subclasses__()) == {
        AdmissionUnavailable,
        TooManyRequests,
        ServerError,
        Unreachable,
        MalformedResponse,
    }


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        ("3", {}, 3.0),
        ("3", {"retryAfterSeconds": 9}, 3.0),
        (None, {"retryAfterSeconds": 9}, 9.0),
        (None, {}, None),
        ("Fri, 31 Dec 2027 23:59:59 GMT", {}, None),
    ],
)
def test_a_retry_delay_of_the_server_is_part_of_the_error(
    header: str | None, details: dict[str, object], expected: float | None
) -> None:
    error = error_from_response(429, _status(429, details=details), retry_after=header, writing=False)
    assert error.retry_after == expected


@pytest.mark.parametrize(
    ("code", "writing", "unknown"),
    [(500, True, True), (504, True, True), (504, False, False), (409, True, False)],
)
def test_the_outcome_of_a_write_is_unknown_after_a_server_error(
    code: int, writing: bool, unknown: bool
) -> None:
    assert error_from_response(code, b"", retry_after=None, writing=writing).outcome_unknown is unknown


@pytest.mark.parametrize(
    "body", [b"<html>bad gateway \xff</html>", b'{"kind": "Pod", "message": "x"}', b"[1]"]
)
def test_an_answer_that_is_no_status_is_shown_as_text(body: bytes) -> None:
    error = error_from_response(502, body, retry_after=None, writing=False)
    assert isinstance(error, ServerError)
    assert error.message == body.decode(errors="replace")


def test_a_long_text_is_truncated() -> None:
    error = error_from_response(502, b"\xc3\xa4" * 10_000, retry_after=None, writing=False)
    assert error.message == "ä" * 256


def test_an_error_without_an_answer_shows_only_its_message() -> None:
    assert str(Unreachable("connection refused")) == "connection refused"


def test_the_message_for_a_missing_resource_has_no_newline_at_its_end() -> None:
    """The API server sends a newline, which once broke the log between the error and the advice."""
    error = error_from_response(404, b"404 page not found\n", retry_after=None, writing=False)
    assert error.message == "404 page not found"


_POLICY = "ValidatingAdmissionPolicy 'tidelock-fence' with binding 'tidelock-fence' denied request: "
_NO_PARAMETER = "no params found for policy binding with `Deny` parameterNotFoundAction"
_UNJUDGED = [
    (422, f'pods "a" is forbidden: {_POLICY}failed to configure binding: paramKind kind `X` not yet synced'),
    (422, f'pods "a" is forbidden: {_POLICY}failed to configure binding: context deadline exceeded'),
    (422, f'pods "a" is forbidden: {_POLICY}failed to configure binding: {_NO_PARAMETER}'),
    (
        422,
        "pods is forbidden: ValidatingAdmissionPolicy 'x' denied request: failed to configure policy: y",
    ),
    (422, f"pods \"a\" is forbidden: {_POLICY}expression 'true' resulted in error: operation interrupted"),
    (403, "policy 'x' with binding 'y' denied request: failed to configure binding: z"),
    (403, 'policy "x" denied request: failed to configure policy: z'),
    (403, 'reservations.tidelock.dev "web-0" is forbidden: not yet ready to handle request'),
    (403, "namespaces is forbidden: not yet ready to handle request"),
    (403, 'pods "a" is forbidden: status unknown for quota: team, resources: pods'),
    (403, 'pods "a" is forbidden: Get "https://[::1]:6443/api/v1/namespaces/a": context deadline exceeded'),
    (403, 'pods "a" is forbidden: etcdserver: leader changed'),
    (400, 'admission webhook "a.example" denied the request: reading a quota: context deadline exceeded'),
]


@pytest.mark.parametrize(("code", "message"), _UNJUDGED)
def test_a_request_that_admission_could_not_judge_may_pass_later(code: int, message: str) -> None:
    """The fence refused writes until the API server had read the Leases, and that counted as final."""
    body = json.dumps({"kind": "Status", "code": code, "message": message, "reason": "Invalid"}).encode()
    error = error_from_response(code, body, retry_after=None, writing=True)
    assert type(error) is AdmissionUnavailable
    assert (error.message, error.outcome_unknown) == (message, False)


_JUDGED = [
    (403, 'pods "a" is forbidden: User "b" cannot create resource "pods"', Forbidden),
    (403, 'pods "a" is forbidden: exceeded quota: team, requested: pods=1, used: pods=1', Forbidden),
    (403, f'pods "a" is forbidden: {_POLICY}exceeded quota: team', Forbidden),
    (422, 'Reservation "a" is invalid: spec.x: Invalid value: "context deadline exceeded"', Invalid),
    (422, 'Reservation "a" is invalid: spec.x: Invalid value: "not yet ready to handle request"', Invalid),
    (422, "spec.x: failed to configure binding: x", Invalid),
    (409, 'pods "a" is forbidden: not yet ready to handle request', Conflict),
]


@pytest.mark.parametrize(("code", "message", "expected"), _JUDGED)
def test_a_judgement_stays_final_whatever_texts_it_has(
    code: int, message: str, expected: type[ApiError]
) -> None:
    body = json.dumps({"kind": "Status", "code": code, "message": message}).encode()
    assert type(error_from_response(code, body, retry_after=None, writing=True)) is expected
