"""InterPodAffinity: spec.affinity.podAffinity and podAntiAffinity.

Required terms apply to the placed pods, and required anti-affinity of those to the pod. Preferred terms count
both ways. Args: `hardPodAffinityWeight` (0 to 100, 1 by default) is the weight of a required affinity of a
placed pod. `ignorePreferredTermsOfExistingPods` ignores placed pods' terms for a pod without preferences. The
rules are those of kube-scheduler 1.37, plugins/interpodaffinity.

Reserve pods count as placed pods, with an exception for required affinity (`_near`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np

from tidelock.cluster.arrays import Counts
from tidelock.cluster.columns import Rows
from tidelock.cluster.index.labels import Codes, Label, NodeLabels
from tidelock.cluster.index.pod_counts import PodCountQuery
from tidelock.cluster.index.selection import Choice, Selection, Term
from tidelock.cluster.placed import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
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
from tidelock.framework.plugin_args import read_args
from tidelock.model.namespaces import Namespace
from tidelock.model.nodes import Node
from tidelock.model.pod_placement import PodAffinity, PodAffinityTerm
from tidelock.model.pods import Pod
from tidelock.model.reserve_pod import ReservePod
from tidelock.model.selectors import Labels

POD_AFFINITY_MISMATCH = "node(s) didn't match pod affinity rules"
POD_ANTI_AFFINITY_MISMATCH = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    hard_pod_affinity_weight: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class _Domains:
    """Counts in the domains of any number of topology keys: V + 1 for each, see cluster/index/labels."""

    def __init__(self, labels: NodeLabels) -> None:
        self._labels = labels
        self._by_key: dict[str, tuple[Label, Counts]] = {}

    def __bool__(self) -> bool:
        return any(counts.any() for _, counts in self._by_key.values())

    def clone(self) -> "_Domains":
        copy = _Domains(self._labels)
        copy._by_key = {key: (label, counts.copy()) for key, (label, counts) in self._by_key.items()}
        return copy

    def add(self, key: str, by_node: Counts, factor: int = 1) -> None:
        """Add the counts of each node to its domain."""
        known = self._by_key.get(key)
        label = self._labels.of(key) if known is None else known[0]
        totals = factor * label.totals(by_node)
        self._by_key[key] = label, totals if known is None else known[1] + totals

    def add_on(self, key: str, row: int, amount: int) -> None:
        """Add to the domain of one node."""
        known = self._by_key.get(key)
        if known is None:
            label = self._labels.of(key)
            known = self._by_key[key] = label, np.zeros(len(label.values) + 1, np.int64)
        label, counts = known
        code = label.codes[row]
        if code >= 0:
            counts[code] += amount

    def sums(self, snapshot: Snapshot) -> Counts:
        """Return for each node the sum of its domains' counts."""
        sums = np.zeros(len(snapshot), np.int64)
        for label, counts in self._by_key.values():
            sums += counts.take(label.codes[snapshot.rows])
        return sums

    def silent(self, snapshot: Snapshot) -> Mask:
        """Return the nodes in no domain with a count."""
        mask = np.ones(len(snapshot), np.bool_)
        for label, counts in self._by_key.values():
            mask &= counts.take(label.codes[snapshot.rows]) <= 0
        return mask

    def everywhere(self, snapshot: Snapshot, *, least: int) -> Mask:
        """Return the nodes with all labels, in domains that all have at least this count."""
        mask = np.ones(len(snapshot), np.bool_)
        for label, counts in self._by_key.values():
            codes = label.codes[snapshot.rows]
            mask &= (codes >= 0) & (counts.take(codes) >= least)
        return mask


@dataclass(frozen=True, slots=True)
class _Masks:
    """The nodes that satisfy the affinity and anti-affinity of the pod, and the anti-affinity of others."""

    near: Mask
    far: Mask
    unshunned: Mask


