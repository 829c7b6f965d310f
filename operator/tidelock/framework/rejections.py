"""Why plugins reject nodes: their reasons and numbers, as the framework takes them.

A plugin writes names, values and errors of tenants into its texts, and there is one for each node and each
pod in the queue. So the length of a text is limited, and so is the number of different reasons in a message.
All are plain strings and integers, whatever a plugin returns.
"""

from collections import Counter
from collections.abc import Mapping
from heapq import nsmallest

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import MOST_REASONS, Filter
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod
from tidelock.model.printable import shortened

_LONGEST_NUMBERS = 1000  # characters of the numbers of one node: those of several resources


def reasons_of(plugin: Filter, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
    """Return the reasons for which a filter has rejected a node."""
    return tuple(map(shortened, plugin.reasons(state, pod, snapshot, row)))


def count_of_reasons(
    plugin: Filter, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows
) -> Counter[str]:
    """Count nodes that a filter has rejected, by the reasons."""
    counts: Counter[str] = Counter()
    for reason, nodes in plugin.tally(state, pod, snapshot, rows).items():
        counts[shortened(reason)] += int(nodes)
    return counts


def numbers_of(plugin: Filter, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
    """Return the numbers by which a filter has rejected a node, or an empty text."""
    return shortened(plugin.detail(state, pod, snapshot, row), _LONGEST_NUMBERS)


def nodes_by_reason(nodes: int, counts: Mapping[str, int]) -> str:
    """Return a message with the number of nodes for each reason, in kube-scheduler's form.

    Of too many reasons it has those of most nodes, and the number of the others.
    """
    common = nsmallest(MOST_REASONS, counts.items(), key=lambda each: (-each[1], each[0]))
    texts = sorted(f"{count} {reason}" for reason, count in common)
    if len(counts) > len(common):
        texts.append(f"and {len(counts) - len(common)} other reasons")
    return f"0/{nodes} nodes are available" + (f": {', '.join(texts)}." if texts else ".")


def shortage_text(resource: str, needed: str, free: str) -> str:
    """Say how much of a resource is needed, and how much a node has."""
    return f"{resource} {needed} needed, {free} free"
