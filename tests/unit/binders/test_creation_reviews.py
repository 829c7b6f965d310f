"""AdmissionReviews of creations as API servers send them, and the responses."""

import base64
import json
from typing import Any

import pytest

from builders import NOW, TOO_DEEP, Json, reservation_json
from tidelock.binders.creation_reviews import patched, read_creation, refused
from tidelock.binders.reviews import BadReviewError
from tidelock.model.answer import ANSWER, SIGNATURE
from tidelock.model.meta import Key

NONCE = "5f0c"


def creation(metadata: Json | None = None, spec: Json | None = None, **fields: Any) -> bytes:
    request: Json = {
        "uid": "question",
        "kind": {"group": "tidelock.dev", "version": "v1alpha1", "kind": "Reservation"},
        "resource": {"group": "tidelock.dev", "version": "v1alpha1", "resource": "reservations"},
        "namespace": "shop",
        "operation": "CREATE",
        "userInfo": {"username": "somebody"},
        "object": {
            "metadata": {"name": "web-0"} if metadata is None else metadata,
            "spec": reservation_json()["spec"] | {"answer": "Immediate"} | (spec or {}),
        },
        "oldObject": None,
        "dryRun": False,
        **fields,
    }
    return json.dumps({"kind": "AdmissionReview", "request": request}).encode()


def patch_of(response: bytes) -> list[Json]:
    plain = json.loads(response)["response"]
    assert (plain["uid"], plain["allowed"], plain["patchType"]) == ("question", True, "JSONPatch")
    patch: list[Json] = json.loads(base64.b64decode(plain["patch"]))
    return patch


def test_a_creation_is_read_under_a_name_that_no_object_can_have() -> None:
    review = read_creation(creation(), NONCE, NOW)
    reservation = review.reservation
    assert (reservation.key, reservation.meta.uid) == (Key("shop", "web-0~5f0c"), NONCE)
    assert (reservation.meta.created, reservation.meta.generation) == (NOW, 1)
    assert reservation.spec is not None
    assert (reservation.spec.answer, reservation.problem) == ("Immediate", "")
    assert (review.name, review.generate_name, review.dry_run, review.answered) == ("web-0", "", False, False)


def test_a_name_may_be_generated_later() -> None:
    review = read_creation(creation({"generateName": "web-"}), NONCE, NOW)
    assert (review.name, review.generate_name) == ("", "web-")
    assert review.reservation.meta.name == "web-~5f0c"


def test_a_name_wins_over_one_to_generate() -> None:
    review = read_creation(creation({"name": "web-0", "generateName": "web-"}), NONCE, NOW)
    assert (review.name, review.generate_name) == ("web-0", "")


@pytest.mark.parametrize("annotation", [ANSWER, SIGNATURE])
def test_an_answer_of_the_client_is_noticed(annotation: str) -> None:
    review = read_creation(creation({"name": "web-0", "annotations": {annotation: ""}}), NONCE, NOW)
    assert review.answered
    response = json.loads(refused(review))["response"]
    assert (response["allowed"], response["status"]["code"]) == (False, 422)
    assert "metadata.annotations: tidelock.dev/answer" in response["status"]["message"]


@pytest.mark.parametrize("dry_run", [True, False, None])
def test_a_dry_run_is_noticed(dry_run: bool | None) -> None:
    assert read_creation(creation(dryRun=dry_run), NONCE, NOW).dry_run is (dry_run is True)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"nothing", "malformed"),
        (b"{}", "request"),
        (creation(operation="UPDATE"), "UPDATE of reservations is not reviewed"),
        (creation(resource={"group": "", "resource": "pods"}), "CREATE of pods is not reviewed"),
        (creation(subResource="status"), "not reviewed"),
        (creation(object=None), "object"),
        (creation({"name": 7}), "str"),
    ],
)
def test_another_body_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(BadReviewError, match=message):
        read_creation(body, NONCE, NOW)


def test_a_spec_with_an_error_is_read_for_its_problem() -> None:
    review = read_creation(creation(spec={"resources": {"cpu": "much"}}), NONCE, NOW)
    assert "cpu" in review.reservation.problem


def test_a_spec_that_is_nested_too_deeply_costs_its_own_answer_alone() -> None:
    deep = b'{"a":' * TOO_DEEP + b"1" + b"}" * TOO_DEEP
    body = creation(spec={"resources": {"cpu": "DEEP"}}).replace(b'"DEEP"', deep)
    try:
        problem = read_creation(body, NONCE, NOW).reservation.problem
    except BadReviewError as error:
        problem = str(error)
    assert problem


def test_annotations_are_added_beside_those_of_the_client() -> None:
    review = read_creation(creation({"name": "web-0", "annotations": {"team": "a"}}), NONCE, NOW)
    assert patch_of(patched(review, {ANSWER: "{}"})) == [
        {"op": "add", "path": "/metadata/annotations/tidelock.dev~1answer", "value": "{}"}
    ]


@pytest.mark.parametrize("metadata", [{"name": "web-0"}, {"name": "web-0", "annotations": None}])
def test_annotations_are_added_to_an_object_without_any(metadata: Json) -> None:
    review = read_creation(creation(metadata), NONCE, NOW)
    assert patch_of(patched(review, {ANSWER: "{}"})) == [
        {"op": "add", "path": "/metadata/annotations", "value": {ANSWER: "{}"}}
    ]


def test_without_an_answer_nothing_is_patched() -> None:
    response = json.loads(patched(read_creation(creation(), NONCE, NOW), {}))["response"]
    assert response == {"uid": "question", "allowed": True}
