"""The `shape` in plugin args: a score that follows a broken line through points of utilization.

Source: kube-scheduler 1.37, plugins/helper/shape_score.go, and validateFunctionShape of its validation.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tidelock.framework.api import MAX_NODE_SCORE

MAX_UTILIZATION = 100
"""The largest utilization, in percent."""

_LARGEST_SCORE = 10
_SCALE = MAX_NODE_SCORE // _LARGEST_SCORE


class ShapePoint(msgspec.Struct, frozen=True):
    """The score from 0 to 10 at a utilization in percent."""

    utilization: int
    score: int


def shape_problems(field: str, shape: Sequence[ShapePoint]) -> Iterator[str]:
    """Yield the problems, which name the field, of a shape that kube-scheduler refuses."""
    utilizations = [point.utilization for point in shape]
    if not shape or utilizations != sorted(set(utilizations)):
        yield f"{field}: points of increasing utilization are needed"
    if not all(0 <= utilization <= MAX_UTILIZATION for utilization in utilizations):
        yield f"{field}: a utilization is not from 0 to 100"
    if not all(0 <= point.score <= _LARGEST_SCORE for point in shape):
        yield f"{field}: a score is not from 0 to 10"


def scores_of(shape: Sequence[ShapePoint]) -> npt.NDArray[np.float64]:
    """Return the score, from 0 to MAX_NODE_SCORE, of each whole utilization from 0 to 100 percent."""
    return np.array([_score(shape, percent) for percent in range(MAX_UTILIZATION + 1)], np.float64)


def _score(shape: Sequence[ShapePoint], utilization: int) -> int:
    """Follow the broken line, rounded towards its left point on each piece."""
    left = None
    for right in shape:
        if utilization <= right.utilization:
            if left is None:
                return right.score * _SCALE
            rise, run = (right.score - left.score) * _SCALE, right.utilization - left.utilization
            way = abs(rise) * (utilization - left.utilization) // run
            return left.score * _SCALE + (way if rise > 0 else -way)
        left = right
    return shape[-1].score * _SCALE
