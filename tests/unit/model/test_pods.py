import json
from datetime import UTC, datetime
from math import inf, isnan
from typing import Any

import pytest

import builders
from builders import NOW, encode, pod_json
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.pods import CLAIMED_RESERVATIONS, Pod, decode_pod
from tidelock.model.reserve_pod import pinned_to, reserve_pod_of


def test_a_pod_is_identified_by_namespace_name_and_uid() -> None:
    pod = builders.pod("web-0", uid="1", node_name="node-a")
    assert (pod.key, pod.uid, pod.node_name) == (Key("shop", "web-0"), "1", "node-a")
    assert str(pod.key) == "shop/web-0"
    assert str(builders.node("node-a").meta.key) == "node-a"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_finished(phase: str) -> None:
    pod = builders.pod(phase=phase)
    assert pod.finished
    assert pod.leaving


def test_a_pod_that_is_being_deleted_is_leaving_but_not_finished() -> None:
    pod = builders.pod(phase="Running", deleted=True)
    assert pod.leaving
    assert not pod.finished


def test_a_running_pod_is_neither_leaving_nor_finished() -> None:
    pod = builders.pod(phase="Running")
    assert not pod.leaving
    assert not pod.finished


@pytest.mark.parametrize(("value", "required"), [("true", True), ("True", False), ("", False)])
def test_a_pod_can_require_its_reservation(value: str, required: bool) -> None:
    pod = builders.pod(annotations={"tidelock.dev/require-reservation": value})
    assert pod.requires_reservation is required
    assert not builders.pod().requires_reservation


def test_the_controller_is_the_owner_that_is_marked_as_controller() -> None:
    pod = builders.pod(controller="apps/v1/StatefulSet/web")
    assert pod.meta.controller is not None
    assert pod.meta.controller.name == "web"
    assert builders.pod().meta.controller is None


def test_metadata_has_the_version_and_the_creation_time() -> None:
    raw = {
        "metadata": {"name": "web-0", "resourceVersion": "42", "creationTimestamp": "2035-01-01T00:00:00Z"}
    }
    meta = decode_pod(json.dumps(raw).encode()).meta
    assert (meta.version, meta.created) == (42, datetime(2035, 1, 1, tzinfo=UTC).timestamp())
    never_stored = decode_pod(b'{"metadata": {"name": "web-0"}}').meta
    assert (never_stored.version, never_stored.created) == (0, 0.0)


@pytest.mark.parametrize(
    ("conditions", "cpu"),
    [
        ([], 64_000),
        ([{"type": "PodResizePending", "status": "True", "reason": "Deferred"}], 64_000),
        ([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}], 3000),
    ],
)
def test_an_infeasible_resize_is_read_from_the_conditions(conditions: list[Any], cpu: int) -> None:
    """Check that running containers and sidecars count, and a deferred resize with its requested amounts."""
    raw = builders.pod_json(requests={"cpu": "62"}, node_name="node-a")
    raw["spec"]["initContainers"] = [
        {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
    ]
    raw["status"] = {
        "conditions": conditions,
        "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        "initContainerStatuses": [{"name": "proxy", "resources": {"requests": {"cpu": "2"}}}],
    }
    assert decode_pod(json.dumps(raw).encode()).requests["cpu"] == cpu


def test_the_resources_that_the_kubelet_reports_count_in_fit_and_in_scores() -> None:
    """Guard against a pod-level resize that counts with its spec, and scores that always use the spec."""
    raw = builders.pod_json(requests={"cpu": "500m", "memory": "1Gi"}, node_name="node-a")
    raw["spec"]["resources"] = {"requests": {"cpu": "1"}}
    settled = decode_pod(encode(raw))
    raw["status"] = {
        "resources": {"requests": {"cpu": "2"}},
        "allocatedResources": {"cpu": "1"},
        "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}],
    }
    resized = decode_pod(encode(raw))
    del raw["status"]["allocatedResources"]
    by_container = decode_pod(encode(raw))
    assert (settled.requests["cpu"], settled.nonzero) == (1000, (1000, 2**30))
    assert (resized.requests["cpu"], resized.nonzero) == (2000, (2000, 2**30))
    assert (by_container.requests["cpu"], by_container.nonzero) == (2000, (2000, 2 * 2**30))


def test_a_bad_quantity_is_found_when_a_pod_is_decoded() -> None:
    pod = builders.pod(requests={"cpu": "2", "memory": "lots"})

    assert pod.meta.unreadable.startswith(
        "spec.containers[0].resources.requests.memory: memory: 'lots' is not a quantity"
    )
    assert pod.requests == {"cpu": 2000, "pods": 1}


def test_a_reserve_pod_has_the_given_requests() -> None:
    pod = builders.pod(requests={"cpu": "1"})
    assert reserve_pod_of(pod.meta, pod.spec, {"cpu": 7}).requests == {"cpu": 7}


def test_a_pinned_reserve_pod_only_differs_in_its_node() -> None:
    of = builders.pod(uid="1", priority=5)
    pod = reserve_pod_of(of.meta, of.spec, {"cpu": 7})
    pinned = pinned_to(pod, "node-b")
    assert pinned.spec.node_name == "node-b"
    assert (pinned.uid, pinned.spec.priority, pinned.requests) == ("1", 5, pod.requests)
    assert pod.spec.node_name == ""


def placement(**fields: Any) -> tuple[object, ...]:
    pod: Pod = builders.pod(**fields)
    return pod.placement_key


def test_pods_with_the_same_demands_share_a_placement_key() -> None:
    demands: Any = {"requests": {"cpu": "1", "memory": "1Gi"}, "nodeSelector": {"a": "1", "b": "2"}}
    other: Any = {"requests": {"memory": "1Gi", "cpu": "1000m"}, "nodeSelector": {"b": "2", "a": "1"}}
    assert placement(name="web-0", **demands) == placement(name="web-1", **other)


@pytest.mark.parametrize(
    "fields",
    [
        {"requests": {"cpu": "2"}},
        {"nodeSelector": {"zone": "a"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"affinity": {"nodeAffinity": {}}},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        {"volumes": [{"name": "disk", "gcePersistentDisk": {"pdName": "disk"}}]},
    ],
)
def test_a_different_demand_makes_a_different_placement_key(fields: dict[str, Any]) -> None:
    assert placement(**fields) != placement()


def test_only_volumes_that_affect_placement_are_part_of_the_placement_key() -> None:
    def projected(name: str) -> Any:
        return placement(name=name, volumes=[{"name": f"token-{name}", "projected": {"sources": []}}])

    assert projected("web-0") == projected("web-1") == placement()


def test_a_claim_in_another_namespace_makes_another_placement_key() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    assert placement(namespace="shop", volumes=volumes) != placement(namespace="bank", volumes=volumes)
    assert placement(namespace="shop") == placement(namespace="bank")


def test_claims_are_named_once_and_ephemeral_ones_after_the_pod() -> None:
    pod = builders.pod(
        "web-0",
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}},
            {"name": "again", "persistentVolumeClaim": {"claimName": "mine", "readOnly": True}},
            {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "token", "projected": {"sources": []}},
            {"name": "inline", "csi": {"driver": "csi.example.com"}},
        ],
    )
    assert pod.claims == (("mine", False), ("web-0-tmp", True))
    assert pod.template.disks == ()


