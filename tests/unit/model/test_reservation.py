from datetime import UTC, datetime
from typing import Any

import pytest

import builders
from builders import Json
from tidelock.model.api.owners import PodOwner
from tidelock.model.meta import Key
from tidelock.model.pod_placement import Affinity
from tidelock.model.pods import Pod
from tidelock.model.reservation import Reservation
from tidelock.model.selectors import LabelSelector, Requirement

GIB = 2**30


def from_template(**spec: Any) -> Reservation:
    containers = spec.pop("containers", [{"name": "main"}])
    return builders.reservation(resources=None, template={"spec": {"containers": containers, **spec}})


def container(name: str = "main", **resources: Any) -> dict[str, Any]:
    return {"name": name, "resources": resources}


def pod_of(reservation: Reservation) -> Pod:
    assert reservation.problem == ""
    assert reservation.pod is not None
    return reservation.pod


def test_resources_are_held_together_with_one_pod() -> None:
    reservation = builders.reservation(resources={"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 2})
    assert reservation.requests == {"cpu": 500, "memory": GIB, "nvidia.com/gpu": 2, "pods": 1}


def test_the_reserve_pod_has_the_node_constraints_of_the_reservation() -> None:
    toleration = {"key": "dedicated", "operator": "Exists"}
    reservation = builders.reservation(
        nodeName="node-a",
        nodeSelector={"zone": "a"},
        tolerations=[toleration],
        affinity={"nodeAffinity": {}},
        priority=7,
    )

    spec = pod_of(reservation).spec

    assert (spec.node_name, spec.node_selector, spec.priority) == ("node-a", {"zone": "a"}, 7)
    assert [each.key for each in spec.tolerations] == ["dedicated"]
    assert spec.affinity is not None
    assert spec.affinity.node_affinity is not None


def test_a_reservation_scores_like_a_pod_with_the_same_requests() -> None:
    assert pod_of(builders.reservation(resources={"cpu": "2"})).nonzero == (2000, 200 * 2**20)


def test_a_reservation_for_any_node_names_none() -> None:
    assert pod_of(builders.reservation()).spec.node_name == ""


def test_a_template_is_summed_like_a_pod() -> None:
    reservation = from_template(
        containers=[
            container(requests={"cpu": "1"}),
            container("other", requests={"cpu": "2", "memory": "1Gi"}),
        ],
        initContainers=[{"name": "init", "resources": {"requests": {"cpu": "5"}}}],
        overhead={"memory": "1Gi"},
    )
    assert reservation.requests == {"cpu": 5000, "memory": 2 * GIB, "pods": 1}


def test_limits_replace_missing_requests_of_a_template() -> None:
    reservation = from_template(
        containers=[container(requests={"cpu": "1"}, limits={"cpu": "4", "memory": "1Gi"})],
        initContainers=[{"name": "init", "resources": {"limits": {"cpu": "2"}}}],
    )
    assert reservation.requests == {"cpu": 2000, "memory": GIB, "pods": 1}


@pytest.mark.parametrize(
    ("of_container", "of_pod", "held"),
    [
        ({}, {"limits": {"cpu": "2"}}, {"cpu": 2000}),
        ({}, {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, {"cpu": 1000}),
        ({"requests": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, {"cpu": 1000}),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, {"cpu": 1000}),
        ({"requests": {"cpu": "1"}}, {"limits": {"memory": "1Gi"}}, {"cpu": 1000, "memory": GIB}),
        (
            {"requests": {"hugepages-2Mi": "2Mi"}},
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {"hugepages-2Mi": 2**22},
        ),
    ],
)
def test_pod_level_limits_replace_requests_that_neither_pod_nor_containers_have(
    of_container: dict[str, Any], of_pod: dict[str, Any], held: dict[str, int]
) -> None:
    """Guard against a reservation without capacity for a pod that only has pod-level limits.

    The API server uses these limits as the pod's requests, so the owner found its capacity taken.
    """
    reservation = from_template(containers=[container(**of_container)], resources=of_pod)
    assert reservation.requests == {**held, "pods": 1}


def test_the_reserve_pod_has_labels_and_constraints_of_the_template_but_no_annotations() -> None:
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"tidelock.dev/require-reservation": "true"}},
        "spec": {"containers": [{"name": "main"}], "nodeSelector": {"zone": "b"}, "priority": 99},
    }
    reservation = builders.reservation(
        resources=None,
        template=template,
        nodeName="node-b",
        annotations={"tidelock.dev/require-reservation": "true"},
    )

    pod = pod_of(reservation)

    assert pod.spec.node_selector == {"zone": "b"}
    assert (pod.spec.node_name, pod.spec.priority) == ("node-b", 0)
    assert pod.key == reservation.key == Key("shop", "lock")
    assert not pod.requires_reservation
    assert pod.meta.labels == {"app": "web"}


