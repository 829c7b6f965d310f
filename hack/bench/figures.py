"""Figures of a benchmark: the values of its rounds, their summary and their tables."""

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
        name: name of the quantity.
        unit: "ms", "locks/s", "s" or "MiB".
        target: highest value that meets the target, or the lowest if `more_is_better`. None for no target.
        values: one value for each round, in the order of the rounds.
        loads: the machine's load average (1 minute) beside each value.
        headline: whether the docs' table of all benchmarks shows the figure, as it shows those with a target.

    """

    name: str
    unit: str
    target: float | None = None
    more_is_better: bool = False
    values: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    headline: bool = False

    @classmethod
    def once(
        cls,
        name: str,
        unit: str,
        value: float,
        target: float | None = None,
        *,
        more_is_better: bool = False,
        headline: bool = False,
    ) -> "Figure":
        """Return a figure with one value, which is measured now."""
        figure = cls(name, unit, target, more_is_better, headline=headline)
        figure.add(value)
        return figure

    def add(self, value: float, load: float | None = None) -> None:
        """Add a round's value, with the machine's load if that is not the load now."""
        self.values.append(value)
        self.loads.append(os.getloadavg()[0] if load is None else load)

    @property
    def typical(self) -> float:
        """Median of the rounds."""
        return median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the target is met, or None without a target."""
        if self.target is None:
            return None
        return self.typical >= self.target if self.more_is_better else self.typical <= self.target

    @property
    def verdict(self) -> str:
        """Whether the target is met, as text, empty without a target."""
        if self.target is None:
            return ""
        sign = ">=" if self.more_is_better else "<="
        return f"{sign} {self.target:g}: {'met' if self.met else 'missed'}"


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that is at least as great as so many percent of the values."""
    ordered = sorted(values)
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]


def pair_ratios(figure: Figure, peer: Figure) -> list[float]:
    """Return the ratio of each pair of rounds, over 1 if Tidelock is better, and 1 for equal zeros."""
    pairs = zip(figure.values, peer.values, strict=True)
    ratios = ((ours, theirs) if figure.more_is_better else (theirs, ours) for ours, theirs in pairs)
    return [1.0 if over == under else over / under if under else inf for over, under in ratios]


def table(figures: Sequence[Figure], peers: Sequence[Figure] = (), peer_name: str = "") -> str:
    """Format figures as a table. A figure's peer has the same name. Ratios are median (least to most)."""
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
    """Format rows of equal length in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Fit cost = c * size ** e by least squares of the logarithms, and return e, or NaN for one size."""
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
