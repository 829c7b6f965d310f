from math import isnan

import pytest

from bench.histograms import Histogram

_TEXT = """\
# HELP decision_seconds Seconds of a decision.
# TYPE decision_seconds histogram
decision_seconds_bucket{result="ok",le="0.001"} 40
decision_seconds_bucket{result="ok",le="0.002"} 90
decision_seconds_bucket{result="ok",le="+Inf"} 95
decision_seconds_sum{result="ok"} 0.4
decision_seconds_count{result="ok"} 95
decision_seconds_bucket{result="error",le="0.001"} 0
decision_seconds_bucket{result="error",le="0.002"} 0
decision_seconds_bucket{result="error",le="+Inf"} 5
decision_seconds_sum{result="error"} 0.6
decision_seconds_count{result="error"} 5
# HELP other_total Something else.
# TYPE other_total counter
other_total 7
"""


def test_labels_are_summed_over() -> None:
    histogram = Histogram.parse(_TEXT, "decision_seconds")
    assert histogram.buckets == [(0.001, 40.0), (0.002, 90.0), (float("inf"), 100.0)]
    assert histogram.count == 100
    assert histogram.mean == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("share", "value"),
    [
        (0.2, 0.0005),  # half of the first bucket
        (0.4, 0.001),
        (0.65, 0.0015),  # half of the second
        (0.99, 0.002),  # beyond all finite bounds: at least the last
    ],
)
def test_quantile_is_linear_within_a_bucket(share: float, value: float) -> None:
    assert Histogram.parse(_TEXT, "decision_seconds").quantile(share) == pytest.approx(value)


def test_missing_histogram_has_no_figures() -> None:
    histogram = Histogram.parse(_TEXT, "binding_seconds")
    assert histogram.count == 0
    assert isnan(histogram.mean)
    assert isnan(histogram.quantile(0.5))


def test_difference_to_an_earlier_histogram_is_computed() -> None:
    earlier = Histogram.parse(_TEXT, "decision_seconds")
    later = Histogram([(0.001, 40.0), (0.002, 91.0), (float("inf"), 103.0)], 1.5)

    assert later.since(earlier) == Histogram([(0.001, 0.0), (0.002, 1.0), (float("inf"), 3.0)], 0.5)
    assert later.since(Histogram([], 0.0)) == later