@dataclass(slots=True)
class _Required:
    """The counts for the required terms of a pod and those of its neighbours.

    Attributes:
        sought: the pods that all affinity terms of the pod select, and `near_keys` the terms' topology keys.
        shunned: topology key and pods of each anti-affinity term of the pod.
        namespace_labels: the labels of the pod's namespace.
        near: counts of the sought pods.
        promised: counts of the sought reserve pods.
        far: counts of the shunned pods.
        shunning: counts of the pods with an anti-affinity term that selects this pod.
        judged: the result for a snapshot, until something is added or removed.

    """

    sought: PodCountQuery | None
    near_keys: frozenset[str]
    shunned: tuple[tuple[str, PodCountQuery], ...]
    namespace_labels: Labels
    near: _Domains
    promised: _Domains
    far: _Domains
    shunning: _Domains
    judged: tuple[Snapshot, _Masks] | None = None

    def clone(self) -> "_Required":
        """Return a copy of the parts that may change."""
        return _Required(
            self.sought,
            self.near_keys,
            self.shunned,
            self.namespace_labels,
            self.near.clone(),
            self.promised.clone(),
            self.far.clone(),
            self.shunning.clone(),
        )


@dataclass(frozen=True, slots=True)
class _Preferences:
    """The weights in the domains of each topology key with a preferred term."""

    weights: _Domains


