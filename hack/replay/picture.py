"""A picture of pools over time: the use of each node, and the target."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from replay.pool_history import PoolHistory

_DPI = 100
_MINUTE = 60.0


def draw(histories: Sequence[PoolHistory], titles: Sequence[str], file: Path) -> None:
    """Draw a panel for each pool, with a thin curve for each node and a thick one for the target."""
    canvas = Figure(figsize=(11, 4.6), layout="constrained")
    axes = canvas.subplots(1, len(histories), squeeze=False, sharex=True, sharey=True)[0]
    for axis, history, title in zip(axes, histories, titles, strict=True):
        cpu = np.array(history.cpu)
        minutes = np.arange(len(cpu)) * history.seconds / _MINUTE
        axis.plot(minutes, cpu, linewidth=0.8, alpha=0.75)
        axis.plot(minutes, history.target, color="black", linewidth=2.2, label="water line")
        axis.set_title(title, fontsize="medium", loc="left")
        axis.set_xlabel("minutes")
        axis.grid(alpha=0.3)
        axis.legend(loc="upper left", fontsize="small")
    axes[0].set_ylabel("CPU in use on each node, %")
    axes[0].set_ylim(0, 100)
    canvas.savefig(file, dpi=_DPI)
