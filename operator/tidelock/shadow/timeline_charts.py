"""Charts over the time of a run."""

from collections.abc import Mapping
from math import nan

from tidelock.shadow.document import Chart, ChartKind
from tidelock.shadow.evenness import lasted_name
from tidelock.shadow.results import TimelineResults

_HOUR = 3600.0


def over_time(
    caption: str, kind: ChartKind, unit: str, timeline: TimelineResults, names: Mapping[str, str]
) -> list[Chart]:
    """Return a chart of sums over the time of their spans, or none if they are all zero.

    Sums of a stack are events, which become a rate an hour of the watched time. Sums of lines are values
    times seconds, which become means over the time for which there were values. NaN stands for no time.
    `names` are the sums, with their names in the legend.
    """
    seconds = timeline.series.get("seconds", ())
    shown = {name: sums for name in names if any(sums := timeline.series.get(name, ()))}
    if not seconds or not shown:
        return []
    scale = _HOUR if kind is ChartKind.STACK else 1.0
    series = {}
    for name, sums in shown.items():
        lasted = timeline.series.get(lasted_name(name), seconds)
        series[names[name]] = [
            scale * total / time if time else nan for total, time in zip(sums, lasted, strict=True)
        ]
    hours = [(place + 0.5) * timeline.width / _HOUR for place in range(len(seconds))]
    return [Chart(caption, kind, unit, series, hours)]
