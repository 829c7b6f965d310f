"""Reservations that lose a device to a claim of others, and the claims that take nothing."""

from typing import Any

import pytest

from builders import NAMESPACE, NOW, Json, node, pod
from devices import DRIVER, allocated, claiming, device, device_slice, put, resource_claim
from tidelock.ledger.messages import taken_text
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.scheduler.core.taken_devices import UNKNOWN_SECONDS
from unit.scheduler.device_core import DeviceCore
from unit.scheduler.machinery import HELD, Core

TAKEN = taken_text(f"claim {NAMESPACE}/other", f"device {DRIVER}/a/gpu-0", "node-a")


class Scene(Core):
    """A reservation of an earlier leader that holds gpu-0 for the pod web-0."""

    def __init__(self, *, listed: bool = True, **held: Any) -> None:
        super().__init__(node("node-a"), listed=False)
        self.entry = self.held("lock", **held)
        if listed:
            self.list_all()

    def held(self, name: str, *, owner: str = "web-0", **held: Any) -> ReservationInfo:
        reserved = {"claim": "gpu", "request": "gpu", "deviceClassName": "gpu", "driver": DRIVER}
        reserved |= {"pool": "a", "device": "gpu-0", **held}
        container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        template = {"spec": {"containers": [container], "resourceClaims": claims}}
        status = HELD | {"devices": [reserved]}
        return self.reservation(name, owner=owner, resources=None, template=template, status=status)

    def show(
        self,
        name: str = "other",
        *devices: str,
        users: tuple[str, ...] = (),
        deleted: bool = False,
        owner: str = "",
        **result: Any,
    ) -> None:
        """Show a claim with devices by the watch, and let a step follow."""
        status = allocated(*(devices or ("gpu-0",)), users=users, **result)
        put(self.decider.objects, resource_claim(name, status=status, deleted=deleted, owner=owner))
        self.step()

    @property
    def lost(self) -> str:
        """How the reservation has lost its device, or an empty text."""
        assert (self.entry.phase is Phase.PENDING) == bool(self.entry.violation)
        return self.entry.violation


def test_the_claim_that_has_taken_a_device_is_named() -> None:
    scene = Scene()
    assert scene.entry.phase is Phase.ACTIVE
    scene.show()
    assert (scene.lost, scene.entry.reason, scene.entry.message) == (TAKEN, "Violated", TAKEN)
    assert (scene.entry.devices, scene.reserved("node-a")) == ((), 0)


def test_a_claim_that_took_a_device_while_no_operator_ran_is_named() -> None:
    scene = Scene(listed=False)
    scene.show()
    scene.list_all()
    scene.step()
    assert scene.lost == TAKEN


@pytest.mark.parametrize(
    ("devices", "result"),
    [(("gpu-1",), {}), (("gpu-0",), {"pool": "b"}), (("gpu-0",), {"adminAccess": True})],
)
def test_other_devices_and_admin_access_take_nothing(devices: tuple[str, ...], result: Json) -> None:
    scene = Scene()
    scene.show("other", *devices, **result)
    assert scene.lost == ""


@pytest.mark.parametrize("bound", [True, False])
def test_the_claim_of_an_owner_takes_nothing_from_its_reservation(bound: bool) -> None:
    scene = Scene()
    scene.add(pod("web-0", **claiming("other"), **({"node_name": "node-b"} if bound else {})))
    scene.show(users=("web-0",))
    assert "took device" not in scene.entry.violation


def test_a_claim_that_is_being_deleted_takes_nothing() -> None:
    """Guard against a restart between the end of an owner and that of its claim."""
    scene = Scene(listed=False)
    scene.show(users=("web-0",), deleted=True)
    scene.list_all()
    scene.step()
    assert scene.lost == ""


def test_the_claim_of_a_pod_that_is_gone_takes_nothing() -> None:
    """Guard against a violation by the own owner, which was deleted before its binding."""
    scene = Scene(listed=False)
    scene.show(owner="web-0")
    scene.list_all()
    scene.step()
    assert scene.lost == ""
    put(scene.decider.objects, resource_claim("other", owner="web-0"))
    scene.step()
    assert scene.lost == ""
    assert not scene.decider.taken_devices.pending


@pytest.mark.parametrize(("name", "lost"), [("web-0", ""), ("web-1", TAKEN)])
def test_a_claim_takes_a_device_once_its_pod_is_known(name: str, lost: str) -> None:
    scene = Scene()
    scene.show(owner=name)
    assert scene.lost == ""
    scene.add(pod(name, **claiming("other")))
    scene.step()
    assert scene.lost == lost
    assert not scene.decider.taken_devices.pending


def test_a_claim_takes_a_device_if_its_pod_stays_unknown() -> None:
    scene = Scene()
    scene.show(owner="web-1")
    assert scene.decider.next_due() == NOW + UNKNOWN_SECONDS
    scene.clock.advance(UNKNOWN_SECONDS)
    scene.step()
    assert scene.lost == TAKEN
    assert not scene.decider.taken_devices.pending
    assert scene.decider.taken_devices.next_due() is None


def test_the_claim_of_a_stranger_is_no_owners() -> None:
    scene = Scene()
    scene.add(pod("web-1", **claiming("other")))
    scene.show(users=("web-1",))
    assert scene.lost == TAKEN


def shared(memory: str) -> Json:
    """Build the part of a device that makes it a share with some of its memory."""
    return {"shareID": "5c1e0000-0000-4000-8000-000000000000", "consumedCapacity": {"memory": memory}}


def test_shares_of_one_device_are_no_conflict_while_its_capacity_suffices() -> None:
    scene = Scene(**shared("30Gi"))
    gpu = device("gpu-0", amounts={"memory": "80Gi"}, allowMultipleAllocations=True)
    put(scene.decider.objects, device_slice("a", gpu, node_name="node-a"))
    scene.show("first", **shared("50Gi"))
    assert scene.lost == ""
    scene.show("second", **shared("1"))
    assert scene.lost.startswith(f"claim {NAMESPACE}/second took device")


def test_of_several_reservations_with_shares_the_last_in_rank_loses_its_own() -> None:
    scene = Scene(**shared("30Gi"))
    other = scene.held("later", owner="web-1", **shared("30Gi"))
    other.activated_at = NOW
    gpu = device("gpu-0", amounts={"memory": "80Gi"}, allowMultipleAllocations=True)
    put(scene.decider.objects, device_slice("a", gpu, node_name="node-a"))
    scene.show("other", **shared("50Gi"))
    assert (scene.lost, other.violation) == ("", TAKEN)


def test_a_claim_to_a_whole_device_takes_its_shares() -> None:
    scene = Scene(**shared("30Gi"))
    scene.show("whole")
    assert scene.lost.startswith(f"claim {NAMESPACE}/whole took device")


def test_a_claim_with_several_devices_takes_the_capacity_once() -> None:
    scene = Scene()
    scene.show("other", "gpu-1", "gpu-0")
    assert scene.lost == TAKEN
    assert scene.clock.now() == NOW


def test_a_claim_that_took_a_device_during_a_binding_is_named_once_the_binding_has_failed() -> None:
    core = DeviceCore(devices=1)
    entry = core.lock()
    assumed = core.placed()
    put(core.objects, resource_claim("other", status=allocated("a-0")))
    core.decide()
    assert entry.phase is Phase.BOUND

    core.decider.binding_failed(assumed, core.clock.now())
    core.decide()

    assert (entry.phase, entry.violation) == (Phase.PENDING, TAKEN.replace("gpu-0", "a-0"))
    assert not core.decider.taken_devices.pending
