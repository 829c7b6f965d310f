"""Charts as SVG within a page of HTML. Colours are classes, so the page can have light and dark ones."""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from tidelock.shadow.document import Chart, ChartKind

COLOURS = 6
"""Number of colours. A further series has that of the first one again."""

_WIDTH, _HEIGHT = 760.0, 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 12.0, 14.0, 44.0
_TICKS = 5
# Share of the width of a place that bars take.
_BAR, _GROUP = 0.92, 0.8


class _Scale(NamedTuple):
    """Maps values to pixels, from `low` at `start` to `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


def svg(chart: Chart) -> str:
    """Draw a chart."""
    values = _heights(chart)
    ticks = _ticks(max(values, default=0.0))
    up = _Scale(0.0, ticks[-1], _HEIGHT - _BOTTOM, _TOP)
    across = _across(chart)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="{escape(chart.caption)}">',
        f"<title>{escape(chart.caption)}</title>",
        *_grid(ticks, up, chart.unit),
        *_places(chart, across),
    ]
    draw = {ChartKind.LINES: _lines, ChartKind.STACK: _stack, ChartKind.BARS: _bars}[chart.kind]
    return "\n".join([*parts, *draw(chart, across, up), "</svg>"])


def _heights(chart: Chart) -> list[float]:
    if chart.kind is ChartKind.STACK:
        return [sum(filter(isfinite, each)) for each in zip(*chart.series.values(), strict=True)]
    return [value for values in chart.series.values() for value in values if isfinite(value)]


def _across(chart: Chart) -> _Scale:
    """Map the index of a place to its left edge."""
    return _Scale(0.0, float(len(chart.places)), _LEFT, _WIDTH - _RIGHT)


def _ticks(highest: float) -> list[float]:
    """Return round numbers from 0 to at least the highest value."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / _TICKS
    size = 10.0 ** floor(log10(rough))
    step = next(factor * size for factor in (1.0, 2.0, 5.0, 10.0) if factor * size >= rough * (1 - 1e-9))
    return [step * number for number in range(ceil(highest / step - 1e-9) + 1)]


def _grid(ticks: Sequence[float], up: _Scale, unit: str) -> Iterator[str]:
    for tick in ticks:
        y = up(tick)
        yield f'<line class="grid" x1="{_LEFT:.1f}" x2="{_WIDTH - _RIGHT:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    yield (
        f'<text transform="translate(14 {middle:.1f}) rotate(-90)" text-anchor="middle">{escape(unit)}</text>'
    )


def _places(chart: Chart, across: _Scale) -> Iterator[str]:
    """Name some places on the axis: bars by name, and times by their hour since the start."""
    y = _HEIGHT - _BOTTOM + 18
    names = [each for each in chart.places if isinstance(each, str)]
    if names:
        for index, name in enumerate(names):
            x = across(index + 0.5)
            yield f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(name)}</text>'
        yield f'<text x="{_WIDTH / 2:.1f}" y="{y + 20:.1f}" text-anchor="middle">lead time</text>'
        return
    hours = [float(each) for each in chart.places]
    span = hours[-1] + hours[0]  # each place is the middle of its span
    size, unit = (1.0, "hours") if span >= 2 else (60.0, "minutes")  # noqa: PLR2004 -- two hours
    for tick in _ticks(span * size):
        x = _LEFT + tick / (span * size) * (_WIDTH - _RIGHT - _LEFT)
        if x <= _WIDTH - _RIGHT + 1:
            yield f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{tick:g}</text>'
    yield (f'<text x="{_WIDTH / 2:.1f}" y="{y + 20:.1f}" text-anchor="middle">{unit} since the start</text>')


def _lines(chart: Chart, across: _Scale, up: _Scale) -> Iterator[str]:
    for number, (name, values) in enumerate(chart.series.items()):
        places = [(across(at + 0.5), up(value)) for at, value in enumerate(values) if isfinite(value)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour = f"c{number % COLOURS}"
        yield f'<polyline class="line {colour}" points="{points}"><title>{escape(name)}</title></polyline>'
        if len(places) == 1:  # a line of one point is invisible
            yield f'<circle class="{colour}" cx="{places[0][0]:.1f}" cy="{places[0][1]:.1f}" r="3"/>'


def _stack(chart: Chart, across: _Scale, up: _Scale) -> Iterator[str]:
    bases = [0.0] * len(chart.places)
    width = (across(1) - across(0)) * _BAR
    for number, (name, values) in enumerate(chart.series.items()):
        for at, value in enumerate(values):
            if value > 0:
                bottom, top = up(bases[at]), up(bases[at] + value)
                tip = f"{escape(name)}: {value:.4g} {escape(chart.unit)}"
                yield _rectangle(number, across(at), top, width, bottom - top, tip)
                bases[at] += value


def _bars(chart: Chart, across: _Scale, up: _Scale) -> Iterator[str]:
    width = (across(1) - across(0)) * _GROUP / max(len(chart.series), 1)
    margin = (across(1) - across(0)) * (1 - _GROUP) / 2
    for number, (name, values) in enumerate(chart.series.items()):
        for at, value in enumerate(values):
            if not isfinite(value):
                continue
            x, top = across(at) + margin + number * width, up(value)
            tip = f"{escape(name)}, {escape(str(chart.places[at]))}: {value:.4g} {escape(chart.unit)}"
            yield _rectangle(number, x, top, width * _BAR, up(0.0) - top, tip)


def _rectangle(number: int, x: float, y: float, width: float, height: float, tip: str) -> str:
    return (
        f'<rect class="c{number % COLOURS}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" '
        f'height="{height:.2f}"><title>{tip}</title></rect>'
    )
