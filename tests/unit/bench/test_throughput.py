import pytest

from bench.throughput import parse


def test_scenarios_are_chosen_by_name_in_their_own_order() -> None:
    options = parse(["--scenarios", "gated,drain", "--nodes", "10", "20"])
    assert [scenario.title for scenario in options.chosen] == [
        "drain, 10 nodes",
        "drain, 20 nodes",
        "drain beside 10000 gated pods, 10 nodes",
    ]


def test_unknown_scenarios_are_refused_with_a_list_of_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--scenarios", "drain,flood"])
    assert "no such scenario: flood; there are drain, open-50," in capsys.readouterr().err


def test_explicit_options_override_quick() -> None:
    options = parse(["--quick", "--pods", "9"])
    assert (options.pods, options.rounds, options.nodes) == (9, 1, [200])
