"""Metrics of measuring, and of writing the measurements."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidelock.load.status import LevelSurvey
from tidelock.model.usage_annotations import Quality


class LoadMetrics(Collector):
    """Metrics `tidelock_water_level_*`, for values that change too often for a status."""

    def __init__(self, registry: CollectorRegistry, now: Callable[[], float]) -> None:
        """Register the metrics; `now` gives the seconds since the epoch."""
        self._now = now
        self._surveys: dict[str, LevelSurvey] = {}
        self.read_errors = Counter(
            "tidelock_water_level_read_errors_total",
            "Readings of sources that failed, by reason.",
            ("reason",),
            registry=registry,
        )
        self.refresh = Histogram(
            "tidelock_water_level_refresh_seconds",
            "Seconds of a refresh, from asking the source to the last annotation.",
            buckets=tuple(0.1 * 2**step for step in range(12)),
            registry=registry,
        )
        self.waiting = Gauge(
            "tidelock_water_level_waiting_annotations",
            "Objects whose annotations are still to be written.",
            registry=registry,
        )
        self.patches = Counter(
            "tidelock_water_level_patches_total",
            "Objects that were annotated, or whose annotations were removed, by kind and result.",
            ("kind", "result"),
            registry=registry,
        )
        registry.register(self)

    def surveyed(self, group: str, found: LevelSurvey) -> None:
        """Show a group from now on."""
        self._surveys[group] = found

    def forget(self, group: str) -> None:
        """Stop showing a group."""
        self._surveys.pop(group, None)

    def describe(self) -> list[Metric]:
        """Return nothing, so registering needs no state."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return the values of each group."""
        nodes = GaugeMetricFamily(
            "tidelock_water_level_nodes",
            "Nodes of a WaterLevel, by the quality of their measurement.",
            labels=("waterlevel", "quality"),
        )
        percent = GaugeMetricFamily(
            "tidelock_water_level_percent",
            "Use over the fresh nodes of a WaterLevel in percent of capacity, in its shortest window.",
            labels=("waterlevel", "resource", "statistic"),
        )
        lag = GaugeMetricFamily(
            "tidelock_water_level_lag_seconds",
            "Age of the newest measurement of any node of a WaterLevel.",
            labels=("waterlevel",),
        )
        by_requests = GaugeMetricFamily(
            "tidelock_water_level_by_requests",
            "1 while no node of a WaterLevel is fresh, so its pods are placed by their requests.",
            labels=("waterlevel",),
        )
        for group, found in self._surveys.items():
            by_requests.add_metric((group,), float(found.blind))
            for quality in Quality:
                nodes.add_metric((group, quality.value), found.counts.get(quality, 0))
            for resource, spread in found.spreads.items():
                for name, value in spread._asdict().items():
                    percent.add_metric((group, resource, name), value)
            if found.sampled_at is not None:
                lag.add_metric((group,), max(self._now() - found.sampled_at, 0.0))
        yield from (nodes, percent, lag, by_requests)
