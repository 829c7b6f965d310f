"""Samples of large suites. `make test` takes a fixed part of each, and `make test-all` the whole.

A part is always the same, so a test that passes once must pass again.
"""

import os

ALL = os.environ.get("TIDELOCK_ALL") == "1"
"""Whether the whole of each suite runs, as in `make test-all`."""


def sample(part: int, whole: int) -> int:
    """Return the number of examples to try."""
    return whole if ALL else part


def seeds(variable: str, part: int, whole: int) -> range:
    """Return the seeds that a variable selects, such as `0-31` or `17`. Without it, return the first ones."""
    selected = os.environ.get(variable) or f"0-{sample(part, whole) - 1}"
    first, _, last = selected.partition("-")
    return range(int(first), int(last or first) + 1)
