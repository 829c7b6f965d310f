"""The largest number of sets of pods that fit, found by trying every placement."""

from collections.abc import Sequence
from functools import lru_cache

Amounts = tuple[int, ...]


@lru_cache(maxsize=100_000)
def fits(free: tuple[Amounts, ...], pods: tuple[Amounts, ...]) -> bool:
    """Return whether pods fit on nodes. Equal pods must follow each other, and nodes are in any order."""
    if not pods:
        return True
    first, rest = pods[0], pods[1:]
    return any(
        fits(tuple(sorted((*free[:at], minus(node, first), *free[at + 1 :]))), rest)
        for at, node in enumerate(free)
        if node not in free[:at] and all(have >= want for have, want in zip(node, first, strict=True))
    )


def most_sets(
    free: Sequence[Amounts], members: Sequence[tuple[Amounts, int]], beside: Sequence[Amounts] = ()
) -> int:
    """Return how many sets fit beside some pods. Each member is its amounts and its number in one set."""
    nodes, size = tuple(sorted(free)), 0
    while fits(nodes, (*beside, *(each for each, count in members for _ in range((size + 1) * count)))):
        size += 1
    return size


def minus(left: Amounts, right: Amounts) -> Amounts:
    """Return a difference, amount by amount."""
    return tuple(have - taken for have, taken in zip(left, right, strict=True))
