import copy
from typing import Any

import pytest

from builders import NOW, level, node, reservation, water_level
from tidelock.cli.check import report
from tidelock.cli.finding import CheckFinding, Severity
from tidelock.cli.installation import Installation, lease_finding, namespace_of, other_leaders_finding
from tidelock.cli.installation_checks import crd_finding, fence_finding
from tidelock.cli.state_checks import clock_finding, levels_finding, objects_finding, reservations_finding
from tidelock.cli.webhook_checks import admission_finding, answers_finding
from tidelock.model.api.crds import RESERVATION
from tidelock.model.instants import format_instant
from unit.cli.scenes import active_json, condition, lock, pending_json
from unit.cli.screens import assert_screen

PLACE = Installation("tidelock-system", "tidelock", "tidelock")
SERVED = {"conditions": [{"type": "Established", "status": "True"}]}


def definition(**status: Any) -> dict[str, Any]:
    return {**copy.deepcopy(RESERVATION.definition()), "status": status or SERVED}


def crd(stored: dict[str, Any]) -> CheckFinding:
    return crd_finding("CRD", RESERVATION.definition(), stored)


def test_the_definition_of_this_version_is_in_order() -> None:
    assert crd(definition()).level is Severity.OK


def test_the_finding_for_a_definition_that_is_not_served_names_the_reason() -> None:
    names = {"type": "NamesAccepted", "status": "False", "message": "rsv is taken"}
    found = crd(definition(conditions=[names]))
    assert (found.level, found.found) == (Severity.WRONG, "is not served: rsv is taken")


def test_a_definition_of_another_version_is_wrong() -> None:
    stored = definition()
    stored["spec"]["versions"][0]["name"] = "v1"
    assert (crd(stored).level, crd(stored).found) == (Severity.WRONG, "has versions v1, not v1alpha1")


def test_a_definition_that_differs_is_noted() -> None:
    stored = definition()
    stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "of old"
    assert crd(stored).level is Severity.NOTE


def lease(**fields: Any) -> CheckFinding:
    spec = {
        "holderIdentity": "pod_1",
        "renewTime": format_instant(NOW - 2),
        "leaseDurationSeconds": 15,
        "leaseTransitions": 3,
    }
    return lease_finding(PLACE, {**spec, **fields}, NOW)


def test_a_lease_that_is_held_is_in_order() -> None:
    assert lease() == CheckFinding("Lease", Severity.OK, "pod_1 leads, in leadership 3")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"renewTime": format_instant(NOW - 60)}, "has been silent for 60s (limit 15s)"),
        ({"holderIdentity": ""}, "no process holds Lease tidelock-system/tidelock"),
        ({"renewTime": None}, "no process holds"),
    ],
)
def test_a_lease_without_a_renewing_holder_is_wrong(fields: dict[str, Any], told: str) -> None:
    found = lease(**fields)
    assert found.level is Severity.WRONG
    assert told in found.found
    assert "logs deployment/tidelock" in found.advice


def test_a_missing_lease_is_wrong() -> None:
    assert lease_finding(PLACE, None, NOW).level is Severity.WRONG


def held(namespace: str, holder: str, ago: float = 2) -> dict[str, Any]:
    spec = {"holderIdentity": holder, "renewTime": format_instant(NOW - ago), "leaseDurationSeconds": 15}
    return {"metadata": {"name": "tidelock", "namespace": namespace}, "spec": spec}


OWN = held("tidelock-system", "pod_1")


def test_a_second_leader_with_a_lease_elsewhere_is_wrong() -> None:
    """Two operators led side by side, and all checks were in order."""
    found = other_leaders_finding(PLACE, [OWN, held("shop", "laptop_1" + 200 * "x")], NOW)
    assert found.level is Severity.WRONG
    assert found.found.startswith("another operator leads, too: laptop_1xxx")
    assert found.found.endswith("x by Lease shop/tidelock")
    assert len(found.found) < 200
    assert "--lease-namespace=tidelock-system" in found.advice


