"""Hypothetical nodes: with more pods or without some, judged by the same filters.

Preemption tries evictions in this way. A node with nominated pods is judged as if they were there, because a
pod must not take capacity that is being freed for one that is not below it. Source: kube-scheduler 1.36,
framework/runtime, RunFilterPluginsWithNominatedPods.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_

import numpy as np

from tidelock.cluster.columns import Amounts, Rows
from tidelock.cluster.nominator import Earmark, Nominator
from tidelock.cluster.placed import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Counts, Filter, FilterResult, Mask, NodeView, PreFilter
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.extension_point_timer import ExtensionPointTimer
from tidelock.framework.own_reservations import AllReservations, OwnReservations
from tidelock.framework.rejections import count_of_reasons
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod
from tidelock.model.quantities import CEILING, Resources, covers


class WhatIf:
    """A copy of some rows of a snapshot for changes. The cluster is not changed.

    A change of one node has no effect on the others. So if a filter depends on pods of other nodes, as
    spreading does, every node has a state of its own, and that filter is asked node by node.

    Attributes:
        snapshot: the copy of the rows.
        follows: whether any filter's state follows added and removed pods.

    """

    def __init__(
        self, filters: Sequence[Filter], state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows
    ) -> None:
        self.snapshot = snapshot.take(rows)
        self._filters = filters
        self._followers = [each for each in filters if isinstance(each, PreFilter) and _follows(each)]
        self._far = {each for each in self._followers if not each.per_node}
        self.follows = bool(self._followers)
        self._timer = state.read(ExtensionPointTimer) or ExtensionPointTimer()
        self._state = state.clone()
        self._alone: list[tuple[CycleState, Snapshot]] = []
        if self._far:
            self._alone = [(state.clone(), _only(self.snapshot, index)) for index in range(len(rows))]
        self._pod = pod
        self._whole = snapshot

    def add(self, index: int, others: Iterable[Placed]) -> None:
        """Count more pods in the state in which filters judge a node. Amounts are `shift`ed separately.

        The pods may be on other nodes. Filters that judge each node by itself don't notice these.
        """
        for other in others:
            for plugin in self._followers:
                since = self._timer.now()
                for state in self._states(plugin, index, other):
                    plugin.add_pod(state, self._pod, other, self._whole)
                self._timer.aside(plugin, "PreFilterExtensionAddPod", since)

    def remove(self, index: int, others: Iterable[Placed]) -> None:
        """Stop counting pods in the state in which filters judge a node, as `add` counts them."""
        for other in others:
            for plugin in self._followers:
                since = self._timer.now()
                for state in self._states(plugin, index, other):
                    plugin.remove_pod(state, self._pod, other, self._whole)
                self._timer.aside(plugin, "PreFilterExtensionRemovePod", since)

    def shift(self, amounts: Amounts, sign: int) -> None:
        """Add amounts to the T nodes, or take them off.

        Args:
            amounts: T x 2R+2: requested and locked of each resource, then nonzero cpu and memory.
            sign: 1 or -1.

        """
        width = self.snapshot.requested.shape[1]
        change = np.add if sign > 0 else np.subtract
        for column, shifted in (
            (self.snapshot.requested, amounts[:, :width]),
            (self.snapshot.reserved, amounts[:, width : 2 * width]),
            (self.snapshot.nonzero, amounts[:, 2 * width :]),
        ):
            change(column, shifted, out=column)

    def empty(self) -> None:
        """Count nothing of the T nodes as requested or locked."""
        self.snapshot.requested[:] = 0
        self.snapshot.reserved[:] = 0

    def relieve(self, amounts: Amounts) -> None:
        """Count so much of each of the T nodes as requested no longer: T x R amounts."""
        self.snapshot.requested[:, : amounts.shape[1]] -= amounts

    def release(self, index: int, resources: Resources) -> None:
        """Count this much of a node as requested no longer."""
        self.snapshot.requested[index] -= self.snapshot.vector(resources)

    def unlock(self, index: int, resources: Resources) -> None:
        """Count this much of a node as locked no longer."""
        self.snapshot.reserved[index] -= self.snapshot.vector(resources)

    def judge(self) -> FilterResult:
        """Run the filters."""
        fits: Mask = np.ones(len(self.snapshot), np.bool_)
        ruled_out = []
        for plugin in self._filters:
            mask = self._ask(plugin, fits)
            ruled_out.append((plugin, fits & ~mask))
            fits &= mask
            if not fits.any():
                break
        return FilterResult(fits, tuple(ruled_out), tuple(self._filters))

    def still_fit(self, among: Mask) -> Mask:
        """Return on which of these nodes the pod still fits after more changes."""
        fits = among.copy()
        for plugin in self._filters:
            if plugin.depends_on_placement:
                fits &= self._ask(plugin, fits)
        return fits

    def capacities(self) -> Counts:
        """Return for each node how many equal pods fit."""
        return capacities(self._filters, self._state, self._pod, self.snapshot)

    def views(self, mask: Mask) -> Iterator[NodeView]:
        """Return some of the nodes with their changes."""
        indexes, rows = mask.nonzero()[0], self.snapshot.rows
        if not len(indexes) or isinstance(rows, slice):
            return
        if not self._alone:
            yield NodeView(self._state, self.snapshot, indexes, rows[indexes])
            return
        for index in indexes.tolist():
            state, snapshot = self._alone[index]
            yield NodeView(state, snapshot, _FIRST, rows[index : index + 1])

    def _ask(self, plugin: Filter, fits: Mask) -> Mask:
        """Ask a filter about the nodes. If it is asked node by node, only about those that fit."""
        if plugin not in self._far:
            return plugin.filter(self._state, self._pod, self.snapshot)
        mask = np.zeros(len(fits), np.bool_)
        for index in fits.nonzero()[0].tolist():
            state, snapshot = self._alone[index]
            mask[index] = plugin.filter(state, self._pod, snapshot)[0]
        return mask

    def _states(self, plugin: Filter, index: int, other: Placed) -> Iterator[CycleState]:
        """Return the states in which a plugin counts another pod when it judges a node."""
        if plugin not in self._far:
            if other.node_name != self.snapshot.nodes[index].name:
                return
            yield self._state
        if self._alone:
            yield self._alone[index][0]


def capacities(filters: Sequence[Filter], state: CycleState, pod: Pod, snapshot: Snapshot) -> Counts:
    """Return for each node that has passed the filters how many equal pods fit."""
    counts: Counts = np.full(len(snapshot), CEILING, np.int64)
    for plugin in filters:
        most = plugin.capacity(state, pod, snapshot)
        if most is not None:
            np.minimum(counts, most, out=counts)
    return counts


def fitting_in_the_end(filter_result: FilterResult, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
    """Return which nodes fit, or may fit once equal reservations are on others."""
    fits = filter_result.fits
    for plugin, ruled_out in filter_result.ruled_out:
        if plugin.relents and ruled_out.any():
            others = (other for other in filter_result.filters if other is not plugin)
            fits = fits | reduce(and_, (each.filter(state, pod, snapshot) for each in others), ruled_out)
    return fits


def count_reasons_of_views(plugin: Filter, pod: Pod, views: Iterable[NodeView]) -> Counter[str]:
    """Count a filter's reasons on nodes as they would be."""
    counts: Counter[str] = Counter()
    for view in views:
        counts += count_of_reasons(plugin, view.state, pod, view.snapshot, view.rows)
    return counts


