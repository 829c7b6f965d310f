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
    """Relation between the label and the values."""
    values: Annotated[list[LabelValue], Field(max_length=64)] | None = None
    """Values for In and NotIn. The other operators take none."""

    rules = (
        Rule(
            "self.operator in ['In', 'NotIn'] == (has(self.values) && size(self.values) > 0)",
            "values are required for In and NotIn, and refused for Exists and DoesNotExist",
            field=".values",
        ),
    )


class LabelSelector(Wire):
    """Labels and expressions that must all match. An empty selector is refused."""

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
        """The number of labels and expressions in the selector."""
        return len(self.match_labels or ()) + len(self.match_expressions or ())

    @cached_property
    def read(self) -> selectors.LabelSelector:
        """The selector in the form that labels are matched with."""
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
    """Relation between the label and the values."""
    values: Annotated[list[LabelValue], Field(max_length=256)] | None = None
    """Values for In and NotIn, one whole number for Gt and Lt. The other operators take none."""

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
    """Path of the field. A node can be selected only by its name."""
    operator: Literal["In", "NotIn"]
    """Relation between the field and the value."""
    values: Annotated[list[Subdomain], Field(min_length=1, max_length=1)]
    """List with exactly one value."""


class NodeSelectorTerm(Wire):
    """Conditions on a node that must all hold. An empty term matches no node."""

    match_expressions: Annotated[list[NodeRequirement], Field(max_length=16)] | None = None
    """Conditions on the node's labels."""
    match_fields: Annotated[list[NodeFieldRequirement], Field(max_length=16)] | None = None
    """Conditions on the node's fields."""


class NodeSelector(Wire):
    """Terms of which at least one must match the node."""

    node_selector_terms: Annotated[list[NodeSelectorTerm], Field(min_length=1, max_length=16)]
    """Terms that are ORed."""


class PreferredNodes(Wire):
    """A preference for some nodes."""

    weight: Annotated[int, Field(ge=1, le=100)]
    """Weight of the preference, from 1 to 100."""
    preference: NodeSelectorTerm
    """Conditions that select the preferred nodes."""


class NodeAffinity(Wire):
    """Required and preferred nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Terms that a node must match."""
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[list[PreferredNodes], Field(max_length=16)] | None
    ) = None
    """Preferred nodes, each preference with its weight."""


_NO_POD_AFFINITY = Refused("object", "a reservation is placed by node affinity alone")


class Affinity(Wire):
    """Node affinity of a reservation."""

    node_affinity: NodeAffinity | None = None
    """Required and preferred nodes."""

    refused = MappingProxyType({"podAffinity": _NO_POD_AFFINITY, "podAntiAffinity": _NO_POD_AFFINITY})


class PodAffinities(OpenWire):
    """Affinity of a pod template. Affinity between pods belongs to the pod, and is not validated here."""

    node_affinity: NodeAffinity | None = None
    """Required and preferred nodes."""


class Toleration(Wire):
    """Permission to ignore the taints that match."""

    key: LabelKey | None = None
    """Key of the taint. If it is absent and the operator is Exists, the toleration matches every key."""
    operator: Literal["Exists", "Equal"] | None = None
    """Relation between the value and the taint's value: Equal (the default) or Exists."""
    value: LabelValue | None = None
    """Value of the taint, for the operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Absent: every effect matches."""
    toleration_seconds: Annotated[int, Field(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)] | None = None
    """Time in seconds for which a NoExecute taint is tolerated. It has no effect on a reservation, which runs
    nothing."""

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
