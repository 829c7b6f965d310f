"""Memory that the results of expressions take, which are kept for each device."""

import gc
from weakref import ref

import pytest

from builders import node
from devices import device_class, device_slice, request, resource_claim, wanting
from tidelock.devices.allocated import AllocatedState
from tidelock.devices.allocator import DeviceAllocator
from tidelock.devices.errors import AllocationError, SelectorError
from tidelock.devices.pools import ResourcePools
from tidelock.devices.requests import prepare
from tidelock.devices.selection import CompiledSelector, DeviceSelection
from tidelock.model.devices import Device

SLICE = device_slice("a", "d0")


class Value:
    """A value of an evaluation."""


def search(selection: DeviceSelection) -> str:
    """Search for a device of one slice, and return the error."""
    pools = ResourcePools()
    pools.put(None, SLICE)
    claim = prepare(resource_claim("gpu", request("r", wanting("one"))), {"gpu": device_class()}.get)
    allocator = DeviceAllocator(AllocatedState(()), selection, ())
    with pytest.raises(AllocationError) as caught:
        allocator.allocate([claim], pools.of(node("node-a")), 1000)
    return str(caught.value)


@pytest.mark.parametrize("at", ["compile", "evaluate"])
def test_the_values_of_a_failed_expression_are_not_kept(at: str) -> None:
    """Regression: each exception was kept with its traceback, and so with all values of its evaluation."""
    values: list[ref[Value]] = []

    def fail() -> None:
        value = Value()
        values.append(ref(value))
        raise SelectorError("no such key: " + "x" * 1_000_000)

    def compile_failing(_: str) -> CompiledSelector:
        if at == "compile":
            fail()

        def matches(driver: str, device: Device) -> tuple[bool, int]:
            fail()
            return device.name == driver, 1

        return matches

    selection = DeviceSelection(compile_failing)
    error = search(selection)
    gc.collect()
    assert [value() for value in values] == [None]
    assert "no such key: xxx" in error
    assert len(error) < 1000
    assert search(selection) == error
    assert len(values) == 1, "the result is kept"
