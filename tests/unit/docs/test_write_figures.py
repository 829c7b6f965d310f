from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.figures import Figure
from bench.record import Measured, Record
from write_figures import FORMS, Docs, amount, main, number


def record(bench: str = "lock") -> Record:
    found = Record(
        bench, datetime(2026, 11, 26, 14, tzinfo=UTC), "abc1234", "2 cores", "python", 0.3, 2.1, seconds=90.0
    )
    latency = Figure("p50", "ms", 15.0, values=[11.46, 10.0, 12.0])
    rate = Figure("at once", "locks/s", 400.0, more_is_better=True, values=[202.4])
    ratio = Figure("ratio", "", 1.5, more_is_better=True, values=[1.587])
    found.add([latency, rate, ratio])
    for subject in ("one node", "ten nodes"):
        found.add([Figure("p50", "ms", values=[3.0])], subject)
        found.add([Figure("p50", "ms", values=[4.0])], subject, program="floor")
    return found


def docs() -> Docs:
    return Docs({"lock": record()})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.0512, "0.0512"),
        (0.54, "0.540"),
        (1.587, "1.59"),
        (9.998, "10.0"),
        (11.46, "11.5"),
        (15.0, "15"),
        (202.4, "202"),
        (5604.3, "5,604"),
        (20_000.0, "20,000"),
    ],
)
def test_numbers_have_three_significant_digits(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("unit", "text"), [("ms", "3 ms"), ("locks/s", "3/s"), ("", "3"), ("%", "3 %")])
def test_an_amount_has_its_unit(unit: str, text: str) -> None:
    assert amount("3", unit) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lock.p50", "11.5 ms"),
        ("lock.p50/number", "11.5"),
        ("lock.p50/range", "10 to 12"),
        ("lock.p50/full", "11.5 ms (10 to 12)"),
        ("lock.p50/target", "15 ms: met"),
        ("lock.at-once/full", "202/s"),
        ("lock.at-once/target", "400/s: missed"),
        ("lock.one-node.floor.p50", "4 ms"),
        ("lock.one-node.p50/target", ""),
        ("lock.ratio/target", "1.5: met"),
        ("lock", "26 November 2026, commit abc1234, load 0.3 to 2.1"),
    ],
)
def test_a_quote_follows_from_the_record(name: str, text: str) -> None:
    pages = docs()
    quote = f"<!-- figure {name} -->{{}}<!-- / -->"
    line = f"| it takes {quote} |\n"
    assert pages.update("a.md", line.format("0 ms")) == line.format(text)
    assert pages.unknown == []
    assert pages.outdated == [f"a.md:1: {name}: '0 ms' should be {text!r}"]
    assert pages.update("a.md", line.format(text)) == line.format(text)
    assert len(pages.outdated) == 1


def test_every_form_has_a_text() -> None:
    figure = record().figures["p50"]
    assert isinstance(figure, Measured)
    assert all(form(figure) for form in FORMS.values())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a <!-- figure lock.p51 -->1<!-- / -->", "lock.p51: the record of lock has no such figure"),
        ("a <!-- figure race.p50 -->1<!-- / -->", "there is no benchmark race"),
        ("a <!-- figure lock.p50/most -->1<!-- / -->", "lock.p50/most: there is no form most"),
        ("a <!-- figure lock.p50 -->1", "this has no counterpart"),
        ("a <!-- figure lock.p50 -->1\n<!-- / -->", "this has no counterpart"),
        ("a 1<!-- / -->", "this has no counterpart"),
        ("<!-- figure lock.p50 -->1<!-- / -->", "lock.p50: a line can't begin with a figure"),
        ("<!-- figures lock p51 -->\n<!-- /figures -->", "the record of lock has no figure p51 of any"),
        ("<!-- figures race p50 -->\n<!-- /figures -->", "there is no benchmark race"),
        ("<!-- figures lock p50/most -->\n<!-- /figures -->", "p50/most: there is no form most"),
        ("<!-- figures lock p50 -->\n| a |", "this has no counterpart"),
    ],
)
def test_a_comment_that_names_nothing_known_is_reported_and_stays(text: str, problem: str) -> None:
    pages = docs()
    text = f"# Title\n\n{text}\n"
    assert pages.update("docs/a.md", text) == text
    assert pages.unknown[0].startswith(f"docs/a.md:3: {problem}")


