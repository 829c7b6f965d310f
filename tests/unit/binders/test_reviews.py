"""AdmissionReviews as API servers send them."""

import json
from typing import Any

import pytest

from builders import TOO_DEEP, Json, pod_json
from devices import allocated, claim_json, resource_claim
from tidelock.binders.reviews import AllocationReview, BadReviewError, BindingReview, answer, read_review
from tidelock.model.meta import Key

POD_KEY = Key("shop", "web-0")


def review(resource: str, sub: str = "", group: str = "", **fields: Any) -> bytes:
    request: Json = {
        "uid": "question",
        "kind": {"group": group, "version": "v1", "kind": "Any"},
        "resource": {"group": group, "version": "v1", "resource": resource},
        "namespace": "shop",
        "operation": "CREATE",
        "userInfo": {"username": "somebody"},
        "dryRun": False,
        **({"subResource": sub} if sub else {}),
        **fields,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def binding(**metadata: str) -> Json:
    return {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "a"}}


def test_a_binding_names_pod_and_node() -> None:
    body = review("pods", "binding", name="web-0", object=binding(name="web-0", uid="uid-web-0"))
    assert read_review(body) == BindingReview("question", POD_KEY, "a", pod_uid="uid-web-0")


def test_a_binding_by_the_older_resource_is_read_in_the_same_way() -> None:
    body = review("bindings", object=binding(name="web-0"), dryRun=True)
    assert read_review(body) == BindingReview("question", POD_KEY, "a", dry_run=True)


def test_a_created_pod_that_names_its_node_is_part_of_the_review() -> None:
    found = read_review(review("pods", object=pod_json("web-0", node_name="a", requests={"cpu": "2"})))
    assert isinstance(found, BindingReview)
    assert (found.key, found.node_name, found.pod_uid) == (POD_KEY, "a", "uid-web-0")
    assert found.pod is not None
    assert found.pod.requests == {"cpu": 2000, "pods": 1}


def allocation(**fields: Any) -> bytes:
    return review("resourceclaims", "status", "resource.k8s.io", **fields)


def test_the_new_status_of_a_claim_has_its_devices() -> None:
    plain = claim_json("gpu", status=allocated("gpu-0"))
    claim = resource_claim("gpu", status=allocated("gpu-0"))
    assert read_review(allocation(object=plain, dryRun=True)) == AllocationReview("question", claim, True)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"nothing", "malformed"),
        (b"{}", "request"),
        (review("pods", "binding", object={"metadata": {}}), "target"),
        (review("pods", "eviction", object={}), "pods/eviction is not reviewed"),
        (allocation(object={"metadata": {}}), "metadata"),
        (review("pods", object={}), "metadata"),
        (b'{"unknown":' + b"[" * TOO_DEEP, "is nested too deeply"),
        (
            review("pods", "binding", object="?").replace(b'"?"', b"[" * TOO_DEEP + b"]" * TOO_DEEP),
            "too deeply",
        ),
    ],
)
def test_other_requests_are_an_error(body: bytes, message: str) -> None:
    with pytest.raises(BadReviewError, match=message):
        read_review(body)


def test_an_answer_carries_the_question_and_the_reason() -> None:
    question = BindingReview("question", POD_KEY, "a")
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    assert json.loads(answer(question, "")) == head | {"response": {"uid": "question", "allowed": True}}
    status = {"code": 403, "reason": "Forbidden", "message": "no room"}
    refused = {"uid": "question", "allowed": False, "status": status}
    assert json.loads(answer(question, "no room")) == head | {"response": refused}
