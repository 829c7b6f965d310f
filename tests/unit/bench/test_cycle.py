import pytest

from bench.cycle import Growth, measure, parse, table
from bench.decisions import DecisionError, Workload, furnished, pods, seconds_a_decision, workloads
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.informers.event_handlers import EventHandlers

_BY_NAME = {workload.name: workload for workload in workloads(reservations=20)}


def test_only_equal_pods_share_their_placement_key() -> None:
    for alike, keys in ((True, 1), (False, 5)):
        made = pods(_BY_NAME["default"], 5, alike=alike)
        assert len({pod.placement_key for pod in made}) == keys
        assert len({pod.uid for pod in made}) == 5


@pytest.mark.parametrize("name", ["fit", "default", "locks"])
def test_decisions_count_in_the_columns(name: str) -> None:
    decider, event_handlers = furnished(_BY_NAME[name], nodes=4, placed=8)
    assert len(decider.ledger.entries) == _BY_NAME[name].reservations
    assert seconds_a_decision(decider, event_handlers, pods(_BY_NAME[name], 10, alike=False), limit=60.0) > 0
    requested = decider.columns.requested[:4, decider.columns.column_of["pods"]]
    assert requested.sum() == 18
    assert not decider.ledger.waiting_reservations.waiting


def test_a_pod_that_does_not_fit_is_an_error() -> None:
    decider, event_handlers = furnished(_BY_NAME["default"], nodes=1, placed=110)
    with pytest.raises(DecisionError, match="decision 1"):
        seconds_a_decision(decider, event_handlers, pods(_BY_NAME["default"], 1, alike=True), limit=60.0)


def test_sets_differ_in_their_plugins() -> None:
    fit, default = _BY_NAME["fit"].enabled, _BY_NAME["default"].enabled
    assert {plugin.name for plugin in fit} < {plugin.name for plugin in default}


@pytest.mark.parametrize(
    ("alike", "rate", "verdict"),
    [
        (True, 4_999.0, ">= 5000: missed at 5000"),
        (True, 5_000.0, ">= 5000: met at 5000"),
        (False, 1_500.0, ">= 1500: met at 5000"),
    ],
)
def test_verdict_applies_only_to_the_size_of_the_target(*, alike: bool, rate: float, verdict: str) -> None:
    assert Growth("default", alike, {1_000: 1.0, 5_000: rate}).verdict == verdict
    assert Growth("default", alike, {1_000: rate}).verdict == ""


def test_time_that_grows_with_the_nodes_has_exponent_one() -> None:
    growth = Growth("default", alike=True, per_second={1_000: 500.0, 5_000: 100.0})
    assert growth.exponent == pytest.approx(1.0)


def test_one_size_has_no_growth() -> None:
    assert Growth("default", alike=True, per_second={1_000: 500.0}).power == ""


def test_table_shows_unsupported_sets() -> None:
    missing = Growth("spread", alike=True, note="not supported yet")
    measured = Growth("default", alike=False, per_second={1_000: 500.0, 5_000: 100.0}, load=2.0)
    head, first, second = table([measured, missing], [1_000, 5_000]).splitlines()
    assert head.split()[:4] == ["plugins", "pods", "1000", "nodes"]
    assert " ".join(first.split()) == "default different 500/s 100/s n^1.00 >= 1500: missed at 5000 2.0"
    assert second.endswith("not supported yet")


def test_unknown_sets_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--sets", "default,ring"])
    assert "no such set: ring" in capsys.readouterr().err


def test_explicit_options_override_quick() -> None:
    options = parse(["--quick", "--nodes", "7", "--sets", "fit"])
    assert (options.nodes, options.decisions) == ([7], 1_000)
    assert [workload.name for workload in options.chosen] == ["fit"]


def test_a_density_places_more_pods_on_more_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, int]] = []

    def noted(workload: Workload, nodes: int, placed: int) -> tuple[Decider, EventHandlers]:
        sizes.append((nodes, placed))
        return furnished(workload, nodes, placed)

    monkeypatch.setattr("bench.cycle.furnished", noted)
    arguments = ["--sets", "fit", "--nodes", "2", "4", "--placed", "5", "--decisions", "5"]
    for density in ("0", "3"):
        options = parse([*arguments, "--density", density])
        measure(options.chosen[0], options, alike=True)
    assert sizes == [(2, 5), (4, 5), (2, 6), (4, 12)]
