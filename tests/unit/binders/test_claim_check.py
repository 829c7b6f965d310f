"""Devices that other programs allocate: refused if reserved, and in use as soon as they are admitted."""

from typing import Any

from builders import NOW, Json
from devices import DRIVER, allocated, resource_claim
from tidelock.binders.claim_check import ClaimCheck, allocating_text, reserved_text
from tidelock.cluster.index.devices import ResourceClaims
from tidelock.model.devices import DeviceId
from tidelock.model.meta import Key
from tidelock.model.resource_claims import ResourceClaim

UNSEEN = 65.0
LOCK = Key("shop", "lock")


class Scene:
    """Devices gpu-0 and gpu-1 of the pool a, of which a reservation holds some."""

    def __init__(self, *held: str) -> None:
        self.claims = ResourceClaims()
        self._held = {DeviceId(DRIVER, "a", each) for each in held}
        self.check = ClaimCheck(self.claims, self._reserved, UNSEEN)

    def _reserved(self, claim: ResourceClaim) -> list[tuple[DeviceId, Key]]:
        assert claim.allocation is not None
        results = claim.allocation.devices.results
        return [(each.id, LOCK) for each in results if each.id in self._held and not each.admin_access]

    def admit(self, name: str, *devices: str, dry_run: bool = False, **result: Any) -> str:
        return self.check.admit(with_devices(name, *devices, **result), NOW, dry_run=dry_run)

    def in_use(self, name: str) -> bool:
        return self.claims.allocated.dedicated(DeviceId(DRIVER, "a", name))


def with_devices(name: str, *devices: str, **result: Any) -> ResourceClaim:
    return resource_claim(name, status=allocated(*devices, **result), version=2)


def test_a_reserved_device_is_refused_with_its_reservation() -> None:
    scene = Scene("gpu-0")
    assert scene.admit("one", "gpu-0") == reserved_text("gpu.example.com/a/gpu-0", "shop/lock")
    assert scene.admit("two", "gpu-1", "gpu-0") == reserved_text("gpu.example.com/a/gpu-0", "shop/lock")
    assert not scene.in_use("gpu-1"), "an allocation is admitted as a whole"


def test_an_admitted_device_is_in_use_at_once_and_is_given_once() -> None:
    scene = Scene("gpu-0")
    assert scene.admit("one", "gpu-1") == ""
    assert scene.in_use("gpu-1")
    assert scene.admit("two", "gpu-1") == allocating_text("gpu.example.com/a/gpu-1", "shop/one")


def test_a_second_attempt_replaces_the_first_which_was_not_stored() -> None:
    scene = Scene()
    assert scene.admit("one", "gpu-0") == ""
    assert scene.admit("one", "gpu-1") == ""
    assert (scene.in_use("gpu-0"), scene.in_use("gpu-1")) == (False, True)


def test_a_claim_that_tidelock_allocates_is_refused() -> None:
    scene = Scene()
    allocation = with_devices("one", "gpu-0").allocation
    assert allocation is not None
    scene.claims.in_flight.make(Key("shop", "one"), allocation, "uid-web-0")
    assert scene.admit("one", "gpu-1") == "claim shop/one is being allocated by Tidelock"
    assert "being allocated to claim shop/one" in scene.admit("two", "gpu-0")


def test_a_dry_run_counts_nothing() -> None:
    scene = Scene("gpu-0")
    assert scene.admit("one", "gpu-1", dry_run=True) == ""
    assert not scene.in_use("gpu-1")
    assert "reserved" in scene.admit("one", "gpu-0", dry_run=True)


def test_admin_access_leaves_a_device_to_its_user() -> None:
    assert Scene("gpu-0").admit("monitor", "gpu-0", adminAccess=True) == ""


def test_shares_of_a_device_that_no_reservation_holds_are_left_to_the_allocator() -> None:
    scene = Scene("gpu-0")
    shares: list[Json] = [{"shareID": f"a671734a-e8e5-11e4-8fde-42010af0932{index}"} for index in range(2)]
    assert [scene.admit(f"c{index}", "gpu-1", **share) for index, share in enumerate(shares)] == ["", ""]
    assert "reserved" in scene.admit("c2", "gpu-0", **shares[0])


def test_a_claim_without_devices_passes() -> None:
    assert Scene("gpu-0").check.admit(resource_claim(), NOW) == ""


def test_an_allocation_that_never_appears_is_forgotten() -> None:
    scene = Scene()
    scene.admit("one", "gpu-0")
    assert scene.check.lapse(NOW + UNSEEN - 0.1) == []
    (lapsed,) = scene.check.lapse(NOW + UNSEEN)
    assert (lapsed.key, scene.in_use("gpu-0")) == (Key("shop", "one"), False)


def test_an_allocation_that_a_watch_has_shown_does_not_lapse() -> None:
    scene = Scene()
    scene.admit("one", "gpu-0")
    scene.claims.upsert(None, with_devices("one", "gpu-0"))
    assert scene.check.lapse(NOW + UNSEEN) == []
    assert scene.in_use("gpu-0")
