"""A picture of the results of both schedulers: python -m bench.plot FILE.png FILE.json [FILE.json ...].

It draws the records of several runs of bench.throughput.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from bench.comparison import PEER
from bench.record import Measured, Record
from bench.scenarios import BOUND

_BAR = 0.38  # width of a bar, as a share of the space between two scenarios
_PROGRAMS = (
    ("", "Tidelock", "#0b7285"),
    (PEER, PEER, "#adb5bd"),
)  # in records, in the legend, and its colour
_GROWING = (BOUND, "CPU a pod after it", "launch to first bound", "resident at the end")


def plot(figures: Iterable[Measured], file: Path) -> None:
    """Draw throughput of the drains and latency of the open loops, medians with the range of the rounds."""
    found = {(figure.name, figure.program, figure.subject): figure for figure in figures}
    panels = [
        (name, scenarios)
        for name in (BOUND, "create to bound, p50", "create to bound, p99", "CPU a pod after it")
        if (
            scenarios := [
                subject
                for each, program, subject in found
                if (each, program) == (name, PEER) and (name, "", subject) in found
            ]
        )
    ]
    heights = [len(scenarios) + 1 for _, scenarios in panels]
    canvas = Canvas(figsize=(9, 1.2 + 0.55 * sum(heights)), layout="constrained")
    axes = canvas.subplots(len(panels), squeeze=False, height_ratios=heights)
    for axis, (name, scenarios) in zip(axes[:, 0], panels, strict=True):
        _draw(axis, found, name, scenarios)
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    canvas.savefig(file, dpi=150)


def plot_growth(figures: Iterable[Measured], file: Path) -> None:
    """Draw medians by the number of nodes, with which the subjects begin."""
    figures = list(figures)
    canvas = Canvas(figsize=(9, 6.5), layout="constrained")
    for axis, name in zip(canvas.subplots(2, 2).flat, _GROWING, strict=True):
        for program, label, colour in _PROGRAMS:
            drawn = [figure for figure in figures if (figure.name, figure.program) == (name, program)]
            sizes = [int(figure.subject.partition(" ")[0]) for figure in drawn]
            axis.plot(sizes, [figure.median for figure in drawn], "o-", color=colour, label=label)
            axis.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=45)
            axis.set_ylabel(f"{name}, {drawn[0].unit}")
        axis.set_ylim(bottom=0)
        axis.set_xlabel("nodes")
    canvas.legend(*canvas.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    canvas.savefig(file, dpi=150)


def _draw(
    axis: Axes, found: Mapping[tuple[str, str, str], Measured], name: str, scenarios: Sequence[str]
) -> None:
    """Draw one figure of several scenarios, a pair of bars for each."""
    for place, (program, label, colour) in zip((-1, 1), _PROGRAMS, strict=True):
        figures = [found[name, program, scenario] for scenario in scenarios]
        ranges = (
            [figure.median - figure.least for figure in figures],
            [figure.most - figure.median for figure in figures],
        )
        rows = [row + place * _BAR / 2 for row in range(len(figures))]
        middles = [figure.median for figure in figures]
        axis.barh(rows, middles, _BAR, xerr=ranges, color=colour, label=label, ecolor="#495057")
    axis.set_yticks(range(len(scenarios)), scenarios)
    axis.invert_yaxis()
    axis.set_xlabel(f"{name}, {found[name, PEER, scenarios[0]].unit}")


if __name__ == "__main__":
    target, *files = map(Path, sys.argv[1:])
    records = [msgspec.json.decode(file.read_bytes(), type=Record) for file in files]
    plot([figure for record in records for figure in record.figures.values()], target)
