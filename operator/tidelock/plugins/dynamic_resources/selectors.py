"""Expressions of requests and classes, in CEL."""

from collections.abc import Mapping

from tidelock.cel.device_selector import AttributeValue, DeviceSelector, SelectedDevice, Version
from tidelock.cel.errors import EvaluationError, ExpressionError
from tidelock.devices.errors import SelectorError
from tidelock.devices.selection import CompiledSelector
from tidelock.model.devices import Device, DeviceAttribute


def compile_selector(expression: str) -> CompiledSelector:
    """Compile an expression that selects devices. Raises SelectorError if it is invalid."""
    try:
        selector = DeviceSelector.compile(expression)
    except ExpressionError as error:
        raise SelectorError(str(error)) from error

    def matches(driver: str, device: Device) -> tuple[bool, int]:
        try:
            return selector.evaluate(_seen_by_selectors(driver, device))
        except EvaluationError as error:
            raise SelectorError(str(error)) from error

    return matches


def _seen_by_selectors(driver: str, device: Device) -> SelectedDevice:
    attributes: Mapping[str, AttributeValue] = {
        name: value
        for name, attribute in device.attributes.items()
        if (value := _value(attribute)) is not None
    }
    capacity = {name: str(each.value) for name, each in device.capacity.items()}
    return SelectedDevice(driver, attributes, capacity, device.allow_multiple_allocations)


def _value(attribute: DeviceAttribute) -> AttributeValue | None:
    """Return the value of an attribute, or None for a type that is not known here."""
    if attribute.typed is None:
        return None
    kind, value = attribute.typed
    return Version(value) if kind == "version" else value