def test_label_keys_of_a_template_are_merged_as_the_api_server_does_for_a_pod() -> None:
    """Guard against terms that are read without their label keys.

    The reservation then avoided pods of every revision.
    """
    terms = [
        {
            "labelSelector": {"matchLabels": {"app": "web"}},
            "topologyKey": "zone",
            "matchLabelKeys": ["revision", "unknown"],
            "mismatchLabelKeys": ["tenant"],
        },
        {"topologyKey": "zone", "matchLabelKeys": ["revision"]},
        {"labelSelector": {}, "topologyKey": "zone"},
    ]
    wish = {"weight": 7, "podAffinityTerm": terms[0]}
    kinds = {
        "requiredDuringSchedulingIgnoredDuringExecution": terms,
        "preferredDuringSchedulingIgnoredDuringExecution": [wish],
    }
    metadata = {"labels": {"app": "web", "revision": "2", "tenant": "blue"}}

    def affinity_of(plain: dict[str, Any]) -> Affinity:
        spec = {"containers": [{"name": "main"}], "affinity": plain}
        template = {"metadata": metadata, "spec": spec}
        return pod_of(builders.reservation(resources=None, template=template)).spec.affinity or Affinity()

    far = affinity_of({"podAntiAffinity": kinds}).pod_anti_affinity
    near = affinity_of({"podAffinity": kinds}).pod_affinity

    assert far is not None
    assert near == far
    merged, unselecting, plain = far.required
    assert merged.label_selector == LabelSelector(
        {"app": "web"}, (Requirement("revision", "In", ("2",)), Requirement("tenant", "NotIn", ("blue",)))
    )
    assert (unselecting.label_selector, plain.label_selector) == (None, LabelSelector())
    assert [(each.weight, each.pod_affinity_term) for each in far.preferred] == [(7, merged)]


def test_the_end_is_known_from_the_start_if_the_spec_has_one() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    reservation = builders.reservation(ttlSeconds=None, expireAt="2030-01-01T14:00:00+02:00")
    assert reservation.expire_at == noon.timestamp()
    assert builders.reservation().expire_at is None


def test_the_stored_status_is_kept_as_it_is() -> None:
    assert builders.reservation(status={"phase": "Active", "later": [1]}).status == {
        "phase": "Active",
        "later": [1],
    }


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"resources": {"cpu": "two"}}, "spec.resources: cpu: 'two' is not a quantity"),
        ({"owners": []}, "spec.owners: "),
        ({"resources": None}, "spec: exactly one of resources and template is required"),
        ({"resources": None, "template": {"spec": {"containers": []}}}, "spec.template.spec.containers: "),
        (
            {"resources": None, "template": {"spec": {"containers": [container(limits={"cpu": "1K"})]}}},
            "spec.template.spec.containers[0].resources.limits: cpu: '1K' is not a quantity",
        ),
        (
            {
                "resources": None,
                "template": {"spec": {"containers": [container()], "overhead": {"cpu": "x"}}},
            },
            "spec.template.spec.overhead: cpu: 'x' is not a quantity",
        ),
    ],
)
def test_the_problem_of_an_unreadable_spec_names_the_field(spec: dict[str, Any], problem: str) -> None:
    reservation = builders.reservation(status={"phase": "Pending"}, **spec)

    assert reservation.problem.startswith(problem), reservation.problem
    assert reservation.pod is None
    assert reservation.expire_at is None
    assert reservation.status == {"phase": "Pending"}
    with pytest.raises(ValueError, match=r"^shop/lock: spec"):
        _ = reservation.requests


