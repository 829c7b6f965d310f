"""Chooses the reservations that a pod takes on a node, if none of them is for the pod alone.

One reservation that covers the pod's needs is enough: the one with the smallest excess. Otherwise the largest
reservations are taken until one covers the remaining needs. Of those that do, the one with the smallest
excess is taken. At last each reservation is dropped that the others make unnecessary.

The work is O(n log n) for n reservations. An exact search for the smallest excess would be exponential.
"""

from collections.abc import Sequence
from functools import reduce

from tidelock.model.quantities import NOTHING, Resources, at_most, beyond, covers, minus, plus


def best_fit(needed: Resources, offers: Sequence[Resources], capacity: Resources) -> list[int]:
    """Return the indexes of the offers that a pod takes, in ascending order.

    Amounts of different resources are compared by their share of the node's `capacity`. Of equal offers the
    first is taken.
    """
    wanted = {name: units for name, units in at_most(needed, reduce(plus, offers, NOTHING)).items() if units}
    if not wanted:
        return []
    taken = []
    left: Resources = wanted
    order = sorted(range(len(offers)), key=lambda index: -_share(at_most(offers[index], wanted), capacity))
    for place, index in enumerate(order):
        if covers(offers[index], left):
            enough = (each for each in order[place:] if covers(offers[each], left))
            taken.append(min(enough, key=lambda each: (_share(beyond(offers[each], left), capacity), each)))
            break
        if any(at_most(offers[index], left).values()):
            taken.append(index)
            left = beyond(left, offers[index])
    return sorted(_needed(taken, offers, wanted))


def misfit(needed: Resources, offers: Sequence[Resources], capacity: Resources) -> float:
    """Return the excess and the shortfall of taken amounts against the needs, as shares of the node."""
    taken = reduce(plus, (offers[index] for index in best_fit(needed, offers, capacity)), NOTHING)
    return difference(needed, taken, capacity)


def difference(needed: Resources, taken: Resources, capacity: Resources) -> float:
    """Return by how much two amounts differ in either direction, as shares of a capacity."""
    return _share(beyond(taken, needed), capacity) + _share(beyond(needed, taken), capacity)


def _needed(taken: Sequence[int], offers: Sequence[Resources], wanted: Resources) -> list[int]:
    """Drop each offer that the others make unnecessary, the largest first."""
    kept = list(taken)
    total = reduce(plus, (offers[index] for index in kept), NOTHING)
    for index in taken:
        if covers(rest := minus(total, offers[index]), wanted):
            kept.remove(index)
            total = rest
    return kept


def _share(amounts: Resources, capacity: Resources) -> float:
    """Return the sum of amounts as shares of a node's capacity."""
    return sum(units / max(capacity.get(name, 1), 1) for name, units in sorted(amounts.items()))
