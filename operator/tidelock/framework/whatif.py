"""What would be: nodes with other pods on them, or without some of theirs, judged by the same filters.

Preemption tries out evictions so; and a node for which pods are nominated is judged as if they were there,
since a pod may not take the room that is being made for one that is not below it. Upstream: kube-scheduler
1.36, framework/runtime, RunFilterPluginsWithNominatedPods.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from tidelock.cluster.cache import Placed
from tidelock.cluster.columns import Amounts, Rows
from tidelock.cluster.nominator import Nominator
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Filter, Mask, PreFilter, Verdict, View
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.ownlocks import OwnLocks
from tidelock.model.pods import Pod


class WhatIf:
    """Some rows of a snapshot, to be changed at will; what the cluster is stays as it is.

    Attributes:
        snapshot: the copy of the rows.
        follows: whether any filter wants to know of pods that are added and removed.

    """

    def __init__(
        self, filters: Sequence[Filter], state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows
    ) -> None:
        self.snapshot = snapshot.take(rows)
        self._filters = filters
        self._followers = [each for each in filters if isinstance(each, PreFilter) and _follows(each)]
        self.follows = bool(self._followers)
        self._state = state.clone()
        self._pod = pod
        self._whole = snapshot

    def add(self, others: Sequence[Placed]) -> None:
        """Have the filters' state count pods as well; amounts are `shift`ed on their own."""
        for plugin in self._followers:
            for other in others:
                plugin.add_pod(self._state, self._pod, other, self._whole)

    def remove(self, others: Sequence[Placed]) -> None:
        """Have the filters' state count pods no longer; amounts are `shift`ed on their own."""
        for plugin in self._followers:
            for other in others:
                plugin.remove_pod(self._state, self._pod, other, self._whole)

    def shift(self, indexes: Rows, amounts: Amounts, sign: int) -> None:
        """Add amounts to nodes, or take them off.

        Args:
            indexes: the nodes, each at most once, as K indexes of the snapshot.
            amounts: K x 2R+2: requested and locked of each resource, then nonzero cpu and memory.
            sign: 1 or -1.

        """
        width = self.snapshot.requested.shape[1]
        self.snapshot.requested[indexes] += sign * amounts[:, :width]
        self.snapshot.locked[indexes] += sign * amounts[:, width : 2 * width]
        self.snapshot.nonzero[indexes] += sign * amounts[:, 2 * width :]

    def judge(self) -> Verdict:
        """Run the filters."""
        fits: Mask = np.ones(len(self.snapshot), np.bool_)
        ruled_out = []
        for plugin in self._filters:
            mask = plugin.filter(self._state, self._pod, self.snapshot)
            ruled_out.append((plugin, fits & ~mask))
            fits &= mask
            if not fits.any():
                break
        return Verdict(fits, tuple(ruled_out), tuple(self._filters))

    def view(self, index: int) -> View:
        """Give one of the nodes as it would be."""
        return View(self._state, self.snapshot, index)


def room_of(snapshot: Snapshot, pods: Sequence[Pod]) -> Amounts:
    """Sum what pods take, as one row for `WhatIf.shift`."""
    width = snapshot.requested.shape[1]
    row = np.zeros(2 * width + 2, np.int64)
    for pod in pods:
        row[:width] += snapshot.vector(pod.requests)
        row[-2:] += pod.nonzero
    return row


def apart(filters: Sequence[Filter], rows: Rows) -> list[Rows]:
    """Group rows so that what would be on one of a group changes nothing for the others.

    All may be tried out at once, unless a filter follows pods beyond their own nodes, as spreading does.
    """
    if all(plugin.per_node or not _follows(plugin) for plugin in filters):
        return [rows] if len(rows) else []
    return [rows[place : place + 1] for place in range(len(rows))]


def crowded(
    filters: Sequence[Filter],
    state: CycleState,
    pod: Pod,
    snapshot: Snapshot,
    rows: Rows,
    nominator: Nominator,
) -> tuple[WhatIf, Rows] | None:
    """Give those of the rows for which pods are nominated that the pod must yield to, as if these were there.

    With them come their indexes among the rows; None if there are none.
    """
    if not nominator.nodes:
        return None
    rivals: dict[int, list[Pod]] = {}
    for index in np.flatnonzero(np.isin(rows, _rows_of(nominator, snapshot))).tolist():
        if others := list(_rivals(nominator, state, pod, snapshot.nodes[rows[index]].name)):
            rivals[index] = others
    if not rivals:
        return None
    indexes = np.array(list(rivals), np.intp)
    whatif = WhatIf(filters, state, pod, snapshot, rows[indexes])
    for place, (index, others) in enumerate(rivals.items()):
        whatif.shift(np.array([place]), room_of(snapshot, others)[np.newaxis], 1)
        whatif.add([Placed(other, snapshot.nodes[rows[index]].name, assumed=True) for other in others])
    return whatif, indexes


def yielding(
    verdict: Verdict, nominator: Nominator, state: CycleState, pod: Pod, snapshot: Snapshot
) -> Verdict:
    """Rule out nodes that a pod fits only as long as those nominated there, not below it, are not there.

    Nodes without nominations stay as they were judged. Reasons are those that hold with the nominated pods.
    """
    if not nominator.nodes:
        return verdict
    judged = verdict.fits.copy()
    for _, mask in verdict.ruled_out:
        judged |= mask
    rows = _rows_of(nominator, snapshot)
    rows = rows[judged[rows]]
    if not len(rows):
        return verdict
    fits, views = verdict.fits.copy(), dict(verdict.views)
    masks = {plugin: mask.copy() for plugin, mask in verdict.ruled_out}
    for group in apart(verdict.filters, rows):
        crowd = crowded(verdict.filters, state, pod, snapshot, group, nominator)
        if crowd is None:
            continue
        whatif, indexes = crowd
        for plugin, mask in whatif.judge().ruled_out:
            for place in np.flatnonzero(mask):
                row = int(group[indexes[place]])
                for earlier in masks.values():
                    earlier[row] = False
                masks.setdefault(plugin, np.zeros(len(snapshot), np.bool_))[row] = True
                fits[row] = False
                views[row] = whatif.view(int(place))
    ordered = tuple((plugin, masks[plugin]) for plugin in verdict.filters if plugin in masks)
    return Verdict(fits, ordered, verdict.filters, views)


def _rows_of(nominator: Nominator, snapshot: Snapshot) -> Rows:
    """Rows of the nodes for which pods are nominated."""
    rows = (snapshot.row(name) for name in nominator.nodes)
    return np.array(sorted(row for row in rows if row is not None), np.intp)


def _rivals(nominator: Nominator, state: CycleState, pod: Pod, node_name: str) -> Iterator[Pod]:
    """Give the pods nominated for a node that another must yield to; its own locks are none of them."""
    own = state.read(OwnLocks)
    mine = {entry.uid for entry in own.entries} if own else ()
    return (other for other in nominator.rivals(pod, node_name) if other.uid not in mine)


def _follows(plugin: Filter) -> bool:
    """Whether the state of a filter changes with the pods that are added and removed."""
    return isinstance(plugin, PreFilter) and (
        type(plugin).add_pod is not PreFilter.add_pod or type(plugin).remove_pod is not PreFilter.remove_pod
    )
