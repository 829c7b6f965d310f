"""PodDisruptionBudgets as preemption sees them."""

from typing import Any

import msgspec

from tidelock.model.lenient import Reader
from tidelock.model.meta import ObjectMeta
from tidelock.model.pods import Pod
from tidelock.model.selectors import LabelSelector


class _Spec(msgspec.Struct, frozen=True):
    selector: LabelSelector | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, Any] = {}


class PodDisruptionBudget(msgspec.Struct, frozen=True):
    """The number of selected pods that may be evicted now. A selector that is None or empty selects none.

    A budget that can't be read protects every pod of its namespace.
    """

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def meta(self) -> ObjectMeta:
        """Identity and labels."""
        return self.metadata

    @property
    def left(self) -> int:
        """The number of evictions allowed now: 0 until its controller has processed its newest spec."""
        if self.metadata.unreadable:
            return 0
        current = self.status.observed_generation >= self.metadata.generation
        return max(self.status.disruptions_allowed, 0) if current else 0

    def selects(self, pod: Pod) -> bool:
        """Whether the Eviction API checks it for a pod of its namespace. An empty selector covers all."""
        if self.metadata.unreadable:
            return True
        return self.spec.selector is not None and self.spec.selector.matches(pod.meta.labels)

    def counts(self, pod: Pod) -> bool:
        """Whether evicting a pod of its namespace uses it up. A granted eviction is already counted."""
        if self.metadata.unreadable:
            return True
        selector = self.spec.selector
        if selector is None or not (selector.match_labels or selector.match_expressions):
            return False
        chosen = bool(pod.meta.labels) and selector.matches(pod.meta.labels)
        return chosen and pod.meta.name not in self.status.disrupted_pods


decode_budget = Reader(
    PodDisruptionBudget, spare=r"metadata\.(annotations|labels|ownerReferences).*|status\.disruptedPods.*"
)
