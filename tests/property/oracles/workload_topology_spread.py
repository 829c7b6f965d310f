"""WorkloadTopologySpread for one node."""

from collections.abc import Mapping, Sequence
from math import ceil


def cap(constraint: Mapping[str, int], replicas: int) -> int:
    if "maxPods" in constraint:
        return constraint["maxPods"]
    return max(1, ceil(constraint["maxPercent"] * replicas / 100))


def fits(counts: Sequence[int | None], caps: Sequence[int]) -> bool:
    """Return whether every domain of the node may have one more pod, where None means no domain."""
    return all(count is None or count < most for count, most in zip(counts, caps, strict=True))


def score(counts: Sequence[int | None], caps: Sequence[int]) -> float:
    left = [max(1 - (count or 0) / most, 0) for count, most in zip(counts, caps, strict=True)]
    return 100 * sum(left) / len(left)
