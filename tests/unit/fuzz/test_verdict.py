"""The outcomes of an object that the fuzzer accepts."""

import msgspec
import pytest

from fuzz.__main__ import slowness
from fuzz.health import HealthSamples
from fuzz.objects import Case
from fuzz.verdict import answered, decode, of_answer, of_refusal
from tidelock.kube.errors import ApiError, Invalid, NotFound

LOCK = Case("a-1", "Reservation", {}, strict=True, limited=False, patches=(), forged=())
POD = Case("a-2", "Pod", {}, strict=True, limited=False, patches=(), forged=())


@pytest.mark.parametrize(
    "refusal",
    [
        Invalid("spec.priority: Invalid value: 7", status=422),
        ApiError("Request entity too large", status=413),
        NotFound("gone", status=404),
        ApiError("json: cannot unmarshal number 1e400", status=400),
    ],
)
def test_a_refusal_that_names_its_field_or_cause_is_accepted(refusal: ApiError) -> None:
    assert of_refusal(LOCK, refusal) == ""


@pytest.mark.parametrize("refusal", [Invalid("no", status=422), ApiError("spec", status=500)])
def test_other_refusals_are_reported(refusal: ApiError) -> None:
    assert str(refusal) in of_refusal(LOCK, refusal)


def test_refusals_of_foreign_kinds_are_accepted() -> None:
    assert of_refusal(POD, Invalid("no", status=422)) == ""


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, False),
        ({"phase": "Pending", "observedGeneration": 1}, False),
        ({"phase": "Pending", "observedGeneration": 2}, True),
        ({"conditions": [{"type": "Ready"}], "observedGeneration": 2}, True),
    ],
)
def test_a_reservation_is_answered_by_a_status_of_its_generation(
    status: dict[str, object], expected: bool
) -> None:
    seen = decode(msgspec.json.encode({"metadata": {"generation": 2}, "status": status}))
    assert answered(LOCK, seen) == expected


def test_a_pod_is_answered_by_a_node_or_a_condition() -> None:
    spec = {"schedulerName": "tidelock-scheduler"}
    for manifest, expected in (
        ({"spec": spec}, False),
        ({"spec": spec | {"nodeName": "a"}}, True),
        ({"spec": spec, "status": {"conditions": [{"type": "PodScheduled"}]}}, True),
        ({"spec": {"schedulerName": "other"}}, True),
    ):
        assert answered(POD, decode(msgspec.json.encode({"metadata": {}, **manifest}))) == expected


def test_the_status_of_an_invalid_spec_must_name_the_field() -> None:
    condition = {"type": "Stalled", "status": "True", "reason": "InvalidSpec"}
    for message, right in (("spec.owners: is empty", True), ("is wrong", False)):
        status = {"conditions": [condition | {"message": message}]}
        assert (of_answer(decode(msgspec.json.encode({"metadata": {}, "status": status}))) == "") == right


def test_a_slow_operator_is_reported() -> None:
    assert slowness(HealthSamples([0.01] * 100, [0.1] * 10)) == []
    probes, reservations = slowness(HealthSamples([0.01] * 98 + [0.3] * 2, [0.1, 2.5]))
    assert "0.300 s" in probes
    assert "1 of 2 reservations" in reservations
