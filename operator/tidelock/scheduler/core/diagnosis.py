"""Why no node fits: for how many nodes which reason, in kube-scheduler's form, and the numbers of a few."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code, Filter, FilterResult, NodeView, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.extension_point_timer import PluginError
from tidelock.framework.rejections import count_of_reasons, nodes_by_reason, numbers_of
from tidelock.model.pods import Pod
from tidelock.model.printable import shortened

# Nodes of which a diagnosis has the numbers. The counts cover all nodes.
_MOST_NODES = 3
_MOST_RIVALS = 3
# Characters of a message, which is kept for each waiting pod and reservation.
_LONGEST_MESSAGE = 4096
NO_NODES = "no nodes available to schedule pods"  # as in kube-scheduler


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why no node was found: a message in kube-scheduler's form, and the plugins that rejected nodes.

    Attributes:
        error: whether something failed, so nodes may fit.
        pending: plugins that let the pod wait until they activate it themselves.
        again: whether to retry soon without any event.

    """

    message: str
    plugins: frozenset[str]
    error: bool = False
    pending: frozenset[str] = frozenset()
    again: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", shortened(self.message, _LONGEST_MESSAGE))


def diagnose_plugin_rejection(point: str, plugin: str, status: Status) -> Diagnosis:
    """Return the diagnosis if a plugin rejects the last node, in kube-scheduler's form.

    Raises:
        PluginError: the status is an error.

    """
    if status.code is Code.ERROR:
        raise PluginError.of(point, plugin, ", ".join(status.reasons))
    message = f"0/1 nodes are available: {', '.join(f'1 {reason}' for reason in sorted(status.reasons))}."
    if status.code is Code.PENDING:
        return Diagnosis(message, frozenset(), pending=frozenset({plugin}))
    return Diagnosis(message, frozenset({plugin}))


def diagnose(filter_result: FilterResult, state: CycleState, pod: Pod, snapshot: Snapshot) -> Diagnosis:
    """Return the message: the number of nodes for each reason, then the numbers of a few nodes."""
    counts = count_reasons(filter_result, state, pod, snapshot)
    message = nodes_by_reason(len(snapshot), counts)
    if not len(snapshot) and not pod.spec.node_name:
        message = NO_NODES
    elif pod.spec.node_name and snapshot.row(pod.spec.node_name) is None:
        message += f" There is no node {pod.spec.node_name}."
    numbers = list(_numbers(filter_result, state, pod, snapshot))
    if numbers:
        message += f" {'; '.join(numbers)}."
    return Diagnosis(
        message, frozenset(plugin.name for plugin, mask in filter_result.ruled_out if mask.any())
    )


def count_reasons(
    filter_result: FilterResult, state: CycleState, pod: Pod, snapshot: Snapshot
) -> Counter[str]:
    """Count the nodes by the reasons for which they are ruled out."""
    counts: Counter[str] = Counter()
    for plugin, mask in filter_result.ruled_out:
        for view in filter_result.views(mask, state, snapshot):
            counts += count_of_reasons(plugin, view.state, pod, view.snapshot, view.rows)
    return counts


def in_detail(plugin: Filter, pod: Pod, view: NodeView, filter_result: FilterResult) -> str:
    """Describe the shortfall of the one node of a view, and the pods that are nominated there."""
    numbers = numbers_of(plugin, view.state, pod, view.snapshot, int(view.rows[0]))
    rivals = filter_result.rivals.get(int(view.at[0]), ())
    names = ", ".join(str(rival.key) for rival in rivals[:_MOST_RIVALS])
    names += f" and {len(rivals) - _MOST_RIVALS} more" if len(rivals) > _MOST_RIVALS else ""
    return ", ".join(filter(None, (numbers, names and beside_text(names))))


def _numbers(filter_result: FilterResult, state: CycleState, pod: Pod, snapshot: Snapshot) -> Iterator[str]:
    left = _MOST_NODES
    for plugin, mask in reversed(filter_result.ruled_out):
        for row in _first_by_name(mask.nonzero()[0], snapshot, left):
            numbers = in_detail(plugin, pod, filter_result.view(state, snapshot, int(row)), filter_result)
            if numbers:
                yield f"{snapshot.nodes[int(row)].name}: {numbers}"
                left -= 1


def _first_by_name(rows: Rows, snapshot: Snapshot, count: int) -> Rows:
    """Return the rows of the first nodes by name, in that order."""
    ranks = snapshot.traits.name_rank[rows]
    if count < len(rows):
        rows = rows[np.argpartition(ranks, count)[:count]]
    return rows[np.argsort(snapshot.traits.name_rank[rows])]


def beside_text(pods: str) -> str:
    """Say that the capacity of a node is kept for nominated pods."""
    return f"beside {pods}, for which capacity is kept"
