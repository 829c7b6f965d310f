"""Turns results into a report: a section for each question, and the findings in short."""

from collections.abc import Sequence

from tidelock.model.instants import format_instant
from tidelock.shadow import definitions
from tidelock.shadow.capacity_sections import evenness, reservations
from tidelock.shadow.decision_sections import decisions, races, waiting
from tidelock.shadow.document import NONE, Report, ReportTable, Section, count, duration, filled
from tidelock.shadow.results import RunResults, ShadowResults

TITLE = "A scheduler in the shadow"

_MEBI = 2**20


def report_of(results: ShadowResults) -> Report:
    """Return the report of a run."""
    run = results.run
    sections = [
        races(results),
        waiting(results),
        evenness(results),
        reservations(results),
        decisions(results),
        _the_run(run),
    ]
    size = f"{count(run.nodes, 'node')}, {count(run.pods, 'pod')}"
    watched = f"{duration(run.watched_seconds)} watched{'' if run.finished else ', still running'}"
    span = f"{format_instant(int(run.begun))} to {format_instant(int(run.ended))}"
    return Report(TITLE, f"{size}; {watched}; {span}", _summary(sections, run), sections, definitions.LIMITS)


def _summary(sections: Sequence[Section], run: RunResults) -> list[str]:
    """Return the first finding of each question, and the gaps."""
    summary = [section.findings[0] for section in sections[:-1]]
    if run.gap_count:
        summary.append(f"{count(run.gap_count, 'gap')} of {duration(run.gap_seconds)} in all are left out.")
    return summary


def _the_run(run: RunResults) -> Section:
    options = run.options
    rows = [
        ["API server", f"{run.server} {run.version}".strip() or NONE],
        ["profile", options.profile],
        ["source of measured use", options.source or "none"],
        ["time between looks", duration(options.look_seconds)],
        ["seed of the samples", str(options.seed)],
        ["time of decisions and looks", duration(run.busy_seconds)],
        ["largest memory", f"{run.resident_bytes / _MEBI:.0f} MiB" if run.resident_bytes else NONE],
        ["objects that failed", f"{run.failures:,}"],
    ]
    gaps = [
        [format_instant(int(each.begun)), duration(each.ended - each.begun), each.reason] for each in run.gaps
    ]
    tables = [
        ReportTable("The run", ("", ""), rows, words=2),
        ReportTable("Gaps", ("from", "for", "reason"), gaps, words=3),
    ]
    findings = [f"Watched: {duration(run.watched_seconds)}, with {count(run.gap_count, 'gap')}."]
    if run.unread:
        findings.append(f"Not read, and taken for empty by plugins: {', '.join(run.unread)}.")
    return Section("The run", definitions.GAPS, findings, filled(tables))
