"""Histories that break the rules of devices, and histories that keep them."""

from typing import Any

import pytest

from faults.histories import HistoryBuilder, broken
from faults.history import CLAIMS, Json
from faults.observations import Delivery

TEMPLATE: Json = {
    "spec": {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    }
}
RESOURCE = "example.org/gpu"
HELD: Json = {"resources": {"cpu": "1"}, "devices": [{"claim": "gpu", "pool": "a", "device": "gpu-0"}]}


class Claims(HistoryBuilder):
    """A history of claims and of reservations with devices."""

    def __init__(self) -> None:
        super().__init__()
        self.node()

    def holding(self, name: str = "lock", *, owner: str = "web", **status: Any) -> None:
        """Add a reservation that holds a device."""
        self.reservation(name, owner=owner, also={"template": TEMPLATE}, **HELD | status)

    def waiting(self, reason: str, owner: str = "web") -> None:
        """Let the reservation lose its device."""
        self.holding(owner=owner, devices=None, reason=reason, phase="Pending")

    def claiming(self, name: str, node: str = "") -> None:
        """Add a pod with a claim."""
        self.pod(name, node, "1")
        self.changes[-1].state["spec"]["resourceClaims"] = TEMPLATE["spec"]["resourceClaims"]

    def asking(self, name: str, node: str = "") -> None:
        """Add a pod that asks for a unit of the extended resource."""
        self.pod(name, node, "1")
        self.changes[-1].state["spec"]["containers"][0]["resources"]["requests"][RESOURCE] = "1"

    def holding_units(self, units: str, *devices: str) -> None:
        """Add a reservation that asks for units of the extended resource, and holds these devices."""
        held = [{"resourceName": RESOURCE, "pool": "a", "device": each} for each in devices]
        resources = {"cpu": "1", RESOURCE: str(len(devices))}
        also = {"resources": {"cpu": "1", RESOURCE: units}}
        self.reservation(also=also, resources=resources, devices=held)

    def claim_of_resource(self, pod: str, device: str, *, used: bool = True) -> None:
        """Add a claim that the operator makes for a pod with an extended resource."""
        self.claim(pod, device, used=used)
        annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
        self.changes[-1].state["metadata"]["annotations"] = annotations

    def claim(self, pod: str, *devices: str, used: bool = True, pool: str = "a") -> None:
        """Add a claim of a pod with these devices."""
        owner = {"kind": "Pod", "name": pod, "uid": pod, "controller": True}
        meta = {"name": f"{pod}-gpu", "uid": f"{pod}-gpu", "ownerReferences": [owner]}
        results = [{"pool": pool, "device": each} for each in devices]
        status: Json = {"allocation": {"devices": {"results": results}}} if devices else {}
        if devices and used:
            status["reservedFor"] = [{"name": pod, "uid": pod}]
        self.tell(CLAIMS.plural, {"metadata": meta, "spec": {}, "status": status})


@pytest.fixture
def history() -> Claims:
    return Claims()


def test_a_device_goes_from_a_reservation_to_the_claim_of_its_owner(history: Claims) -> None:
    history.holding()
    history.claiming("web")
    history.claim("web")
    history.claim("web", "gpu-0")
    history.claiming("web", "a")
    history.reservation(
        reason="Consumed", also={"template": TEMPLATE}, boundPod={"name": "web", "uid": "web"}
    )
    assert history.check() == history.check_at_rest() == []


def test_a_device_in_two_claims_is_a_violation(history: Claims) -> None:
    history.claim("web", "gpu-0")
    history.claim("db", "gpu-1")
    assert history.check() == []
    history.claim("api", "gpu-0")
    assert broken(history.check(), "I1: ('a', 'gpu-0') belongs to ['claim web-gpu', 'claim api-gpu']")


def test_a_reserved_device_in_the_claim_of_a_stranger_is_a_violation(history: Claims) -> None:
    history.holding()
    history.claiming("db")
    history.claim("db", "gpu-0")
    assert broken(history.check(), "belongs to ['claim db-gpu', 'reservation lock']")


def test_the_device_of_a_reservation_on_a_node_that_shrank_may_be_lost_already(history: Claims) -> None:
    history.holding()
    history.claiming("db")
    history.node("2")
    history.claim("db", "gpu-0")
    assert history.check() == []
    assert broken(history.check_at_rest(), "belongs to ['claim db-gpu', 'reservation lock'], at rest")


def test_a_device_of_two_reservations_is_a_violation(history: Claims) -> None:
    history.holding()
    history.holding("other", owner="db")
    assert broken(history.check(), "belongs to ['reservation lock', 'reservation other']")


def test_an_owner_that_is_gone_has_its_device_until_its_claim_is_freed(history: Claims) -> None:
    history.holding()
    history.claiming("web")
    history.claim("web", "gpu-0")
    history.tell("pods", history.changes[-2].state, gone=True)
    history.holding()
    assert history.check() == []
    assert broken(history.check_at_rest(), "belongs to ['claim web-gpu', 'reservation lock'], at rest")
    history.claim("web")
    assert history.check_at_rest() == []


def test_a_former_owner_may_keep_a_device_that_it_got_before_the_edit_was_received(history: Claims) -> None:
    history.holding()
    history.claiming("web")
    history.claim("web", "gpu-0")
    got_at = history.clock
    history.clock += 20
    history.holding(owner="db")
    early, late = (Delivery("reservations", 5, listed=False, at=at) for at in (got_at - 20, history.clock))
    assert broken(history.check(deliveries=[early]), "belongs to ['claim web-gpu', 'reservation lock']")
    assert history.check(deliveries=[late]) == []
    assert broken(history.check_at_rest(), "belongs to ['claim web-gpu', 'reservation lock']")