def test_disks_are_identified_by_their_source_and_not_by_the_names_of_their_volumes() -> None:
    pod = builders.pod(
        volumes=[
            {"name": "a", "gcePersistentDisk": {"pdName": "x", "readOnly": True}},
            {"name": "b", "awsElasticBlockStore": {"volumeID": "x", "readOnly": True}},
            {"name": "c", "iscsi": {"iqn": "x", "targetPortal": "10.0.0.1", "lun": 0}},
            {"name": "d", "rbd": {"monitors": ["m", "n"], "image": "x", "pool": "p", "readOnly": True}},
        ]
    )
    assert pod.template.disks == (
        (("gce", "x"), True),
        (("aws", "x"), False),
        (("iscsi", "x"), False),
        (("rbd", "m", "p", "x"), True),
        (("rbd", "n", "p", "x"), True),
    )


def condition(kind: str, status: str, seconds: float) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": format_instant(seconds)}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [condition("Ready", "True", NOW + 9), condition("PodScheduled", "True", NOW)]}, NOW),
        (
            {
                "conditions": [condition("PodScheduled", "False", NOW)],
                "startTime": format_instant(NOW + 5),
            },
            NOW + 5,
        ),
        ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, 0),
    ],
)
def test_the_time_of_the_binding_is_read_from_the_status(status: dict[str, Any], expected: float) -> None:
    assert builders.pod(status=status).bound_at == expected


def test_a_pod_without_a_status_was_bound_at_its_creation() -> None:
    plain = pod_json()
    plain["metadata"]["creationTimestamp"] = format_instant(NOW)
    assert decode_pod(encode(plain)).bound_at == NOW


def test_amounts_that_a_pod_as_a_whole_cannot_have_do_not_matter() -> None:
    whole = {"requests": {"storage": "many"}}
    assert builders.pod(resources=whole, requests={"cpu": "1"}).likely_use[0] == 1000


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}, (2000, 2**30)),
        ({"requests": {"cpu": "1"}}, (1000, None)),
        ({"requests": {}, "overhead": {"cpu": "250m"}}, (250, None)),
        (
            {
                "requests": {"cpu": "1"},
                "initContainers": [
                    {"name": "once", "resources": {"requests": {"cpu": "9"}}},
                    {"name": "beside", "restartPolicy": "Always", "resources": {"limits": {"cpu": "3"}}},
                ],
            },
            (4000, None),
        ),
        ({"requests": {"cpu": "1"}, "resources": {"limits": {"cpu": "500m"}}}, (500, None)),
    ],
)
def test_the_likely_use_of_a_pod_is_its_limits_or_otherwise_its_requests(
    fields: dict[str, Any], expected: tuple[float, float | None]
) -> None:
    cpu, memory = builders.pod(**fields).likely_use
    assert (cpu, None if isnan(memory) else memory) == expected


@pytest.mark.parametrize(
    "text", ["31536001", "999999999999", "9" * 300, "\u0663\u0663", "1e3", "-5", "", "ten"]
)
def test_an_annotation_that_is_no_number_of_seconds_up_to_a_year_is_ignored(text: str) -> None:
    """Guard against an annotation that ends the operator.

    The text "999999999999", one of 300 digits, and one of Arabic digits did so. A message that depended on
    the end of the pod named an instant beyond the year 9999.
    """
    assert builders.pod(annotations={"tidelock.dev/run-seconds": text}).run_seconds == inf


@pytest.mark.parametrize("text", ["31536000", "00031536000"])
def test_an_annotation_of_a_year_counts(text: str) -> None:
    assert builders.pod(annotations={"tidelock.dev/run-seconds": text}).run_seconds == 31_536_000 + 30


def test_the_annotation_of_claims_is_parsed_once_and_up_to_a_limit() -> None:
    """Guard against an annotation of 216 kB that is parsed again for each reservation of its pod."""
    uids = [f"uid-{number}" for number in range(5_000)]
    annotations = {CLAIMED_RESERVATIONS: ",".join(uids)}
    bound = builders.pod(node_name="node-a", annotations=annotations)

    assert bound.claimed_reservations == frozenset(uids[:1000])
    assert bound.claimed_reservations is bound.claimed_reservations