@pytest.mark.parametrize(
    "other",
    [held("shop", "laptop_1", ago=60), held("shop", ""), {"metadata": {"namespace": "shop"}, "spec": None}],
    ids=["of old", "released", "empty"],
)
def test_a_lease_elsewhere_that_no_process_renews_is_in_order(other: dict[str, Any]) -> None:
    found = other_leaders_finding(PLACE, [OWN, other], NOW)
    assert found == CheckFinding("leaders", Severity.OK, "no other Lease tidelock is held")
    assert namespace_of([other, OWN], NOW) == "tidelock-system"


def test_the_installation_is_where_the_held_lease_is() -> None:
    assert namespace_of([], NOW) == "tidelock-system"
    assert (
        namespace_of([held("tidelock-system", "pod_1", ago=60), held("platform", "pod_2")], NOW) == "platform"
    )
    assert namespace_of([held("aside", "laptop_1", ago=1), OWN], NOW) == "tidelock-system"
    assert namespace_of([held("a", "x", ago=90), held("b", "x", ago=60)], NOW) == "b"


IMPOSSIBLE = ["0000-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", "soon", format_instant(NOW + 900)]


@pytest.mark.parametrize("renewed", IMPOSSIBLE)
@pytest.mark.parametrize("ago", [2, 60], ids=["held", "silent"])
def test_a_lease_of_a_tenant_with_an_impossible_time_is_not_held(renewed: str, ago: float) -> None:
    """Regression: a year 0 ended the command, and a year 2999 outranked the installation's own Lease."""
    tenants = held("shop", "laptop_1")
    tenants["spec"]["renewTime"] = renewed
    own = held("platform", "pod_1", ago=ago)
    assert namespace_of([tenants, own], NOW) == "platform"
    assert other_leaders_finding(PLACE, [OWN, tenants], NOW).level is Severity.OK
    found = lease(renewTime=renewed)
    assert (found.level, "no possible renewTime" in found.found) == (Severity.WRONG, True)


def test_a_lease_whose_holder_has_a_clock_that_is_ahead_is_held() -> None:
    assert lease(renewTime=format_instant(NOW + 60)).level is Severity.OK


@pytest.mark.parametrize(
    ("read", "level"),
    [
        ({"name": "tidelock", "namespace": "tidelock-system"}, Severity.OK),
        ({"name": "tidelock", "namespace": "shop"}, Severity.WRONG),
        ({"name": "other", "namespace": "tidelock-system"}, Severity.WRONG),
        (None, Severity.WRONG),
    ],
)
def test_a_fence_that_reads_another_lease_is_wrong(read: dict[str, str] | None, level: Severity) -> None:
    """Such a fence refuses nothing if that Lease does not exist, and its check was in order."""
    assert fence_finding(PLACE, {"spec": {"paramRef": read}}).level is level


def test_a_missing_fence_is_wrong() -> None:
    assert fence_finding(PLACE, None).level is Severity.WRONG


TOKEN = f"/admission/{64 * 'a'}"


@pytest.mark.parametrize(
    ("bundle", "path", "policy", "expected"),
    [
        ("Y2E=", TOKEN, "Fail", Severity.OK),
        ("Y2E=", TOKEN, "Ignore", Severity.NOTE),
        ("", TOKEN, "Fail", Severity.WRONG),
        ("Y2E=", "/admission", "Fail", Severity.WRONG),
        ("Y2E=", "", "Ignore", Severity.WRONG),
    ],
)
def test_the_webhook_needs_a_certificate_a_secret_path_and_a_policy(
    bundle: str, path: str, policy: str, expected: Severity
) -> None:
    hook = {"clientConfig": {"caBundle": bundle, "service": {"path": path}}, "failurePolicy": policy}
    assert admission_finding({"webhooks": [hook]}).level is expected


@pytest.mark.parametrize(
    ("bundle", "path", "expected"),
    [("Y2E=", TOKEN, Severity.OK), ("", TOKEN, Severity.WRONG), ("Y2E=", "/creations", Severity.WRONG)],
)
def test_the_webhook_of_answers_needs_a_certificate_and_a_secret_path(
    bundle: str, path: str, expected: Severity
) -> None:
    hook = {"clientConfig": {"caBundle": bundle, "service": {"path": path}}, "failurePolicy": "Ignore"}
    assert answers_finding({"webhooks": [hook]}).level is expected


