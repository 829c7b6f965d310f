"""The report of a run: on the terminal, as JSON and as a page."""

import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import msgspec
import pytest
from rich.console import Console

from documents import ROOT, page_blocks
from tidelock.shadow.document import Chart, ChartKind, ReportTable, count, duration, part, percent
from tidelock.shadow.figures import svg
from tidelock.shadow.page import page
from tidelock.shadow.report import report_of
from tidelock.shadow.results import ShadowResults
from tidelock.shadow.terminal import print_report, print_to
from unit.shadow.example import replayed
from unit.shadow.trace import Trace

DOCS = ROOT / "docs" / "shadow.md"


@pytest.fixture(scope="module")
def results() -> ShadowResults:
    return replayed().results


def printed(results: ShadowResults) -> str:
    console = Console(file=io.StringIO(), width=200, highlight=False, markup=False)
    print_to(console, report_of(results))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def parsed(results: ShadowResults) -> ET.Element:
    """Parse the page as XML, which no unclosed tag and no unescaped text survives."""
    text = page(report_of(results))
    assert text.startswith("<!DOCTYPE html>\n")
    return ET.fromstring(text.partition("\n")[2])  # noqa: S314 -- made here


def test_charts_end_with_the_run(results: ShadowResults) -> None:
    """The look at the end of the last minute was drawn in an eleventh one."""
    assert (results.timeline.width, results.run.watched_seconds) == (60.0, 600.0)
    assert {len(sums) for sums in results.timeline.series.values()} == {10}


def test_the_docs_show_the_example_as_it_is_printed(results: ShadowResults) -> None:
    (shown,) = (block.text for block in page_blocks(DOCS) if block.text.startswith("$ tidelock shadow --for"))
    assert shown.partition("\n")[2] == printed(results)


def test_the_findings_of_the_example(results: ShadowResults) -> None:
    races, waiting, decisions = results.races, results.waiting, results.decisions
    assert (races.bindings, races.contested, races.between_managers) == (8, 1, 1)
    assert (races.lost_last, races.wait_after_loss_p50) == (1, 150.0)
    assert (waiting.waited, waiting.pod_seconds, waiting.pod_seconds_fitting) == (1, 140.0, 30.0)
    assert (decisions.refusals, decisions.refusals_fitting) == (1, 0)
    assert sum(decisions.outcomes.values()) == 8
    short, long = results.holds
    assert (short.pods, short.given, short.refused_on_node) == (8, 7, 1)
    assert (long.pods, long.given, long.given_beside_all) == (5, 5, 4)


def test_the_page_is_well_formed_and_loads_nothing(results: ShadowResults) -> None:
    root = parsed(results)
    text = ET.tostring(root, encoding="unicode")
    assert not re.search(r"\b(src|href)=|url\(|@import|<script", text)
    pictures = root.findall(".//svg")
    assert len(pictures) == 5
    assert all(picture.get("aria-label") and picture.find("title") is not None for picture in pictures)
    captions = ["".join(each.itertext()) for each in root.findall(".//caption")]
    assert [caption.split(".")[0] for caption in captions] == [
        f"Table {n}" for n in range(1, len(captions) + 1)
    ]


def test_every_figure_of_the_terminal_is_on_the_page(results: ShadowResults) -> None:
    shown = " ".join("".join(parsed(results).itertext()).split())
    for section in report_of(results).sections:
        for finding in (*section.findings, section.definition):
            assert finding in shown
        for table in section.tables:
            for row in table.rows:
                assert all(" ".join(cell.split()) in shown for cell in row)


def test_hostile_names_stay_text() -> None:
    trace = Trace({"a": {"cpu": "4"}})
    name = "<script>alert(1)</script>\x1b[2J\u202e"
    trace.create("loser", "3", namespace=name)
    trace.create("winner", "3", namespace="x")
    trace.bind("winner", "a")
    text = page(report_of(trace.results))

    assert "<script" not in text
    assert "&lt;script&gt;" in text
    for character in ("\x1b", "\u202e"):
        assert character not in text
        assert character not in printed(trace.results)


def test_the_json_has_all_results(results: ShadowResults) -> None:
    plain = json.loads(msgspec.json.encode(results))
    assert set(plain) == {"run", "decisions", "races", "waiting", "levels", "holds", "timeline"}
    assert plain["run"]["options"]["leads"] == [60.0, 300.0]
    assert msgspec.convert(plain, ShadowResults) == results


def test_a_run_in_which_nothing_happened_has_a_report() -> None:
    trace = Trace({}, leads=(10.0,))
    trace.at(5)
    text = printed(trace.results)
    assert "Races: 0 of 0 bindings" in text
    assert "no pod was bound after a full lead time" in text
    assert parsed(trace.results).findall(".//h2")


def test_gaps_and_an_unfinished_run_are_named(results: ShadowResults) -> None:
    trace = Trace({"a": {"cpu": "4"}})
    trace.clock.seconds = 25
    trace.observer.look(lost_since=trace.clock.now() - 20, reason="Unreachable")
    trace.at(30)
    report = report_of(trace.observer.results(finished=False))
    assert "still running" in report.subtitle
    assert "1 gap of 30 s in all are left out." in report.summary
    assert "Unreachable" in printed(trace.results)


def test_a_report_for_a_file_is_not_folded(
    results: ShadowResults, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report(report_of(results))
    lines = capsys.readouterr().out.splitlines()
    for section in report_of(results).sections:
        assert all(finding in lines for finding in section.findings)


def test_a_long_table_is_cut_on_the_terminal_alone(results: ShadowResults) -> None:
    report = report_of(results)
    rows = [[f"row {number}"] for number in range(25)]
    section = replace(report.sections[0], tables=[ReportTable("Many", ("name",), rows)])
    longer = replace(report, sections=[section])
    console = Console(file=io.StringIO(), width=200)
    print_to(console, longer)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert "row 9" in text
    assert "row 10" not in text
    assert "and 15 more" in text
    assert "row 24" in page(longer)


@pytest.mark.parametrize("kind", ChartKind)
@pytest.mark.parametrize("values", [[0.0], [0.0, 3.0], [float("nan"), 2.0], [1e-7, 2e-7], [123456.0] * 240])
def test_a_chart_is_drawn_within_its_frame(kind: ChartKind, values: list[float]) -> None:
    places = (
        [str(n) for n in range(len(values))]
        if kind is ChartKind.BARS
        else [n + 0.5 for n in range(len(values))]
    )
    root = ET.fromstring(svg(Chart("caption", kind, "units", {"one": values, "two": values}, places)))  # noqa: S314
    for each in root.iter("rect"):
        x, y, width, height = (float(each.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + width <= 760
        assert 0 <= y <= y + height <= 260 - 44 + 0.01
    for each in root.iter("polyline"):
        for point in each.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 760
            assert 0 <= y <= 260 - 44 + 0.01


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (duration(None), "-"),
        (duration(4.25), "4.2 s"),
        (duration(90), "90 s"),
        (duration(300), "5.0 min"),
        (duration(7200), "2.0 h"),
        (duration(200_000), "2.3 d"),
        (percent(0.0), "0.0 %"),
        (percent(0.0123), "1.23 %"),
        (percent(0.5), "50.0 %"),
        (part(1, 4), "1 (25.0 %)"),
        (part(0, 0), "0"),
        (count(1, "pod"), "1 pod"),
        (count(1204, "pod"), "1,204 pods"),
    ],
)
def test_figures_are_written_for_people(shown: str, expected: str) -> None:
    assert shown == expected
