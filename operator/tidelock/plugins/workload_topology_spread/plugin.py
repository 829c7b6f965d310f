"""WorkloadTopologySpread: no domain has more than its share of one workload's pods.

For pods without topologySpreadConstraints, the args limit the pods of one controller, or the percentage of
its replicas, in a node, zone or other domain. A hard constraint rejects full domains. Each constraint scores
a domain by the rest of its limit. Nodes without the label are no domain, and have no limit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from tidelock.cluster.arrays import Counts
from tidelock.cluster.columns import Rows
from tidelock.cluster.index.labels import Label
from tidelock.cluster.placed import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    EnqueueExtensions,
    Handle,
    Mask,
    PreFilter,
    PreScore,
    Score,
    Scores,
    SingleReasonFilter,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.framework.plugin_args import read_args
from tidelock.model.meta import OwnerReference
from tidelock.model.pods import Pod
from tidelock.plugins.workload_topology_spread.replicas import Replicas


class _Constraint(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    topology_key: Annotated[str, msgspec.Meta(min_length=1, max_length=317)]
    max_pods: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_percent: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "DoNotSchedule"

    def cap(self, replicas: int) -> int:
        """Return how many of a workload's pods a domain may have: at least one."""
        if self.max_pods is not None:
            return self.max_pods
        return max(math.ceil(replicas * (self.max_percent or 0) / 100), 1)


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    constraints: tuple[_Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class _Domains:
    """One constraint: how many pods each domain has (V + 1 by the label's codes), and may have."""

    label: Label
    counts: Counts
    cap: int
    required: bool


@dataclass(slots=True)
class _Spread:
    controller_uid: str
    domains: tuple[_Domains, ...]

    def clone(self) -> "_Spread":
        """Return a copy of the parts that may change."""
        return replace(self, domains=tuple(replace(each, counts=each.counts.copy()) for each in self.domains))


class WorkloadTopologySpread(PreFilter, SingleReasonFilter, PreScore, Score, EnqueueExtensions):
    """Keeps the pods of one workload apart."""

    name = "WorkloadTopologySpread"
    reason = "node(s) in a domain that has its share of the workload's pods"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take the constraints."""
        self._constraints = read_args(self.name, args, _Args).constraints
        super().__init__(handle, {})
        for index, each in enumerate(self._constraints):
            if (each.max_pods is None) == (each.max_percent is None):
                text = f"constraints[{index}]: exactly one of maxPods and maxPercent is required"
                raise ValueError(f"pluginConfig of {self.name}: {text}")
        self._replicas = Replicas()
        if self._constraints:
            handle.cache.add_observer(self._replicas)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Count the workload's pods by domain. Skip pods without one, and those with own constraints."""
        controller = pod.meta.controller
        if not self._constraints or controller is None or pod.spec.topology_spread_constraints:
            return SKIP
        found = self._replicas.of(controller.uid)
        counts = np.zeros(len(snapshot), np.int64)
        for name, count in found.items():
            if (row := snapshot.row(name)) is not None:
                counts[row] = count
        replicas = self._wanted(controller, pod.meta.namespace) or sum(found.values()) + 1
        domains = []
        for each in self._constraints:
            label = snapshot.labels(each.topology_key)
            required = each.when_unsatisfiable == "DoNotSchedule"
            domains.append(_Domains(label, label.totals(counts), each.cap(replicas), required))
        state.write(_Spread(controller.uid, tuple(domains)))
        return SUCCESS if any(each.required for each in domains) else SKIP

    def add_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Count another pod of the workload."""
        self._move(state, other, snapshot, 1)

    def remove_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Count another pod of the workload no longer."""
        if not other.pod.leaving:
            self._move(state, other, snapshot, -1)

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Return the nodes of domains that are not full."""
        mask: Mask = np.ones(len(snapshot), np.bool_)
        for each in state.expect(_Spread).domains:
            if each.required:
                mask &= np.less(each.counts, each.cap)[each.label.codes[snapshot.rows]]
        return mask

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip pods that no constraint is for."""
        return SUCCESS if state.read(_Spread) is not None else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score the rest of a domain's limit, in the mean over the constraints."""
        spread = state.read(_Spread)
        total = np.zeros(len(rows))
        if spread is None:
            return total
        for each in spread.domains:
            left = np.maximum(1 - each.counts / each.cap, 0.0)
            total += left[each.label.codes[snapshot.rows][rows]]
        scores: Scores = MAX_NODE_SCORE * total / len(spread.domains)
        return scores

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: pods of the workload that go, and nodes that are new or get other labels."""
        goes = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE | Action.UPDATE)
        node = ClusterEvent(Resource.NODE, Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL)
        return (
            Registration(goes, _of_one_controller),
            Registration(node),
            Registration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE)),
        )

    def _wanted(self, controller: OwnerReference, namespace: str) -> int:
        """Return the wanted number of replicas of a controller, or 0 if it is unknown."""
        objects = self.handle.objects
        listers = {"ReplicaSet": objects.replica_sets, "StatefulSet": objects.stateful_sets}
        lister = listers.get(controller.kind) if controller.api_version == "apps/v1" else None
        workload = lister.get(controller.name, namespace) if lister is not None else None
        return workload.spec.replicas if workload is not None else 0

    def _move(self, state: CycleState, other: Placed, snapshot: Snapshot, sign: int) -> None:
        spread, controller = state.read(_Spread), other.pod.meta.controller
        row = snapshot.row(other.node_name)
        if spread is None or controller is None or controller.uid != spread.controller_uid or row is None:
            return
        for each in spread.domains:
            if (code := each.label.codes[row]) >= 0:
                each.counts[code] += sign


def _of_one_controller(pod: Pod, old: Pod | None, new: Pod | None) -> bool:
    other = old or new
    ours, theirs = pod.meta.controller, other.meta.controller if other is not None else None
    return ours is not None and theirs is not None and ours.uid == theirs.uid