def test_a_clock_skew_is_noted() -> None:
    assert clock_finding(NOW, NOW, NOW + 0.1).level is Severity.OK
    found = clock_finding(NOW + 10, NOW, NOW + 0.1)
    assert (found.level, found.found) == (
        Severity.NOTE,
        "the API server's clock is +9.9s from this machine's",
    )


def test_readable_objects_are_in_order() -> None:
    found = objects_finding([], 12)
    assert found == CheckFinding("objects", Severity.OK, "all 12 objects for decisions can be read")


def test_objects_that_cannot_be_read_are_named_with_the_field() -> None:
    nodes = [node(f"node-{number}", cpu="?") for number in range(4)]
    found = objects_finding([("nodes", each.meta) for each in nodes], 9)
    assert found.level is Severity.WRONG
    assert found.found.startswith(
        "4 can't be used: nodes node-0: status.allocatable.cpu: cpu: '?' is not a quantity"
    )
    assert found.found.endswith(" and 1 more")
    part = node("node-a", annotations={"a": 1})
    noted = objects_finding([("nodes", part.meta)], 9)
    assert noted.level is Severity.NOTE
    assert "nodes node-a: metadata.annotations.a: Expected `str`, got `int`" in noted.found


def test_reservations_within_their_times_are_in_order() -> None:
    reservations = [lock(active_json("a")), lock(pending_json()), reservation("new", created=NOW)]
    found = reservations_finding(reservations, NOW + 5)
    assert found == CheckFinding("reservations", Severity.OK, "3 there, 1 active, all in order")


def test_reservations_that_the_operator_does_not_process_are_wrong() -> None:
    reservations = [reservation(f"new-{number}", created=NOW - 60) for number in range(5)]
    found = reservations_finding(reservations, NOW)
    assert found.level is Severity.WRONG
    assert found.found == "not processed for 30s: shop/new-0, shop/new-1, shop/new-2 and 2 more"


def test_active_reservations_past_their_end_are_wrong() -> None:
    found = reservations_finding([lock(active_json("a", ends=NOW - 60))], NOW)
    assert (found.level, found.found) == (Severity.WRONG, "past their end and not ended: shop/a")


def test_violated_reservations_are_noted() -> None:
    plain = active_json("a")
    plain["status"]["conditions"] = [condition("Violated", "True", "CapacityTaken", "x")]
    assert reservations_finding([lock(plain)], NOW).level is Severity.NOTE


def test_nodes_without_fresh_measurements_are_noted_and_unmeasured_clusters_are_wrong() -> None:
    fresh = node("fresh", annotations={"tidelock.dev/water-level": level(10, 10)})
    old = node("old", annotations={"tidelock.dev/water-level": level(10, 10, at=NOW - 3600)})
    odd = node("odd", annotations={"tidelock.dev/water-level": "{}"})
    none = node("none")

    assert levels_finding([water_level()], [fresh], NOW).level is Severity.OK
    some = levels_finding([water_level()], [fresh, old, odd, none], NOW)
    assert some.level is Severity.NOTE
    assert some.found == "3 of 4 nodes have no fresh measurement: none missing, odd invalid, old stale"
    assert levels_finding([water_level()], [old, none], NOW).level is Severity.WRONG
    assert levels_finding([water_level(refreshSeconds=0)], [], NOW).level is Severity.WRONG


def test_nodes_that_no_water_level_selects_need_no_measurement() -> None:
    selecting = water_level(nodeSelector={"matchLabels": {"zone": "a"}})
    found = levels_finding([selecting], [node("other")], NOW)
    assert (found.level, found.found) == (Severity.OK, "0 nodes are measured, all freshly")


def test_the_report_lists_all_findings() -> None:
    findings = [
        crd(definition()),
        lease(holderIdentity=""),
        admission_finding({"webhooks": []}),
        CheckFinding("rights", Severity.UNKNOWN, "not allowed to read: no", "ask an admin"),
        reservations_finding([], NOW),
    ]
    assert_screen("check", report(findings))
