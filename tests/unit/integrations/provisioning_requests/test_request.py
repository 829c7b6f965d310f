"""Requests are read, and become ReservationGroups."""

from typing import Any

import pytest

from builders import NAMESPACE, encode
from tidelock.integrations.provisioning_requests.request import decode_request
from tidelock.model.api.reservation_group import ReservationGroupSpec
from unit.integrations.provisioning_requests.requests import TEMPLATE, group, request, request_json


def test_each_pod_set_becomes_members_of_its_own_kind() -> None:
    made = request(pod_sets={"driver": 1, "worker": 3}).group([TEMPLATE, TEMPLATE])
    spec = ReservationGroupSpec.model_validate(made["spec"])
    assert [(kind.name, kind.count) for kind in spec.members] == [("set-0", 1), ("set-1", 3)]
    assert spec.min_members is None  # all or none


def test_the_group_is_owned_by_its_request_and_retained() -> None:
    made = request().group([TEMPLATE])
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ProvisioningRequest", "uid-request", True)
    assert made["metadata"]["namespace"] == NAMESPACE
    assert made["spec"]["retention"] == "Retain"


def test_only_the_part_of_a_template_that_places_a_pod_is_copied() -> None:
    """Check that no variable of a container becomes visible to readers of reservations."""
    (member,) = request().group([TEMPLATE])["spec"]["members"]
    assert "secret" not in str(member)
    assert member["template"]["metadata"] == {"labels": {"app": "train"}}
    (container,) = member["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "1"}}


def test_the_owners_are_the_pods_that_consume_the_request() -> None:
    (member,) = request().group([TEMPLATE])["spec"]["members"]
    assert member["owners"] == [{"provisioningRequest": {"name": "job-hold-1"}}]


def test_a_service_account_of_the_template_is_required_of_the_pods() -> None:
    template = TEMPLATE | {"spec": TEMPLATE["spec"] | {"serviceAccountName": "trainer"}}
    (member,) = request().group([template])["spec"]["members"]
    assert member["owners"] == [
        {"provisioningRequest": {"name": "job-hold-1"}, "serviceAccountName": "trainer"}
    ]


def test_a_later_request_of_the_same_name_has_another_group() -> None:
    assert request(uid="a").group_key != request(uid="b").group_key


def test_the_members_of_the_longest_name_have_names() -> None:
    longest = request(name="n" * 253, pod_sets={"template": 256})
    names = list(group(longest).members)
    assert len(names) == 256
    assert max(map(len, names)) <= 253


def test_the_defaults_are_those_of_the_cluster_autoscaler() -> None:
    assert request().fields == {"ttlSeconds": 600, "pendingDeadlineSeconds": 604_800}


def test_parameters_set_the_lifetimes() -> None:
    given = request(parameters={"ttlSeconds": "30", "pendingDeadlineSeconds": "0"})
    assert (given.problem, given.fields) == ("", {"ttlSeconds": 30, "pendingDeadlineSeconds": 0})


def test_a_parameter_lets_other_pods_borrow_the_capacity_of_all_members() -> None:
    lent = request(pod_sets={"driver": 1, "worker": 3}, parameters={"borrowable": "true"})
    spec = ReservationGroupSpec.model_validate(lent.group([TEMPLATE, TEMPLATE])["spec"])
    assert [kind.borrowable for kind in spec.members] == [True, True]


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"borrowable": "yes"}, 'spec.parameters.borrowable: "yes": should be true or false'),
        ({"ttlSeconds": "10m"}, 'spec.parameters.ttlSeconds: "10m": should be a whole number of seconds'),
        ({"ttlSeconds": "0"}, "from 1 to 31536000"),
        ({"ttlSeconds": "31536001"}, "from 1 to 31536000"),
        ({"ttlSeconds": "\u0663"}, "from 1 to 31536000"),
        ({"pendingDeadlineSeconds": "-1"}, "from 0 to 31536000"),
        (
            {"ttl": "600"},
            'spec.parameters.ttl: "600": is no parameter of hold.tidelock.dev, which has ttlSeconds',
        ),
    ],
)
def test_a_bad_parameter_is_named_with_its_value_and_the_expected_ones(
    parameters: dict[str, str], problem: str
) -> None:
    assert problem in request(parameters=parameters).problem


def test_all_bad_parameters_are_named() -> None:
    problem = request(parameters={"ttlSeconds": "x", "pendingDeadlineSeconds": "y"}).problem
    assert "ttlSeconds" in problem
    assert "pendingDeadlineSeconds" in problem


@pytest.mark.parametrize(
    "spec",
    [
        {"podSets": "all"},
        {"podSets": [{"count": 1}]},
        {"podSets": [{"podTemplateRef": {"name": "a"}, "count": "many"}]},
        {"parameters": {"ttlSeconds": 600}},
    ],
)
def test_an_unreadable_spec_is_a_problem_and_keeps_its_class(spec: dict[str, Any]) -> None:
    plain = request_json()
    plain["spec"] |= spec
    read = decode_request(encode(plain))
    assert read.problem.startswith("spec: ")
    assert read.class_name == "hold.tidelock.dev"


def test_parameters_may_be_null() -> None:
    plain = request_json()
    plain["spec"]["parameters"] = None
    assert decode_request(encode(plain)).problem == ""
