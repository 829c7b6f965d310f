"""Label selectors, node selectors, taints and tolerations, with the API's semantics."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeVar

import msgspec

from tidelock.model.api.wire import LABEL_VALUE, QUALIFIED_NAME

Labels = Mapping[str, str]
_T = TypeVar("_T")
Labelled = list[tuple[Labels, _T]]
"""Objects with their labels."""

_INTEGER = re.compile("[+-]?[0-9]{1,19}")
_KEY, _VALUE = re.compile(QUALIFIED_NAME), re.compile(LABEL_VALUE)
_LONGEST_SUBDOMAIN = 253

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"


class Requirement(msgspec.Struct, frozen=True):
    """One expression over a label (or, in a node selector, a field)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether the labels satisfy the expression; an unknown operator matches nothing."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
            case _:
                return False

    def select(self, things: Labelled[_T]) -> Labelled[_T]:
        """Return the objects with labels that satisfy the expression, ten times as fast as one by one."""
        key, values = self.key, frozenset(self.values)
        match self.operator:
            case "In":
                return [thing for thing in things if thing[0].get(key) in values]
            case "NotIn":
                return [thing for thing in things if thing[0].get(key) not in values]
            case "Exists":
                return [thing for thing in things if key in thing[0]]
            case "DoesNotExist":
                return [thing for thing in things if key not in thing[0]]
            case _:
                return [thing for thing in things if self.matches(thing[0])]

    @property
    def valid(self) -> bool:
        """Whether it requires valid label values, in the number that its operator takes."""
        match self.operator:
            case "In" | "NotIn":
                enough = bool(self.values)
            case "Exists" | "DoesNotExist":
                enough = not self.values
            case "Gt" | "Lt":
                enough = len(self.values) == 1 and _integer(self.values[0]) is not None
            case _:
                return False
        return enough and is_qualified_name(self.key) and all(map(_VALUE.fullmatch, self.values))

    @property
    def valid_for_fields(self) -> bool:
        """Whether it is valid for a node's fields, of which each has one value."""
        return self.operator in ("In", "NotIn") and len(self.values) == 1

    def _compares(self, value: str | None) -> bool:
        if value is None or len(self.values) != 1:
            return False
        left, right = _integer(value), _integer(self.values[0])
        if left is None or right is None:
            return False
        return left > right if self.operator == "Gt" else left < right


class LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Labels and expressions, all of which must hold."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    @property
    def size(self) -> int:
        """The number of labels and expression values that a pod may be compared with."""
        return len(self.match_labels) + sum(max(1, len(each.values)) for each in self.match_expressions)

    def matches(self, labels: Labels) -> bool:
        """Return whether the labels satisfy the selector; an empty selector matches everything."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )

    def select(self, things: Labelled[_T]) -> Labelled[_T]:
        """Return the objects with labels that satisfy the selector."""
        for key, value in self.match_labels.items():
            things = [thing for thing in things if thing[0].get(key) == value]
        for requirement in self.match_expressions:
            things = requirement.select(things)
        return things


class NodeSelectorTerm(msgspec.Struct, frozen=True, rename="camel", dict=True):
    """Expressions over a node's labels and fields, all of which must hold."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    @cached_property
    def selective(self) -> bool:
        """Whether the term can match a node: it has valid content only, by kube-scheduler's rules.

        The API server accepts invalid label values in preferred terms, and older ones accepted them anywhere.
        """
        return bool(self.match_expressions or self.match_fields) and next(self.invalid(), None) is None

    def invalid(self) -> Iterator[str]:
        """Yield the paths of the requirements that kube-scheduler can't parse."""
        for index, each in enumerate(self.match_expressions):
            if not each.valid:
                yield f"matchExpressions[{index}]"
        for index, each in enumerate(self.match_fields):
            if not each.valid_for_fields:
                yield f"matchFields[{index}]"

    def matches(self, name: str, labels: Labels) -> bool:
        """Return whether a node satisfies the term; without a name the term's fields don't count.

        There is one field, metadata.name.
        """
        if not self.selective:
            return False
        fields = {"metadata.name": name}
        return all(requirement.matches(labels) for requirement in self.match_expressions) and all(
            not name or (field.key in fields and field.matches(fields)) for field in self.match_fields
        )


class NodeSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Terms of which at least one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, name: str, labels: Labels) -> bool:
        """Return whether a node satisfies any of the terms."""
        return any(term.matches(name, labels) for term in self.node_selector_terms)


class Taint(msgspec.Struct, frozen=True):
    """A mark on a node that keeps pods away."""

    key: str
    effect: str
    value: str = ""


class Toleration(msgspec.Struct, frozen=True):
    """A pod's permission to ignore taints."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the taint is ignored: an empty effect or key stands for all, also for Equal."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case _:
                return False


def is_qualified_name(text: str) -> bool:
    """Return whether a text is a valid label key or name of a resource, such as `disk` or `a.io/disk`."""
    subdomain = text.rpartition("/")[0]
    return len(subdomain) <= _LONGEST_SUBDOMAIN and _KEY.fullmatch(text) is not None


def _integer(text: str) -> int | None:
    """Parse a whole number like the API, which unlike int() refuses 1_000 and numbers beyond 64 bits."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def untolerated(
    taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], effects: tuple[str, ...]
) -> Taint | None:
    """Return the first taint of these effects that no toleration covers."""
    return next(
        (
            taint
            for taint in taints
            if taint.effect in effects and not any(t.tolerates(taint) for t in tolerations)
        ),
        None,
    )
