"""Figures of a benchmark: what was measured, how it is summed up, and how it is shown."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, log, nan
from statistics import linear_regression, median

_SMALL = 10  # below it, two decimals are shown


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

    def add(self, value: float, load: float | None = None) -> None:
        """Add a round's value, and the load beside it if that is not the load now."""
        self.values.append(value)
        self.loads.append(os.getloadavg()[0] if load is None else load)

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


def pair_ratios(figure: Figure, peer: Figure) -> list[float]:
    """Compare round with round: over 1 where Tidelock is better, 1 for equal zeros."""
    pairs = zip(figure.values, peer.values, strict=True)
    ratios = ((ours, theirs) if figure.more_is_better else (theirs, ours) for ours, theirs in pairs)
    return [1.0 if over == under else over / under if under else inf for over, under in ratios]


def table(figures: Sequence[Figure], peers: Sequence[Figure] = (), peer_name: str = "") -> str:
    """Lay figures out for people; a figure's peer has its name. Ratios: median (least to most)."""
    of_peer = {figure.name: figure for figure in peers}
    rows = [("", "median", "", "target", peer_name, "better by" if peers else "", "rounds (load)")]
    for figure in figures:
        peer = of_peer.get(figure.name)
        rows.append(
            (
                figure.name,
                _short(figure.typical),
                figure.unit,
                figure.verdict,
                _short(peer.typical) if peer else "",
                _better(pair_ratios(figure, peer)) if peer else "",
                _rounds(figure) + (f" | {peer_name} {_rounds(peer)}" if peer else ""),
            )
        )
    return columns(rows)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Lay rows of equal length out in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Fit cost = c * size ** e by least squares of the logarithms; gives e, NaN for less than two sizes."""
    if len(set(sizes)) <= 1:
        return nan
    return linear_regression([log(size) for size in sizes], [log(cost) for cost in costs]).slope


def _better(ratios: Sequence[float]) -> str:
    typical = f"{median(ratios):.2f} x"
    return typical if len(ratios) == 1 else f"{typical} ({min(ratios):.2f} to {max(ratios):.2f})"


def _rounds(figure: Figure) -> str:
    values = zip(figure.values, figure.loads, strict=True)
    return ", ".join(f"{_short(value)} ({load:.1f})" for value, load in values)


def _short(value: float) -> str:
    return f"{value:.2f}" if abs(value) < _SMALL else f"{value:.1f}"
