"""Fields that can't change any more, which the API server must refuse by the rules of the CRD.

It needs an API server that evaluates transition rules of the CRD.
"""

from typing import Any

import pytest

from cluster.api import Api, RefusedError
from cluster.crds import install_crds
from cluster.plain_reservations import reservation
from cluster.stored import Stored
from devcluster import Cluster

OTHER_OWNERS = [{"pod": {"name": "web-1"}}]


@pytest.fixture(scope="module")
def api(controlplane: Cluster) -> Api:
    install_crds(controlplane)
    return Api(controlplane.kubeconfig)


def in_phase(api: Api, namespace: str, phase: str, **spec: Any) -> Stored:
    stored = Stored(api, namespace, reservation(**spec))
    stored.change_status(phase=phase)
    return stored


def refusal(stored: Stored, **changes: Any) -> str:
    with pytest.raises(RefusedError) as refused:
        stored.change_spec(**changes)
    return refused.value.message


@pytest.mark.parametrize("phase", ["Active", "Bound"])
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"owners": OTHER_OWNERS}, "owners"),
        ({"owners": [{"pod": {"name": "web-0"}}, *OTHER_OWNERS]}, "owners"),
        ({"nodeName": "worker-2"}, "nodeName"),
        ({"nodeName": None}, "nodeName"),
    ],
    ids=["other owners", "one more owner", "another node", "any node"],
)
def test_owners_and_node_of_a_held_reservation_are_immutable(
    api: Api, namespace: str, phase: str, changes: dict[str, Any], field: str
) -> None:
    told = refusal(in_phase(api, namespace, phase), **changes)
    assert f"spec.{field}: Forbidden: {field} is immutable while the reservation is Active or Bound" in told


@pytest.mark.parametrize("phase", ["Active", "Bound"])
def test_a_held_reservation_without_a_node_name_cannot_get_one(api: Api, namespace: str, phase: str) -> None:
    assert "nodeName is immutable" in refusal(
        in_phase(api, namespace, phase, nodeName=None), nodeName="worker-1"
    )


def test_a_held_reservation_can_be_resized_and_extended(api: Api, namespace: str) -> None:
    stored = in_phase(api, namespace, "Active")
    stored.change_spec(resources={"cpu": "2"}, ttlSeconds=1200, priority=7, retention="Retain")
    assert stored.read()["spec"]["ttlSeconds"] == 1200


@pytest.mark.parametrize("phase", ["Pending", "Rejected"])
def test_owners_and_node_of_a_reservation_that_is_not_held_can_change(
    api: Api, namespace: str, phase: str
) -> None:
    stored = in_phase(api, namespace, phase)
    stored.change_spec(owners=OTHER_OWNERS, nodeName=None)
    assert stored.read()["spec"]["owners"] == OTHER_OWNERS


@pytest.mark.parametrize("phase", ["Consumed", "Expired", "Lost"])
@pytest.mark.parametrize(
    "changes",
    [{"priority": 1}, {"ttlSeconds": 1200}, {"nodeName": None}, {"resources": {"cpu": "2"}}],
    ids=["priority", "ttlSeconds", "nodeName", "resources"],
)
def test_the_spec_of_a_final_reservation_is_immutable(
    api: Api, namespace: str, phase: str, changes: dict[str, Any]
) -> None:
    assert "spec: Forbidden: spec of a reservation that is final" in refusal(
        in_phase(api, namespace, phase), **changes
    )


def test_undeclared_fields_of_a_final_template_are_immutable_too(api: Api, namespace: str) -> None:
    template = {"spec": {"containers": [{"name": "web"}], "hostname": "a"}}
    stored = in_phase(api, namespace, "Expired", resources=None, template=template)
    assert "is final" in refusal(stored, template={"spec": {"hostname": "b"}})


def test_a_final_reservation_accepts_a_new_status_and_an_equal_spec(api: Api, namespace: str) -> None:
    stored = in_phase(api, namespace, "Consumed")
    stored.change_status(epoch=8)
    stored.change_spec(priority=0)
    assert stored.read()["status"]["epoch"] == 8


COMMIT = {"withinSeconds": 30}


@pytest.mark.parametrize(
    ("spec", "changes", "told"),
    [
        ({}, {"commit": COMMIT}, "commit is immutable except for its token"),
        ({"commit": COMMIT}, {"commit": None}, "commit is immutable except for its token"),
        ({"commit": COMMIT}, {"commit": {"withinSeconds": 60}}, "commit is immutable except for its token"),
        ({}, {"anyOf": "web"}, "anyOf is immutable"),
        ({"anyOf": "web"}, {"anyOf": None}, "anyOf is immutable"),
        ({"anyOf": "web"}, {"anyOf": "database"}, "anyOf is immutable"),
    ],
)
@pytest.mark.parametrize("phase", ["Pending", "Active"])
def test_the_time_to_commit_and_the_set_of_alternatives_are_immutable(
    api: Api, namespace: str, phase: str, spec: dict[str, Any], changes: dict[str, Any], told: str
) -> None:
    assert told in refusal(in_phase(api, namespace, phase, **spec), **changes)


def test_the_token_of_a_committed_hold_is_immutable(api: Api, namespace: str) -> None:
    stored = in_phase(api, namespace, "Active", commit=COMMIT)
    stored.change_spec(commit=COMMIT | {"token": "an-old-one.1"})
    stored.change_status(phase="Active", commit={"holds": 2, "token": "the-right-one.2"})
    stored.change_spec(commit=COMMIT | {"token": "the-right-one.2"})
    for other in ({"token": "an-old-one.1"}, {"token": None}):
        assert "token is immutable while it is the one of the hold" in refusal(stored, commit=other)
    stored.change_status(phase="Pending", commit={"holds": 2, "token": None})
    stored.change_spec(commit={"token": None})


@pytest.mark.parametrize("commit", [{"withinSeconds": 0}, {"token": ""}, {"token": 257 * "x"}])
def test_the_fields_of_a_commit_have_bounds(api: Api, namespace: str, commit: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match=r"spec\.commit\."):
        Stored(api, namespace, reservation(commit=commit))
