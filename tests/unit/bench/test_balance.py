from dataclasses import replace
from pathlib import Path

import pytest

from bench.balance import bounded_cases, cases, main, parse, variant_cases
from bench.balance_report import (
    OURS,
    TUNED_ON,
    by_day,
    day_verdicts,
    report,
    report_burst,
    report_variants,
)
from bench.balance_worlds import VARIANTS, setting, timing
from bench.world_results import Case, Outcome, WorldResults
from tidelock.simulation.measuring import DEFAULT_METRICS
from tidelock.simulation.results import RunFigures
from tidelock.simulation.traces import TraceError

_REPORTED, _TUNED = "20110309", TUNED_ON[0]


def of(spread: float, *, p99: float = 50.0, pending: float = 0.0) -> RunFigures:
    return RunFigures(spread=spread, range=3 * spread, mean=30.0, p99=p99, hot=0.0, pending=pending)


def outcome(
    day: str, ours: RunFigures, *, default: float = 10.0, rival: float = 8.0, seed: int = 0
) -> Outcome:
    figures = {"default": of(default), "least-used": of(rival), "load-aware": of(rival + 1), OURS: ours}
    return Outcome(Case(day, seed, 0.0), figures)


@pytest.mark.parametrize(
    ("ours", "met"),
    [
        (of(7.0), True),
        (of(7.3), False),  # over 0.90 of the rival's
        (of(7.0, p99=51.0), False),
        (of(7.0, pending=0.1), False),
        (of(7.0, p99=49.0), True),
    ],
)
def test_a_day_is_met_only_if_all_conditions_hold(ours: RunFigures, *, met: bool) -> None:
    (verdict,) = day_verdicts([outcome(_REPORTED, ours)], ["load-aware", "least-used"])

    assert verdict.rival == "least-used"
    assert verdict.of_default == pytest.approx(ours.spread / 10)
    assert verdict.met is met


def test_ratios_are_computed_in_pairs() -> None:
    worlds = [outcome(_REPORTED, of(6.0)), outcome(_REPORTED, of(6.0), default=20.0, seed=1)]

    (verdict,) = day_verdicts(worlds, ["least-used"])

    assert verdict.of_default == pytest.approx((0.6 + 0.3) / 2)


def test_days_that_were_tuned_on_do_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    report(
        [outcome(_REPORTED, of(6.0)), outcome(_TUNED, of(9.9))], ["default", "least-used", "load-aware", OURS]
    )

    told = capsys.readouterr().out
    assert f"1 worlds of the days {_REPORTED};" in told
    assert "1 of 1, met." in told
    assert "tuned on" in told


def test_policies_that_were_simulated_in_some_worlds_are_reported_for_these(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = [outcome(_REPORTED, of(6.0)), outcome(_REPORTED, of(6.0), seed=1)]
    both[1].figures["random"] = of(12.0)
    del both[1].figures["least-used"]

    report(both, ["default", "random", "least-used", "load-aware", OURS, "dynamic-load"])

    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    worlds = {words[0]: words[1] for words in told if len(words) > 5 and words[1].isdigit()}
    assert worlds.items() >= {"random": "1", "least-used": "1", OURS: "2"}.items()
    assert "dynamic-load" not in worlds
    # A day is judged by the worlds in which all policies were simulated.
    (verdict,) = day_verdicts(both, ["least-used", "load-aware"])
    assert verdict.of_rival == pytest.approx(6 / 8)


def test_without_a_rival_no_day_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    """An hour of simulations once ended in a traceback."""
    report([outcome(_REPORTED, of(6.0))], ["default", OURS])

    told = capsys.readouterr().out
    assert OURS in told
    assert "by day" not in told


def test_results_are_stored_and_not_computed_again(tmp_path: Path) -> None:
    file = tmp_path / "balance.json"
    options = parse(["--traces", ".", "--worlds", str(file)])
    record = WorldResults.of(options)
    record.add(Outcome(Case(_REPORTED, 0, 0.5), {"default": of(9.0)}))
    record.add(Outcome(Case(_REPORTED, 0, 0.5), {OURS: of(6.0)}))
    record.add(Outcome(Case(_REPORTED, 0, 0.5, "nan"), {OURS: of(7.0)}))
    record.add(Outcome(Case(_REPORTED, 0, 0.5, variant="double-load"), {OURS: of(8.0)}))
    record.keep(file)

    again = WorldResults.of(options)

    assert again == record
    assert again.figures(Case(_REPORTED, 0, 0.5)) == {"default": of(9.0), OURS: of(6.0)}
    assert again.figures(Case(_REPORTED, 1, 0.5)) == {}
    assert [each.case.fault for each in again.plain([_REPORTED])] == ["none"]


def test_a_file_of_other_worlds_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "balance.json"
    WorldResults(20, 288).keep(file)

    with pytest.raises(TraceError, match="has worlds of 20 nodes and 288 steps, not of 40 and 288"):
        WorldResults.of(parse(["--traces", ".", "--worlds", str(file)]))
    file.write_text("[]")
    with pytest.raises(TraceError, match=r"is no file of bench\.balance"):
        WorldResults.of(parse(["--traces", ".", "--worlds", str(file)]))


def test_a_report_without_results_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "planetlab-20110309.csv").write_text("1\n")

    assert main(["--traces", str(tmp_path), "--report", "--worlds", str(tmp_path / "none.json")]) == 1

    assert capsys.readouterr().err == "bench.balance: nothing was simulated of 20110309\n"
    with pytest.raises(SystemExit):
        parse(["--traces", str(tmp_path), "--report"])
    assert "--report: needs --worlds" in capsys.readouterr().err


