"""Expressions of requests and classes, in CEL."""

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
            return selector.evaluate(_LAST.seen(driver, device))
        except EvaluationError as error:
            raise SelectorError(str(error), error.cost) from error

    return matches


class _LastDevice:
    """The device that was looked at last: several expressions are asked about one after the other."""

    def __init__(self) -> None:
        self._device: Device | None = None
        self._driver = ""
        self._seen = SelectedDevice("")

    def seen(self, driver: str, device: Device) -> SelectedDevice:
        """Return a device as selectors see it."""
        if device is not self._device or driver != self._driver:
            self._device, self._driver, self._seen = device, driver, _seen_by_selectors(driver, device)
        return self._seen


_LAST = _LastDevice()


def _seen_by_selectors(driver: str, device: Device) -> SelectedDevice:
    attributes = {name: _value(attribute) for name, attribute in device.attributes.items()}
    capacity = {name: str(each.value) for name, each in device.capacity.items()}
    return SelectedDevice(driver, attributes, capacity, device.allow_multiple_allocations)


def _value(attribute: DeviceAttribute) -> AttributeValue | None:
    """Return the value of an attribute, or None for a type that is not known here."""
    if attribute.typed is None:
        return None
    kind, value = attribute.typed
    if isinstance(value, tuple):
        return [Version(each) for each in value] if kind == "versions" else list(value)
    return Version(value) if kind == "version" else value
