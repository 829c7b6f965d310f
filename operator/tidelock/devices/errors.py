"""Errors of the allocation of devices."""

# In kube-scheduler's words.
SEARCH_TIMED_OUT = "timed out trying to allocate devices"


class AllocationError(Exception):
    """A claim, a class or a slice with which devices can't be allocated on any node."""


class SelectorError(Exception):
    """An expression that can't be compiled, or that fails for a device, with the cost of the attempt."""

    def __init__(self, problem: str, cost: int = 0) -> None:
        super().__init__(problem)
        self.cost = cost


class SearchLimitError(AllocationError):
    """A search that took too many steps."""
