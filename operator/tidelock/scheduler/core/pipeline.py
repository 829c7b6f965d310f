"""The filter pipeline: which nodes a pod fits now, and which of them is the best.

No other module of the scheduler asks PreFilter, Filter, PreScore or Score plugins about the cluster. A
decision, `kubectl tidelock why`, a quote, a plan of migrations, backfill, a gang and another binder's check
all evaluate a pod here, so they cannot contradict each other.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from types import TracebackType
from typing import Self

import numpy as np

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code, Counts, Filter, FilterResult, Mask, PreFilter, Scores
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.extender import ExtenderAdviceData
from tidelock.framework.extension_point_timer import ExtensionPointTimer, MetricsRecorder
from tidelock.framework.own_reservations import OwnReservations, without_own_reservations
from tidelock.framework.profile import Profile
from tidelock.framework.whatif import (
    WhatIf,
    capacities,
    filter_with_nominated_pods,
    fitting_in_the_end,
    nominated_above,
)
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import PODS
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.reservation.plugin import ReservationPlugin
from tidelock.scheduler.core.active_plugins import ActiveFilters, ActiveScores
from tidelock.scheduler.core.diagnosis import Diagnosis, count_reasons, diagnose
from tidelock.scheduler.core.equivalence_cache import EquivalenceCache

CAPACITY_PLUGINS = frozenset({NodeResourcesFit.name, ReservationPlugin.name})
"""The plugins that rule out a node because too little of something is left on it."""


@dataclass(slots=True)
class PluginAnswers:
    """Every answer of every plugin, which a decision does not need.

    Attributes:
        masks: each filter with the nodes that pass it, in the order in which the filters ran.
        points: the weighted points of each plugin that scores, for the nodes in `rows`.
        rows: the nodes that were scored.

    """

    masks: list[tuple[Filter, Mask]] = field(default_factory=list)
    points: dict[str, Scores] = field(default_factory=dict)
    rows: Rows = field(default_factory=lambda: np.zeros(0, np.intp))


class FilterPipeline:
    """Evaluates pods over the cache and the ledger, and keeps the answers that equal pods share."""

    def __init__(self, cache: Cache, ledger: Ledger, recorder: MetricsRecorder | None = None) -> None:
        """Take the cluster, the reservations, and a recorder of durations."""
        self.cache = cache
        self.ledger = ledger
        self.classes = EquivalenceCache(cache.columns)
        self.recorder = recorder

    def forget(self) -> None:
        """Drop the answers that equal pods share."""
        self.classes = EquivalenceCache(self.cache.columns)

    def evaluate(
        self,
        profile: Profile,
        pod: Pod,
        now: float,
        *,
        own: tuple[ReservationInfo, ...] | None = None,
        advice: ExtenderAdviceData | None = None,
        measured: bool = False,
    ) -> "Evaluation":
        """Begin to evaluate a pod. The result is a context manager.

        Args:
            profile: the plugins.
            pod: the pod, or the reserve pod of a reservation.
            now: the decision time, in seconds since the epoch.
            own: the reservations that do not count against the pod. By default the ledger looks them up.
            advice: the answers of extenders about the pod. The profile must have their plugin then.
            measured: whether durations go to the recorder.

        """
        return Evaluation(self, profile, pod, now, own, advice, self.recorder if measured else None)


class Evaluation:
    """One pod over one snapshot. The context's end turns an exception of a plugin into a PluginError.

    Attributes:
        profile: the plugins.
        pod: the pod, or the reserve pod of a reservation.
        state: data that plugins pass on to themselves.
        timer: attributes durations and errors to extension points and plugins.
        snapshot: the nodes, once `filter` has run.
        result: the nodes that fit and the reasons of the others, once `filter` has run.

    """

    __slots__ = (
        "_apart",
        "_class",
        "_pipeline",
        "_rejection",
        "now",
        "pod",
        "profile",
        "result",
        "snapshot",
        "state",
        "timer",
    )

    result: FilterResult
    snapshot: Snapshot

    def __init__(
        self,
        pipeline: FilterPipeline,
        profile: Profile,
        pod: Pod,
        now: float,
        own: tuple[ReservationInfo, ...] | None,
        advice: ExtenderAdviceData | None,
        recorder: MetricsRecorder | None,
    ) -> None:
        self.profile = profile
        self.pod = pod
        self.now = now
        self.state = CycleState()
        self.state.write(DecisionTime(now))
        if own is not None:
            self.state.write(OwnReservations(own))
        if advice is not None:
            self.state.write(advice)
        self._pipeline = pipeline
        self._class = pipeline.classes.of(profile, pod)
        self._rejection: tuple[PreFilter, tuple[str, ...], Code] | None = None
        self._apart = without_own_reservations(pipeline.ledger.plugin_view, pod, self.state)
        self.timer = ExtensionPointTimer(profile.scheduler_name, recorder)
        self.state.write(self.timer)

    def __enter__(self) -> Self:
        self._apart.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.timer.__exit__(kind, error, traceback)
        finally:
            self._apart.__exit__(None, None, None)

    def filter(
        self, *, sound_only: bool = False, among: Mask | None = None, answers: PluginAnswers | None = None
    ) -> FilterResult:
        """Run PreFilter and Filter over a snapshot of now, then count pods that are nominated for nodes.

        Args:
            sound_only: whether to leave out nodes from which a reservation would have to move again.
            among: the nodes that count. All by default.
            answers: takes the answer of every filter about every node. Without it filters run until no node
                is left, and equal pods share answers.

        """
        self.snapshot = snapshot = self._pipeline.cache.snapshot()
        filters, barred = self._run_pre_filters()
        if filters is None:
            self.result = FilterResult(np.zeros(len(snapshot), np.bool_), (), ())
            return self.result
        self.timer.enter("Filter")
        eligible = _sound(snapshot) if sound_only else among
        if answers is None:
            result = self._run_filters(filters, eligible, barred)
        else:
            result = self._run_all_filters(filters, eligible, barred, answers)
        nominator = self._pipeline.cache.nominator
        self.result = filter_with_nominated_pods(result, nominator, self.state, self.pod, snapshot)
        self.timer.leave(Code.SUCCESS)
        return self.result

    @property
    def rejection(self) -> tuple[PreFilter, tuple[str, ...], Code] | None:
        """The PreFilter plugin that rejected the pod for all nodes, if one did, with its reasons."""
        return self._rejection

    def best(self) -> Node | None:
        """Filter, and return the best node, if any fits."""
        self.filter()
        return self.choose()

    def choose(self, fits: Mask | None = None, answers: PluginAnswers | None = None) -> Node | None:
        """Return the best of the nodes that fit, or of those in `fits`. A nominated node is the best."""
        snapshot = self.snapshot
        fits = self.result.fits if fits is None else fits
        everywhere = np.count_nonzero(fits) == len(snapshot)  # the common case: nothing to pick
        rows = snapshot.indexes if everywhere else fits.nonzero()[0]
        if answers is not None:
            answers.rows = rows
            answers.points = self._points(rows)
        if not len(rows):
            return None
        nominated = self._pipeline.cache.nominator.node_of(self.pod.uid)
        if nominated and (row := snapshot.row(nominated)) is not None and fits[row]:
            return snapshot.nodes[row]
        if len(rows) == 1:  # nothing to compare, so no plugin is asked, as in kube-scheduler
            return snapshot.nodes[int(rows[0])]
        return snapshot.nodes[_best(self._score(rows), rows, snapshot)]

    def choose_between(self, begin: float, end: float, answers: PluginAnswers | None = None) -> Node | None:
        """Return the best node with capacity from one instant until before another.

        It is asked where no node fits for ever: windows share capacity with pods and reservations that are
        gone before they begin.
        """
        fits = self._fits_between(begin, end)
        return None if fits is None else self.choose(fits, answers)

    def _fits_between(self, begin: float, end: float) -> Mask | None:
        """Return the nodes that fit between two instants, or None if windows change nothing."""
        timeline, snapshot = self._pipeline.ledger.holdings.timeline, self.snapshot
        if not timeline or (begin <= self.now and end == inf):
            return None
        short = self.short_of_capacity()
        rows, unused = timeline.unused_amounts(begin, end, self.now)
        rows, unused = rows[short[rows]], unused[short[rows]]
        if not len(rows):
            return None
        whatif = self.whatif(rows)
        whatif.relieve(unused)
        fits = np.zeros(len(snapshot), np.bool_)
        fits[rows[whatif.judge().fits]] = True
        fits[list(self.nominated_above())] = False
        return fits

    def diagnose(self) -> Diagnosis:
        """Return why no node fits."""
        if self._rejection is not None:
            plugin, reasons, _ = self._rejection
            text = f"0/{len(self.snapshot)} nodes are available: {'; '.join(reasons)}."
            return Diagnosis(text, frozenset({plugin.name}))
        return diagnose(self.result, self.state, self.pod, self.snapshot)

    def reasons(self) -> Counter[str]:
        """Count the nodes by the reasons for which they are ruled out."""
        return count_reasons(self.result, self.state, self.pod, self.snapshot)

    def short_of_capacity(self) -> Mask:
        """Return the nodes that are ruled out because too little of something is left on them."""
        short = np.zeros(len(self.snapshot), np.bool_)
        for plugin, mask in self.result.ruled_out:
            if plugin.name in CAPACITY_PLUGINS:
                short |= mask
        return short

    def fitting_apart_from_placement(self) -> Mask:
        """Return the nodes that fit whatever pods and reservations are placed there."""
        fits: Mask = np.full(len(self.snapshot), bool(self.result.filters), np.bool_)
        for plugin in self.result.filters:
            if not plugin.depends_on_placement:
                fits &= plugin.filter(self.state, self.pod, self.snapshot)
        return fits

    def fitting_if_empty(self) -> Mask:
        """Return the nodes, of those short of capacity, that would fit if they were empty."""
        fits = np.zeros(len(self.snapshot), np.bool_)
        rows = self.short_of_capacity().nonzero()[0]
        whatif = self.whatif(rows)
        whatif.empty()
        fits[rows[whatif.judge().fits]] = True
        return fits

    def capacities(self) -> Counts:
        """Return for each node how many equal pods it can take at most, one after the other."""
        counts = capacities(self.result.filters, self.state, self.pod, self.snapshot)
        return np.where(self.fitting_in_the_end(), counts, 0)

    def fitting_in_the_end(self) -> Mask:
        """Return which nodes fit, or may fit once equal reservations are on others."""
        return fitting_in_the_end(self.result, self.state, self.pod, self.snapshot)

    def nominated_above(self) -> dict[int, Sequence[Pod]]:
        """Return the nominated pods that this one must yield to, by the row of their node."""
        return nominated_above(self._pipeline.cache.nominator, self.state, self.pod, self.snapshot)

    def whatif(self, rows: Rows) -> WhatIf:
        """Return some of the nodes, to be changed at will and filtered again."""
        return WhatIf(self.result.filters, self.state, self.pod, self.snapshot, rows)

    def _run_pre_filters(self) -> tuple[ActiveFilters | None, list[tuple[Filter, Mask]]]:
        """Run PreFilter. Return the filters left to ask, and the nodes that plugins have barred.

        There are no filters if a plugin rejects the pod for all nodes.
        """
        pod, state, snapshot, timer, shared = self.pod, self.state, self.snapshot, self.timer, self._class
        skipped: list[str] = []
        silent: list[str] = []
        sharing: list[str] = []
        barred: list[tuple[Filter, Mask]] = []
        timer.enter("PreFilter")
        for plugin in shared.plan.pre_filter:
            timer.ask(plugin)
            status = plugin.pre_filter(state, pod, snapshot)
            code = timer.code = status.code
            if code is Code.SKIP:
                (silent if status.cacheable else skipped).append(plugin.name)
            elif code is Code.SUCCESS:
                if status.cacheable:
                    sharing.append(plugin.name)
                allowed = plugin.allowed(state, pod, snapshot)
                if allowed is not None and isinstance(plugin, Filter):
                    barred.append((plugin, ~allowed))
            elif code is Code.ERROR:
                raise timer.fail(plugin, status.reasons)
            else:
                timer.leave(code)
                self._rejection = plugin, status.reasons, code
                return None, barred
        if silent:
            shared.plan = shared.plan.without(filters=tuple(silent))
        return shared.plan.filters(tuple(skipped), tuple(sharing)), barred

    def _run_filters(
        self, filters: ActiveFilters, eligible: Mask | None, barred: list[tuple[Filter, Mask]]
    ) -> FilterResult:
        """Run filters until no node is left: first those with an answer that equal pods share.

        Nodes that are barred by a plugin's PreFilter count as ruled out by it before any filter.
        """
        pod, state, snapshot = self.pod, self.state, self.snapshot
        left, ruled_out = _without_barred(eligible, barred)
        rejecters = self._class.rejecters(filters.sharing, state, pod, snapshot, self.timer)
        mask = rejecters < 0
        if np.count_nonzero(mask) < len(mask):
            ruled_out += [
                (plugin, _among(left, rejecters == index)) for index, plugin in enumerate(filters.sharing)
            ]
        fits = _among(left, mask)
        for plugin in filters.others:
            if not fits.any():
                break
            self.timer.ask(plugin)
            mask = plugin.filter(state, pod, snapshot)
            ruled_out.append((plugin, fits & ~mask))
            fits = fits & mask
        return FilterResult(fits, tuple(ruled_out), filters.judging)

    def _run_all_filters(
        self,
        filters: ActiveFilters,
        eligible: Mask | None,
        barred: list[tuple[Filter, Mask]],
        answers: PluginAnswers,
    ) -> FilterResult:
        """Run every filter over every node, in the order of the profile, and note each answer."""
        left, ruled_out = _without_barred(eligible, barred)
        fits = np.ones(len(self.snapshot), np.bool_) if left is None else left
        answers.masks += [(plugin, ~mask) for plugin, mask in barred]
        for plugin in filters.asked:
            self.timer.ask(plugin)
            mask = plugin.filter(self.state, self.pod, self.snapshot)
            answers.masks.append((plugin, mask))
            ruled_out.append((plugin, fits & ~mask))
            fits = fits & mask
        return FilterResult(fits, tuple(ruled_out), filters.judging)

    def _score(self, rows: Rows) -> Scores:
        """Run PreScore and Score, and sum the weighted scores of the nodes that fit."""
        pod, state, snapshot, timer, shared = self.pod, self.state, self.snapshot, self.timer, self._class
        scorers = self._run_pre_scores(rows)
        timer.enter("Score")
        total = shared.total(scorers.summed, state, pod, snapshot, timer)
        total = total if rows is snapshot.indexes else total[rows]
        for plugin, weight in scorers.others:
            if plugin.scores_per_node:
                scores = shared.total(((plugin, 1),), state, pod, snapshot, timer)
                scores = scores if rows is snapshot.indexes else scores[rows]
            else:
                timer.ask(plugin)
                scores = plugin.score(state, pod, snapshot, rows)
            total = total + weight * plugin.normalize(state, pod, scores)
        timer.leave(Code.SUCCESS)
        return total

    def _points(self, rows: Rows) -> dict[str, Scores]:
        """Run PreScore and Score, and return the weighted scores of each plugin for the nodes that fit."""
        points: dict[str, Scores] = {}
        if len(rows):
            scorers = self._run_pre_scores(rows)
            self.timer.enter("Score")
            for plugin, weight in (*scorers.summed, *scorers.others):
                self.timer.ask(plugin)
                scores = plugin.score(self.state, self.pod, self.snapshot, rows)
                points[plugin.name] = weight * plugin.normalize(self.state, self.pod, scores)
            self.timer.leave(Code.SUCCESS)
        return points

    def _run_pre_scores(self, rows: Rows) -> ActiveScores:
        """Run PreScore, and return the scorers left to ask."""
        pod, state, snapshot, timer, shared = self.pod, self.state, self.snapshot, self.timer, self._class
        timer.enter("PreScore")
        skipped: list[str] = []
        silent: list[str] = []
        for looking in shared.plan.pre_score:
            timer.ask(looking)
            status = looking.pre_score(state, pod, snapshot, rows)
            code = timer.code = status.code
            if code is Code.SKIP:
                (silent if status.cacheable else skipped).append(looking.name)
            elif code is not Code.SUCCESS:
                raise timer.fail(looking, status.reasons)
        if silent:
            shared.plan = shared.plan.without(scorers=tuple(silent))
        return shared.plan.scorers(tuple(skipped))


def run_filters(
    filters: Sequence[Filter], state: CycleState, pod: Pod, snapshot: Snapshot
) -> list[tuple[Filter, Mask]]:
    """Run a few filters, with their PreFilters, over hypothetical nodes. Return the answer of each."""
    for plugin in filters:
        if isinstance(plugin, PreFilter):
            plugin.pre_filter(state, pod, snapshot)
    return [(plugin, plugin.filter(state, pod, snapshot)) for plugin in filters]


def _without_barred(
    left: Mask | None, barred: list[tuple[Filter, Mask]]
) -> tuple[Mask | None, list[tuple[Filter, Mask]]]:
    """Return the nodes that no plugin has barred, and which plugin was the first to bar which others."""
    ruled_out: list[tuple[Filter, Mask]] = []
    for plugin, mask in barred:
        ruled_out.append((plugin, _among(left, mask)))
        left = _among(left, ~mask)
    return left, ruled_out


def _among(left: Mask | None, mask: Mask) -> Mask:
    """Return the part of a mask for some nodes. None stands for all nodes."""
    return mask if left is None else left & mask


def _sound(snapshot: Snapshot) -> Mask:
    return np.fromiter((node.sound for node in snapshot.nodes), np.bool_, len(snapshot))


def _best(scores: Scores, rows: Rows, snapshot: Snapshot) -> int:
    """Return the row of the highest score. Among equals the fewest pods decide, then the name.

    kube-scheduler draws among equals, which spreads pods too. This way the same decision is made again.
    """
    ties = (scores == scores[scores.argmax()]).nonzero()[0]
    ties = ties if rows is snapshot.indexes else rows[ties]
    pods = snapshot.requested[ties, snapshot.column(PODS)]
    return int(ties[(pods * len(snapshot) + snapshot.traits.name_rank[ties]).argmin()])
