import pytest

from tidelock.client import advice
from tidelock.client.errors import (
    AllRefused,
    AlreadyExists,
    ClientError,
    Conflict,
    Forbidden,
    Invalid,
    NoCapacity,
    NotFound,
    Refused,
    Unauthorized,
    Unavailable,
    Unreachable,
    refusal,
    translated,
)
from tidelock.client.remote import asked_of, completed
from tidelock.kube import errors
from tidelock.model import reasons
from tidelock.model.api.reservation import ReservationSpec

SPEC = {"resources": {"cpu": "1"}, "owners": [{"pod": {"name": "web-0"}}], "ttlSeconds": 60}


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (418, "Teapot", ClientError),
    ],
)
def test_each_refusal_of_the_api_server_has_a_type(
    code: int, reason: str, expected: type[ClientError]
) -> None:
    body = b'{"kind":"Status","reason":"%s","message":"no"}' % reason.encode()
    made = translated(errors.error_from_response(code, body, retry_after=None, writing=True), "east")
    assert (type(made), str(made)) == (expected, f"east: {reason}: no")


def test_a_request_that_admission_could_not_judge_may_succeed_later() -> None:
    """Regression: a manager gave a cluster up, as after a wrong spec."""
    message = 'reservations.tidelock.dev \\"a\\" is forbidden: not yet ready to handle request'
    body = b'{"kind":"Status","reason":"Forbidden","message":"%s"}' % message.encode()
    made = translated(errors.error_from_response(403, body, retry_after=None, writing=True), "east")
    assert type(made) is Unavailable


def test_every_error_of_the_api_server_that_may_pass_is_unavailable() -> None:
    for kind in errors.TransientError.__subclasses__():
        assert isinstance(translated(kind("no"), "east"), Unavailable), kind


def test_no_answer_is_unreachable() -> None:
    assert type(translated(errors.Unreachable("refused"), "east")) is Unreachable


def test_invalid_names_its_fields() -> None:
    causes = b'[{"field":"spec.ttlSeconds"},{"message":"x"}]'
    body = b'{"kind":"Status","reason":"Invalid","details":{"causes":%s}}' % causes
    made = translated(errors.error_from_response(422, body, retry_after=None, writing=True), "east")
    assert isinstance(made, Invalid)
    assert made.fields == ("spec.ttlSeconds",)


def test_a_lack_of_capacity_has_a_type_of_its_own() -> None:
    assert type(refusal("east", reasons.QUOTA_EXCEEDED, "cpu 1 needed")) is NoCapacity
    assert type(refusal("east", reasons.INVALID_SPEC, "spec.owners")) is Refused


def test_a_lost_race_has_the_failure_of_each_cluster() -> None:
    failures = {
        "east": Unreachable("refused", cluster="east"),
        "west": refusal("west", "NodeNotFound", "no node"),
    }
    assert str(AllRefused(failures)) == "east: refused; west: NodeNotFound: no node"


def test_every_reason_has_an_advice() -> None:
    known = {value for name, value in vars(reasons).items() if name.isupper()}
    assert set(advice.ADVICE) == known | {advice.DELETED}
    assert set(advice.ADVICE) > advice.NO_CAPACITY


def test_the_spec_that_is_sent_asks_for_an_answer_and_for_a_visible_end() -> None:
    sent = completed(SPEC).model_dump(mode="json", exclude_unset=True)
    assert sent == {
        **SPEC,
        "answer": "Immediate",
        "retention": "Retain",
        "ttlSecondsAfterFinished": 60,
    }
    kept = completed({**SPEC, "retention": "Delete"})
    assert (kept.retention, kept.ttl_seconds_after_finished) == ("Delete", None)
    assert completed({**SPEC, "lease": {"durationSeconds": 9}}).lease.renew_time is not None  # type: ignore[union-attr]


def test_a_wrong_spec_is_refused_with_the_field() -> None:
    with pytest.raises(Invalid) as caught:
        completed({**SPEC, "owners": [{"pod": {}}]})
    assert caught.value.fields == ("spec.owners[0].pod.name",)


def test_specs_are_equal_without_the_parts_that_change_while_it_is_held() -> None:
    wanted = completed({**SPEC, "lease": {"durationSeconds": 9}, "commit": {"withinSeconds": 5}})
    stored = wanted.model_dump(mode="json", exclude_none=True)
    stored["lease"]["renewTime"] = "2026-01-01T00:00:00Z"
    stored["commit"]["token"] = "uid.1"  # noqa: S105 -- of a hold
    assert asked_of(ReservationSpec.model_validate(stored)) == asked_of(wanted)
    stored["commit"]["withinSeconds"] = 6
    assert asked_of(ReservationSpec.model_validate(stored)) != asked_of(wanted)
