"""Plots of runs: the spread over time for each policy, and the use of each node over time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tidelock.simulation.engine import Run

_HOUR = 3600.0
_DPI = 100


def plot_spread(runs: Sequence[Run], file: Path) -> None:
    """Draw the standard deviation between nodes over time, a line for each run."""
    canvas = Figure(figsize=(9, 4), layout="constrained")
    axis = canvas.subplots()
    for run in runs:
        hours = np.arange(1, len(run.cpu) + 1) * run.step / _HOUR
        axis.plot(hours, run.cpu.std(axis=1), label=run.policy, linewidth=1.2)
    axis.set_xlabel("hours")
    axis.set_ylabel("deviation between nodes, points of CPU")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(ncols=4, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.16))
    canvas.savefig(file, dpi=_DPI)


def plot_nodes(runs: Sequence[Run], file: Path) -> None:
    """Draw the use of each node over time, a heat map for each run, with nodes ordered by mean use."""
    canvas = Figure(figsize=(9, 0.6 + 1.7 * len(runs)), layout="constrained")
    axes = canvas.subplots(len(runs), squeeze=False, sharex=True)[:, 0]
    for axis, run in zip(axes, runs, strict=True):
        ordered = run.cpu[:, np.argsort(run.cpu.mean(axis=0))].T
        hours = len(run.cpu) * run.step / _HOUR
        image = axis.imshow(
            ordered, aspect="auto", vmin=0, vmax=100, cmap="inferno", extent=(0, hours, len(ordered), 0)
        )
        axis.set_ylabel("nodes")
        axis.set_title(run.policy, fontsize="small", loc="left")
    axes[-1].set_xlabel("hours")
    canvas.colorbar(image, ax=axes, label="CPU, %")
    canvas.savefig(file, dpi=_DPI)


def plot_ratios(title: str, ratios: Mapping[str, Sequence[float]], file: Path) -> None:
    """Draw paired ratios to one policy, with a box for each other policy."""
    canvas = Figure(figsize=(9, 0.8 + 0.4 * len(ratios)), layout="constrained")
    axis = canvas.subplots()
    axis.boxplot(list(ratios.values()), orientation="horizontal", whis=(5, 95), showfliers=False)
    axis.set_yticks(range(1, len(ratios) + 1), list(ratios))
    axis.invert_yaxis()
    axis.axvline(1, color="grey", linewidth=0.8)
    axis.set_xlabel(title)
    axis.grid(axis="x", alpha=0.3)
    canvas.savefig(file, dpi=_DPI)
