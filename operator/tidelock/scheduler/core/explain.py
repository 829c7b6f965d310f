"""What every plugin says of every node for one pod, for people to read.

A decision asks the filters until a node is ruled out, and sums the scores. Here each filter is asked about
all nodes, and each score is told on its own. Nothing is decided.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidelock.cluster.cache import Cache
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code, Filter, FilterResult, Mask
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.extension_point_timer import ExtensionPointTimer
from tidelock.framework.own_reservations import OwnReservations, without_own_reservations
from tidelock.framework.profile import Profile
from tidelock.framework.whatif import filter_with_nominated_pods
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import PODS
from tidelock.scheduler.core.diagnosis import in_detail


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a plugin rules out a node: the reasons of a refusal, and the numbers if it has any.

    `preemption_may_help` means that the eviction of pods might help.
    """

    plugin: str
    reasons: tuple[str, ...]
    preemption_may_help: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the plugins say of one node: objections, or the weighted points of each for one that fits."""

    node: Node
    objections: tuple[Rejection, ...]
    points: Mapping[str, float]

    @property
    def total(self) -> float:
        """The sum of the points, by which nodes are chosen."""
        return sum(self.points.values())


def explain(
    cache: Cache,
    ledger: Ledger,
    profile: Profile,
    pod: Pod,
    now: float,
    reservation: ReservationInfo | None = None,
) -> list[NodeReport]:
    """Ask all plugins of a profile about a pod, or about a lock by the pod that stands in for it.

    The nodes that fit come first, the best of them at the head; then the others by name.

    Raises:
        PluginError: a plugin failed.

    """
    state = CycleState()
    state.write(DecisionTime(now))
    if reservation is not None:
        state.write(OwnReservations((reservation,)))
    snapshot = cache.snapshot()
    with without_own_reservations(ledger, pod, state), ExtensionPointTimer(profile.scheduler_name) as timer:
        state.write(timer)
        nowhere, filters = _ask_pre_filters(profile, state, pod, snapshot, timer)
        if nowhere is not None:
            return _sorted([NodeReport(node, (nowhere,), {}) for node in snapshot.nodes], snapshot)
        timer.enter("Filter")
        objections, filter_result = _ask_filters(filters, state, pod, snapshot, timer)
        filter_result = filter_with_nominated_pods(filter_result, cache.nominator, state, pod, snapshot)
        _add_rivals(objections, filter_result, state, pod, snapshot)
        fits = np.array([not each for each in objections], np.bool_)
        points = _ask_scores(profile, state, pod, snapshot, fits, timer)
    return _sorted(
        [
            NodeReport(node, tuple(objected), {name: by[row] for name, by in points.items() if row in by})
            for row, (node, objected) in enumerate(zip(snapshot.nodes, objections, strict=True))
        ],
        snapshot,
    )


def _sorted(opinions: list[NodeReport], snapshot: Snapshot) -> list[NodeReport]:
    """Put nodes that fit first, as the choice among them is made: most points, fewest pods, then by name."""
    pods = snapshot.requested[:, snapshot.column(PODS)].tolist()
    rows = {node.name: row for row, node in enumerate(snapshot.nodes)}

    def order(each: NodeReport) -> tuple[object, ...]:
        name = each.node.name
        return bool(each.objections), -each.total, 0 if each.objections else pods[rows[name]], name

    return sorted(opinions, key=order)


def _ask_pre_filters(
    profile: Profile, state: CycleState, pod: Pod, snapshot: Snapshot, timer: ExtensionPointTimer
) -> tuple[Rejection | None, list[Filter]]:
    """Have plugins look at the pod; gives an objection to all nodes, or the filters that do not skip it."""
    timer.enter("PreFilter")
    skipped = set()
    for plugin in profile.pre_filter:
        timer.ask(plugin)
        status = plugin.pre_filter(state, pod, snapshot)
        if status.code is Code.SKIP:
            skipped.add(plugin.name)
        elif status.code is Code.ERROR:
            raise timer.fail(plugin, status.reasons)
        elif not status.ok:
            preemption_may_help = status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            return Rejection(plugin.name, status.reasons, preemption_may_help), []
    return None, [plugin for plugin in profile.filter if plugin.name not in skipped]


def _ask_filters(
    filters: Sequence[Filter], state: CycleState, pod: Pod, snapshot: Snapshot, timer: ExtensionPointTimer
) -> tuple[list[list[Rejection]], FilterResult]:
    """Collect the objections of all filters to each node, and what a decision would make of them."""
    objections: list[list[Rejection]] = [[] for _ in snapshot.nodes]
    fits = np.ones(len(snapshot), np.bool_)
    ruled_out = []
    for plugin in filters:
        timer.ask(plugin)
        mask = plugin.filter(state, pod, snapshot)
        ruled_out.append((plugin, fits & ~mask))
        fits = fits & mask
        for row in np.flatnonzero(~mask).tolist():
            objections[row].append(_objection(plugin, state, pod, snapshot, row))
    return objections, FilterResult(fits, tuple(ruled_out), tuple(filters))


def _add_rivals(
    objections: list[list[Rejection]],
    filter_result: FilterResult,
    state: CycleState,
    pod: Pod,
    snapshot: Snapshot,
) -> None:
    """Add the objections to nodes that are spoilt by the pods nominated there alone."""
    for plugin, mask in filter_result.ruled_out:
        for row in np.flatnonzero(mask).tolist():
            if not objections[row]:
                view = filter_result.view(state, snapshot, row)
                there = _objection(plugin, view.state, pod, view.snapshot, int(view.rows[0]))
                objections[row].append(replace(there, detail=in_detail(plugin, pod, view, filter_result)))


def _objection(plugin: Filter, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> Rejection:
    return Rejection(
        plugin.name,
        plugin.reasons(state, pod, snapshot, row),
        plugin.preemption_may_help(state, pod, snapshot, row),
        plugin.detail(state, pod, snapshot, row),
    )


def _ask_scores(
    profile: Profile,
    state: CycleState,
    pod: Pod,
    snapshot: Snapshot,
    fits: Mask,
    timer: ExtensionPointTimer,
) -> dict[str, dict[int, float]]:
    """Give the weighted points of each plugin that scores, by the rows of the nodes that fit."""
    rows = np.flatnonzero(fits)
    if not len(rows):
        return {}
    timer.enter("PreScore")
    skipped = set()
    for looking in profile.pre_score:
        timer.ask(looking)
        status = looking.pre_score(state, pod, snapshot, rows)
        if not status.ok:
            raise timer.fail(looking, status.reasons)
        if status.code is Code.SKIP:
            skipped.add(looking.name)
    timer.enter("Score")
    points = {}
    for plugin, weight in profile.score:
        if plugin.name not in skipped:
            timer.ask(plugin)
            scores = plugin.normalize(state, pod, plugin.score(state, pod, snapshot, rows))
            points[plugin.name] = dict(zip(rows.tolist(), (weight * scores).tolist(), strict=True))
    return points
