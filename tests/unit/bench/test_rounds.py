from math import inf

import pytest

from bench.comparison import Comparison
from bench.rounds import Round, figures, rate
from bench.scenarios import Scenario, Sizes, scenarios

_SIZES = Sizes(drain_nodes=[10], pods=10, gated=0, reservations=0, placed=10, open_loop_seconds=1)
_BY_NAME = {scenario.name: scenario for scenario in scenarios(_SIZES)}


@pytest.mark.parametrize(("lower", "upper", "value"), [(0, 100, 10.0), (10, 90, 10.0)])
def test_rate_of_steady_bindings(lower: int, upper: int, value: float) -> None:
    assert rate([number / 10 for number in range(100)], lower, upper) == pytest.approx(value)


def test_rate_between_two_percentages_excludes_slow_ends() -> None:
    instants = [0.0, *(100.0 + number for number in range(8)), 1_000.0]
    assert rate(instants, 10, 90) == pytest.approx(1.0)


def test_one_binding_has_no_finite_rate() -> None:
    assert rate([5.0], 0, 100) == inf


def _round(scenario: Scenario, value: float, *faults: str) -> Round:
    return Round({figure.name: value for figure in figures(scenario)}, load=2.0, faults=list(faults))


def test_pairs_of_rounds_are_added_up() -> None:
    comparison = Comparison(_BY_NAME["drain"])
    assert not comparison.measured
    comparison.add(_round(_BY_NAME["drain"], 4.0, "ours"), _round(_BY_NAME["drain"], 2.0, "theirs"))
    assert comparison.measured
    assert {tuple(figure.values) for figure in comparison.tidelock} == {(4.0,)}
    assert {tuple(figure.values) for figure in comparison.kube_scheduler} == {(2.0,)}
    assert comparison.faults == ["ours", "theirs"]


def test_text_has_title_table_and_faults() -> None:
    comparison = Comparison(_BY_NAME["drain"])
    comparison.add(_round(_BY_NAME["drain"], 4.0, "node-a is full"), _round(_BY_NAME["drain"], 2.0))
    lines = comparison.text.splitlines()
    assert lines[:2] == ["", "drain, 10 nodes"]
    assert lines[3].startswith("pods bound")
    assert lines[-1] == "node-a is full"


def test_text_without_figures_has_the_reason() -> None:
    comparison = Comparison(_BY_NAME["spread"])
    comparison.note = "not supported yet"
    assert comparison.text.splitlines()[2:] == ["not supported yet"]


def test_open_loops_measure_latency_and_drains_measure_throughput() -> None:
    open_loop = {figure.name for figure in figures(_BY_NAME["open-50"])}
    drain = {figure.name for figure in figures(_BY_NAME["drain"])}
    assert "create to bound, p99" in open_loop - drain
    assert "pods bound" in drain - open_loop


def test_text_compares_both_programs_with_the_bare_client() -> None:
    comparison = Comparison(_BY_NAME["drain"])
    comparison.bare = [310.4, 289.6]
    assert "bare client" not in comparison.text  # no rounds were measured
    for rows, typical in ((comparison.tidelock, 270.0), (comparison.kube_scheduler, 90.0)):
        for figure in rows:
            figure.add(typical)
    assert comparison.text.endswith(
        "A bare client with the same bindings and events: 310 and 290 pods/s. "
        "Tidelock reaches 0.90 of it, kube-scheduler 0.30."
    )
