"""Pods that are too large for a decision."""

from typing import Any

import pytest

from builders import encode, pod
from tidelock.model.pod_limits import LIMITS, NODE_TERMS, POD_TERMS, RESOURCES, excess
from tidelock.model.reservation import decode_reservation

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone", "labelSelector": {}}


def node_terms(count: int) -> list[dict[str, Any]]:
    return [{"matchExpressions": [{"key": f"k-{number}", "operator": "Exists"}]} for number in range(count)]


def containers(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"c-{number}", **fields} for number in range(count)]


def spreading(count: int) -> list[dict[str, Any]]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    return [{**constraint, "labelSelector": {}}] * count


def asking(count: int) -> list[dict[str, Any]]:
    requests = {f"example.com/r-{number}": "1" for number in range(count)}
    return containers(1, resources={"requests": requests})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containers": asking(64)}, "resources that its containers request: 65, at most 64 are supported"),
        ({"containers": containers(257)}, "spec.containers and spec.initContainers: 257, at most 256"),
        ({"volumes": [{"name": "v"}] * 257}, "spec.volumes: 257, at most 256"),
        ({"resourceClaims": [{"name": "c"}] * 65}, "spec.resourceClaims: 65, at most 64"),
        ({"tolerations": [{"operator": "Exists"}] * 257}, "spec.tolerations: 257, at most 256"),
        ({"topologySpreadConstraints": spreading(65)}, "spec.topologySpreadConstraints: 65, at most 64"),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": node_terms(101)}}}},
            "terms of spec.affinity.nodeAffinity: 101, at most 100",
        ),
        (
            {
                "affinity": {
                    "podAffinity": {REQUIRED: [TERM] * 50},
                    "podAntiAffinity": {REQUIRED: [TERM] * 51},
                }
            },
            "terms of spec.affinity.podAffinity and podAntiAffinity: 101, at most 100",
        ),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{**TERM, "namespaces": ["n"] * 600}]}}},
            "labels, expressions and namespaces in selectors: 600, at most 512",
        ),
        (
            {"containers": containers(1, ports=[{"containerPort": 1, "hostPort": 1}] * 1001)},
            "host ports: 1001, at most 1000",
        ),
    ],
)
def test_the_message_of_a_pod_beyond_a_limit_has_the_number_and_the_limit(
    spec: dict[str, Any], message: str
) -> None:
    assert excess(pod(**spec)).startswith(message)


def test_a_pod_at_the_limits_is_not_too_large() -> None:
    wishes = [{"weight": 1, "podAffinityTerm": TERM}] * LIMITS[POD_TERMS]
    required = {"nodeSelectorTerms": node_terms(LIMITS[NODE_TERMS])}
    affinity = {"nodeAffinity": {REQUIRED: required}, "podAffinity": {PREFERRED: wishes}}
    large = pod(
        containers=asking(LIMITS[RESOURCES] - 1), affinity=affinity, topologySpreadConstraints=spreading(64)
    )

    assert excess(large) == ""


def test_a_reservation_with_a_template_beyond_a_limit_is_invalid() -> None:
    """Guard against a template with 512 resource names, as each name needs a column of every node."""
    plain = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "ttlSeconds": 60,
            "owners": [{"pod": {"name": "web"}}],
            "template": {
                "spec": {
                    "containers": [
                        {**each, "name": f"c-{index}", "resources": {"requests": {f"a.b/{index}": "1"}}}
                        for index, each in enumerate(containers(20))
                    ],
                    "affinity": {"podAntiAffinity": {REQUIRED: [TERM] * 101}},
                }
            },
        },
    }

    reservation = decode_reservation(encode(plain))

    assert reservation.pod is None
    assert reservation.problem == (
        "spec: the template's pod is too large: terms of spec.affinity.podAffinity and podAntiAffinity: 101,"
        " at most 100 are supported"
    )


@pytest.mark.parametrize(
    ("spec", "members", "message"),
    [
        ({"topologySpreadConstraints": spreading(7)}, 256, "spec.topologySpreadConstraints: 7, at most 6"),
        ({"topologySpreadConstraints": spreading(64)}, 24, ""),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [TERM] * 20}}},
            100,
            "terms of spec.affinity.podAffinity and podAntiAffinity: 20, at most 15",
        ),
        (
            {"containers": containers(1, ports=[{"containerPort": 1, "hostPort": 1}] * 65)},
            256,
            "host ports: 65, at most 64",
        ),
    ],
)
def test_members_of_a_group_have_lower_limits_because_they_are_tried_together(
    spec: dict[str, Any], members: int, message: str
) -> None:
    found = excess(pod(**spec), members)
    assert found == (f"{message} are supported in a group of {members}" if message else "")


def test_a_member_with_a_template_that_is_too_large_for_its_group_is_invalid() -> None:
    spec = {
        "ttlSeconds": 60,
        "owners": [{"pod": {"name": "web"}}],
        "group": {"name": "g", "uid": "g", "members": 256, "minMembers": 1},
        "template": {"spec": {"containers": containers(1), "topologySpreadConstraints": spreading(7)}},
    }
    plain = {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}
    assert "topologySpreadConstraints: 7, at most 6" in decode_reservation(encode(plain)).problem
