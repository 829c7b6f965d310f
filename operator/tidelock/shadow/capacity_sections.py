"""The sections about capacity: the evenness of nodes, and the cost of reservations."""

from collections.abc import Iterator, Sequence

from tidelock.shadow import definitions
from tidelock.shadow.document import (
    NONE,
    Chart,
    ChartKind,
    ReportTable,
    Section,
    count,
    duration,
    filled,
    part,
    percent,
)
from tidelock.shadow.evenness import spread_name
from tidelock.shadow.results import EvennessResults, HoldResults, ShadowResults
from tidelock.shadow.timeline_charts import over_time


def evenness(results: ShadowResults) -> Section:
    """Return the section about the evenness of nodes."""
    rows = [
        [_level(each), name, *(f"{value:.2f}" for value in (of.mean, of.deviation, of.range))]
        for each in results.levels.evenness
        for name, of in (("as it was", each.observed), ("as it would be", each.replayed))
    ]
    table = ReportTable(
        "Levels of the nodes in percent, as means over time",
        ("level", "cluster", "mean", "standard deviation", "highest less lowest"),
        rows,
        words=2,
    )
    return Section(
        "Evenness of the nodes",
        definitions.EVENNESS,
        list(_evenness_findings(results)),
        filled([table]),
        _spread_chart(results),
    )


def _evenness_findings(results: ShadowResults) -> Iterator[str]:
    levels, source = results.levels, results.run.options.source
    if not levels.evenness:
        yield "Evenness: no level was seen."
    for each in levels.evenness:
        was, would = each.observed.deviation, each.replayed.deviation
        more = "more" if would > was else "less"
        change = f", {percent(abs(would / was - 1))} {more}" if was and would != was else ""
        yield (
            f"Evenness: the standard deviation of {_level(each)} between nodes was {was:.2f} points. "
            f"It would have been {would:.2f} points{change}."
        )
    if source:
        problem = f" The last problem: {levels.problem}." if levels.problem else ""
        yield (
            f"{count(levels.readings, 'reading')} of {source}, and {levels.failed_readings:,} that failed."
            f"{problem}"
        )
    else:
        followed = (
            f"Decisions followed the water levels in the annotations of {levels.annotated:,} of "
            f"{count(results.run.nodes, 'node')}."
            if levels.annotated
            else "Water levels were not measured, because no source was given."
        )
        yield (
            f"{followed} These are the levels of requests. "
            "The options --prometheus and --metrics-server name a source."
        )


def _spread_chart(results: ShadowResults) -> list[Chart]:
    """Return the chart of the first level: the measured one, if there is a source."""
    charts: list[Chart] = []
    for each in results.levels.evenness[:1]:
        names = {
            spread_name(each.resource, measured=each.measured, replayed=replayed): name
            for replayed, name in ((False, "as it was"), (True, "as it would be"))
        }
        caption = f"Standard deviation of {_level(each)} between nodes"
        charts = over_time(caption, ChartKind.LINES, "points", results.timeline, names)
    return charts


def _level(each: EvennessResults) -> str:
    return f"{'measured' if each.measured else 'requested'} {each.resource}"


def reservations(results: ShadowResults) -> Section:
    """Return the section about the cost of reservations."""
    holds = results.holds
    resources = list(dict.fromkeys(name for each in holds for name in each.idle_share))
    table = ReportTable(
        "Reservations made some time before each arrival",
        (
            "lead time",
            "arrivals",
            "given",
            "given beside all others",
            "refused on the node",
            "refused everywhere",
            *(f"idle {name}" for name in resources),
        ),
        [
            [
                duration(each.lead_seconds),
                f"{each.pods:,}",
                part(each.given, each.pods),
                part(each.given_beside_all, each.pods),
                part(each.refused_on_node, each.pods),
                part(each.refused_everywhere, each.pods),
                *(percent(each.idle_share[name]) if name in each.idle_share else NONE for name in resources),
            ]
            for each in holds
        ],
    )
    known = [each for each in holds if each.pods]
    return Section(
        "The cost of reservations",
        definitions.RESERVATIONS,
        list(_hold_findings(known)),
        filled([table]),
        _hold_chart(known, resources),
    )


def _hold_findings(known: Sequence[HoldResults]) -> Iterator[str]:
    if not known:
        yield "Reservations: no pod was bound after a full lead time."
        return
    held = (f"{duration(each.lead_seconds)} ahead {' and '.join(_idle(each)) or 'nothing'}" for each in known)
    yield f"Reservations would have held idle: {', '.join(held)}."
    refused = (
        f"{part(each.refused_on_node, each.pods)} of those {duration(each.lead_seconds)} ahead"
        for each in known
    )
    yield f"The node of the pod would have refused {', '.join(refused)}."


def _idle(each: HoldResults) -> list[str]:
    return [f"{percent(share)} of {name}" for name, share in each.idle_share.items()]


def _hold_chart(known: Sequence[HoldResults], resources: Sequence[str]) -> list[Chart]:
    if not known or not resources:
        return []
    return [
        Chart(
            "Capacity that reservations would have held idle, by lead time",
            ChartKind.BARS,
            "percent of capacity",
            {name: [100 * each.idle_share.get(name, 0.0) for each in known] for name in resources},
            [duration(each.lead_seconds) for each in known],
        )
    ]
