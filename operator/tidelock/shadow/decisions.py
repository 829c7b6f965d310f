"""Counts how the decisions of the cluster's schedulers differ from those of the profile, and why."""

from collections import Counter, defaultdict
from typing import NamedTuple

from tidelock.model.pods import Pod
from tidelock.shadow.results import DecisionExample, DecisionResults
from tidelock.shadow.statistics import Sample, quantile
from tidelock.shadow.world import Comparison, Outcome

_GAPS = 1000
_EXAMPLES = 20
# Names of schedulers that are counted one by one. All others are counted together.
_MOST_SCHEDULERS = 20
OTHER_SCHEDULERS = "others"


class ReplayedCounts(NamedTuple):
    """Pods of the replayed world: without a node when they were bound, still without one, on another node."""

    unplaced: int
    unplaced_now: int
    apart: int


class Decisions:
    """The comparisons so far."""

    def __init__(self, seed: int) -> None:
        self._by_scheduler: defaultdict[str, Counter[Outcome]] = defaultdict(Counter)
        self._gaps = Sample[float](_GAPS, seed)
        self._points: defaultdict[str, float] = defaultdict(float)
        self._decisive: Counter[str] = Counter()
        self._rejecters: Counter[str] = Counter()
        self._examples = Sample[DecisionExample](_EXAMPLES, seed)
        self._refusals = self._refusals_fitting = 0
        self.of_daemon_sets = self.created_bound = self.missed = 0

    def compared(self, pod: Pod, node_name: str, comparison: Comparison, now: float) -> None:
        """Count a binding."""
        scheduler, outcome = pod.spec.scheduler_name, comparison.outcome
        if scheduler not in self._by_scheduler and len(self._by_scheduler) >= _MOST_SCHEDULERS:
            scheduler = OTHER_SCHEDULERS
        self._by_scheduler[scheduler][outcome] += 1
        self._rejecters.update(comparison.rejecters)
        if outcome is Outcome.LOWER:
            self._gaps.add(comparison.gap)
            for plugin, points in comparison.points.items():
                self._points[plugin] += points
            self._decisive[_decisive(comparison)] += 1
        if outcome in (Outcome.LOWER, Outcome.RULED_OUT, Outcome.NO_NODE):
            self._examples.add(
                DecisionExample(
                    now,
                    str(pod.key),
                    pod.spec.scheduler_name,
                    node_name,
                    comparison.node,
                    outcome,
                    _why(comparison),
                )
            )

    def refused(self, *, fits: bool) -> None:
        """Count a pod that its scheduler reported as unschedulable for the first time."""
        self._refusals += 1
        self._refusals_fitting += fits

    def results(self, replayed: ReplayedCounts) -> DecisionResults:
        """Return the counts so far."""
        gaps = self._gaps.values
        return DecisionResults(
            outcomes=dict(sum(self._by_scheduler.values(), Counter[Outcome]())),
            by_scheduler={name: dict(counts) for name, counts in sorted(self._by_scheduler.items())},
            of_daemon_sets=self.of_daemon_sets,
            created_bound=self.created_bound,
            missed=self.missed,
            gap_p50=quantile(gaps, 0.5),
            gap_p99=quantile(gaps, 0.99),
            points=dict(sorted(self._points.items(), key=lambda each: -abs(each[1]))),
            decisive=dict(self._decisive.most_common()),
            rejecters=dict(self._rejecters.most_common()),
            refusals=self._refusals,
            refusals_fitting=self._refusals_fitting,
            unplaced=replayed.unplaced,
            unplaced_now=replayed.unplaced_now,
            apart=replayed.apart,
            examples=sorted(self._examples.values, key=lambda each: each.at),
        )


def _decisive(comparison: Comparison) -> str:
    """Return the plugin that speaks most for the profile's node."""
    return max(comparison.points, key=lambda plugin: (comparison.points[plugin], plugin))


def _why(comparison: Comparison) -> str:
    if comparison.outcome is Outcome.LOWER:
        ordered = sorted(comparison.points.items(), key=lambda each: -abs(each[1]))
        return ", ".join(f"{plugin} {points:+.0f}" for plugin, points in ordered)
    return ", ".join(comparison.rejecters)
