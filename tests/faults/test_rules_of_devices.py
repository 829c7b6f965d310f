"""Histories that break the rules of devices, and histories that keep them."""

from typing import Any

import pytest

from faults.history import CLAIMS, Json
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

    def claim(self, pod: str, *devices: str) -> None:
        """Add a claim of a pod with these devices."""
        owner = {"kind": "Pod", "name": pod, "uid": pod, "controller": True}
        meta = {"name": f"{pod}-gpu", "uid": f"{pod}-gpu", "ownerReferences": [owner]}
        results = [{"pool": "a", "device": each} for each in devices]
        status = {"allocation": {"devices": {"results": results}}} if devices else {}
        self.tell(CLAIMS.plural, {"metadata": meta, "spec": {}, "status": status})


@pytest.fixture
def tale() -> Claims:
    return Claims()


def test_a_device_goes_from_a_reservation_to_the_claim_of_its_owner(tale: Claims) -> None:
    tale.holding()
    tale.pod("web", "", "1")
    tale.claim("web")
    tale.claim("web", "gpu-0")
    tale.pod("web", "a", "1")
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
    tale.pod("db", "", "1")
    tale.claim("db", "gpu-0")
    assert broken(tale.judged(), "belongs to ['claim db-gpu', 'reservation lock']")


def test_a_device_of_two_reservations_is_a_violation(tale: Claims) -> None:
    tale.holding()
    tale.holding("other", owner="db")
    assert broken(tale.judged(), "belongs to ['reservation lock', 'reservation other']")


def test_an_active_reservation_without_its_device_is_a_violation_at_rest(tale: Claims) -> None:
    tale.holding(devices=None)
    assert tale.judged() == []
    assert broken(tale.judged_at_rest(), "lock holds devices for [], not ['gpu']")
