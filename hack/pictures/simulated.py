"""Pictures of simulations, from records that their benchmarks write beside this file."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from bench.tides import HIGH, LOW, TideFigures, Week
from pictures.canvas import Canvas, Kind, Scale

_WEEK = Path(__file__).with_name("tides.json")
_ROW, _HEIGHT, _TOP = 118, 74, 44  # pixels from one chart to the next, of a chart, and above the first one
_EVENING, _NIGHT, _DAY = 14, 8, 24  # hours: the first evening, as a week starts at 8:00, and lengths
_SHOWN: Mapping[str, str] = MappingProxyType(
    {
        f"{LOW} % always": f"limit {LOW} %",
        f"{HIGH} % always": f"limit {HIGH} %",
        "tide": f"limit {LOW} %,\nby night {HIGH} %",
    }
)


def tides() -> Canvas:
    """Draw the mean use of all nodes in a simulated week, with and without a tide."""
    week = msgspec.json.decode(_WEEK.read_bytes(), type=list[Week])[0]
    height = _TOP + _ROW * len(_SHOWN) + 10
    picture = Canvas(760, height, "Mean use of the nodes in a simulated week, with and without a tide")
    picture.text(20, 24, "mean use of all nodes, nights shaded", style="bold")
    for number, (name, label) in enumerate(_SHOWN.items()):
        _chart(picture, _TOP + _ROW * number, label, week.levels[name])
    return picture


def _chart(picture: Canvas, top: float, label: str, found: TideFigures) -> None:
    hours = len(found.hourly)
    across, up = Scale(150, 590 / hours), Scale(top + _HEIGHT, -_HEIGHT / 100)
    for evening in range(_EVENING, hours, _DAY):
        width = min(_NIGHT, hours - evening) * across.pixels
        picture.box((round(across(evening), 1), top, round(width, 1), _HEIGHT), Kind.PART)
    for percent in (0, 100):
        picture.line((across(0), up(percent)), (across(hours), up(percent)), style="dashes")
        picture.text(142, up(percent) + 4, f"{percent} %", anchor="end", size=11, style="faint")
    points = enumerate(found.hourly)
    picture.line(*((round(across(hour + 0.5), 1), round(up(use), 1)) for hour, use in points))
    for number, line in enumerate(label.split("\n")):
        picture.text(20, top + 36 + 18 * number, line)
    summary = (
        f"night work waits {found.wait:.1f} hours on average, "
        f"services lack {found.short_by_day:.1f} % of their cpu by day"
    )
    picture.text(150, top + _HEIGHT + 20, summary, size=11, style="faint")
