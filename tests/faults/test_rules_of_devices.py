"""Histories that break the rules of devices, and histories that keep them."""

from typing import Any

import pytest

from faults.history import CLAIMS, Json
from faults.proxy import Told
from faults.test_checker import Tale
from faults.test_rules import broken

TEMPLATE: Json = {
    "spec": {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    }
}
HELD: Json = {"resources": {"cpu": "1"}, "devices": [{"claim": "gpu", "pool": "a", "device": "gpu-0"}]}


class Claims(Tale):
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
        self.happenings[-1].state["spec"]["resourceClaims"] = TEMPLATE["spec"]["resourceClaims"]

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
def tale() -> Claims:
    return Claims()


def test_a_device_goes_from_a_reservation_to_the_claim_of_its_owner(tale: Claims) -> None:
    tale.holding()
    tale.claiming("web")
    tale.claim("web")
    tale.claim("web", "gpu-0")
    tale.claiming("web", "a")
    tale.reservation(reason="Consumed", also={"template": TEMPLATE}, boundPod={"name": "web", "uid": "web"})
    assert tale.judged() == tale.judged_at_rest() == []


def test_a_device_in_two_claims_is_a_violation(tale: Claims) -> None:
    tale.claim("web", "gpu-0")
    tale.claim("db", "gpu-1")
    assert tale.judged() == []
    tale.claim("api", "gpu-0")
    assert broken(tale.judged(), "I1: ('a', 'gpu-0') belongs to ['claim web-gpu', 'claim api-gpu']")


def test_a_reserved_device_in_the_claim_of_a_stranger_is_a_violation(tale: Claims) -> None:
    tale.holding()
    tale.claiming("db")
    tale.claim("db", "gpu-0")
    assert broken(tale.judged(), "belongs to ['claim db-gpu', 'reservation lock']")


def test_the_device_of_a_reservation_on_a_node_that_shrank_may_be_lost_already(tale: Claims) -> None:
    tale.holding()
    tale.claiming("db")
    tale.node("2")
    tale.claim("db", "gpu-0")
    assert tale.judged() == []
    assert broken(tale.judged_at_rest(), "belongs to ['claim db-gpu', 'reservation lock'], at rest")


def test_a_device_of_two_reservations_is_a_violation(tale: Claims) -> None:
    tale.holding()
    tale.holding("other", owner="db")
    assert broken(tale.judged(), "belongs to ['reservation lock', 'reservation other']")


def test_an_owner_that_is_gone_has_its_device_until_its_claim_is_freed(tale: Claims) -> None:
    tale.holding()
    tale.claiming("web")
    tale.claim("web", "gpu-0")
    tale.tell("pods", tale.happenings[-2].state, gone=True)
    tale.holding()
    assert tale.judged() == []
    assert broken(tale.judged_at_rest(), "belongs to ['claim web-gpu', 'reservation lock'], at rest")
    tale.claim("web")
    assert tale.judged_at_rest() == []


def test_a_former_owner_may_keep_a_device_that_it_got_before_the_edit_was_received(tale: Claims) -> None:
    tale.holding()
    tale.claiming("web")
    tale.claim("web", "gpu-0")
    got_at = tale.clock
    tale.clock += 20
    tale.holding(owner="db")
    early, late = (Told("reservations", 5, listed=False, at=at) for at in (got_at - 20, tale.clock))
    assert broken(tale.judged(told=[early]), "belongs to ['claim web-gpu', 'reservation lock']")
    assert tale.judged(told=[late]) == []
    assert broken(tale.judged_at_rest(), "belongs to ['claim web-gpu', 'reservation lock']")


@pytest.mark.parametrize("reason", ["Waiting", "Violated", "InsufficientCapacity"])
def test_a_reservation_leaves_its_device_to_a_former_owner(tale: Claims, reason: str) -> None:
    tale.holding()
    tale.claiming("web")
    tale.claim("web", "gpu-0")
    tale.holding(owner="db")
    tale.waiting(reason, owner="db")
    assert tale.judged() == tale.judged_at_rest() == []


def test_a_reservation_that_lost_its_device_to_nobody_is_a_violation(tale: Claims) -> None:
    tale.holding()
    tale.claiming("web")
    tale.claim("web", "gpu-1")
    tale.holding(owner="db")
    tale.waiting("Violated", owner="db")
    assert broken(tale.judged(), "no reason for an end of Active (Violated)")


def test_a_reservation_that_left_its_device_to_an_owner_is_a_violation(tale: Claims) -> None:
    tale.holding()
    tale.claiming("web")
    tale.claim("web", "gpu-0")
    tale.waiting("Violated")
    assert broken(tale.judged(), "no reason for an end of Active (Violated)")


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
    tale: Claims, claim: Json | None, wrong: str
) -> None:
    tale.claiming("web")
    if claim is not None:
        tale.claim("web", "gpu-0", **claim)
    tale.claiming("web", "a")
    assert broken(tale.judged(), wrong) if wrong else tale.judged() == []
    assert tale.judged(foreign={"web"}) == []


def test_an_active_reservation_without_its_device_is_a_violation_at_rest(tale: Claims) -> None:
    tale.holding(devices=None)
    assert tale.judged() == []
    assert broken(tale.judged_at_rest(), "lock holds devices for [], not ['gpu']")


def test_a_reservation_with_a_device_of_another_node_is_a_violation_at_rest(tale: Claims) -> None:
    tale.holding(devices=[{"claim": "gpu", "pool": "b", "device": "gpu-0"}])
    assert broken(tale.judged_at_rest(), "lock on a holds [('b', 'gpu-0')]")


@pytest.mark.parametrize(("also", "wrong"), [({}, False), ({"template": TEMPLATE}, True)])
def test_an_owner_may_wait_for_a_device_that_its_reservation_does_not_hold(
    tale: Claims, also: Json, wrong: bool
) -> None:
    held = HELD if also else {}
    tale.reservation(also={"borrowable": True, **also}, **held)
    tale.claiming("web")
    assert ("web waits, though lock is its own" in str(tale.judged_at_rest())) is wrong


@pytest.mark.parametrize("claims", [True, False])
def test_a_pod_takes_a_reservation_for_its_device_beside_one_for_its_amounts(
    tale: Claims, claims: bool
) -> None:
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    tale.reservation("gpu", also={"template": TEMPLATE, "owners": owners}, **HELD)
    tale.reservation("plain", also={"owners": owners})
    (tale.claiming if claims else tale.pod)("web", "")
    pod = tale.happenings[-1].state
    meta = pod["metadata"] | {"annotations": {"tidelock.dev/claimed-locks": "gpu,plain"}}
    tale.tell("pods", pod | {"metadata": meta, "spec": pod["spec"] | {"nodeName": "a"}})
    assert ("it took gpu in vain" in str(tale.judged())) is not claims
