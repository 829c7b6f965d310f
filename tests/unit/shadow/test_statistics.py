from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelock.shadow.statistics import FrequentKeys, Sample, Timeline, TimeMean, quantile


@given(st.lists(st.integers(), max_size=60), st.integers(1, 10), st.integers(0, 5))
def test_a_sample_has_values_of_the_stream_and_is_repeatable(values: list[int], size: int, seed: int) -> None:
    one, other = Sample[int](size, seed), Sample[int](size, seed)
    for value in values:
        one.add(value)
        other.add(value)

    assert one.count == len(values)
    assert len(one.values) == min(size, len(values))
    assert not Counter(one.values) - Counter(values)
    assert one.values == other.values


def test_each_value_of_a_long_stream_is_as_likely_in_the_sample() -> None:
    """Each half of 40 values has half of the places, within five standard deviations."""
    seeds, size = 400, 10
    late = 0
    for seed in range(seeds):
        sample = Sample[int](size, seed)
        for value in range(40):
            sample.add(value)
        late += sum(value >= 20 for value in sample.values)
    deviation = (seeds * size * 0.25) ** 0.5
    assert abs(late - seeds * size / 2) < 5 * deviation


def test_quantiles_are_interpolated() -> None:
    assert quantile([4.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0, 2.0], 0.25) == 1.25
    assert quantile([], 0.5) is None


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 100)), min_size=1))
def test_a_mean_over_time_weighs_each_value_by_its_time(lasting: list[tuple[float, float]]) -> None:
    mean = TimeMean()
    for value, seconds in lasting:
        mean.add(value, seconds)

    total = sum(seconds for _, seconds in lasting)
    assert mean.seconds == pytest.approx(total)
    assert mean.mean == pytest.approx(sum(value * seconds for value, seconds in lasting) / total, abs=1e-6)


def test_there_is_no_mean_before_any_time_has_passed() -> None:
    assert TimeMean().mean is None


@given(st.lists(st.tuples(st.integers(-5, 3000), st.sampled_from("ab"), st.integers(1, 9))))
def test_a_timeline_sums_up_each_span_however_often_it_was_merged(
    events: list[tuple[int, str, int]],
) -> None:
    timeline = Timeline(100.0, width=1.0, most=8)
    for second, name, amount in sorted(events):
        timeline.add(100.0 + second, name, amount)

    series = timeline.series()
    assert len({len(sums) for sums in series.values()}) <= 1
    assert all(len(sums) <= 8 for sums in series.values())
    expected = Counter[tuple[str, int]]()
    for second, name, amount in events:
        expected[name, int(max(second, 0) // timeline.width)] += amount
    found = {(name, at): total for name, sums in series.items() for at, total in enumerate(sums) if total}
    assert found == dict(expected)


@given(st.lists(st.integers(0, 30), max_size=300), st.integers(1, 12))
def test_the_count_of_a_frequent_key_is_an_upper_limit(keys: list[int], size: int) -> None:
    frequent = FrequentKeys[int](size)
    for key in keys:
        frequent.add(key)

    true = Counter(keys)
    for key, count in frequent.most(size):
        assert true[key] <= count <= true[key] + len(keys) / size
    shown = {key for key, _ in frequent.most(size)}
    assert all(key in shown for key, count in true.items() if count > len(keys) / size)