def test_a_burst_is_judged_by_the_fair_share_plus_one(capsys: pytest.CaptureFixture[str]) -> None:
    report_burst({"even": (3, 4), "herding": (3, 5)}, 40)

    even, herding = capsys.readouterr().out.splitlines()[-2:]
    assert even.split() == ["even", "3", "4", "met"]
    assert herding.split() == ["herding", "3", "5", "missed"]


def test_seeds_vary_the_nodes_and_the_rollouts() -> None:
    settings = [setting(Case(_REPORTED, seed, 0.5), 40, 288) for seed in range(4)]

    assert [len(each.cores) for each in settings] == [1, 3, 1, 3]
    assert [each.rollouts > 0 for each in settings] == [False, False, True, True]
    assert {each.workloads for each in settings} == {80}


def test_the_interval_is_that_of_days_and_not_of_worlds() -> None:
    alike = [outcome(_REPORTED, of(6.0), seed=seed) for seed in range(3)]
    found = by_day([*alike, outcome("20110322", of(8.0))], OURS, "default")

    assert found.mean == pytest.approx((0.6 + 0.8) / 2)  # of two days
    assert [found.low, found.high] == pytest.approx([0.7 - 1.27062, 0.7 + 1.27062], rel=1e-4)


def test_other_worlds_are_reported_with_their_best_rival(capsys: pytest.CaptureFixture[str]) -> None:
    other = outcome(_REPORTED, of(9.0))
    report_variants([Outcome(replace(other.case, variant="4-cores"), other.figures)], ["least-used"])

    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("4-cores")]
    assert row[1:5] == ["1", "10.00", "9.00", "0.90"]
    assert row[5:7] == ["1.12", "least-used"]  # no interval, as it is one day


def test_each_variant_differs_from_the_plain_world() -> None:
    plain = Case(_REPORTED, 1, 0.5)
    same = (setting(plain, 40, 288), timing(plain))
    for variant in VARIANTS:
        case = replace(plain, variant=variant)
        assert ((setting(case, 40, 288), timing(case)) == same) is (variant == "plain")


def test_measurements_are_those_of_a_default_water_level_unless_a_variant_has_another_lag() -> None:
    assert timing(Case(_REPORTED, 0, 0.5)) == DEFAULT_METRICS
    assert timing(Case(_REPORTED, 0, 0.5, variant="15-minutes-late")).lag == 900


def test_variants_and_bounds_are_of_some_worlds() -> None:
    options = parse(["--traces", ".", "--seeds", "5", "--variants", "plain,4-cores,noise-1"])

    assert len(variant_cases(options, ["a", "b"])) == 2 * 2 * 2
    bounded = bounded_cases(options, ["a"])
    assert [case.seed for case in bounded] == [0, 2]
    assert {len(setting(case, 40, 288).cores) for case in bounded} == {1}
    with pytest.raises(SystemExit):
        parse(["--traces", ".", "--variants", "none"])


def test_each_day_is_simulated_with_each_seed_and_noise() -> None:
    options = parse(["--traces", ".", "--seeds", "3", "--noise", "0", "0.5"])

    assert len(set(cases(options, ["a", "b"]))) == 2 * 3 * 2


def test_a_folder_without_traces_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--traces", str(tmp_path)]) == 1

    told = capsys.readouterr().err
    assert told.startswith(f"bench.balance: {tmp_path}: no planetlab-DAY.csv")


def test_a_missing_day_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "planetlab-20110303.csv").write_text("1\n")

    assert main(["--traces", str(tmp_path), "--days", "20110304"]) == 1

    assert "--days: '20110304' is not one of 20110303" in capsys.readouterr().err


def test_tasks_of_another_trace_are_one_more_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "planetlab-20110303.csv").write_text("1\n")
    usage = tmp_path / "part-0.csv"
    lines = [
        f"{step * 3 * 10**8},{(step + 1) * 3 * 10**8},{job},0,0,0.{job}"
        for step in range(40)
        for job in range(1, 9)
    ]
    usage.write_text("\n".join(lines) + "\n")
    worlds = ["--days", "task-usage", "--seeds", "1", "--noise", "0.5", "--nodes", "4", "--steps", "40"]
    simulated = ["--policies", "random", "--variants", "plain", "--bounded", "1", "--jobs", "1"]

    assert main(["--traces", str(tmp_path), "--task-usage", str(usage), *worlds, *simulated]) == 0

    told = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert {"random", "shipped", "any-placement", "known-future", "restart"} <= set(told)
