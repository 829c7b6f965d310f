"""NodeAffinity: spec.nodeSelector and spec.affinity.nodeAffinity (kube-scheduler 1.36, plugins/nodeaffinity).

The arg `addedAffinity` is a node affinity that all pods of the profile have besides their own.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.node_selection import admits, matching, matching_term, required_of_nodes
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP_ALIKE,
    SUCCESS,
    Code,
    EnqueueExtensions,
    Filter,
    Handle,
    Mask,
    PreFilter,
    PreScore,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.framework.plugin_args import read_args, refuse_args
from tidelock.model.nodes import Node
from tidelock.model.pod_placement import NodeAffinity, PreferredTerm
from tidelock.model.pods import Pod
from tidelock.model.selectors import NodeSelector

NODE_AFFINITY_MISMATCH = "node(s) didn't match Pod's node affinity/selector"
ENFORCED_AFFINITY_MISMATCH = "node(s) didn't match scheduler-enforced node affinity"
AFFINITY_CONFLICT = "pod affinity terms conflict"
NODE_AFFINITY_ELSEWHERE = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
_REQUIRED, _PREFERRED = (
    f"{each}DuringSchedulingIgnoredDuringExecution" for each in ("required", "preferred")
)


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    added_affinity: NodeAffinity = NodeAffinity()


@dataclass(frozen=True, slots=True)
class _Named:
    """The only node names that the required terms allow."""

    names: frozenset[str]


class NodeAffinityPlugin(PreFilter, Filter, PreScore, Score, EnqueueExtensions):
    """Rejects nodes that required terms do not match, and prefers those of preferred terms."""

    name = "NodeAffinity"
    per_node = True
    depends_on_placement = False

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take `addedAffinity`. Raises ValueError for other args, and for terms that can't be parsed."""
        self._added = read_args(self.name, args, _Args).added_affinity
        refuse_args(self.name, _problems(self._added))
        super().__init__(handle, {})

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Skip pods without requirements. Reject those with terms that contradict each other."""
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        required = affinity.required if affinity else None
        if required is None:
            demanding = pod.spec.node_selector or self._added.required is not None
            return SUCCESS if demanding else SKIP_ALIKE
        names = _allowed_names(required)
        if names is None:
            return SUCCESS
        if not names:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (AFFINITY_CONFLICT,))
        state.write(_Named(names))
        return SUCCESS

    def allowed(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask | None:
        """Allow the nodes that the required terms name, if all of them name some."""
        named = state.read(_Named)
        if named is None:
            return None
        mask = np.zeros(len(snapshot), np.bool_)
        mask[[row for name in named.names if (row := snapshot.row(name)) is not None]] = True
        return mask

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes that match the selector, one of the required terms, and one of the added ones."""
        mask = required_of_nodes(pod, snapshot)
        if mask is None:
            mask = np.ones(len(snapshot), np.bool_)
        if self._added.required is not None:
            mask &= matching(self._added.required, snapshot)
        return mask

    def filter_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return the same for one node."""
        return self._matches(pod, snapshot.nodes[row])

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return whether the node does not match the pod's or the added affinity."""
        node, named = snapshot.nodes[row], state.read(_Named)
        if named is not None and node.name not in named.names:
            return (NODE_AFFINITY_ELSEWHERE,)
        enforced = self._added.required
        if enforced is not None and not enforced.matches(node.name, node.meta.labels):
            return (ENFORCED_AFFINITY_MISMATCH,)
        return (NODE_AFFINITY_MISMATCH,)

    def tally(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Counter[str]:
        """Count the nodes. Without names and added affinity there is one reason for all."""
        if state.read(_Named) is None and self._added.required is None:
            return Counter({NODE_AFFINITY_MISMATCH: len(rows)})
        return super().tally(state, pod, snapshot, rows)

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return False: no eviction changes what a node is."""
        return False

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip pods that prefer nothing."""
        return SUCCESS if self._preferred(pod) else SKIP_ALIKE

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Sum the weights of the preferred terms that match."""
        sums = np.zeros(len(snapshot))
        for term in self._preferred(pod):
            sums[matching_term(term.preference, snapshot)] += term.weight
        return sums[rows]

    def score_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> float:
        """Sum those of one node."""
        name, labels = snapshot.nodes[row].name, snapshot.nodes[row].meta.labels
        return sum(term.weight for term in self._preferred(pod) if term.preference.matches(name, labels))

    def normalize(self, state: CycleState, pod: Pod, scores: Scores) -> Scores:
        """Scale the sums: 100 for the largest."""
        most = scores.max(initial=0.0)
        normal: Scores = np.floor(MAX_NODE_SCORE * scores / most) if most > 0 else scores
        return normal

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: nodes that match now and did not before."""
        appears = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (Registration(appears, self._matches_now),)

    def _matches_now(self, pod: Pod, old: Node | None, new: Node) -> bool:
        return self._matches(pod, new) and (old is None or not self._matches(pod, old))

    def _matches(self, pod: Pod, node: Node) -> bool:
        added = self._added.required
        return (added is None or added.matches(node.name, node.meta.labels)) and admits(pod, node)

    def _preferred(self, pod: Pod) -> tuple[PreferredTerm, ...]:
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        own = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
        return self._added.preferred_during_scheduling_ignored_during_execution + own


def _allowed_names(selector: NodeSelector) -> frozenset[str] | None:
    """Return the only allowed names if every term names nodes, or None."""
    allowed: frozenset[str] = frozenset()
    for term in selector.node_selector_terms:
        named = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if not named:
            return None
        allowed |= frozenset.intersection(*named)
    return allowed if selector.node_selector_terms else None


def _problems(added: NodeAffinity) -> Iterator[str]:
    """Yield the requirements of added terms that can't be parsed. Terms without an effect are not parsed."""
    required = added.required.node_selector_terms if added.required else ()
    preferred = added.preferred_during_scheduling_ignored_during_execution
    terms = [
        *((f"{_REQUIRED}.nodeSelectorTerms[{index}]", term) for index, term in enumerate(required)),
        *(
            (f"{_PREFERRED}[{index}].preference", each.preference)
            for index, each in enumerate(preferred)
            if each.weight
        ),
    ]
    for path, term in terms:
        for requirement in term.invalid():
            yield f"addedAffinity.{path}.{requirement} is invalid"
