"""The parts of a report, whatever it is shown on: sections with sentences, tables and charts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class ChartKind(StrEnum):
    """The form of a chart."""

    LINES = "lines"
    STACK = "stack"
    BARS = "bars"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table with a caption. All columns but the first `words` ones are numbers."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with a caption.

    Attributes:
        caption: its content, in one sentence.
        kind: lines or stacked areas over time, or bars side by side.
        unit: the unit of the values, for the axis.
        series: values by name. All series have one value for each place, which is NaN if there is none.
        places: the place of each value on the axis: hours since the start, or names for bars.

    """

    caption: str
    kind: ChartKind
    unit: str
    series: Mapping[str, Sequence[float]]
    places: Sequence[float] | Sequence[str]


@dataclass(frozen=True, slots=True)
class Section:
    """A section: the definition of its figures, the findings, and their tables and charts."""

    title: str
    definition: str
    findings: Sequence[str]
    tables: Sequence[ReportTable] = ()
    charts: Sequence[Chart] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A report: a title, the findings in short, the sections, and the limits of the method."""

    title: str
    subtitle: str
    summary: Sequence[str]
    sections: Sequence[Section]
    limits: Sequence[str] = field(default_factory=tuple)


NONE = "-"
"""Stands for a figure that there is not."""


def count(number: int, word: str) -> str:
    """Return a number with its noun: `1 pod`, `1,204 pods`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share in percent, with two digits below ten percent."""
    value = 100 * share
    return f"{value:.2f} %" if 0 < abs(value) < 10 else f"{value:.1f} %"  # noqa: PLR2004 -- digits that matter


def part(some: int, whole: int) -> str:
    """Return a number with its share of a whole."""
    return f"{some:,} ({percent(some / whole)})" if whole else f"{some:,}"


def duration(seconds: float | None) -> str:
    """Return a duration in its natural unit: `4.2 s`, `12.5 min`, `3.1 h`. A dash stands for none."""
    if seconds is None:
        return NONE
    for size, unit in ((86_400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"


def filled(tables: Iterable[ReportTable]) -> list[ReportTable]:
    """Return the tables that have rows."""
    return [table for table in tables if table.rows]
