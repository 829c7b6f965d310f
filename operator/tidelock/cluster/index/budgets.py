"""PodDisruptionBudgets by their selectors: those of a pod are found without comparing all of its namespace.

A namespace may have a budget for each workload, which differ by one label. It may also have thousands with
long selectors, of which only a few are compared with a pod in a decision.
"""

from collections import defaultdict

from tidelock.cluster.lister import Lister
from tidelock.model.budgets import PodDisruptionBudget
from tidelock.model.meta import Key
from tidelock.model.pods import Pod

# Labels and values of selectors that a pod is held against at most.
_MOST_COMPARED = 64

_Place = tuple[str, ...]
"""A namespace, and a label that the selected pods there have: its key and value. Without one: any pods."""


class Budgets(Lister[PodDisruptionBudget]):
    """All PodDisruptionBudgets."""

    def __init__(self) -> None:
        super().__init__()
        self._placed: defaultdict[_Place, dict[Key, tuple[PodDisruptionBudget, int]]] = defaultdict(dict)
        self._places: dict[Key, list[_Place]] = {}
        self.on_change(self._place)

    def about(self, pod: Pod) -> list[PodDisruptionBudget] | None:
        """Return the budgets that may select a pod, or None if the comparison would cost too much."""
        namespace, found, size = pod.meta.namespace, [], 0
        for place in ((namespace,), *((namespace, *label) for label in pod.meta.labels.items())):
            for budget, more in self._placed.get(place, {}).values():
                found.append(budget)
                size += more
                if size > _MOST_COMPARED:
                    return None
        return found

    def _place(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        if old is not None:
            self._take_out(old.meta.key)
        if new is None:
            return
        key = new.meta.key
        places = self._places[key] = min(_choices(new), key=self._count)
        size = 1 + (new.spec.selector.size if new.spec.selector is not None else 0)
        for place in places:
            self._placed[place][key] = new, size

    def _count(self, places: list[_Place]) -> int:
        """Count the budgets that are where another may be put."""
        return max((len(self._placed.get(place, ())) for place in places), default=0)

    def _take_out(self, key: Key) -> None:
        for place in self._places.pop(key, ()):
            del self._placed[place][key]
            if not self._placed[place]:
                del self._placed[place]


def _choices(budget: PodDisruptionBudget) -> list[list[_Place]]:
    """List where a budget may be put: at the values of any label that all pods have which it selects."""
    namespace, selector = budget.meta.namespace, budget.spec.selector
    choices: list[list[_Place]] = []
    if selector is not None and not budget.meta.unreadable:
        choices += ([(namespace, *label)] for label in selector.match_labels.items())
        for each in selector.match_expressions:
            if each.operator == "In":
                choices.append([(namespace, each.key, value) for value in set(each.values)])
    return choices or [[(namespace,)]]
