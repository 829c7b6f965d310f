"""The compiler of expressions that select devices, which is imported with the first of them."""

from tidelock.devices.selection import CompiledSelector


def compile_device_selector(expression: str) -> CompiledSelector:
    """Compile an expression that selects devices. Raises SelectorError if it is invalid."""
    # CEL takes a twentieth of a start, and a cluster without devices has no expressions.
    from tidelock.framework import device_selectors  # noqa: PLC0415

    return device_selectors.compile_selector(expression)
