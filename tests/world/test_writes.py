"""Creations, updates, patches and deletions of objects in the API server in memory."""

from typing import Any

import pytest

from world.api.local import LocalClient
from world.api.patches import APPLY, JSON_PATCH, STRATEGIC

Json = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
RESERVATIONS = "/apis/tidelock.dev/v1alpha1/namespaces/default/reservations"


def pod(name: str = "a", **spec: Any) -> Json:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}}}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def reservation(name: str = "a", **spec: Any) -> Json:
    owners = [{"selector": {"matchLabels": {"app": "a"}}}]
    resources = {"cpu": "1", "memory": "1Gi"}
    return {
        "apiVersion": "tidelock.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {"owners": owners, "resources": resources, "ttlSeconds": 60, **spec},
    }


def test_a_pod_gets_defaults_and_canonical_quantities(api: LocalClient) -> None:
    code, made = api.create(PODS, pod())
    assert code == 201
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert made["metadata"]["creationTimestamp"] == "2027-01-15T08:00:00Z"


def test_an_unknown_field_is_dropped_unless_validation_is_strict(api: LocalClient) -> None:
    assert "nonsense" not in api.create(PODS, pod(nonsense=1)).body["spec"]
    refused = api.create(f"{PODS}?fieldValidation=Strict", pod("b", nonsense=1))
    assert refused.code == 400
    assert refused.message.endswith('strict decoding error: unknown field "spec.nonsense"')


def test_a_name_is_taken_only_once(api: LocalClient) -> None:
    api.create(PODS, pod())
    assert api.create(PODS, pod()).body["reason"] == "AlreadyExists"


def test_an_object_needs_its_namespace(api: LocalClient) -> None:
    refused = api.create(PODS.replace("default", "absent"), pod())
    assert (refused.code, refused.message) == (404, 'namespaces "absent" not found')


def test_a_stale_version_is_a_conflict(api: LocalClient) -> None:
    first = api.create(MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}}).body
    api.patch(f"{MAPS}/m", {"data": {"a": "2"}})
    assert api.replace(f"{MAPS}/m", first).body["reason"] == "Conflict"


def test_an_update_without_change_keeps_the_version(api: LocalClient) -> None:
    made = api.create(MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}}).body
    assert api.replace(f"{MAPS}/m", made).body == made


def test_a_custom_object_needs_a_version_to_be_updated(api: LocalClient) -> None:
    api.create(RESERVATIONS, reservation())
    refused = api.replace(f"{RESERVATIONS}/a", reservation())
    assert refused.body["details"]["causes"][0]["field"] == "metadata.resourceVersion"


def test_a_spec_changes_the_generation_and_a_status_does_not(api: LocalClient) -> None:
    api.create(RESERVATIONS, reservation())
    changed = api.patch(f"{RESERVATIONS}/a", {"spec": {"priority": 5}, "status": {"phase": "Active"}}).body
    assert (changed["metadata"]["generation"], changed["status"]) == (2, {"observedGeneration": -1})
    status = api.patch(
        f"{RESERVATIONS}/a/status", {"spec": {"priority": 6}, "status": {"phase": "Active"}}
    ).body
    assert (status["metadata"]["generation"], status["spec"]["priority"]) == (2, 5)
    assert status["status"]["phase"] == "Active"


def test_a_rule_between_fields_is_checked(api: LocalClient) -> None:
    api.create(RESERVATIONS, reservation())
    api.patch(f"{RESERVATIONS}/a/status", {"status": {"phase": "Active", "nodeName": "n"}})
    refused = api.patch(f"{RESERVATIONS}/a", {"spec": {"owners": [{"pod": {"name": "p"}}]}})
    assert refused.body["details"]["causes"] == [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: owners is immutable while the reservation is Active or Bound",
            "field": "spec.owners",
        }
    ]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ttlSeconds", 0, "Invalid value: 0: spec.ttlSeconds in body should be greater than or equal to 1"),
        (
            "ttlSeconds",
            "x",
            'Invalid value: "string": spec.ttlSeconds in body must be of type integer: "string"',
        ),
        ("owners", [], "Invalid value: 0: spec.owners in body should have at least 1 items"),
    ],
)
def test_a_wrong_value_is_refused(api: LocalClient, field: str, value: Any, message: str) -> None:
    causes = api.create(RESERVATIONS, reservation(**{field: value})).body["details"]["causes"]
    assert (causes[0]["field"], causes[0]["message"]) == (f"spec.{field}", message)


