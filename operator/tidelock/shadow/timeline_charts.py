"""Charts over the time of a run."""

from collections.abc import Mapping

from tidelock.shadow.document import Chart, ChartKind
from tidelock.shadow.results import TimelineResults

_HOUR = 3600.0


def over_time(
    caption: str, kind: ChartKind, unit: str, timeline: TimelineResults, names: Mapping[str, str]
) -> list[Chart]:
    """Return a chart of sums over the watched time of their spans, or none if nothing was counted.

    Sums of a stack are events, which become a rate an hour. Sums of lines are values times seconds, which
    become means. `names` are the sums, with their names in the legend.
    """
    seconds = timeline.series.get("seconds", ())
    shown = {name: sums for name in names if (sums := timeline.series.get(name)) is not None}
    if not seconds or not shown:
        return []
    scale = _HOUR if kind is ChartKind.STACK else 1.0
    series = {
        names[name]: [
            scale * total / lasted if lasted else 0.0 for total, lasted in zip(sums, seconds, strict=True)
        ]
        for name, sums in shown.items()
    }
    hours = [(place + 0.5) * timeline.width / _HOUR for place in range(len(seconds))]
    return [Chart(caption, kind, unit, series, hours)]
