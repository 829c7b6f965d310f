"""Wire types of selectors, node affinity and tolerations, in the form that pods use."""

from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from tidelock.model import selectors
from tidelock.model.api.wire import (
    LARGEST_INTEGER,
    LabelKey,
    Labels,
    LabelValue,
    OpenWire,
    Refused,
    Rule,
    Subdomain,
    Wire,
)


class LabelExpression(Wire):
    """A condition on one label."""

    key: LabelKey
    """Key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label relates to the values."""
    values: Annotated[list[LabelValue], Field(max_length=64)] | None = None
    """Values for In and NotIn; the other operators take none."""

    rules = (
        Rule(
            "self.operator in ['In', 'NotIn'] == (has(self.values) && size(self.values) > 0)",
            "values are required for In and NotIn, and refused for Exists and DoesNotExist",
            field=".values",
        ),
    )


class LabelSelector(Wire):
    """Labels and expressions, all of which must hold; an empty selector is refused."""

    match_labels: Labels | None = None
    """Labels that must have exactly these values."""
    match_expressions: Annotated[list[LabelExpression], Field(max_length=16)] | None = None
    """Conditions on labels."""

    rules = (
        Rule(
            "has(self.matchLabels) && size(self.matchLabels) > 0"
            " || has(self.matchExpressions) && size(self.matchExpressions) > 0",
            "an empty selector is refused: give matchLabels or matchExpressions",
            reason="FieldValueRequired",
        ),
    )

    @property
    def conditions(self) -> int:
        """How many labels and expressions it has."""
        return len(self.match_labels or ()) + len(self.match_expressions or ())

    @cached_property
    def read(self) -> selectors.LabelSelector:
        """The same as labels are held against it."""
        expressions = tuple(
            selectors.Requirement(each.key, each.operator, tuple(each.values or ()))
            for each in self.match_expressions or ()
        )
        return selectors.LabelSelector(self.match_labels or {}, expressions)


class NodeRequirement(Wire):
    """A condition on one label or field of a node."""

    key: LabelKey
    """Key of the label, or path of the field."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the label relates to the values."""
    values: Annotated[list[LabelValue], Field(max_length=256)] | None = None
    """Values for In and NotIn, one whole number for Gt and Lt; the other operators take none."""

    rules = (
        Rule(
            "self.operator in ['Exists', 'DoesNotExist'] ? !has(self.values) || size(self.values) == 0"
            " : has(self.values) && size(self.values) > 0",
            "values are required for In, NotIn, Gt and Lt, and refused for Exists and DoesNotExist",
            field=".values",
        ),
        Rule(
            "!(self.operator in ['Gt', 'Lt']) || !has(self.values) || size(self.values) == 0"
            " || size(self.values) == 1 && self.values[0].matches('^-?[0-9]+$')",
            "values must be one whole number for Gt and Lt",
            field=".values",
        ),
    )


class NodeFieldRequirement(Wire):
    """A condition on a field of a node."""

    key: Literal["metadata.name"]
    """Path of the field: a node is selected by its name alone."""
    operator: Literal["In", "NotIn"]
    """How the field relates to the value."""
    values: Annotated[list[Subdomain], Field(min_length=1, max_length=1)]
    """The one value."""


class NodeSelectorTerm(Wire):
    """Conditions on a node, all of which must hold; an empty term matches no node."""

    match_expressions: Annotated[list[NodeRequirement], Field(max_length=16)] | None = None
    """Conditions on the node's labels."""
    match_fields: Annotated[list[NodeFieldRequirement], Field(max_length=16)] | None = None
    """Conditions on the node's fields."""


class NodeSelector(Wire):
    """Terms of which one must hold."""

    node_selector_terms: Annotated[list[NodeSelectorTerm], Field(min_length=1, max_length=16)]
    """The terms; they are ORed."""


class PreferredNodes(Wire):
    """Nodes that are liked better."""

    weight: Annotated[int, Field(ge=1, le=100)]
    """How much better, from 1 to 100."""
    preference: NodeSelectorTerm
    """Which nodes."""


class NodeAffinity(Wire):
    """Nodes that are required or preferred."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Nodes that may be taken at all."""
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[list[PreferredNodes], Field(max_length=16)] | None
    ) = None
    """Nodes that are liked better, each with its weight."""


_NO_POD_AFFINITY = Refused("object", "a lock is placed by node affinity alone")


class Affinity(Wire):
    """Node affinity of a lock."""

    node_affinity: NodeAffinity | None = None
    """Nodes that are required or preferred."""

    refused = MappingProxyType({"podAffinity": _NO_POD_AFFINITY, "podAntiAffinity": _NO_POD_AFFINITY})


class PodAffinities(OpenWire):
    """Affinity of a pod template; affinity to pods is a pod's, and not checked here."""

    node_affinity: NodeAffinity | None = None
    """Nodes that are required or preferred."""


class Toleration(Wire):
    """Leave to ignore the taints that it matches."""

    key: LabelKey | None = None
    """Key of the taint; absent with the operator Exists stands for every key."""
    operator: Literal["Exists", "Equal"] | None = None
    """How the value relates to the taint's: Equal (the default) or Exists."""
    value: LabelValue | None = None
    """Value of the taint for Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; absent stands for every effect."""
    toleration_seconds: Annotated[int, Field(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)] | None = None
    """How long a NoExecute taint is tolerated; a lock runs nothing, so it has no use for it."""

    rules = (
        Rule(
            "has(self.key) || has(self.operator) && self.operator == 'Exists'",
            "key is required unless operator is Exists",
            field=".key",
            reason="FieldValueRequired",
        ),
        Rule(
            "!has(self.value) || self.value == '' || !has(self.operator) || self.operator != 'Exists'",
            "value is refused when operator is Exists",
            field=".value",
        ),
    )


NodeLabels = Annotated[Labels, Field(description="Labels that the node must have.")]
Tolerations = Annotated[list[Toleration], Field(max_length=64)]
