from argparse import ArgumentParser
from dataclasses import replace

import pytest

from bench.balance_figures import add_burst, add_days, add_faults, add_policies, add_variants
from bench.balance_report import DEFAULT, LEARNED, OURS, TUNED_ON
from bench.command import add_json
from bench.record import Record
from bench.world_results import Case, Outcome
from tidelock.simulation.results import RunFigures

RIVALS = ("least-used", "least-pod-sums")


@pytest.fixture
def record() -> Record:
    parser = ArgumentParser(prog="bench.balance")
    add_json(parser, [])
    return Record.begin(parser.parse_args([]))


def of(spread: float, p99: float = 50.0, pending: float = 0.0) -> RunFigures:
    return RunFigures(spread, 3 * spread, 30.0, p99, 0.1, pending, 0.25)


def outcome(day: str, ours: RunFigures, **case: str) -> Outcome:
    figures = {DEFAULT: of(10), OURS: ours, "least-used": of(9), "least-pod-sums": of(8, p99=48.0)}
    return Outcome(replace(Case(day, 0, 0.5), **case), figures)  # type: ignore[arg-type]


def value(record: Record, key: str) -> float:
    return record.figures[key].median


def test_policies_are_compared_on_days_for_verdicts_with_the_interval_and_range_of_these(
    record: Record,
) -> None:
    days = [outcome("20110309", of(6)), outcome("20110322", of(8)), outcome(TUNED_ON[0], of(1))]
    add_policies(record, days, [DEFAULT, OURS])

    assert value(record, "policy-shipped.deviation") == 7
    assert value(record, "policy-shipped.ratio") == pytest.approx(0.7)
    assert record.figures["policy-shipped.ratio"].met
    interval, of_days = (
        record.figures[f"policy-shipped.{name}"] for name in ("95-of-the-ratio", "ratio-by-day")
    )
    assert interval.least < of_days.least == pytest.approx(0.6)
    assert interval.most > of_days.most == pytest.approx(0.8)


def test_each_day_is_compared_with_the_default_and_with_its_best_rival(record: Record) -> None:
    days = [outcome("20110309", of(7, p99=48.0)), outcome("20110322", of(7.4)), outcome(TUNED_ON[0], of(7))]
    add_days(record, days, RIVALS)

    assert value(record, "day-20110309.best-rival.p99") == 48
    assert value(record, "day-20110322.to-best-rival.ratio") == pytest.approx(0.925)
    assert record.figures["day-20110303.shipped.p99"].subject == "20110303 (tuning)"
    met = {
        key.partition(".")[2]: each.median for key, each in record.figures.items() if key.startswith("days.")
    }
    assert met == {
        "at-most-0-75-of-the-default": 2,
        "at-most-0-9-of-the-best-rival": 1,
        "p99-and-pending-no-worse-than-both": 1,
    }


def test_other_worlds_have_the_learned_weight_as_far_as_it_was_simulated(record: Record) -> None:
    worlds = [outcome("20110309", of(11), variant="4-cores"), outcome("20110309", of(9), variant="noise-1")]
    worlds[1].figures[LEARNED] = of(9.5)
    add_variants(record, worlds, RIVALS)

    assert value(record, "world-4-cores.shipped.ratio") == pytest.approx(1.1)
    assert value(record, "world-4-cores.to-best-rival.ratio") == pytest.approx(11 / 8)
    assert value(record, "world-noise-1.learned-weight.ratio") == pytest.approx(0.95)
    assert "world-4-cores.learned-weight.ratio" not in record.figures
    assert not any(each.target for each in record.figures.values())


def test_faults_have_the_most_pods_that_waited(record: Record) -> None:
    add_faults(
        record,
        [outcome("20110309", of(9, pending=0.5), fault="nan"), outcome("20110322", of(9), fault="nan")],
    )

    assert value(record, "fault-nan.shipped.ratio") == pytest.approx(0.9)
    assert value(record, "fault-nan.shipped.most-pending") == 0.5


def test_a_burst_has_the_fair_share_and_one_as_target(record: Record) -> None:
    add_burst(record, {OURS: (3, 5), "least-used": (9, 9)}, nodes=40)

    met = {key: each.met for key, each in record.figures.items()}
    assert met == {
        "burst-shipped.one-deployment": True,
        "burst-shipped.a-deployment-for-each-pod": False,
        "burst-least-used.one-deployment": None,
        "burst-least-used.a-deployment-for-each-pod": None,
    }
