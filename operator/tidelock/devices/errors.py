"""Errors of the allocation of devices."""


class AllocationError(Exception):
    """A claim, a class or a slice with which devices can't be allocated on any node."""


class SelectorError(Exception):
    """An expression that can't be compiled, or that fails for a device."""


class SearchLimitError(AllocationError):
    """A search that took too many steps."""