def test_code_may_show_a_comment() -> None:
    pages = docs()
    text = "Write `<!-- figure lock.p51 -->` and `<!-- / -->` around it.\n"
    assert pages.update("a.md", text) == text
    assert pages.unknown == []


def test_a_table_has_a_row_for_each_subject() -> None:
    text = "<!-- figures lock floor.p50 p50/target -->\n| old |\n<!-- /figures -->\n"
    assert docs().update("a.md", text).splitlines()[1:-1] == [
        "",
        "| | floor: p50 | target |",
        "| --- | --- | --- |",
        "| one node | 4 ms | |",
        "| ten nodes | 4 ms | |",
        "",
    ]


def test_the_table_of_all_has_targets_runs_and_benchmarks_without_a_record() -> None:
    found = docs()
    found.records["lock"].faults.append("a lock was lost")
    lines = found.update("a.md", "<!-- figures -->\n<!-- /figures -->\n").splitlines()
    run = "2026-11-26 | abc1234 | 0.3 to 2.1 | 1.5 min |"
    assert lines[4:9] == [
        f"| [lock](figures/lock.json) | **faults: 1** | | | {run}",
        f"| [lock](figures/lock.json) | p50 | 11.5 ms (10 to 12) | 15 ms: met | {run}",
        f"| [lock](figures/lock.json) | at once | 202/s | 400/s: missed | {run}",
        f"| [lock](figures/lock.json) | ratio | 1.59 | 1.5: met | {run}",
        "| tenants | no record yet | | | | | | |",
    ]


def test_the_first_line_of_a_table_that_differs_is_named() -> None:
    pages = docs()
    text = pages.update("a.md", "<!-- figures lock p50 -->\n<!-- /figures -->\n")
    pages.outdated.clear()
    pages.update("a.md", text.replace("| ten nodes | 3 ms |", "| ten nodes | 2 ms |"))
    assert pages.outdated == [
        "a.md:1: table lock p50: '| ten nodes | 2 ms |' should be '| ten nodes | 3 ms |'"
    ]


def test_without_a_record_a_figure_has_the_same_text_everywhere() -> None:
    pages = Docs({})
    line = "It takes <!-- figure lock.p50 -->{} ms<!-- / -->.\n"
    table = "<!-- figures cycle p50 -->\n| {} |\n<!-- /figures -->\n"
    assert pages.update("docs/benchmarks.md", line.format(9) + table.format(9)) == line.format(
        9
    ) + table.format(9)
    assert pages.update("README.md", line.format(22) + table.format(22)) == line.format(9) + table.format(9)
    assert [problem.partition(" ")[0] for problem in pages.outdated] == ["README.md:1:", "README.md:2:"]


def test_pages_are_written_or_only_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record().write(tmp_path / "records" / "lock.json")
    (tmp_path / "docs").mkdir()
    pages = [tmp_path / "README.md", tmp_path / "docs" / "benchmarks.md"]
    line = "It takes <!-- figure lock.p50 -->{} ms<!-- / -->.\n"
    for page in pages:
        page.write_text(line.format(9))
    arguments = ["--records", str(tmp_path / "records")]
    assert main(["--check", *arguments], tmp_path) == 1
    assert [each.partition(" ")[0] for each in capsys.readouterr().err.splitlines()] == [
        "docs/benchmarks.md:1:",
        "README.md:1:",
    ]
    assert [page.read_text() for page in pages] == [line.format(9)] * 2
    assert main(arguments, tmp_path) == 0
    assert [page.read_text() for page in pages] == [line.format(11.5)] * 2
    assert main(["--check", *arguments], tmp_path) == 0
