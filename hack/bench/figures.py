"""Figures of a benchmark: what was measured, how it is summed up, and how it is shown."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass
class Figure:
    """One quantity, measured several times.

    Attributes:
        name: what was measured.
        unit: "ms", "locks/s", "s" or "MiB".
        target: what it ought to be at most, or at least if `more_is_better`; None for no target.
        values: one for each round, in the order of the rounds.
        loads: the machine's load average (1 minute) beside each value.

    """

    name: str
    unit: str
    target: float | None = None
    more_is_better: bool = False
    values: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        """Add a round's value."""
        self.values.append(value)
        self.loads.append(os.getloadavg()[0])

    @property
    def typical(self) -> float:
        """Median of the rounds."""
        return median(self.values)

    @property
    def verdict(self) -> str:
        """Whether the target is met; empty without one."""
        if self.target is None:
            return ""
        better, sign = (
            (self.typical >= self.target, ">=")
            if self.more_is_better
            else (self.typical <= self.target, "<=")
        )
        return f"{sign} {self.target:g}: {'met' if better else 'missed'}"


def percentile(values: Sequence[float], percent: int) -> float:
    """Give the smallest value that is at least as great as so many percent of the values."""
    ordered = sorted(values)
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]


def pair_ratio(figure: Figure, peer: Figure) -> float:
    """Compare round with round: the median of the pairs' ratios, over 1 where Tidelock is better."""
    pairs = zip(figure.values, peer.values, strict=True)
    return median(ours / theirs if figure.more_is_better else theirs / ours for ours, theirs in pairs)


def table(figures: Sequence[Figure], peers: Sequence[Figure]) -> str:
    """Lay figures out for people; a figure's peer has its name."""
    of_peer = {figure.name: figure for figure in peers}
    rows = [("", "median", "", "target", "bare Kopf", "better by", "rounds (load)")]
    for figure in figures:
        peer = of_peer.get(figure.name)
        rows.append(
            (
                figure.name,
                f"{figure.typical:.1f}",
                figure.unit,
                figure.verdict,
                f"{peer.typical:.1f}" if peer else "",
                f"{pair_ratio(figure, peer):.2f} x" if peer else "",
                _rounds(figure) + (f" | bare Kopf {_rounds(peer)}" if peer else ""),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _rounds(figure: Figure) -> str:
    values = zip(figure.values, figure.loads, strict=True)
    return ", ".join(f"{value:.1f} ({load:.1f})" for value, load in values)