class InterPodAffinity(PreFilter, Filter, PreScore, Score, EnqueueExtensions):
    """Keeps pods together and apart, as they and their neighbours demand and wish."""

    name = "InterPodAffinity"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take the args. Raises ValueError for invalid ones."""
        self._args = read_args(self.name, args, _Args)
        super().__init__(handle, {})

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Count the pods of required terms. Skip pods without such terms of their own or of others."""
        near, far = _required_of(pod)
        cache = self.handle.cache
        if not near and not far and not cache.affinity_terms.shunned:
            return SKIP
        required = _Required(
            sought=PodCountQuery(tuple(self._choice(pod, term) for term in near)) if near else None,
            near_keys=frozenset(term.topology_key for term in near),
            shunned=tuple((term.topology_key, PodCountQuery((self._choice(pod, term),))) for term in far),
            namespace_labels=self._namespace_labels(pod),
            near=self._domains(),
            promised=self._domains(),
            far=self._domains(),
            shunning=self._domains(),
        )
        for key, affinity_terms in cache.affinity_terms.shunned.meaning(
            pod, required.namespace_labels
        ).items():
            required.shunning.add(key, affinity_terms)
        if not near and not far and not required.shunning:
            return SKIP
        if required.sought:
            required.near = self._sought(required.sought, required.near_keys)
            if cache.reserve_pods:
                tally = cache.reserve_pods.pod_counts.of(required.sought)
                for key in required.near_keys:
                    required.promised.add(key, tally)
        for key, query in required.shunned:
            required.far.add(key, cache.neighbours(query))
        state.write(required, temporary=True)
        return SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Count another pod, and its required terms, in the domains of its node."""
        self._count(state, pod, other, snapshot, 1)

    def remove_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Stop counting another pod, and its required terms, in the domains of its node."""
        self._count(state, pod, other, snapshot, -1)

    def _count(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot, sign: int) -> None:
        required, row = state.read(_Required), snapshot.row(other.node_name)
        if required is None or row is None:
            return
        required.judged = None
        for term in _required_of(other.pod)[1]:
            if Term.of(other.pod.meta.namespace, term).selects(pod, required.namespace_labels):
                required.shunning.add_on(term.topology_key, row, sign)
        if required.sought and required.sought.selects(other.pod):
            sought = required.promised if isinstance(other.pod, ReservePod) else required.near
            for key in required.near_keys:
                sought.add_on(key, row, sign)
        for key, query in required.shunned:
            if query.selects(other.pod):
                required.far.add_on(key, row, sign)

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Return the nodes near sought pods, and far from shunned and shunning ones."""
        required = state.read(_Required)
        if required is None:
            return np.ones(len(snapshot), np.bool_)
        masks = _judged(required, pod, snapshot)
        return masks.near & masks.far & masks.unshunned

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return which pods' terms reject the node."""
        masks = _judged(state.expect(_Required), pod, snapshot)
        if not masks.near[row]:
            return (POD_AFFINITY_MISMATCH,)
        return (EXISTING_ANTI_AFFINITY if masks.far[row] else POD_ANTI_AFFINITY_MISMATCH,)

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return whether affinity allows the node: no eviction brings the pods that it seeks."""
        return bool(_judged(state.expect(_Required), pod, snapshot).near[row])

    def among_equals(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, counts: Counts, first: Node
    ) -> Counts:
        """Keep the domains of the first where it begins a series, and one in each domain if they shun it."""
        required = state.expect(_Required)
        alone = not required.near and not required.promised
        if alone and required.sought is not None and required.sought.selects(pod):
            for key in required.near_keys:
                label = snapshot.labels(key)
                counts = np.where(label.codes == label.code_of[first.meta.labels[key]], counts, 0)
        for key, query in required.shunned:
            if query.selects(pod):
                counts = _one_in_each(snapshot.labels(key).codes, counts)
        return counts

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Sum the weights of all preferred terms in each domain. Skip pods without such terms."""
        affinity, affinity_terms = pod.spec.affinity, self.handle.cache.affinity_terms
        near = affinity.pod_affinity.preferred if affinity and affinity.pod_affinity else ()
        far = affinity.pod_anti_affinity.preferred if affinity and affinity.pod_anti_affinity else ()
        prefers = bool(near or far)
        asked = prefers or not self._args.ignore_preferred_terms_of_existing_pods
        if not prefers and not (asked and (affinity_terms.wished or affinity_terms.sought)):
            return SKIP
        weights = self._domains()
        for preferences, sign in ((near, 1), (far, -1)):
            for wish in preferences:
                term = wish.pod_affinity_term
                tally = self.handle.cache.neighbours(PodCountQuery((self._choice(pod, term),)))
                weights.add(term.topology_key, tally, sign * wish.weight)
        namespace_labels = self._namespace_labels(pod)
        for key, by_node in affinity_terms.wished.meaning(pod, namespace_labels).items():
            weights.add(key, by_node)
        hard = self._args.hard_pod_affinity_weight
        if hard:
            for key, by_node in affinity_terms.sought.meaning(pod, namespace_labels).items():
                weights.add(key, by_node, hard)
        if not weights:
            return SKIP
        state.write(_Preferences(weights), temporary=True)
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Return the sum of weights of the node's domains. It is negative if anti-affinity prevails."""
        preferences = state.read(_Preferences)
        if preferences is None:
            return np.zeros(len(rows))
        return preferences.weights.sums(snapshot)[rows].astype(np.float64)

    def normalize(self, state: CycleState, pod: Pod, scores: Scores) -> Scores:
        """Scale the sums: 100 for the largest and 0 for the smallest."""
        least = scores.min(initial=np.inf)
        span = scores.max(initial=-np.inf) - least
        return np.floor(MAX_NODE_SCORE * ((scores - least) / span)) if span > 0 else np.zeros(len(scores))

    def _sought(self, query: PodCountQuery, keys: Iterable[str]) -> _Domains:
        """Count the sought pods in the domains of these topology keys."""
        domains, tally = self._domains(), self.handle.cache.pod_counts.of(query)
        for key in keys:
            domains.add(key, tally)
        return domains

    def _domains(self) -> _Domains:
        return _Domains(self.handle.columns.labels)

    def _choice(self, pod: Pod, term: PodAffinityTerm) -> Choice:
        """Read a term of the pod that is placed: its namespace selector is looked up now."""
        read = Term.of(pod.meta.namespace, term)
        wanted = read.namespace_selection
        if wanted.nothing:
            return Choice(read.namespaces, read.selection)
        if wanted.empty:
            return Choice(None, read.selection)
        return Choice(read.namespaces | self._namespaces(wanted), read.selection)

    def _namespaces(self, wanted: Selection) -> frozenset[str]:
        listed = self.handle.objects.namespaces.of()
        return frozenset(each.meta.name for each in listed if wanted.matches(each.meta.labels))

    def _namespace_labels(self, pod: Pod) -> Labels:
        namespace = self.handle.objects.namespaces.get(pod.meta.namespace)
        return namespace.meta.labels if namespace else {}

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: sought, shunned and shunning pods, own labels, and changes of domains.

        kube-scheduler has no event of a namespace, whose labels a term may select.
        """
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        return (
            Registration(ClusterEvent(Resource.ASSIGNED_POD, pods), self._neighbour_helps),
            Registration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)),
            Registration(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self._node_helps
            ),
            Registration(ClusterEvent(Resource.NAMESPACE, Action.ADD | Action.UPDATE), self._namespace_helps),
        )

    def _neighbour_helps(self, pod: Pod, old: Pod | None, new: Pod | None) -> bool:
        """Return whether a pod is sought now and was not before, or no longer shunned, or shunned this one.

        In kube-scheduler, the end of the last sought pod wakes no pod that may be the next first of a series.
        """
        near, far = _required_of(pod)
        choices = [self._choice(pod, term) for term in near]
        sought, was_sought = (
            each is not None and bool(choices) and all(choice.selects(each) for choice in choices)
            for each in (new, old)
        )
        if sought != was_sought and (sought or self._first_of_series(pod, near)):
            return True
        if old is None:
            return False
        shunned = [(term.topology_key, self._choice(pod, term)) for term in far]
        if _keys_to(old, shunned) - _keys_to(new, shunned):
            return True
        return new is None and self._shunned_by(old, pod)

    def _first_of_series(self, pod: Pod, near: Sequence[PodAffinityTerm]) -> bool:
        """Return whether a pod seeks pods like itself, and there are none."""
        query = PodCountQuery(tuple(self._choice(pod, term) for term in near))
        return query.selects(pod) and not self._sought(query, {term.topology_key for term in near})

    def _shunned_by(self, other: Pod, pod: Pod) -> bool:
        labels, namespace = self._namespace_labels(pod), other.meta.namespace
        return any(Term.of(namespace, term).selects(pod, labels) for term in _required_of(other)[1])

    def _node_helps(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """Return whether a node is new in domains of the pod, or not any more in one that may be forbidden.

        kube-scheduler does not count the domains that only the terms of other pods forbid. Here all of those
        count, as the terms that select the pod would have to be found for each pod that waits.
        """
        near, far = ({term.topology_key for term in terms} for terms in _required_of(pod))
        before, after = old.meta.labels if old is not None else {}, new.meta.labels
        if old is None:
            return not near or not near.isdisjoint(after)
        others = self.handle.cache.affinity_terms.shunned.keys
        return any(key in after and before.get(key) != after[key] for key in near) or any(
            key in before and before[key] != after.get(key) for key in far | others.keys()
        )

    def _namespace_helps(self, pod: Pod, old: Namespace | None, new: Namespace) -> bool:
        """Return whether a term of the pod, or of another pod to it, may select others by new labels."""
        labels = new.meta.labels
        if old is not None and old.meta.labels == labels:
            return False
        terms = (Term.of(pod.meta.namespace, term) for terms in _required_of(pod) for term in terms)
        wanted = [each.namespace_selection for each in terms if not each.namespace_selection.empty]
        return new.meta.name == pod.meta.namespace or any(
            each.matches(labels) != (old is not None and each.matches(old.meta.labels)) for each in wanted
        )


def _required_of(pod: Pod) -> tuple[tuple[PodAffinityTerm, ...], tuple[PodAffinityTerm, ...]]:
    """Return the required terms of affinity and of anti-affinity of a pod."""
    affinity = pod.spec.affinity
    if affinity is None:
        return (), ()
    return _required(affinity.pod_affinity), _required(affinity.pod_anti_affinity)


def _keys_to(other: Pod | None, shunned: Sequence[tuple[str, Choice]]) -> set[str]:
    """Return the topology keys of the terms that select a pod, if there is one."""
    return {key for key, choice in shunned if other is not None and choice.selects(other)}


def _required(affinity: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return affinity.required if affinity else ()


def _judged(required: _Required, pod: Pod, snapshot: Snapshot) -> _Masks:
    """Judge all nodes by the three kinds of rules, once for each snapshot."""
    if required.judged is None or required.judged[0] is not snapshot:
        near = _near(required, pod, snapshot)
        masks = _Masks(near, required.far.silent(snapshot), required.shunning.silent(snapshot))
        required.judged = snapshot, masks
    return required.judged[1]


def _near(required: _Required, pod: Pod, snapshot: Snapshot) -> Mask:
    """Return the nodes with pods in their domains that all affinity terms select.

    If there are none anywhere, the pod may be the first of its kind, on any node with the labels. If there
    are reserve pods of its kind then, it must be near them, as their owners could join it nowhere else. A
    reservation may then be near reserve pods of any kind, as members of a gang must be. A pod may not, as
    their owners may never come.
    """
    first = required.sought is not None and not required.near and required.sought.selects(pod)
    if required.promised and not required.near and (first or isinstance(pod, ReservePod)):
        return required.promised.everywhere(snapshot, least=1)
    return required.near.everywhere(snapshot, least=0 if first else 1)


def _one_in_each(codes: Codes, counts: Counts) -> Counts:
    """Return one count for each domain. Counts of nodes without the label stay as they are."""
    rows = ((counts > 0) & (codes >= 0)).nonzero()[0]
    kept = np.where(codes < 0, counts, 0)
    kept[rows[np.unique(codes[rows], return_index=True)[1]]] = 1
    return kept
