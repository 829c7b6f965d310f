"""The rules of a pod for its node, its neighbours and its spreading."""

import msgspec

from tidelock.model.selectors import LabelSelector, NodeSelector, NodeSelectorTerm


class PreferredTerm(msgspec.Struct, frozen=True):
    """A preferred node selector term, with its weight (1 to 100)."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(msgspec.Struct, frozen=True, rename="camel"):
    """Requirements and preferences of a pod for its node."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()

    @property
    def required(self) -> NodeSelector | None:
        """The selector that a node must satisfy."""
        return self.required_during_scheduling_ignored_during_execution


class PodAffinityTerm(msgspec.Struct, frozen=True, rename="camel"):
    """Selected pods, and the topology key of the domain to share with them or to avoid.

    A `label_selector` of None selects no pod, an empty one selects all. A `namespace_selector` of None adds
    no namespace. The label keys take the values of the incoming pod: pods with equal values are selected, or
    excluded.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(msgspec.Struct, frozen=True, rename="camel"):
    """A preferred term, with its weight (1 to 100)."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(msgspec.Struct, frozen=True, rename="camel"):
    """Requirements and preferences of a pod for its neighbours: affinity or anti-affinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()

    @property
    def required(self) -> tuple[PodAffinityTerm, ...]:
        """The terms that must hold."""
        return self.required_during_scheduling_ignored_during_execution

    @property
    def preferred(self) -> tuple[WeightedPodAffinityTerm, ...]:
        """The preferred terms."""
        return self.preferred_during_scheduling_ignored_during_execution


class Affinity(msgspec.Struct, frozen=True, rename="camel"):
    """The affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(msgspec.Struct, frozen=True, rename="camel"):
    """A constraint on even spreading over the domains of a topology key, soft or hard."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()
