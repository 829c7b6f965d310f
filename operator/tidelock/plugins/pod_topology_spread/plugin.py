"""PodTopologySpread: spec.topologySpreadConstraints (kube-scheduler 1.37, plugins/podtopologyspread).

Pods without constraints get those of the args: `defaultingType` System (the default), or List with
`defaultConstraints`, for the pods that the pod's Services and controller select.

A pod that is being deleted does not count, so its end changes nothing. Reserve pods count as pods.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np

from tidelock.cluster.arrays import Counts
from tidelock.cluster.columns import Rows
from tidelock.cluster.index.labels import Label
from tidelock.cluster.index.pod_counts import PodCountQuery
from tidelock.cluster.index.selection import Choice, Selection
from tidelock.cluster.node_selection import admits, required_of_nodes, tolerated_by
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
from tidelock.framework.plugin_args import read_args, refuse_args
from tidelock.model.nodes import Node
from tidelock.model.pod_placement import SpreadConstraint
from tidelock.model.pods import Pod
from tidelock.model.selectors import is_qualified_name
from tidelock.plugins.pod_topology_spread.default_selector import default_selection

SPREAD_MISMATCH = "node(s) didn't match pod topology spread constraints"
SPREAD_NO_LABEL = f"{SPREAD_MISMATCH} (missing required label)"

_HOSTNAME = "kubernetes.io/hostname"
_REQUIRED, _WISHED = "DoNotSchedule", "ScheduleAnyway"
_HONOR, _IGNORE = "Honor", "Ignore"

SYSTEM_DEFAULTS = (
    SpreadConstraint(max_skew=3, topology_key=_HOSTNAME, when_unsatisfiable=_WISHED),
    SpreadConstraint(max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable=_WISHED),
)


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    default_constraints: tuple[SpreadConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"


@dataclass(frozen=True, slots=True)
class _Constraint:
    """A constraint with its selector and with defaults filled in."""

    topology_key: str
    selection: Selection
    max_skew: int
    min_domains: int
    honors_affinity: bool
    honors_taints: bool

    @classmethod
    def of(cls, constraint: SpreadConstraint, selection: Selection) -> "_Constraint":
        return cls(
            topology_key=constraint.topology_key,
            selection=selection,
            max_skew=constraint.max_skew,
            min_domains=constraint.min_domains or 1,
            honors_affinity=(constraint.node_affinity_policy or _HONOR) == _HONOR,
            honors_taints=(constraint.node_taints_policy or _IGNORE) == _HONOR,
        )

    def query(self, namespace: str) -> PodCountQuery:
        """Ask for the pods that count: an empty selector, though it selects all, counts none."""
        selection = replace(self.selection, nothing=True) if self.selection.empty else self.selection
        return PodCountQuery((Choice(frozenset((namespace,)), selection),), deleted=False)


class _Eligible:
    """The eligible nodes of a constraint, computed once for equal queries."""

    def __init__(self, pod: Pod, snapshot: Snapshot, everywhere: Mask | None) -> None:
        """Begin with the nodes that have all topology keys, or with all."""
        self._pod = pod
        self._snapshot = snapshot
        self._everywhere = everywhere
        self._known: dict[tuple[bool, bool], Mask | None] = {}

    def nodes(self, constraint: _Constraint) -> Mask | None:
        """Return a mask, or None for all nodes."""
        policies = constraint.honors_affinity, constraint.honors_taints
        if policies not in self._known:
            masks = [self._everywhere]
            if constraint.honors_affinity:
                masks.append(required_of_nodes(self._pod, self._snapshot))
            if constraint.honors_taints:
                masks.append(tolerated_by(self._pod, self._snapshot))
            self._known[policies] = _all_of(masks)
        return self._known[policies]


@dataclass(slots=True)
class _Spread:
    """The spread of the pods that a required constraint selects over its domains.

    Attributes:
        counts: V + 1 by the label's codes, 0 without an eligible node.
        domains: V + 1, the domains with eligible nodes. The last is no domain.
        eligible: N, the nodes with pods that count, or None for all.
        self_match: 1 if the pod itself is selected, otherwise 0.
        known: the result of `fits`, until a count changes.

    """

    constraint: _Constraint
    label: Label
    counts: Counts
    domains: Mask
    eligible: Mask | None
    self_match: int
    known: Mask | None = None

    def fits(self) -> Mask:
        """Return for each domain whether one more pod keeps the skew. The last is False."""
        if self.known is None:
            there = self.counts[:-1][self.domains[:-1]]
            least = there.min() if len(there) >= self.constraint.min_domains else 0
            self.known = np.less_equal(self.counts, self.constraint.max_skew + least - self.self_match)
            self.known[-1] = False
        return self.known

    def bearing(self, counts: Counts) -> Counts:
        """Cut down how many more pods fit on each node to those that keep the skew one after the other.

        The emptiest domain is full in the end, and no other one exceeds it by more than `maxSkew`.
        """
        codes, totals = self.label.codes, self.label.totals(counts)
        full = (self.counts + totals)[:-1][self.domains[:-1]]
        least = full.min() if len(full) >= self.constraint.min_domains else 0
        left = np.clip(self.constraint.max_skew + least - self.counts, 0, totals)
        order = np.argsort(codes, kind="stable")
        wanted = counts[order]
        before = wanted.cumsum() - wanted
        starts = np.concatenate(([True], np.diff(codes[order]) != 0)).nonzero()[0]
        before -= np.repeat(before[starts], np.diff([*starts, len(order)]))  # of the same domain
        kept = np.empty_like(counts)
        kept[order] = np.clip(left[codes[order]] - before, 0, wanted)
        return kept


class _Spreads:
    """The required constraints of a pod."""

    def __init__(self, spreads: tuple[_Spread, ...]) -> None:
        self.spreads = spreads

    def clone(self) -> "_Spreads":
        """Return a copy of the parts that may change."""
        return _Spreads(
            tuple(replace(spread, counts=spread.counts.copy(), known=None) for spread in self.spreads)
        )


@dataclass(frozen=True, slots=True)
class _Preferences:
    """The sum of each node before normalization, negative for nodes without a rating."""

    scores: Scores


class PodTopologySpread(PreFilter, Filter, PreScore, Score, EnqueueExtensions):
    """Keeps the numbers of alike pods in the domains of a topology close to each other."""

    name = "PodTopologySpread"
    relents = True

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take `defaultConstraints` and `defaultingType`. Raises ValueError for invalid ones."""
        read = read_args(self.name, args, _Args)
        super().__init__(handle, {})
        refuse_args(self.name, _problems(read))
        self._by_system = read.defaulting_type == "System"
        self._defaults: dict[str, list[SpreadConstraint]] = {}
        for constraint in SYSTEM_DEFAULTS if self._by_system else read.default_constraints:
            self._defaults.setdefault(constraint.when_unsatisfiable, []).append(constraint)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Count the pods of each domain. Skip pods without required constraints."""
        constraints = self._constraints(pod, _REQUIRED)
        if not constraints:
            return SKIP
        labels = [snapshot.labels(constraint.topology_key) for constraint in constraints]
        eligible = _Eligible(pod, snapshot, _all_of(label.borne for label in labels))
        namespace = pod.meta.namespace
        spreads = []
        for constraint, label in zip(constraints, labels, strict=True):
            nodes = eligible.nodes(constraint)
            tally = self.handle.cache.neighbours(constraint.query(namespace))
            spreads.append(
                _Spread(
                    constraint=constraint,
                    label=label,
                    counts=label.totals(tally, nodes),
                    domains=label.in_use if nodes is None else label.found_at(nodes),
                    eligible=nodes,
                    self_match=int(constraint.selection.matches(pod.meta.labels)),
                )
            )
        state.write(_Spreads(tuple(spreads)), temporary=True)
        return SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Count another pod in the domains of its node."""
        self._count(state, pod, other, snapshot, 1)

    def remove_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """No longer count another pod in the domains of its node."""
        self._count(state, pod, other, snapshot, -1)

    def _count(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot, sign: int) -> None:
        spreads, row = state.read(_Spreads), snapshot.row(other.node_name)
        if spreads is None or row is None:
            return
        for spread in spreads.spreads:
            counted = spread.eligible is None or spread.eligible[row]
            if counted and spread.constraint.query(pod.meta.namespace).selects(other.pod):
                spread.counts[spread.label.codes[row]] += sign
                spread.known = None

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Return the nodes of domains where one more pod exceeds the least by at most `maxSkew`."""
        spreads = state.read(_Spreads)
        mask = np.ones(len(snapshot), np.bool_)
        for spread in spreads.spreads if spreads else ():
            mask &= spread.fits().take(spread.label.codes[snapshot.rows])
        return mask

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return whether the node lacks a label, or its domain has too many pods."""
        return (SPREAD_MISMATCH if self.preemption_may_help(state, pod, snapshot, row) else SPREAD_NO_LABEL,)

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return whether the first constraint that rejects the node does so by a number of pods."""
        domains = (
            (spread.fits(), int(spread.label.codes[snapshot.rows][row]))
            for spread in state.expect(_Spreads).spreads
        )
        return next((code >= 0 for fits, code in domains if not fits[code]), True)

    def among_equals(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, counts: Counts, first: Node
    ) -> Counts:
        """Keep as many in each domain as leave the skew of each constraint as it may be."""
        for spread in state.expect(_Spreads).spreads:
            if spread.self_match:
                counts = spread.bearing(counts)
        return counts

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Rate the nodes by the pods in their domains. Skip pods without preferred constraints.

        A node's sum is that of count x ln(domains + 2) + maxSkew - 1 over the constraints with a label of the
        node. The logarithm keeps the weight of few large domains beside many small ones.
        """
        constraints = self._constraints(pod, _WISHED)
        if not constraints:
            return SKIP
        labels = [snapshot.labels(constraint.topology_key) for constraint in constraints]
        whole = (
            _all_of(label.borne for label in labels)
            if pod.spec.topology_spread_constraints or not self._by_system
            else None
        )
        rated = rows if whole is None else rows[whole[rows]]
        eligible = _Eligible(pod, snapshot, whole)
        namespace = pod.meta.namespace
        sums = np.zeros(len(snapshot))
        for constraint, label in zip(constraints, labels, strict=True):
            tally = self.handle.cache.neighbours(constraint.query(namespace))
            if constraint.topology_key == _HOSTNAME:
                share = weighted_counts(tally, len(rated), constraint.max_skew)
                sums += share if label.borne is None else np.where(label.borne, share, 0.0)
            else:
                filled = _filled(label)
                everyone = len(rated) == len(snapshot)
                found = filled.in_use if everyone else filled.found_at(rated)
                counts = filled.totals(tally, eligible.nodes(constraint))
                share = weighted_counts(counts, int(np.count_nonzero(found)), constraint.max_skew)
                share[-1] = 0
                sums += share.take(label.codes)
        scores = np.rint(sums)  # a logarithm's multiple is never half way between two numbers
        if whole is not None:
            scores[~whole] = -1
        state.write(_Preferences(scores), temporary=True)
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Return the rounded sums, or -1 for a node without all labels."""
        preferences = state.read(_Preferences)
        return preferences.scores[snapshot.rows][rows] if preferences else np.zeros(len(rows))

    def normalize(self, state: CycleState, pod: Pod, scores: Scores) -> Scores:
        """Scale the sums: 100 for the smallest, and 0 for nodes without a rating."""
        return normalized_sums(scores)

    def _constraints(self, pod: Pod, action: str) -> tuple[_Constraint, ...]:
        """Return the pod's constraints of a kind, or the default ones if it has none at all."""
        own = pod.spec.topology_spread_constraints
        if own:
            return tuple(
                _Constraint.of(constraint, _own_selection(constraint, pod))
                for constraint in own
                if constraint.when_unsatisfiable == action
            )
        defaults = self._defaults.get(action)
        if defaults is None:
            return ()
        selection = default_selection(pod, self.handle.objects)
        if selection.empty:
            return ()
        return tuple(_Constraint.of(constraint, selection) for constraint in defaults)

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: other pods that count, own labels and tolerations, and changes of domains.

        kube-scheduler has no event of a pod that begins to be deleted, and so waits until it is gone.
        """
        pods = Action.ADD | Action.DELETE | Action.UPDATE
        own = Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return (
            Registration(ClusterEvent(Resource.ASSIGNED_POD, pods), self._counts_change),
            Registration(ClusterEvent(Resource.TARGET_POD, own), self._wishes_change),
            Registration(ClusterEvent(Resource.NODE, nodes), self._domains_change),
        )

    def _counts_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> bool:
        """Return whether another pod counts for a constraint now and did not before, or no longer counts."""
        namespace = pod.meta.namespace
        if all(each is None or each.meta.namespace != namespace for each in (old, new)):
            return False  # as for most events, without a look at the constraints
        queries = [constraint.query(namespace) for constraint in self._constraints(pod, _REQUIRED)]
        return any(_selects(query, old) != _selects(query, new) for query in queries)

    def _wishes_change(self, pod: Pod, old: Pod, new: Pod) -> bool:
        """Return whether the pod itself has other constraints, counts for other ones, or tolerates more."""
        constraints = self._constraints(new, _REQUIRED)
        tolerates = old.spec.tolerations != new.spec.tolerations
        return constraints != self._constraints(old, _REQUIRED) or any(
            (each.honors_taints and tolerates)
            or each.selection.matches(old.meta.labels) != each.selection.matches(new.meta.labels)
            for each in constraints
        )

    def _domains_change(self, pod: Pod, old: Node | None, new: Node | None) -> bool:
        """Return whether a node enters or leaves a domain, or may count otherwise in the same domains.

        kube-scheduler does not compare the node affinity, by which a node counts too.
        """
        constraints = self._constraints(pod, _REQUIRED)
        before, after = _domains(old, constraints), _domains(new, constraints)
        if old is None or new is None or before != after:
            return before != after
        affine = any(each.honors_affinity for each in constraints)
        return before is not None and (
            old.taints != new.taints or (affine and admits(pod, old) != admits(pod, new))
        )


def _selects(query: PodCountQuery, pod: Pod | None) -> bool:
    return pod is not None and query.selects(pod)


def _domains(node: Node | None, constraints: Iterable[_Constraint]) -> list[str] | None:
    """Return the domains of a node, or None unless it is in one for each constraint."""
    labels = node.meta.labels if node is not None else {}
    keys = [each.topology_key for each in constraints]
    return [labels[key] for key in keys] if node is not None and labels.keys() >= set(keys) else None


def _own_selection(constraint: SpreadConstraint, pod: Pod) -> Selection:
    labels = pod.meta.labels
    keys = constraint.match_label_keys
    return Selection.of(constraint.label_selector, *((key, labels[key]) for key in keys if key in labels))


def _all_of(masks: Iterable[Mask | None]) -> Mask | None:
    result = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else result & mask
    return result


def weighted_counts(counts: Counts, domains: int, max_skew: int) -> Scores:
    """Weigh counts by the number of domains, and add the tolerated skew."""
    share: Scores = counts * np.float64(math.log(domains + 2)) + (max_skew - 1)
    return share


def normalized_sums(sums: Scores) -> Scores:
    """Scale the sums of nodes: 100 for the smallest, and 0 for negative ones, which stand for no rating."""
    rated = sums >= 0
    most, least = sums.max(initial=0.0), sums.min(initial=np.inf, where=rated)
    if most == 0:
        return np.where(rated, float(MAX_NODE_SCORE), 0.0)
    return np.where(rated, np.floor(MAX_NODE_SCORE * (most + least - sums) / most), 0.0)


def _filled(label: Label) -> Label:
    """Count nodes without a label to the domain of the empty value, as kube-scheduler does."""
    blank = label.code_of.get("")
    if blank is None or label.borne is None:
        return label
    return replace(label, codes=np.where(label.borne, label.codes, blank))


def _problems(args: _Args) -> Iterator[str]:
    """Return the problem of args by the rules of kube-scheduler."""
    if args.defaulting_type == "System" and args.default_constraints:
        yield "defaultConstraints need the defaultingType List"
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        where = f"defaultConstraints[{index}]"
        if constraint.max_skew <= 0:
            yield f"{where}.maxSkew must be greater than 0"
        if not is_qualified_name(constraint.topology_key):
            yield f"{where}.topologyKey must be a valid label key"
        if constraint.when_unsatisfiable not in (_REQUIRED, _WISHED):
            yield f"{where}.whenUnsatisfiable must be {_REQUIRED} or {_WISHED}"
        if constraint.label_selector is not None:
            yield f"{where}.labelSelector must not be set: it is deduced for each pod"
        both = (constraint.topology_key, constraint.when_unsatisfiable)
        if both in seen:
            yield f"{where} repeats an earlier one"
        seen.add(both)
