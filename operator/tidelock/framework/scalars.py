"""NumPy's functions for single numbers, under its names.

A formula takes NumPy or this module, for many nodes or for one. A number costs a tenth of an array with one
element.
"""

import math

minimum = min
maximum = max
floor = math.floor
