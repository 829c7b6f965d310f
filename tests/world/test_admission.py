"""Webhooks and policies of the API server in memory."""

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from world.api.local import LocalClient
from world.api.operations import Answer, WebhookCall, WebhookFailedError

Json = dict[str, Any]

OPERATOR = "system:serviceaccount:tidelock-system:tidelock"
FENCE = Path(__file__).parents[2] / "manifests" / "base" / "fence.yaml"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/tidelock-system/leases"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def register(api: LocalClient, sort: str, **fields: Any) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    hook = {
        "name": "a.example.com",
        "rules": [rule],
        "clientConfig": {"url": "https://example.com"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }
    made = api.create(
        f"{ADMISSION}/{sort}webhookconfigurations", {"metadata": {"name": "w"}, "webhooks": [hook]}
    )
    assert made.code == 201


def answering(response: Json) -> Any:
    def ask(call: WebhookCall) -> Answer:
        return {"response": {"uid": call.review["request"]["uid"], **response}}

    return ask


def test_a_mutating_webhook_changes_the_object(api: LocalClient) -> None:
    register(api, "mutating")
    patch = msgspec.json.encode([{"op": "add", "path": "/data", "value": {"k": "v"}}])
    api.ask = answering(
        {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
    )
    assert api.create(MAPS, {"metadata": {"name": "m"}}).body["data"] == {"k": "v"}


def test_a_validating_webhook_refuses_in_its_words(api: LocalClient) -> None:
    register(api, "validating")
    api.ask = answering({"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": "no"}})
    refused = api.create(MAPS, {"metadata": {"name": "m"}})
    assert (refused.code, refused.message) == (
        403,
        'admission webhook "a.example.com" denied the request: no',
    )


def test_a_webhook_that_fails_refuses_unless_it_may_be_ignored(api: LocalClient) -> None:
    register(api, "validating")
    api.ask = lambda _: WebhookFailedError("context deadline exceeded")
    refused = api.create(MAPS, {"metadata": {"name": "m"}})
    assert refused.code == 500
    assert refused.message.endswith("failed to call webhook: context deadline exceeded")
    api.delete(f"{ADMISSION}/validatingwebhookconfigurations/w")
    register(api, "validating", failurePolicy="Ignore")
    assert api.create(MAPS, {"metadata": {"name": "m"}}).code == 201


def test_a_creation_can_be_refused_after_its_review(api: LocalClient) -> None:
    """A webhook has allowed it, but the name is taken meanwhile."""
    register(api, "validating")
    asked: list[str] = []

    def ask(call: WebhookCall) -> Answer:
        asked.append(call.review["request"]["name"])
        if len(asked) == 1:
            api.create(MAPS, {"metadata": {"name": "m"}})
        return {"response": {"uid": call.review["request"]["uid"], "allowed": True}}

    api.ask = ask
    assert api.create(MAPS, {"metadata": {"name": "m"}}).body["reason"] == "AlreadyExists"
    assert asked == ["m", "m"]


@pytest.fixture
def fenced(api: LocalClient) -> LocalClient:
    """Install the policies of fence.yaml, the Lease of the third leadership, and a pod."""
    plurals = {
        "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    }
    for each in yaml.safe_load_all(FENCE.read_text()):
        assert api.create(f"{ADMISSION}/{plurals[each['kind']]}", each).code == 201
    api.create("/api/v1/namespaces", {"metadata": {"name": "tidelock-system"}})
    api.create(LEASES, {"metadata": {"name": "tidelock"}, "spec": {"leaseTransitions": 3}})
    api.create(PODS, {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    return api


def bind(api: LocalClient, manager: str) -> Any:
    body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
    return api.create(f"{PODS}/a/binding?fieldManager={manager}", body)


def test_the_fence_refuses_a_former_leader(fenced: LocalClient) -> None:
    refused = bind(fenced.acting(OPERATOR), "tidelock-2")
    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
    assert refused.message.endswith("denied request: leadership 2 is over: the Lease is at 3")
    assert bind(fenced.acting(OPERATOR), "tidelock-3").code == 201


def test_the_fence_concerns_only_the_operator(fenced: LocalClient) -> None:
    assert bind(fenced, "kube-scheduler").code == 201


def test_without_a_lease_the_fence_is_open(fenced: LocalClient) -> None:
    fenced.delete(f"{LEASES}/tidelock")
    assert bind(fenced.acting(OPERATOR), "tidelock-1").code == 201


def test_no_client_adds_an_answer_later(fenced: LocalClient) -> None:
    path = "/apis/tidelock.dev/v1alpha1/namespaces/default/reservations"
    spec = {"owners": [{"pod": {"name": "a"}}], "resources": {"cpu": "1"}, "ttlSeconds": 60}
    body = {
        "apiVersion": "tidelock.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "r"},
        "spec": spec,
    }
    assert fenced.create(path, body).code == 201
    answer = {"metadata": {"annotations": {"tidelock.dev/answer": "x"}}}
    assert "are written by the operator alone" in fenced.patch(f"{path}/r", answer).message
