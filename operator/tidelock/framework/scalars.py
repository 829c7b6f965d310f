"""NumPy's functions for single numbers, under its names.

A formula takes NumPy or this module, for many nodes or for one. A number costs a tenth of an array with one
element.
"""

import math

minimum = min
maximum = max
floor = math.floor


def where(condition: bool, chosen: float, other: float) -> float:
    """Return one of two numbers."""
    return chosen if condition else other