def filter_rows_with_nominated_pods(
    filters: Sequence[Filter],
    state: CycleState,
    pod: Pod,
    snapshot: Snapshot,
    rows: Rows,
    rivals: Mapping[int, Sequence[Pod]],
) -> tuple[WhatIf, Rows] | None:
    """Return the rows with rivals of a pod, as if these were there, or None if there are none.

    With them come their indexes among the rows, in ascending order.
    """
    if not rivals:
        return None
    found = [(index, row) for index, row in enumerate(rows.tolist()) if row in rivals]
    if not found:
        return None
    indexes = np.array([index for index, _ in found], np.intp)
    there = [rivals[row] for _, row in found]
    whatif = WhatIf(filters, state, pod, snapshot, rows[indexes])
    whatif.shift(_request_sums(snapshot, there), 1)
    names = [node.name for node in whatif.snapshot.nodes]
    everything = state.read(AllReservations)
    if everything is not None:
        own, reservations = state.expect(OwnReservations).entries, everything.reservations
        for place, others in enumerate(there):
            if not pod.borrows:  # a borrower would use the capacity that is held for them
                whatif.unlock(place, reservations.kept_for(others, names[place], own))
            if whatif.follows and reservations.noticeable:
                theirs = reservations.nominated_on(others, names[place])
                whatif.remove(place, reserved([each for each in theirs if each not in own]))
    if whatif.follows:
        for place, others in enumerate(there):
            whatif.add(place, [Placed(other, names[place], assumed=True) for other in others])
    return whatif, indexes


def reserved(entries: Iterable[ReservationInfo]) -> list[Placed]:
    """Return the reserve pods of reservations that count on their nodes."""
    found = ((entry.reserve_pod, entry.node) for entry in entries)
    return [Placed(pod, name, assumed=True) for pod, name in found if pod is not None]


