import argparse
import importlib
from math import inf, nan
from pathlib import Path

import msgspec
import pytest

from bench import __main__ as benches
from bench.command import add_json
from bench.comparison import PEER, Comparison
from bench.figures import Figure
from bench.plan import main as plan
from bench.plot import plot
from bench.record import BENCHES, Record, read, slug
from bench.rounds import Round, figures
from bench.scenarios import BOUND, Sizes, scenarios

SIZES = Sizes(drain_nodes=[10, 5], pods=10, gated=0, reservations=0, placed=10, open_loop_seconds=1)


class ParsedError(Exception):
    """Ends a program when it would read its command line."""


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.lock")
    parser.add_argument("--traces")
    add_json(parser, arguments)
    return parser.parse_args(arguments)


def figure(*values: float, name: str = "one at a time, p50", target: float | None = None) -> Figure:
    return Figure(name, "ms", target, values=list(values), loads=[2.04] * len(values))


@pytest.mark.parametrize("bench", BENCHES)
def test_each_benchmark_names_its_record(bench: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsers: list[argparse.ArgumentParser] = []

    def parse_args(parser: argparse.ArgumentParser, *_: object) -> None:
        parsers.append(parser)
        raise ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    with pytest.raises(ParsedError):
        importlib.import_module(f"bench.{bench}").main([])
    assert parsers[0].get_default("bench") == bench


def test_the_command_has_no_path_of_this_machine() -> None:
    command = options("--traces", "/home/me/traces", "--json=/tmp/some/lock.json").command
    assert command == "python -m bench.lock --traces traces --json=lock.json"


def test_a_record_has_the_median_and_the_range_of_the_rounds() -> None:
    record = Record.begin(options())
    record.add([figure(3.0, 1.0, 1.23456789, target=2.0)], "two nodes", "a peer")
    found = record.figures["two-nodes.a-peer.one-at-a-time-p50"]
    assert (found.median, found.least, found.most, found.rounds) == (1.23457, 1.0, 3.0, 3)
    assert (found.target, found.met, found.subject, found.program) == (2.0, True, "two nodes", "a peer")


def test_a_target_of_tidelock_is_none_of_its_peers() -> None:
    record = Record.begin(options())
    record.add([figure(3.0, target=2.0)], program="floor", aimed=False)
    (found,) = record.figures.values()
    assert (found.target, found.met) == (None, None)


@pytest.mark.parametrize("values", [(), (nan,), (1.0, inf)])
def test_a_figure_without_a_known_value_is_left_out(values: tuple[float, ...]) -> None:
    record = Record.begin(options())
    record.add([figure(*values)])
    assert record.figures == {}


def test_the_highest_load_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 0.0, 0.0))
    record = Record.begin(options())
    record.add([figure(1.0)])
    record.write(None)
    assert (record.load, record.highest_load) == (0.5, 2.0)


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    record = Record.begin(options())
    record.add([figure(1.0, 2.0), figure(3.0, name="at once")], key="some-key")
    record.write(tmp_path / "new" / "lock.json")
    assert list(record.figures) == ["some-key.one-at-a-time-p50", "some-key.at-once"]
    assert read(tmp_path / "new") == {"lock": record}


def test_a_comparison_records_both_programs_and_their_ratio() -> None:
    drain, small = scenarios(SIZES)[:2]
    record = Record.begin(options())
    for scenario in (drain, small):
        comparison = Comparison(scenario)
        for ours, theirs in ((4.0, 2.0), (6.0, 2.0)):
            rounds = (Round({each.name: value for each in figures(scenario)}) for value in (ours, theirs))
            comparison.add(*rounds)
        comparison.bare = [9.0, 11.0]
        comparison.faults.append("a fault")
        comparison.record(record)
    assert record.faults == ["a fault"] * 2
    assert record.figures["drain-10.pods-bound"].median == 5.0
    assert record.figures[f"drain-10.{PEER}.pods-bound"].median == 2.0
    ratio = record.figures["drain-10.better-by.pods-bound"]
    assert (ratio.least, ratio.most, ratio.target, ratio.met) == (2.0, 3.0, 3.0, False)
    assert record.figures["drain-10.better-by.launch-to-last-bound"].median == pytest.approx(0.4167, abs=1e-3)
    assert record.figures["drain-5.better-by.pods-bound"].target is None
    share = record.figures["drain-10.share-of-the-bare-client"]
    assert (share.least, share.most, share.target, share.met) == (0.4, 0.6, 0.8, False)


def test_a_record_is_drawn_where_both_programs_have_the_figure(tmp_path: Path) -> None:
    record = Record.begin(options())
    both, alone = "drain, 10 nodes", "drain, 5 nodes"
    for subject, program in ((both, ""), (both, PEER), (alone, PEER)):
        record.add([Figure(BOUND, "pods/s", values=[1.0, 2.0])], subject, program)
    plot(record.figures.values(), tmp_path / "some.svg")
    drawn = (tmp_path / "some.svg").read_text()
    assert both in drawn
    assert alone not in drawn


def test_a_scenario_that_was_not_run_has_no_figures() -> None:
    record = Record.begin(options())
    Comparison(scenarios(SIZES)[0]).record(record)
    assert record.figures == {}


def test_a_benchmark_writes_its_record(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert plan(["--nodes", "4", "--locks", "4", "--plans", "3", f"--json={file}"]) == 0
    record = msgspec.json.decode(file.read_bytes(), type=Record)
    assert record.bench == "plan"
    assert record.figures["any-node.p99"].target == 10.0
    assert record.seconds >= 0.0


def test_a_slug_has_only_letters_digits_and_hyphens() -> None:
    assert slug("3 clusters of 30 nodes, 80%: 'held'") == "3-clusters-of-30-nodes-80-held"


def test_benchmarks_run_in_turn_and_their_faults_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> argparse.Namespace:
        commands.append(command)
        return argparse.Namespace(returncode=command[2] == "bench.lock")

    monkeypatch.setattr("subprocess.run", run)
    assert benches.main(["cycle", "lock", "plan"]) == 1
    assert [command[2] for command in commands] == ["bench.cycle", "bench.lock", "bench.plan"]
    assert commands[0][-1].endswith("docs/figures/cycle.json")
    assert "These failed: lock" in "".join(capsys.readouterr())


@pytest.mark.parametrize("traces", [(), ("--traces=some",)])
def test_all_benchmarks_run_by_default_some_only_with_traces(
    monkeypatch: pytest.MonkeyPatch, traces: tuple[str, ...]
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> argparse.Namespace:
        commands.append(command)
        return argparse.Namespace(returncode=0)

    monkeypatch.setattr("subprocess.run", run)
    assert benches.main(traces) == 0
    benchmarks = [command[2].removeprefix("bench.") for command in commands]
    assert benchmarks == [bench for bench in BENCHES if traces or bench not in {"dispatch", "balance"}]
    assert any("--traces=some" in command for command in commands) is bool(traces)


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benches.main(["race"])
    assert "race" in capsys.readouterr().err
