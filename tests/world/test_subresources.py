"""Bindings, evictions and quotas of the API server in memory."""

from typing import Any

import pytest

from world.api.local import LocalClient

Json = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def create_pod(api: LocalClient, name: str = "a", **spec: Any) -> Json:
    body = {
        "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    made: Json = api.create(PODS, body).body
    return made


def bind(api: LocalClient, name: str = "a", **meta: Any) -> Any:
    return api.create(
        f"{PODS}/{name}/binding",
        {"metadata": {"name": name, **meta}, "target": {"kind": "Node", "name": "n"}},
    )


def run(api: LocalClient, name: str = "a") -> None:
    bind(api, name)
    ready = [{"type": "Ready", "status": "True"}]
    api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": ready}})


def budget(api: LocalClient, allowed: int, *, observed: int = 1) -> None:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    api.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    status = {
        "observedGeneration": observed,
        "disruptionsAllowed": allowed,
        "currentHealthy": 1,
        "desiredHealthy": 1,
    }
    api.patch(f"{BUDGETS}/b/status", {"status": status | {"expectedPods": 1}})


def evict(api: LocalClient, name: str = "a") -> Any:
    return api.create(f"{PODS}/{name}/eviction", {"metadata": {"name": name}})


def test_a_binding_sets_the_node_the_condition_and_annotations(api: LocalClient) -> None:
    create_pod(api)
    assert bind(api, annotations={"k": "v"}).code == 201
    pod = api.get(f"{PODS}/a").body
    assert pod["spec"]["nodeName"] == "n"
    assert pod["metadata"]["annotations"] == {"k": "v"}
    assert pod["status"]["conditions"][0] | {"lastTransitionTime": ""} == {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "",
    }


def test_a_pod_is_bound_once(api: LocalClient) -> None:
    create_pod(api)
    bind(api)
    assert bind(api).message.endswith('pod a is already assigned to node "n"')


def test_a_gated_pod_and_another_pod_are_not_bound(api: LocalClient) -> None:
    create_pod(api, schedulingGates=[{"name": "a/b"}])
    assert bind(api).message.endswith("pod a has non-empty .spec.schedulingGates")
    create_pod(api, "b")
    assert "Precondition failed: UID in precondition: other" in bind(api, "b", uid="other").message


def test_an_eviction_takes_a_disruption_of_the_budget(api: LocalClient) -> None:
    create_pod(api)
    run(api)
    budget(api, 1)
    assert evict(api).code == 201
    assert api.get(f"{BUDGETS}/b").body["status"]["disruptionsAllowed"] == 0
    pod = api.get(f"{PODS}/a").body
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert pod["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"


@pytest.mark.parametrize(
    ("allowed", "observed", "seconds", "cause"),
    [
        (0, 1, 0, "The disruption budget b needs 1 healthy pods and has 1 currently"),
        (1, 0, 10, "The disruption budget b is still being processed by the server."),
    ],
)
def test_a_budget_refuses_an_eviction(
    api: LocalClient, allowed: int, observed: int, seconds: int, cause: str
) -> None:
    create_pod(api)
    run(api)
    budget(api, allowed, observed=observed)
    refused = evict(api)
    assert refused.code == 429
    assert refused.body["details"].get("retryAfterSeconds", 0) == seconds
    assert refused.body["details"]["causes"][0]["message"] == cause


def test_a_pending_pod_needs_no_budget(api: LocalClient) -> None:
    create_pod(api)
    budget(api, 0)
    assert evict(api).code == 201


def test_a_status_changes_neither_spec_nor_class(api: LocalClient) -> None:
    create_pod(api)
    changed = api.patch(
        f"{PODS}/a/status", {"spec": {"nodeName": "x"}, "status": {"qosClass": "x", "phase": "Running"}}
    )
    assert "nodeName" not in changed.body["spec"]
    assert changed.body["status"] == {"phase": "Running", "qosClass": "BestEffort"}


def test_a_quota_counts_new_pods(api: LocalClient) -> None:
    api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    api.patch(f"{QUOTAS}/q/status", {"status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}})
    create_pod(api)
    assert api.get(f"{QUOTAS}/q").body["status"]["used"] == {"pods": "1"}
    refused = create_pod(api, "b")
    assert refused["message"] == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )


def test_a_quota_without_status_refuses(api: LocalClient) -> None:
    api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    assert create_pod(api)["message"].endswith("status unknown for quota: q, resources: pods")


def test_a_priority_class_sets_the_priority(api: LocalClient) -> None:
    assert create_pod(api, priorityClassName="system-node-critical")["spec"]["priority"] == 2_000_001_000
    assert create_pod(api, "b", priorityClassName="absent")["code"] == 403
