"""Selectors of pods in a form that can be compared, and an index from a pod to the selectors that choose it.

A pod's event must not be compared with every selector. So each selector is indexed under one label that a
selected pod must have, its anchor, and is found by the labels of the pod.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from tidelock.model.pod_placement import PodAffinityTerm
from tidelock.model.pods import Pod
from tidelock.model.selectors import Labels, LabelSelector, Requirement

Pair = tuple[str, str]
Namespaces = frozenset[str] | None
"""Names of namespaces, or None for all of them."""

# Namespaces under which a selector is indexed. With more it is compared with pods of all namespaces.
_MANY = 16


@dataclass(frozen=True)
class Selection:
    """A label selector: labels that a pod must have, sorted, and other requirements.

    A requirement for one value is such a label. `nothing` selects no pod, whatever the rest says.
    """

    pairs: tuple[Pair, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @classmethod
    def of(cls, selector: LabelSelector | None, *more: Pair) -> "Selection":
        """Read a selector, and more required labels. Without a selector nothing is selected."""
        if selector is None:
            return SELECTS_NOTHING
        pairs = {*selector.match_labels.items(), *more}
        others = []
        for requirement in selector.match_expressions:
            if requirement.operator == "In" and len(requirement.values) == 1:
                pairs.add((requirement.key, requirement.values[0]))
            else:
                others.append(requirement)
        return cls(tuple(sorted(pairs)), tuple(others))

    @property
    def empty(self) -> bool:
        """Whether it selects everything."""
        return not (self.pairs or self.requirements or self.nothing)

    def matches(self, labels: Labels) -> bool:
        """Return whether labels satisfy it."""
        if self.nothing:
            return False
        for key, value in self.pairs:  # a plain loop: this runs for each pod that a tally may count
            if labels.get(key) != value:
                return False
        return not self.requirements or all(each.matches(labels) for each in self.requirements)


SELECTS_NOTHING = Selection(nothing=True)


@dataclass(frozen=True)
class Choice:
    """Pods of some namespaces that a selector selects."""

    namespaces: Namespaces
    selection: Selection

    def selects(self, pod: Pod) -> bool:
        """Return whether it selects a pod."""
        return (self.namespaces is None or pod.meta.namespace in self.namespaces) and self.selection.matches(
            pod.meta.labels
        )


@dataclass(frozen=True)
class Term:
    """A pod affinity term as its pod's namespace completes it.

    The API server has merged its label keys into the selector already.
    """

    namespaces: frozenset[str]
    namespace_selection: Selection
    selection: Selection
    topology_key: str

    @classmethod
    def of(cls, namespace: str, term: PodAffinityTerm) -> "Term":
        """Read a term of a pod in this namespace, which is meant where no other is named."""
        own = not term.namespaces and term.namespace_selector is None
        return cls(
            frozenset((namespace,) if own else term.namespaces),
            Selection.of(term.namespace_selector),
            Selection.of(term.label_selector),
            term.topology_key,
        )

    def selects(self, pod: Pod, namespace_labels: Labels) -> bool:
        """Return whether it selects a pod in a namespace with these labels."""
        return (
            pod.meta.namespace in self.namespaces or self.namespace_selection.matches(namespace_labels)
        ) and self.selection.matches(pod.meta.labels)

    @cached_property
    def scope(self) -> Choice:
        """The pods it can mean, whatever the labels of their namespaces."""
        anywhere = not self.namespace_selection.nothing
        return Choice(None if anywhere else self.namespaces, self.selection)


T = TypeVar("T")

_Bucket = dict[int, T]


class Index(Generic[T]):
    """Things by the pods that they choose."""

    def __init__(self) -> None:
        # By namespace ("" for all), then by anchor, then by identity.
        self._filed: defaultdict[str, defaultdict[Pair | None, _Bucket[T]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._places: dict[int, tuple[tuple[str, ...], Pair | None]] = {}

    def add(self, choice: Choice, item: T) -> None:
        """File an item under the pods that it chooses."""
        if choice.selection.nothing:
            return
        spaces: tuple[str, ...] = ("",)
        if choice.namespaces is not None and len(choice.namespaces) <= _MANY:
            spaces = tuple(choice.namespaces)
        anchor = min(choice.selection.pairs, key=lambda pair: self._count(spaces, pair), default=None)
        self._places[id(item)] = (spaces, anchor)
        for space in spaces:
            self._filed[space][anchor][id(item)] = item

    def discard(self, item: T) -> None:
        """Take an item out."""
        spaces, anchor = self._places.pop(id(item), ((), None))
        for space in spaces:
            anchors = self._filed[space]
            del anchors[anchor][id(item)]
            if not anchors[anchor]:
                del anchors[anchor]
            if not anchors:
                del self._filed[space]

    def near(self, pod: Pod) -> Iterator[T]:
        """Return all items that choose a pod, and maybe some more."""
        for space in (pod.meta.namespace, ""):
            anchors = self._filed.get(space)
            if anchors is not None:
                yield from anchors.get(None, {}).values()
                for pair in pod.meta.labels.items():
                    yield from anchors.get(pair, {}).values()

    def _count(self, spaces: Iterable[str], pair: Pair) -> int:
        return sum(len(self._filed[space][pair]) for space in spaces if self._has(space, pair))

    def _has(self, space: str, pair: Pair) -> bool:
        return space in self._filed and pair in self._filed[space]
