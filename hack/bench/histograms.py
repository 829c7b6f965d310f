"""Prometheus histograms, read from a program's /metrics."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Histogram:
    """Cumulative counts of observations by upper bound, in ascending order. The last bound is infinite."""

    buckets: Sequence[tuple[float, float]]
    total: float

    @classmethod
    def parse(cls, text: str, name: str) -> "Histogram":
        """Read a histogram from an exposition, summed over its labels, or an empty one if it is missing."""
        counts: defaultdict[float, float] = defaultdict(float)
        total = 0.0
        for family in text_string_to_metric_families(text):
            if family.name != name:
                continue
            for sample in family.samples:
                if sample.name == f"{name}_bucket":
                    counts[float(sample.labels["le"])] += sample.value
                elif sample.name == f"{name}_sum":
                    total += sample.value
        return cls(sorted(counts.items()), total)

    def since(self, earlier: "Histogram") -> "Histogram":
        """Return the observations after an earlier histogram."""
        before = dict(earlier.buckets)
        buckets = [(bound, up_to - before.get(bound, 0.0)) for bound, up_to in self.buckets]
        return Histogram(buckets, self.total - earlier.total)

    @property
    def count(self) -> float:
        """Number of observations."""
        return self.buckets[-1][1] if self.buckets else 0.0

    @property
    def mean(self) -> float:
        """Mean of the observations, or NaN if there are none."""
        return self.total / self.count if self.count else float("nan")

    def quantile(self, share: float) -> float:
        """Estimate a quantile as Prometheus does, linearly within a bucket, at most the last finite bound."""
        rank = share * self.count
        for (lower, below), (upper, up_to) in pairwise([(0.0, 0.0), *self.buckets]):
            if up_to >= rank and up_to > below:
                if upper == float("inf"):
                    return lower
                return lower + (upper - lower) * (rank - below) / (up_to - below)
        return float("nan")