def test_an_undeclared_part_of_the_template_can_be_the_problem() -> None:
    reservation = from_template(containers=[{"name": "main", "ports": [{"hostPort": "http"}]}])
    assert reservation.problem == "spec: Expected `int`, got `str` - at `$.containers[0].ports[0].hostPort`"
    assert reservation.pod is None


def test_the_rest_of_an_unreadable_spec_is_read() -> None:
    reservation = builders.reservation(resources={"cpu": "two"}, priority="high", retention="Retain")
    assert reservation.spec is not None
    assert (reservation.spec.owners[0].pod, reservation.spec.retention) == (PodOwner(name="web-0"), "Retain")
    assert (reservation.spec.resources, reservation.spec.priority) == (None, 0)


def test_a_reservation_without_readable_owners_has_no_spec() -> None:
    assert builders.reservation(owners=[{"pod": {}}]).spec is None


def test_the_preemption_policy_is_that_of_the_spec_and_not_that_of_the_template() -> None:
    template = {"spec": {"containers": [{"name": "main"}], "preemptionPolicy": "PreemptLowerPriority"}}

    def policy(**spec: Any) -> str:
        pod = builders.reservation(**spec).pod
        assert pod is not None
        return pod.spec.preemption_policy

    assert policy() == "Never"
    assert policy(template=template, resources=None) == "Never"
    assert policy(preemptionPolicy="PreemptLowerPriority") == "PreemptLowerPriority"


def test_a_stored_two_phase_reservation_that_would_preempt_is_refused_and_keeps_its_owners() -> None:
    """Guard against evictions in many clusters for a reservation that is committed in only one of them."""
    reservation = builders.reservation(commit={"withinSeconds": 30}, preemptionPolicy="PreemptLowerPriority")
    assert reservation.pod is None
    assert reservation.problem.startswith("spec.preemptionPolicy: commit is refused beside preemptionPolicy")
    assert reservation.spec is not None
    assert reservation.spec.owners[0].pod == PodOwner(name="web-0")
    assert builders.reservation(commit={"withinSeconds": 30}).problem == ""


def test_a_stored_two_phase_reservation_that_would_move_pods_is_refused() -> None:
    """Guard against evictions for a reservation that is prepared, and never committed."""
    move: Json = {"mayMove": {"automatically": True}, "pendingDeadlineSeconds": 600}
    reservation = builders.reservation(commit={"withinSeconds": 30}, **move)
    assert reservation.pod is None
    assert reservation.problem.startswith("spec.mayMove: commit is refused beside mayMove.automatically")
    assert builders.reservation(**move).problem == ""
    assert builders.reservation(commit={}, mayMove={}, pendingDeadlineSeconds=600).problem == ""
    assert builders.reservation(commit={}, **move | {"mayMove": {"automatically": False}}).problem == ""


def test_a_template_keeps_its_claims_except_for_ephemeral_ones() -> None:
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    reservation = from_template(
        volumes=[data, {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    )
    assert reservation.pod is not None
    assert [use.name for use in reservation.pod.claims] == ["data"]


def test_a_template_can_claim_devices() -> None:
    """Check that such a spec is valid, because the scheduler refuses the reservation with its own reason."""
    reservation = from_template(resourceClaims=[{"name": "gpu"}])
    assert reservation.problem == ""
    assert reservation.pod is not None
    assert [claim.name for claim in reservation.pod.spec.resource_claims] == ["gpu"]
