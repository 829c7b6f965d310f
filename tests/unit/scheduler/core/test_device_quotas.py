"""Quotas on devices, by class: those that a reservation may get, and those that it holds."""

from typing import Any

import pytest

from builders import NAMESPACE, quota
from devices import claim_template, put, request, wanting, wanting_all
from tidelock.ledger.queue.quotas import exceeded_text
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from unit.scheduler.device_core import DeviceCore

GPUS = "gpu.deviceclass.resource.k8s.io/devices"


class Scene(DeviceCore):
    """A node with four devices, and a quota."""

    def __init__(self, **limits: Any) -> None:
        super().__init__("node-a", devices=4)
        self.limit(**limits)

    def limit(self, **limits: Any) -> None:
        quotas = self.objects.reservation_quotas
        quotas.upsert(quotas.get("devices", NAMESPACE), quota("devices", **limits))

    @property
    def charged(self) -> int:
        """The number of devices that count."""
        return self.ledger.quotas.used(NAMESPACE).reserved.get(GPUS, 0)


def refused(entry: ReservationInfo) -> str:
    assert (entry.phase, entry.reason, entry.devices) == (Phase.PENDING, reasons.QUOTA_EXCEEDED, ())
    return entry.message


def test_reservations_wait_beyond_the_limit_until_devices_are_given_back() -> None:
    scene = Scene(devices={"gpu": 2})
    first, second = scene.lock("a"), scene.lock("b", owner="web-1")
    assert (len(first.devices), len(second.devices), scene.charged) == (1, 1, 2)
    third = scene.lock("c", owner="web-2", pendingDeadlineSeconds=600)
    text = exceeded_text("devices", f"{GPUS}=1", f"{GPUS}=2", f"{GPUS}=2")
    assert refused(third) == text
    scene.event_handlers.reservations.remove(first.reservation)
    scene.decide()
    assert (len(third.devices), scene.charged) == (1, 2)


@pytest.mark.parametrize(
    ("limits", "exceeded"),
    [
        ({"devices": {"gpu": 1}}, f"requested: {GPUS}=2, used: {GPUS}=0, limited: {GPUS}=1"),
        ({"hard": {GPUS: "1"}}, f"requested: {GPUS}=2, used: {GPUS}=0, limited: {GPUS}=1"),
        ({"maxAmounts": {GPUS: "1"}}, f"requested: maxAmounts.{GPUS}=2, limited: maxAmounts.{GPUS}=1"),
        (
            {"hardSeconds": {GPUS: "1199"}},
            f"requested: {GPUS}-seconds=1200, used: {GPUS}-seconds=0, limited: {GPUS}-seconds=1199",
        ),
        ({"devices": {"nic": 1}}, ""),
        ({"devices": {"gpu": 2}}, ""),
    ],
)
def test_every_limit_on_amounts_knows_devices(limits: dict[str, Any], exceeded: str) -> None:
    scene = Scene(**limits)
    put(scene.objects, claim_template("two", request("gpu", wanting(count=2))))
    entry = scene.lock("lock", "two")
    assert refused(entry) == f"exceeded quota: devices, {exceeded}" if exceeded else len(entry.devices) == 2


def test_all_devices_count_as_32_before_the_decision_and_then_as_those_that_are_held() -> None:
    scene = Scene(devices={"gpu": 32})
    put(scene.objects, claim_template("all", request("gpu", wanting_all())))
    entry = scene.lock("lock", "all")
    assert (len(entry.devices), scene.charged) == (4, 4)
    other = scene.lock("other", "all", owner="web-1")
    assert refused(other).startswith(f"exceeded quota: devices, requested: {GPUS}=32, used: {GPUS}=4")


def test_a_claim_with_admin_access_uses_no_quota() -> None:
    scene = Scene(devices={"gpu": 0})
    put(scene.objects, claim_template("monitor", request("gpu", wanting(adminAccess=True))))
    assert scene.lock("lock", "monitor").phase is Phase.ACTIVE
    assert refused(scene.lock("other", owner="web-1"))


def test_while_its_owner_is_being_bound_a_reservation_counts_as_before() -> None:
    scene = Scene(devices={"gpu": 1})
    entry = scene.lock()
    assumed = scene.placed()
    assert (entry.phase, scene.charged) == (Phase.BOUND, 1)
    scene.decider.bound(assumed, scene.clock.now())
    assert (entry.phase, scene.charged) == (Phase.CONSUMED, 0)
