"""The results of a shadow run, as they are written to JSON. Times are seconds, instants since the epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidelock.shadow.world import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowOptions:
    """The options of a run.

    Attributes:
        leads: lead times of reservations.
        look_seconds: time between two looks at waiting pods, levels and capacity.
        measure_seconds: time between two readings of measured use.
        report_seconds: time between two reports of a run that goes on. A crash loses no more than that.
        seed: of all samples.
        profile: how the profile was chosen, for the report.
        source: the source of measured use, or empty for none.

    """

    leads: tuple[float, ...] = (10.0, 60.0, 300.0, 900.0)
    look_seconds: float = 5.0
    measure_seconds: float = 30.0
    report_seconds: float = 300.0
    seed: int = 0
    profile: str = "the default profile"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without contact to the API server, which no figure covers."""

    begun: float
    ended: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResults:
    """The run itself.

    Attributes:
        begun: when the whole cluster was known for the first time.
        watched_seconds: the time that all means over time cover.
        unread: resources that could not be read, which plugins took for empty.
        gap_seconds: the time of all gaps, of which `gaps` has the first ones.
        nodes, pods: their number at the end, where pods are those on nodes.
        failures: objects that the program failed to process.
        busy_seconds: processor time of decisions and looks.
        resident_bytes: largest resident memory of the process.
        finished: whether the run has ended, or is still going on.

    """

    begun: float
    ended: float
    watched_seconds: float
    gap_seconds: float
    gap_count: int
    gaps: Sequence[Gap]
    server: str
    version: str
    unread: Sequence[str]
    nodes: int
    pods: int
    failures: int
    busy_seconds: float
    resident_bytes: int
    finished: bool
    options: ShadowOptions


@dataclass(frozen=True, slots=True)
class DecisionExample:
    """A decision that differs."""

    at: float
    pod: str
    scheduler: str
    node: str
    profile_node: str
    outcome: Outcome
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionResults:
    """The decisions of the cluster's schedulers beside those of the profile.

    Attributes:
        outcomes: number of judged bindings by outcome.
        by_scheduler: the same by schedulerName.
        of_daemon_sets: bindings that were left out, because these pods have one node each.
        created_bound: pods that were created with their node, without a scheduler.
        missed: pods that were bound in a gap.
        gap_p50, gap_p99: how many weighted points the scheduler's node had less, where scores differ.
        points: sum by plugin of the points that the profile's node had more. Negative sums speak against it.
        decisive: by plugin, how many decisions differ mostly because of it.
        rejecters: by plugin, how many of the scheduler's nodes it rules out.
        refusals: pods that a scheduler reported as unschedulable.
        refusals_fitting: those for which the filters found a node at that moment.
        unplaced: pods that the replayed world had no node for when they were bound.
        unplaced_now: those that it still has no node for.
        apart: pods that are on another node in the replayed world now.

    """

    outcomes: Mapping[Outcome, int]
    by_scheduler: Mapping[str, Mapping[Outcome, int]]
    of_daemon_sets: int
    created_bound: int
    missed: int
    gap_p50: float | None
    gap_p99: float | None
    points: Mapping[str, float]
    decisive: Mapping[str, int]
    rejecters: Mapping[str, int]
    refusals: int
    refusals_fitting: int
    unplaced: int
    unplaced_now: int
    apart: int
    examples: Sequence[DecisionExample]

    @property
    def judged(self) -> int:
        """The number of bindings that were compared."""
        return sum(count for outcome, count in self.outcomes.items() if outcome is not Outcome.UNJUDGED)

    def share(self, *outcomes: Outcome) -> float:
        """Return the share of some outcomes among the compared bindings."""
        return sum(self.outcomes.get(each, 0) for each in outcomes) / self.judged if self.judged else 0.0


