"""The sections about single pods: races, waiting, and decisions that differ."""

from collections.abc import Iterator

from tidelock.model.instants import format_instant
from tidelock.shadow import definitions
from tidelock.shadow.document import (
    NONE,
    ChartKind,
    ReportTable,
    Section,
    count,
    duration,
    filled,
    part,
    percent,
)
from tidelock.shadow.results import DecisionResults, RaceResults, ShadowResults, WaitingResults
from tidelock.shadow.timeline_charts import over_time
from tidelock.shadow.waiting import PATIENCE
from tidelock.shadow.world import Outcome

# Plugins of a table, those with the most points first.
_PLUGINS = 12


def races(results: ShadowResults) -> Section:
    """Return the section about races for the same capacity."""
    names = {name: name for name in ("races between managers", "races within a manager")}
    return Section(
        "Races for the same capacity",
        definitions.RACES,
        list(_race_findings(results.races)),
        filled(_race_tables(results.races)),
        over_time("Races", ChartKind.STACK, "races an hour", results.timeline, names),
    )


def _race_findings(of: RaceResults) -> Iterator[str]:
    yield (
        f"Races: {part(of.contested, of.bindings)} of {count(of.bindings, 'binding')} took capacity that "
        f"fitted a waiting pod, {of.between_managers:,} of them from another manager."
    )
    yield (
        f"{count(of.lost_last, 'pod')} lost the last node by such a binding, "
        f"{of.lost_last_between_managers:,} of them to another manager."
    )
    if of.bound_after_loss:
        yield (
            f"{of.bound_after_loss:,} of these were bound later, {duration(of.wait_after_loss_p50)} after "
            f"the loss in the median and {duration(of.wait_after_loss_p99)} at the 99th percentile."
        )
    yield f"After {part(of.overfilled, of.bindings)} bindings the pods of the node request more than it has."
    if of.unexamined:
        yield f"{count(of.unexamined, 'kind')} of waiting pods were not examined, to limit the cost."


def _race_tables(of: RaceResults) -> Iterator[ReportTable]:
    yield ReportTable(
        "Managers that took capacity from another one most often. Counts are upper limits",
        ("winner", "loser", "races"),
        [[winner, loser, f"{number:,}"] for winner, loser, number in of.pairs],
        words=2,
    )
    yield ReportTable(
        "Races, a random sample",
        ("time", "node", "winner", "loser", "its last node", "losers"),
        [
            [
                format_instant(int(each.at)),
                each.node,
                f"{each.winner} ({each.winner_manager})",
                f"{each.loser} ({each.loser_manager})",
                "yes" if each.last_capacity else "no",
                f"{each.losers:,}",
            ]
            for each in of.examples
        ],
        words=5,
    )


def waiting(results: ShadowResults) -> Section:
    """Return the section about pods that waited."""
    names = {"waiting": "waiting", "waiting though fitting": "waiting while some node fits"}
    table = ReportTable(
        "Pods that waited while some node fitted, a random sample",
        ("pod", "scheduler", "waited", "some node fitted for"),
        [
            [each.pod, each.scheduler, duration(each.waited), duration(each.fitted)]
            for each in results.waiting.examples
        ],
        words=2,
    )
    return Section(
        "Pods that waited",
        definitions.WAITING,
        list(_waiting_findings(results.waiting)),
        filled([table]),
        over_time("Waiting pods", ChartKind.LINES, "pods", results.timeline, names),
    )


def _waiting_findings(of: WaitingResults) -> Iterator[str]:
    yield (
        f"Waiting: {part(of.waited, of.pods)} of {count(of.pods, 'pod')} waited for more than "
        f"{PATIENCE:.0f} s, {of.waited_though_fitting:,} of them while some node fitted."
    )
    if of.waited:
        yield (
            f"In all they waited for {duration(of.pod_seconds)}, of which some node fitted for "
            f"{duration(of.pod_seconds_fitting)}. {of.still_waiting:,} still wait."
        )
    if of.wait_p50 is not None:
        yield (
            f"Those that wait no more took {duration(of.wait_p50)} in the median and {duration(of.wait_p99)} "
            "at the 99th percentile."
        )
    if of.unexamined:
        yield f"{count(of.unexamined, 'kind')} of waiting pods were not examined, to limit the cost."


def decisions(results: ShadowResults) -> Section:
    """Return the section about decisions that differ."""
    names = {outcome.value: outcome.value for outcome in Outcome}
    return Section(
        "Decisions that differ",
        definitions.DECISIONS,
        list(_decision_findings(results.decisions, results.run.options.profile)),
        filled(_decision_tables(results.decisions)),
        over_time("Decisions by outcome", ChartKind.STACK, "decisions an hour", results.timeline, names),
    )


def _decision_findings(of: DecisionResults, profile: str) -> Iterator[str]:
    same, other = (Outcome.SAME, Outcome.EQUAL), (Outcome.LOWER, Outcome.RULED_OUT, Outcome.NO_NODE)
    yield (
        f"Decisions: {percent(of.share(*same))} of {count(of.judged, 'binding')} went to the node of "
        f"{profile} or to an equal one, and {percent(of.share(*other))} did not."
    )
    if of.gap_p50 is not None:
        yield (
            f"Where the score was lower, it was lower by {of.gap_p50:.1f} points in the median and by "
            f"{of.gap_p99:.1f} points at the 99th percentile."
        )
    yield (
        f"Schedulers reported {count(of.refusals, 'pod')} as unschedulable. Some node fitted "
        f"{of.refusals_fitting:,} of them when the report was seen."
    )
    yield (
        f"Left out: {of.of_daemon_sets:,} pods of DaemonSets, {of.created_bound:,} that were created with "
        f"their node, {of.missed:,} that were bound in a gap."
    )
    yield (
        f"The replayed world has {count(of.apart, 'pod')} on another node now. It had no node for "
        f"{of.unplaced:,} when they were bound, and still has none for {of.unplaced_now:,}."
    )


def _decision_tables(of: DecisionResults) -> Iterator[ReportTable]:
    yield ReportTable(
        "The scheduler's node beside the profile's",
        ("scheduler", *Outcome),
        [
            [name, *(part(counts.get(each, 0), sum(counts.values())) for each in Outcome)]
            for name, counts in of.by_scheduler.items()
        ],
    )
    yield ReportTable(
        "Why scores are lower: points of the profile's node less those of the scheduler's node",
        ("plugin", "sum of points", "decisive for"),
        [
            [name, f"{points:+,.0f}", f"{of.decisive.get(name, 0):,}"]
            for name, points in list(of.points.items())[:_PLUGINS]
        ],
    )
    yield ReportTable(
        "Plugins that rule out nodes to which pods were bound",
        ("plugin", "bindings"),
        [[name, f"{number:,}"] for name, number in of.rejecters.items()],
    )
    yield ReportTable(
        "Decisions that differ, a random sample",
        ("time", "pod", "scheduler", "its node", "profile's node", "outcome", "why"),
        [
            [
                format_instant(int(each.at)),
                each.pod,
                each.scheduler,
                each.node,
                each.profile_node or NONE,
                each.outcome.value,
                each.why,
            ]
            for each in of.examples
        ],
        words=7,
    )
