"""Arrays with one element for each row of the columns."""

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
"""Whether something holds."""

Counts = npt.NDArray[np.int64]
"""Numbers of something."""