@dataclass(frozen=True, slots=True)
class RaceExample:
    """A race: the pod that got the node, and one of those that lost it."""

    at: float
    node: str
    winner: str
    winner_manager: str
    loser: str
    loser_manager: str
    losers: int
    last_capacity: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceResults:
    """Races for the same capacity.

    Attributes:
        bindings: bindings that were examined.
        contested: those after which the node no longer fitted a pod that waited.
        between_managers: contested bindings with a loser of another manager than the winner's.
        lost_nodes: pairs of a losing pod and a node that it lost.
        lost_last: pods that lost the last node that fitted them, each once.
        lost_last_between_managers: those that lost it to a pod of another manager.
        bound_after_loss: how many of them were bound later.
        wait_after_loss_p50, wait_after_loss_p99: seconds from the loss to their binding.
        overfilled: bindings after which the pods of the node request more than it has.
        unexamined: kinds of waiting pods that were not looked at, added up over all bindings.
        pairs: managers that won from others most often: winner, loser, estimated count.

    """

    bindings: int
    contested: int
    between_managers: int
    lost_nodes: int
    lost_last: int
    lost_last_between_managers: int
    bound_after_loss: int
    wait_after_loss_p50: float | None
    wait_after_loss_p99: float | None
    overfilled: int
    unexamined: int
    pairs: Sequence[tuple[str, str, int]]
    examples: Sequence[RaceExample]


@dataclass(frozen=True, slots=True)
class WaitingExample:
    """A pod that waited although some node fitted it, with both times in seconds."""

    at: float
    pod: str
    scheduler: str
    waited: float
    fitted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingResults:
    """Pods that waited.

    Attributes:
        pods: pods that were seen without a node.
        waited: those that were still without one after the first seconds.
        waited_though_fitting: those for which some node fitted at a look.
        still_waiting: those of `waited` that wait at the end.
        pod_seconds: their waiting time in all, after the first seconds.
        pod_seconds_fitting: the part of it in which some node fitted.
        wait_p50, wait_p99: seconds from the first sight of such a pod to its end of waiting.
        fitting_p50, fitting_p99: seconds for which a pod waited although some node fitted.
        unexamined: kinds of waiting pods that were not looked at, added up over all looks.

    """

    pods: int
    waited: int
    waited_though_fitting: int
    still_waiting: int
    pod_seconds: float
    pod_seconds_fitting: float
    wait_p50: float | None
    wait_p99: float | None
    fitting_p50: float | None
    fitting_p99: float | None
    unexamined: int
    examples: Sequence[WaitingExample]


@dataclass(frozen=True, slots=True)
class SpreadResults:
    """Means over time of the nodes' levels: mean, standard deviation, and highest less lowest, in points."""

    mean: float
    deviation: float
    range: float


@dataclass(frozen=True, slots=True)
class EvennessResults:
    """The spread of one kind of level of one resource, in the cluster and in the replayed world."""

    resource: str
    measured: bool
    observed: SpreadResults
    replayed: SpreadResults


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResults:
    """How evenly nodes were used.

    Attributes:
        evenness: the levels that were seen, measured ones first.
        readings: readings of measured use.
        failed_readings: tries that gave none.
        problem: the last problem of a reading or of a try, or empty.
        annotated: nodes whose own annotation has a measured level, by which plugins decide without a source.

    """

    evenness: Sequence[EvennessResults]
    readings: int
    failed_readings: int
    problem: str
    annotated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldResults:
    """Reservations that are made some seconds before each arrival, on the node of the arrival.

    Attributes:
        pods: arrivals for which the history covers the lead time.
        uncovered: arrivals that were left out, as it does not.
        given: reservations for which the node had the amounts free at that time.
        given_beside_all: those beside which every pod of the lead time still fitted.
        refused_on_node: reservations that the node had no free capacity for.
        refused_everywhere: those that no node had free capacity for.
        idle_share: share of the cluster's capacity that they hold idle, by resource, as a mean over time.

    """

    lead_seconds: float
    pods: int
    uncovered: int
    given: int
    given_beside_all: int
    refused_on_node: int
    refused_everywhere: int
    idle_share: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineResults:
    """Sums over equal spans of time, by name."""

    width: float
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowResults:
    """All results."""

    run: RunResults
    decisions: DecisionResults
    races: RaceResults
    waiting: WaitingResults
    levels: LevelResults
    holds: Sequence[HoldResults]
    timeline: TimelineResults