def filter_with_nominated_pods(
    filter_result: FilterResult, nominator: Nominator, state: CycleState, pod: Pod, snapshot: Snapshot
) -> FilterResult:
    """Rule out nodes that a pod fits only as long as those nominated there, not below it, are not there.

    Nodes without nominations stay as they were judged. Reasons are those that hold with the nominated pods.
    """
    rivals = nominated_above(nominator, state, pod, snapshot) if nominator.nodes else None
    if not rivals:
        return filter_result
    judged = filter_result.fits.copy()
    for _, mask in filter_result.ruled_out:
        judged |= mask
    rows = np.array(sorted(rivals), np.intp)
    crowd = filter_rows_with_nominated_pods(
        filter_result.filters, state, pod, snapshot, rows[judged[rows]], rivals
    )
    if crowd is None:
        return filter_result
    whatif, indexes = crowd
    rows, among = rows[judged[rows]][indexes], whatif.judge()
    out = rows[~among.fits]
    fits = filter_result.fits.copy()
    fits[out] = False
    masks: dict[Filter, Mask] = {}
    for plugin, mask in filter_result.ruled_out:  # which may name a plugin twice, as PreFilter and as Filter
        masks[plugin] = mask | masks[plugin] if plugin in masks else mask.copy()
        masks[plugin][out] = False
    for plugin, mask in among.ruled_out:
        if mask.any():
            masks.setdefault(plugin, np.zeros(len(snapshot), np.bool_))[rows[mask]] = True
    plugins = dict.fromkeys((*filter_result.filters, *masks))
    ordered = tuple((plugin, masks[plugin]) for plugin in plugins if plugin in masks)
    return FilterResult(fits, ordered, filter_result.filters, tuple(whatif.views(~among.fits)), rivals)


def nominated_above(
    nominator: Nominator, state: CycleState, pod: Pod, snapshot: Snapshot
) -> dict[int, Sequence[Pod]]:
    """Return the pods to which a pod must yield, by the row of their node, without its own reservations.

    On a node where an own reservation covers all of its requests it yields to none: that capacity was granted
    before.
    """
    own = state.read(OwnReservations)
    entries = own.entries if own else ()
    rivals = nominator.rivals(pod)
    earmark = nominator.earmark
    if earmark is not None and _yields(state, pod, entries, earmark):
        rivals[earmark.node_name] = [*rivals.get(earmark.node_name, ()), earmark.pod]
    mine = {entry.uid for entry in entries}
    sheltered = {entry.node for entry in entries if entry.held and covers(entry.held, pod.requests)}
    found: dict[int, Sequence[Pod]] = {}
    for name, others in rivals.items():
        strangers = [other for other in others if other.uid not in mine] if mine else others
        if strangers and name not in sheltered and (row := snapshot.row(name)) is not None:
            found[row] = strangers
    return found


def _yields(state: CycleState, pod: Pod, own: Sequence[ReservationInfo], earmark: Earmark) -> bool:
    """Return whether a pod or reserve pod must yield to an earmark.

    It need not if it will be gone by then, if it is above the waiting reservation, or if it is of a
    DaemonSet, which has no other node for it. Nor need an owner, if its reservation on that node has all
    that it requests, apart from the use of borrowers: they can be evicted.
    """
    everything = state.read(AllReservations)
    if everything is not None:
        shared = everything.reservations.shared
        lends = (entry for entry in own if entry.occupants and entry.node == earmark.node_name)
        if any(covers(shared.due_to_owners(entry), pod.requests) for entry in lends):
            return False
    if (pod.spec.priority > earmark.pod.spec.priority and not pod.borrows) or pod.of_daemon_set:
        return False
    return _needed_until(pod, own, state.expect(DecisionTime).now) > earmark.at


def _needed_until(pod: Pod, own: Sequence[ReservationInfo], now: float) -> float:
    """Return until when a pod or reserve pod needs capacity that it gets now."""
    for entry in own:
        if entry.uid == pod.uid:
            return lifetime.needed_from(entry, now)[1]
    return pod.gone_by(now)


def _request_sums(snapshot: Snapshot, pods: Sequence[Sequence[Pod]]) -> Amounts:
    """Return the sums of requests on each of K nodes, as K rows for `WhatIf.shift`."""
    width = len(snapshot.resources)
    amounts = np.zeros((len(pods), 2 * width + 2), np.int64)
    places = [place for place, here in enumerate(pods) for _ in here]
    every_pod = [pod for here in pods for pod in here]
    add = np.add.at if len(every_pod) > len(pods) else _put  # mostly there is one of each
    add(amounts[:, :width], places, np.array([snapshot.vector(pod.requests) for pod in every_pod]))
    add(amounts[:, 2 * width :], places, np.array([pod.nonzero for pod in every_pod]))
    return amounts


def _put(amounts: Amounts, places: Sequence[int], added: Amounts) -> None:
    amounts[places] = added


def _follows(plugin: Filter) -> bool:
    """Return whether the state of a filter follows added and removed pods."""
    return isinstance(plugin, PreFilter) and (
        type(plugin).add_pod is not PreFilter.add_pod or type(plugin).remove_pod is not PreFilter.remove_pod
    )


def _only(snapshot: Snapshot, index: int) -> Snapshot:
    """Return a view of one node of a snapshot. Writes to the snapshot are visible in it."""
    here = slice(index, index + 1)
    return replace(
        snapshot,
        nodes=[snapshot.nodes[index]],
        allocatable=snapshot.allocatable[here],
        requested=snapshot.requested[here],
        reserved=snapshot.reserved[here],
        nonzero=snapshot.nonzero[here],
        traits=snapshot.traits.take(np.array([index])),
        rows=np.array([index]) if isinstance(snapshot.rows, slice) else snapshot.rows[here],
    )


_FIRST: Rows = np.zeros(1, np.intp)
