"""NodePorts: a pod only goes where its host ports are free.

Source: kube-scheduler 1.36, plugins/nodeports. Two ports conflict if protocol and number are equal, and the
address is equal or one of them stands for all addresses. Init containers that end use no ports. Reserve pods
use their ports.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelock.cluster.placed import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    SKIP_ALIKE,
    SUCCESS,
    Counts,
    EnqueueExtensions,
    Mask,
    PreFilter,
    SingleReasonFilter,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.pods import Pod


@dataclass(frozen=True, slots=True)
class _Conflicts:
    """How many ports in use are in the pod's way, on each node of the whole snapshot."""

    counts: npt.NDArray[np.intp]

    def clone(self) -> "_Conflicts":
        return _Conflicts(self.counts.copy())


class NodePorts(PreFilter, SingleReasonFilter, EnqueueExtensions):
    """Rules out nodes where pods have a port that the pod asks for."""

    name = "NodePorts"
    per_node = True
    reason = "node(s) didn't have free ports for the requested pod ports"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Count the conflicts. Skip pods without host ports."""
        if not pod.host_ports:
            return SKIP_ALIKE
        rows = np.concatenate([self.handle.cache.ports.conflicts(port) for port in pod.host_ports])
        state.write(_Conflicts(np.bincount(rows, minlength=len(snapshot))), temporary=True)
        return SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Count the conflicts with another pod too."""
        _count(state, pod, other, snapshot, 1)

    def remove_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Count the conflicts with another pod no longer."""
        _count(state, pod, other, snapshot, -1)

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes without a conflict."""
        free: Mask = state.expect(_Conflicts).counts[snapshot.rows] == 0
        return free

    def filter_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return the same for one node."""
        return not state.expect(_Conflicts).counts[snapshot.rows][row]

    def capacity(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Counts:
        """Return 1: equal pods could not run on one node."""
        return np.ones(len(snapshot), np.int64)

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: new nodes, and pods with conflicting ports that go."""
        return (
            Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), _was_in_the_way),
            Registration(ClusterEvent(Resource.NODE, Action.ADD)),
        )


def _count(state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot, sign: int) -> None:
    """Change the conflicts of the other pod's node, unless `pre_filter` has skipped the pod."""
    row = snapshot.row(other.node_name)
    if row is not None and pod.host_ports:
        taken = other.pod.host_ports
        pairs = sum(wanted.conflicts(port) for wanted in pod.host_ports for port in taken)
        state.expect(_Conflicts).counts[row] += sign * pairs


def _was_in_the_way(pod: Pod, old: Pod, _: Pod | None) -> bool:
    return any(wanted.conflicts(port) for wanted in pod.host_ports for port in old.host_ports)
