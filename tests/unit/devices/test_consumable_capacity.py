"""How much of a device's capacity a request consumes."""

from typing import Any

import pytest

from devices import device, device_slice
from tidelock.devices.consumable_capacity import consumed_by
from tidelock.devices.errors import AllocationError
from tidelock.model.devices import Device
from tidelock.model.quantities import format_nanos
from tidelock.model.resource_claims import CapacityRequirements


def with_memory(**policy: Any) -> Device:
    capacity = {"memory": {"value": "100"} | ({"requestPolicy": policy} if policy else {})}
    return device_slice("s", device("d", capacity=capacity)).spec.devices[0]


def consumed(wanted: str | None, **policy: Any) -> str | None:
    requests = None if wanted is None else CapacityRequirements({"memory": wanted})
    found = consumed_by(requests, with_memory(**policy))
    return None if found is None else format_nanos(found["memory"])


STEPS = {"min": "10", "max": "40", "step": "5"}


@pytest.mark.parametrize(
    ("wanted", "policy", "expected"),
    [
        (None, {}, "100"),
        ("30", {}, "30"),
        (None, {"default": "7"}, "7"),
        ("7", {"default": "7", "validRange": {"min": "10"}}, "10"),
        ("12", {"validRange": STEPS}, "15"),
        ("15", {"validRange": STEPS}, "15"),
        ("1", {"validRange": STEPS}, "10"),
        ("41", {"validRange": STEPS}, None),
        ("39", {"validRange": {"min": "10", "step": "20"}}, "50"),
        ("12", {"validRange": {"min": "10", "max": "40"}}, "12"),
        ("700m", {"validRange": {"min": "500m", "step": "250m"}}, "1"),
        ("300m", {"validRange": {"min": "500m", "step": "250m"}}, "500m"),
        ("300m", {"default": "1", "validRange": {"min": "1", "step": "1"}}, "1"),
        ("3", {"validValues": ["2", "4", "8"]}, "4"),
        ("9", {"validValues": ["2", "4", "8"]}, None),
        ("5", {"default": "5"}, "5"),
        ("3n", {"validRange": {"min": "1", "step": "1n"}}, "1"),
        ("1500m", {"validRange": {"min": "1", "step": "1n"}}, "2"),
        ("7", {"validRange": {"max": "5"}}, None),
        ("7", {"validRange": {"min": "1", "step": "0"}}, "7"),
        ("4", {"validRange": {"max": "5"}}, "4"),
    ],
)
def test_requests_are_rounded_up_and_limited_by_the_policy(
    wanted: str | None, policy: dict[str, Any], expected: str | None
) -> None:
    assert consumed(wanted, **policy) == expected


def test_a_device_without_a_requested_capacity_does_not_suit() -> None:
    assert consumed_by(CapacityRequirements({"cores": "1"}), with_memory()) is None
    assert consumed_by(None, Device("d")) == {}


@pytest.mark.parametrize(
    ("wanted", "policy", "problem"),
    [
        ("-1", {}, "capacity value is negative"),
        (None, {"default": "-1"}, "capacity value is negative"),
        ("9223372036854775807", {"validRange": {"min": "0", "step": "2"}}, "cannot be represented"),
    ],
)
def test_amounts_that_can_not_be_calculated_with_are_errors(
    wanted: str | None, policy: dict[str, Any], problem: str
) -> None:
    with pytest.raises(AllocationError, match=problem):
        consumed(wanted, **policy)
