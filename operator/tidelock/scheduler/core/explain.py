"""What every plugin says of every node for one pod, for people to read.

A decision asks the filters until a node is ruled out, and sums the scores. Here each filter is asked about
all nodes, and each score is told on its own. Nothing is decided.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidelock.cluster.cache import Cache
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code, Filter, Mask, Verdict
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import Moment
from tidelock.framework.extension_point_timer import Course
from tidelock.framework.own_reservations import OwnLocks, apart_from_own
from tidelock.framework.profile import Profile
from tidelock.framework.whatif import yielding
from tidelock.ledger.ledger import Book
from tidelock.ledger.reservation_info import Entry
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import PODS
from tidelock.scheduler.core.diagnosis import in_numbers


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a plugin rules out a node: the reasons of a refusal, and the numbers if it has any.

    `resolvable` means that the eviction of pods might help.
    """

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool
    numbers: str = ""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the plugins say of one node: objections, or the weighted points of each for one that fits."""

    node: Node
    objections: tuple[Objection, ...]
    points: Mapping[str, float]

    @property
    def total(self) -> float:
        """The sum of the points, by which nodes are chosen."""
        return sum(self.points.values())


def examine(
    cache: Cache, book: Book, profile: Profile, pod: Pod, now: float, lock: Entry | None = None
) -> list[Opinion]:
    """Ask all plugins of a profile about a pod, or about a lock by the pod that stands in for it.

    The nodes that fit come first, the best of them at the head; then the others by name.

    Raises:
        PluginError: a plugin failed.

    """
    state = CycleState()
    state.write(Moment(now))
    if lock is not None:
        state.write(OwnLocks((lock,)))
    snapshot = cache.snapshot()
    with apart_from_own(book, pod, state), Course(profile.scheduler_name) as course:
        state.write(course)
        nowhere, filters = _ask_pre_filters(profile, state, pod, snapshot, course)
        if nowhere is not None:
            return _sorted([Opinion(node, (nowhere,), {}) for node in snapshot.nodes], snapshot)
        course.enter("Filter")
        objections, verdict = _ask_filters(filters, state, pod, snapshot, course)
        verdict = yielding(verdict, cache.nominator, state, pod, snapshot)
        _add_rivals(objections, verdict, state, pod, snapshot)
        fits = np.array([not each for each in objections], np.bool_)
        points = _ask_scores(profile, state, pod, snapshot, fits, course)
    return _sorted(
        [
            Opinion(node, tuple(objected), {name: by[row] for name, by in points.items() if row in by})
            for row, (node, objected) in enumerate(zip(snapshot.nodes, objections, strict=True))
        ],
        snapshot,
    )


def _sorted(opinions: list[Opinion], snapshot: Snapshot) -> list[Opinion]:
    """Put nodes that fit first, as the choice among them is made: most points, fewest pods, then by name."""
    pods = snapshot.requested[:, snapshot.column(PODS)].tolist()
    rows = {node.name: row for row, node in enumerate(snapshot.nodes)}

    def order(each: Opinion) -> tuple[object, ...]:
        name = each.node.name
        return bool(each.objections), -each.total, 0 if each.objections else pods[rows[name]], name

    return sorted(opinions, key=order)


def _ask_pre_filters(
    profile: Profile, state: CycleState, pod: Pod, snapshot: Snapshot, course: Course
) -> tuple[Objection | None, list[Filter]]:
    """Have plugins look at the pod; gives an objection to all nodes, or the filters that do not skip it."""
    course.enter("PreFilter")
    skipped = set()
    for plugin in profile.pre_filter:
        course.ask(plugin)
        status = plugin.pre_filter(state, pod, snapshot)
        if status.code is Code.SKIP:
            skipped.add(plugin.name)
        elif status.code is Code.ERROR:
            raise course.fail(plugin, status.reasons)
        elif not status.ok:
            resolvable = status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            return Objection(plugin.name, status.reasons, resolvable), []
    return None, [plugin for plugin in profile.filter if plugin.name not in skipped]


def _ask_filters(
    filters: Sequence[Filter], state: CycleState, pod: Pod, snapshot: Snapshot, course: Course
) -> tuple[list[list[Objection]], Verdict]:
    """Collect the objections of all filters to each node, and what a decision would make of them."""
    objections: list[list[Objection]] = [[] for _ in snapshot.nodes]
    fits = np.ones(len(snapshot), np.bool_)
    ruled_out = []
    for plugin in filters:
        course.ask(plugin)
        mask = plugin.filter(state, pod, snapshot)
        ruled_out.append((plugin, fits & ~mask))
        fits = fits & mask
        for row in np.flatnonzero(~mask).tolist():
            objections[row].append(_objection(plugin, state, pod, snapshot, row))
    return objections, Verdict(fits, tuple(ruled_out), tuple(filters))


def _add_rivals(
    objections: list[list[Objection]], verdict: Verdict, state: CycleState, pod: Pod, snapshot: Snapshot
) -> None:
    """Add the objections to nodes that are spoilt by the pods nominated there alone."""
    for plugin, mask in verdict.ruled_out:
        for row in np.flatnonzero(mask).tolist():
            if not objections[row]:
                view = verdict.view(state, snapshot, row)
                there = _objection(plugin, view.state, pod, view.snapshot, int(view.rows[0]))
                objections[row].append(replace(there, numbers=in_numbers(plugin, pod, view, verdict)))


def _objection(plugin: Filter, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> Objection:
    return Objection(
        plugin.name,
        plugin.reasons(state, pod, snapshot, row),
        plugin.resolvable(state, pod, snapshot, row),
        plugin.numbers(state, pod, snapshot, row),
    )


def _ask_scores(
    profile: Profile,
    state: CycleState,
    pod: Pod,
    snapshot: Snapshot,
    fits: Mask,
    course: Course,
) -> dict[str, dict[int, float]]:
    """Give the weighted points of each plugin that scores, by the rows of the nodes that fit."""
    rows = np.flatnonzero(fits)
    if not len(rows):
        return {}
    course.enter("PreScore")
    skipped = set()
    for looking in profile.pre_score:
        course.ask(looking)
        status = looking.pre_score(state, pod, snapshot, rows)
        if not status.ok:
            raise course.fail(looking, status.reasons)
        if status.code is Code.SKIP:
            skipped.add(looking.name)
    course.enter("Score")
    points = {}
    for plugin, weight in profile.score:
        if plugin.name not in skipped:
            course.ask(plugin)
            scores = plugin.normalize(state, pod, plugin.score(state, pod, snapshot, rows))
            points[plugin.name] = dict(zip(rows.tolist(), (weight * scores).tolist(), strict=True))
    return points