@pytest.mark.parametrize("reason", ["Waiting", "Violated", "InsufficientCapacity"])
def test_a_reservation_leaves_its_device_to_a_former_owner(history: Claims, reason: str) -> None:
    history.holding()
    history.claiming("web")
    history.claim("web", "gpu-0")
    history.holding(owner="db")
    history.waiting(reason, owner="db")
    assert history.check() == history.check_at_rest() == []


def test_a_reservation_that_lost_its_device_to_nobody_is_a_violation(history: Claims) -> None:
    history.holding()
    history.claiming("web")
    history.claim("web", "gpu-1")
    history.holding(owner="db")
    history.waiting("Violated", owner="db")
    assert broken(history.check(), "no reason for an end of Active (Violated)")


def test_a_reservation_that_left_its_device_to_an_owner_is_a_violation(history: Claims) -> None:
    history.holding()
    history.claiming("web")
    history.claim("web", "gpu-0")
    history.waiting("Violated")
    assert broken(history.check(), "no reason for an end of Active (Violated)")


@pytest.mark.parametrize(
    ("claim", "wrong"),
    [
        ({"pool": "a"}, ""),
        ({"pool": "b"}, "it has devices of ['b'], not of ['a']"),
        ({"used": False}, "it has devices of [], not of ['a']"),
        (None, "it has devices of [], not of ['a']"),
    ],
)
def test_a_pod_is_bound_with_a_claim_to_a_device_of_its_node(
    history: Claims, claim: Json | None, wrong: str
) -> None:
    history.claiming("web")
    if claim is not None:
        history.claim("web", "gpu-0", **claim)
    history.claiming("web", "a")
    assert broken(history.check(), wrong) if wrong else history.check() == []
    assert history.check(foreign={"web"}) == []


def test_an_active_reservation_without_its_device_is_a_violation_at_rest(history: Claims) -> None:
    history.holding(devices=None)
    assert history.check() == []
    assert broken(history.check_at_rest(), "lock holds devices for [], not ['gpu']")


def test_a_reservation_with_a_device_of_another_node_is_a_violation_at_rest(history: Claims) -> None:
    history.holding(devices=[{"claim": "gpu", "pool": "b", "device": "gpu-0"}])
    assert broken(history.check_at_rest(), "lock on a holds [('b', 'gpu-0')]")


@pytest.mark.parametrize(("also", "wrong"), [({}, False), ({"template": TEMPLATE}, True)])
def test_an_owner_may_wait_for_a_device_that_its_reservation_does_not_hold(
    history: Claims, also: Json, wrong: bool
) -> None:
    held = HELD if also else {}
    history.reservation(also={"borrowable": True, **also}, **held)
    history.claiming("web")
    assert ("web waits, though lock is its own" in str(history.check_at_rest())) is wrong


@pytest.mark.parametrize("claims", [True, False])
def test_a_pod_takes_a_reservation_for_its_device_beside_one_for_its_amounts(
    history: Claims, claims: bool
) -> None:
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    history.reservation("gpu", also={"template": TEMPLATE, "owners": owners}, **HELD)
    history.reservation("plain", also={"owners": owners})
    (history.claiming if claims else history.pod)("web", "")
    pod = history.changes[-1].state
    meta = pod["metadata"] | {"annotations": {"tidelock.dev/claimed-locks": "gpu,plain"}}
    history.tell("pods", pod | {"metadata": meta, "spec": pod["spec"] | {"nodeName": "a"}})
    assert ("it took gpu in vain" in str(history.check())) is not claims


def test_an_owner_gets_a_claim_with_the_device_of_its_extended_resource(history: Claims) -> None:
    history.holding_units("1", "gpu-0")
    history.asking("web")
    history.claim_of_resource("web", "gpu-0")
    history.asking("web", "a")
    history.reservation(
        reason="Consumed", also={"resources": {RESOURCE: "1"}}, boundPod={"name": "web", "uid": "web"}
    )
    assert history.check() == history.check_at_rest() == []


def test_a_pod_that_is_bound_without_its_extended_resource_is_a_violation(history: Claims) -> None:
    history.asking("web")
    history.asking("web", "a")
    assert broken(history.check(), "it has devices of [], not of ['a']")


def test_a_reservation_may_have_given_a_device_back_after_an_edit(history: Claims) -> None:
    history.holding_units("2", "gpu-0", "gpu-1")
    history.holding_units("1", "gpu-0", "gpu-1")
    history.asking("db")
    history.claim_of_resource("db", "gpu-1")
    assert history.check() == []
    assert f"lock holds devices for {[RESOURCE] * 2}, not {[RESOURCE]}" in str(history.check_at_rest())


def test_a_claim_that_was_made_for_a_binding_without_success_is_a_violation_at_rest(history: Claims) -> None:
    history.asking("web")
    history.claim_of_resource("web", "gpu-0", used=False)
    assert history.check() == []
    assert broken(history.check_at_rest(), "web-gpu was made for a binding of its pod, which is not bound")


def test_a_resource_that_an_edit_has_added_waits_while_the_reservation_is_active(history: Claims) -> None:
    history.reservation(also={"resources": {"cpu": "1"}}, resources={"cpu": "1"})
    history.reservation(also={"resources": {"cpu": "1", RESOURCE: "1"}}, resources={"cpu": "1"})
    assert history.check_at_rest() == []
    history.reservation(
        also={"resources": {"cpu": "1", RESOURCE: "1"}}, resources={"cpu": "1", RESOURCE: "1"}
    )
    assert broken(history.check_at_rest(), f"lock holds devices for [], not {[RESOURCE]}")
