from math import sin

import pytest

from soak.samples import Trend, read_metrics, trend

TIMES = [float(second) for second in range(0, 3600, 30)]


def test_a_linear_trend_without_noise_is_found() -> None:
    found = trend(TIMES, [100 + 5 * at / 3600 for at in TIMES])
    assert found is not None
    assert found == pytest.approx(Trend(5, 5, 5))


def test_an_oscillation_is_no_growth() -> None:
    found = trend(TIMES, [100 + sin(at) for at in TIMES])
    assert found is not None
    assert found.low < 0 < found.high
    assert found.verdict(4) == "does not grow by more than 4 an hour"


def test_the_first_part_is_not_counted() -> None:
    """Caches fill at the start."""
    found = trend(TIMES, [min(at, 600.0) for at in TIMES])
    assert found is not None
    assert found.slope == pytest.approx(0)


def test_a_few_samples_have_no_trend() -> None:
    assert trend(TIMES[:25], TIMES[:25]) is None


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Trend(6, 5, 7), "grows by more than 4 an hour"),
        (Trend(6, 3, 9), "too short to tell whether it grows by more than 4 an hour"),
        (Trend(1, -2, 4), "does not grow by more than 4 an hour"),
    ],
)
def test_a_verdict_uses_the_confidence_interval(found: Trend, verdict: str) -> None:
    assert found.verdict(4) == verdict


def test_metrics_are_found_by_their_labels() -> None:
    text = '# TYPE a gauge\na{x="1"} 2\na{x="2"} 3\n# TYPE b gauge\nb 4\n'
    assert read_metrics(text) == {"a": {("1",): 2.0, ("2",): 3.0}, "b": {(): 4.0}}
