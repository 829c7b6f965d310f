"""Which evictions PodDisruptionBudgets would rather not have, and which the Eviction API would refuse.

Where too many budgets would have to be held against a pod, it counts as protected.
"""

from collections import Counter
from collections.abc import Sequence

from tidelock.cluster.index.budgets import Budgets
from tidelock.cluster.placed import Placed
from tidelock.model.meta import Key


def violating(budgets: Budgets, pods: Sequence[Placed]) -> list[bool]:
    """Return which of these evictions, in this order, violate a budget.

    Each eviction uses up all budgets of its pod, even if it violates one of them.
    """
    left: dict[Key, int] = {}
    found = []
    for placed in pods:
        asked = budgets.about(placed.pod)
        violates = asked is None
        for budget in asked or ():
            if budget.counts(placed.pod):
                key = budget.meta.key
                left[key] = left.get(key, budget.status.disruptions_allowed) - 1
                violates |= left[key] < 0
        found.append(violates)
    return found


def permitted(budgets: Budgets, pods: Sequence[Placed]) -> bool:
    """Return whether the Eviction API would evict all of these pods now, one after the other.

    It evicts no pod that several budgets select.
    """
    used: Counter[Key] = Counter()
    for placed in pods:
        about = budgets.about(placed.pod)
        if about is None:
            return False
        asked = [each for each in about if each.selects(placed.pod)]
        used.update(each.meta.key for each in asked)
        if len(asked) > 1 or any(used[each.meta.key] > each.left for each in asked):
            return False
    return True
