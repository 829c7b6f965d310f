"""A picture of the results of both schedulers: python -m bench.plot FILE.png FILE.json [FILE.json ...].

It draws the results of several runs of bench.throughput.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from bench.comparison import PEER, Comparison
from bench.figures import Figure

_BAR = 0.38  # width of a bar, as a share of the space between two scenarios
_COLOURS = ("#0b7285", "#adb5bd")


def plot(comparisons: Sequence[Comparison], file: Path) -> None:
    """Draw throughput of the drains and latency of the open loops, medians with the range of the rounds."""
    measured = [each for each in comparisons if each.measured]
    panels = [
        (name, log, shown)
        for name, log in (
            ("pods bound", False),
            ("create to bound, p50", True),
            ("create to bound, p99", True),
            ("CPU a pod after it", False),
        )
        if (shown := [each for each in measured if any(figure.name == name for figure in each.tidelock)])
    ]
    rows = sum(len(shown) + 1 for _, _, shown in panels)
    canvas = Canvas(figsize=(9, 1.2 + 0.55 * rows), layout="constrained")
    axes = canvas.subplots(
        len(panels), squeeze=False, height_ratios=[len(shown) + 1 for _, _, shown in panels]
    )
    for axis, (name, log, shown) in zip(axes[:, 0], panels, strict=True):
        _draw(axis, name, shown)
        if log:
            axis.set_xscale("log")
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    canvas.savefig(file, dpi=150)


def _draw(axis: Axes, name: str, comparisons: Sequence[Comparison]) -> None:
    """Draw one figure of several scenarios, a pair of bars for each."""
    for place, label, colour in ((-1, "Tidelock", _COLOURS[0]), (1, PEER, _COLOURS[1])):
        figures = [_named(each.tidelock if place < 0 else each.kube_scheduler, name) for each in comparisons]
        middles = [figure.typical for figure in figures]
        ranges = (
            [middle - min(figure.values) for middle, figure in zip(middles, figures, strict=True)],
            [max(figure.values) - middle for middle, figure in zip(middles, figures, strict=True)],
        )
        rows = [row + place * _BAR / 2 for row in range(len(figures))]
        axis.barh(rows, middles, _BAR, xerr=ranges, color=colour, label=label, ecolor="#495057")
    axis.set_yticks(range(len(comparisons)), [each.title for each in comparisons])
    axis.invert_yaxis()
    axis.set_xlabel(f"{name}, {_named(comparisons[0].tidelock, name).unit}")


def _named(figures: Sequence[Figure], name: str) -> Figure:
    return next(figure for figure in figures if figure.name == name)


class _Run(msgspec.Struct):
    scenarios: list[Comparison]


if __name__ == "__main__":
    target, *files = map(Path, sys.argv[1:])
    runs = [msgspec.json.decode(file.read_bytes(), type=_Run) for file in files]
    plot([scenario for run in runs for scenario in run.scenarios], target)
