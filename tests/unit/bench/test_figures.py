from math import inf, isnan

import pytest

from bench.figures import Figure, columns, exponent, pair_ratios, percentile, table


def _figure(*values: float, more_is_better: bool = False, target: float | None = None) -> Figure:
    figure = Figure("latency", "ms", target, more_is_better)
    for value in values:
        figure.add(value, load=1.0)
    return figure


@pytest.mark.parametrize(("percent", "value"), [(0, 1.0), (50, 2.0), (75, 3.0), (76, 4.0), (100, 4.0)])
def test_percentile_is_the_smallest_value_that_covers_the_percentage(percent: int, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == value


def test_less_time_is_a_ratio_over_one() -> None:
    assert pair_ratios(_figure(1.0, 4.0), _figure(2.0, 2.0)) == [2.0, 0.5]


def test_more_work_is_a_ratio_over_one() -> None:
    ours, peers = _figure(1.0, 4.0, more_is_better=True), _figure(2.0, 2.0, more_is_better=True)
    assert pair_ratios(ours, peers) == [0.5, 2.0]


def test_equal_zeros_have_ratio_one_and_a_single_zero_is_infinitely_better() -> None:
    assert pair_ratios(_figure(0.0, 0.0), _figure(0.0, 1.0)) == [1.0, inf]


def test_rounds_without_their_pair_are_an_error() -> None:
    with pytest.raises(ValueError, match="argument"):
        pair_ratios(_figure(1.0), _figure(1.0, 2.0))


def test_load_is_stored_with_each_value() -> None:
    figure = Figure("latency", "ms")
    figure.add(3.0, load=7.5)
    assert (figure.values, figure.loads) == ([3.0], [7.5])


@pytest.mark.parametrize(("more_is_better", "verdict"), [(False, "<= 2: missed"), (True, ">= 2: met")])
def test_verdict_follows_the_direction(*, more_is_better: bool, verdict: str) -> None:
    assert _figure(3.0, more_is_better=more_is_better, target=2.0).verdict == verdict


def test_table_names_the_peer_and_the_range_of_ratios() -> None:
    head, row = table([_figure(1.0, 2.0, 4.0)], [_figure(4.0, 4.0, 4.0)], "kube-scheduler").splitlines()
    assert "kube-scheduler" in head
    assert "2.00 x (1.00 to 4.00)" in row
    assert row.endswith(
        "1.00 (1.0), 2.00 (1.0), 4.00 (1.0) | kube-scheduler 4.00 (1.0), 4.00 (1.0), 4.00 (1.0)"
    )


def test_one_round_has_no_range() -> None:
    assert "2.00 x  " in table([_figure(1.0)], [_figure(2.0)], "peer").splitlines()[1]


def test_a_figure_without_a_peer_has_no_ratio() -> None:
    assert " x" not in table([_figure(1.0)], [], "peer").splitlines()[1]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert columns([("a", "bb", "c"), ("aaa", "b", "")]) == "a    bb  c\naaa  b"


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_exponent_of_a_power_law_is_found(power: float) -> None:
    sizes = [1_000.0, 5_000.0, 15_000.0]
    assert exponent(sizes, [3e-4 * size**power for size in sizes]) == pytest.approx(power)


@pytest.mark.parametrize("sizes", [[], [1_000.0], [1_000.0, 1_000.0]])
def test_one_size_has_no_exponent(sizes: list[float]) -> None:
    assert isnan(exponent(sizes, sizes))
