from typing import Any

from devices import DRIVER, allocated, resource_claim
from tidelock.devices.allocated import AllocatedState
from tidelock.model.devices import DeviceId
from tidelock.model.resource_claims import AllocationResult

DEVICE = DeviceId(DRIVER, "a", "d0")


def allocation(*devices: str, **result: Any) -> AllocationResult:
    found = resource_claim(status=allocated(*devices, **result)).allocation
    assert found is not None
    return found


def test_a_device_is_in_use_until_the_last_of_its_claims_is_gone() -> None:
    """Check that a device which stands in two claims is not given out again when one of them goes."""
    state = AllocatedState([allocation("d0"), allocation("d0", "d1")])
    state.count(allocation("d0"), -1)
    assert state.dedicated(DEVICE)
    state.count(allocation("d0", "d1"), -1)
    assert not state.dedicated(DEVICE)


def test_shares_add_up_until_the_last_one_is_gone() -> None:
    shares = [
        allocation("d0", shareID=each, consumedCapacity={"memory": amount})
        for each, amount in (("x", "2"), ("y", "500m"))
    ]
    state = AllocatedState(shares)
    assert state.consumed(DEVICE, "memory") == 2_500_000_000
    assert (state.shared(DEVICE), state.dedicated(DEVICE)) == (True, False)
    state.count(shares[0], -1)
    assert state.consumed(DEVICE, "memory") == 500_000_000
    state.count(shares[1], -1)
    assert (state.shared(DEVICE), state.consumed(DEVICE, "memory")) == (False, 0)


def test_a_share_may_consume_nothing() -> None:
    state = AllocatedState([allocation("d0", shareID="x")])
    assert (state.shared(DEVICE), state.consumed(DEVICE, "memory")) == (True, 0)
    state.count(allocation("d0", shareID="x"), -1)
    assert not state.shared(DEVICE)


def test_devices_with_admin_access_are_not_in_use() -> None:
    assert not AllocatedState([allocation("d0", adminAccess=True)]).dedicated(DEVICE)
