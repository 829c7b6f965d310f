from pathlib import Path

import pytest

from bench.comparison import Comparison
from bench.growth import parse
from bench.plot import plot_growth
from bench.record import Record
from bench.rounds import Round, figures
from bench.scenarios import growth


def test_each_node_has_as_many_placed_pods_as_asked_for() -> None:
    scenario = growth(nodes=3, pods=7, density=2)
    assert (scenario.title, scenario.pods) == ("3 nodes, 6 placed pods", 7)
    assert sorted(node for node, _ in scenario.placed) == [0, 0, 1, 1, 2, 2]


def test_a_plot_needs_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--plot", "growth.png"])
    assert "--plot needs --json" in capsys.readouterr().err


def test_the_plot_has_a_panel_for_each_figure(tmp_path: Path) -> None:
    record = Record.begin(parse(["--quick"]))
    for nodes in (10, 20):
        comparison = Comparison(growth(nodes, pods=5, density=1))
        values = {figure.name: float(nodes) for figure in figures(comparison.scenario)}
        comparison.add(Round(values), Round(values))
        comparison.record(record)
    file = tmp_path / "growth.png"
    plot_growth(record.figures.values(), file)
    assert file.read_bytes().startswith(b"\x89PNG")
