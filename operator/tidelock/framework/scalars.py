"""NumPy's functions for single numbers, under its names.

A formula that is handed NumPy or this module rates many nodes or one; one number costs a tenth of an array
with one element.
"""

import math

minimum = min
maximum = max
floor = math.floor