def test_a_strategic_merge_patch_merges_conditions_by_type(api: LocalClient) -> None:
    api.create(PODS, pod(schedulingGates=[{"name": "a/b"}]))
    patch = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    conditions = api.patch(f"{PODS}/a/status", patch, STRATEGIC).body["status"]["conditions"]
    assert [each["type"] for each in conditions] == ["Ready", "PodScheduled"]


def test_a_json_patch_that_does_not_apply_is_refused(api: LocalClient) -> None:
    api.create(PODS, pod())
    operations = [{"op": "test", "path": "/spec/schedulerName", "value": "other"}]
    assert api.patch(f"{PODS}/a", operations, JSON_PATCH).code == 422


def test_an_applied_field_belongs_to_its_manager(api: LocalClient) -> None:
    api.create("/api/v1/nodes", {"metadata": {"name": "n"}})

    def apply(manager: str, annotations: Json) -> Any:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": annotations}}
        return api.patch(f"/api/v1/nodes/n?fieldManager={manager}", body, APPLY)

    assert apply("m1", {"a": "1"}).body["metadata"]["annotations"] == {"a": "1"}
    assert (
        apply("m2", {"a": "2"}).message
        == 'Apply failed with 1 conflict: conflict with "m1": .metadata.annotations.a'
    )
    assert "annotations" not in apply("m1", {}).body["metadata"]


def test_only_few_fields_of_a_pod_can_change(api: LocalClient) -> None:
    api.create(PODS, pod())
    assert api.patch(f"{PODS}/a", {"spec": {"nodeName": "n"}}).body["details"]["causes"][0]["field"] == "spec"
    assert api.patch(f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}}).code == 200


def test_a_bound_pod_gets_its_grace_period(api: LocalClient) -> None:
    api.create(PODS, pod())
    api.create(f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}})
    marked = api.delete(f"{PODS}/a").body["metadata"]
    assert (marked["deletionGracePeriodSeconds"], marked["deletionTimestamp"]) == (30, "2027-01-15T08:00:30Z")
    assert api.get(f"{PODS}/a").code == 200
    api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert api.get(f"{PODS}/a").code == 404


def test_an_unbound_pod_goes_at_once(api: LocalClient) -> None:
    api.create(PODS, pod())
    api.delete(f"{PODS}/a")
    assert api.get(f"{PODS}/a").code == 404


def test_a_deletion_of_another_object_is_a_conflict(api: LocalClient) -> None:
    made = api.create(MAPS, {"metadata": {"name": "m"}}).body["metadata"]
    assert api.delete(f"{MAPS}/m", {"preconditions": {"uid": "other"}}).code == 409
    assert api.delete(f"{MAPS}/m", {"preconditions": {"resourceVersion": "1"}}).code == 409
    assert api.delete(f"{MAPS}/m", {"preconditions": {"uid": made["uid"]}}).code == 200


def test_a_finalizer_keeps_an_object_until_it_is_removed(api: LocalClient) -> None:
    api.create(MAPS, {"metadata": {"name": "m", "finalizers": ["a.b/c"]}})
    assert "deletionTimestamp" in api.delete(f"{MAPS}/m").body["metadata"]
    assert api.create(MAPS, {"metadata": {"name": "m"}}).message.startswith("object is being deleted: ")
    api.patch(f"{MAPS}/m", {"metadata": {"finalizers": None}})
    assert api.get(f"{MAPS}/m").code == 404


def test_a_dry_run_stores_nothing(api: LocalClient) -> None:
    assert api.create(f"{PODS}?dryRun=All", pod()).code == 201
    assert api.get(f"{PODS}/a").code == 404


def test_the_same_requests_give_the_same_answers() -> None:
    answers = []
    for _ in range(2):
        client = LocalClient()
        answers.append(
            [client.create(PODS, pod("")), client.create(RESERVATIONS, reservation()), client.get(PODS)]
        )
    assert answers[0] == answers[1]
