"""Writes the benchmarks' figures into the docs: python -m write_figures [--check].

The records of the last runs are in docs/figures. Comments in a page enclose text that follows from them:

- `figure ID` and `/` enclose a figure. The name of a form may follow the id, after a slash. By default it is
  the median with its unit. A benchmark's name alone stands for the date, commit and load of its run.
- `figures` and `/figures` enclose a table of all benchmarks, with headlines and the figures with a target.
- `figures BENCH COLUMN...` and `/figures` enclose a table of one benchmark, with a row for each subject. A
  column is the part of the ids after the subject, and perhaps a form.

While a benchmark has no record, the text between its comments stays as it is. Even then a figure or table
must have the same text everywhere. The exit status is 1 if a comment names an unknown figure. With --check it
is also 1 if a page differs from the records.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import floor, log10
from pathlib import Path
from types import MappingProxyType

from bench.record import BENCHES, FOLDER, ROOT, Measured, Record, read

REFERENCE = "docs/benchmarks.md"
"""While a figure has no record, its text on this page counts."""

# A table, a figure, code that shows a comment, and a comment without its counterpart.
_MARK = re.compile(
    r"<!-- figures(?P<columns>(?: \S+)*) -->\n(?P<table>(?s:.*?))<!-- /figures -->"
    r"|<!-- figure (?P<name>\S+) -->(?P<text>.*?)<!-- / -->"
    r"|(?P<code>`[^`\n]*`)"
    r"|<!-- (?:figure|/).*"
)
_COMMENT = re.compile(r"<!--.*?-->")
_DIGITS = 3  # significant ones of a shown value


class FigureError(Exception):
    """A comment has no counterpart, or names something that does not exist."""


def number(value: float) -> str:
    """Return a value with three significant digits. A whole number has all of its digits."""
    whole = value == round(value)
    rounded = float(f"{value:.{_DIGITS}g}")  # 9.998 has a digit more when it is rounded
    decimals = 0 if whole else max(_DIGITS - 1 - floor(log10(abs(rounded))), 0)
    return f"{value:,.{decimals}f}"


def amount(value: str, unit: str) -> str:
    """Return a value with its unit. Of a rate's unit only "/s" is shown, as its noun is beside it."""
    return f"{value}/s" if unit.endswith("/s") else f"{value} {unit}".rstrip()


def _range(figure: Measured) -> str:
    return f"{number(figure.least)} to {number(figure.most)}"


def _full(figure: Measured) -> str:
    value = amount(number(figure.median), figure.unit)
    return value if figure.rounds == 1 else f"{value} ({_range(figure)})"


def _target(figure: Measured) -> str:
    if figure.target is None:
        return ""
    return f"{amount(f'{figure.target:,g}', figure.unit)}: {'met' if figure.met else 'missed'}"


FORMS: Mapping[str, Callable[[Measured], str]] = MappingProxyType(
    {
        "": lambda figure: amount(number(figure.median), figure.unit),
        "number": lambda figure: number(figure.median),
        "range": _range,
        "full": _full,
        "target": _target,
    }
)
"""The forms: the median with its unit, or alone, the range of the rounds, both, and the target."""


class Docs:
    """The pages with the text that follows from the records.

    Attributes:
        records: the records by benchmark.
        unknown: a text for each comment that can't be understood, with its place.
        outdated: a text for each figure or table that differed from the records, with its place.

    """

    def __init__(self, records: Mapping[str, Record]) -> None:
        self.records = records
        self.unknown: list[str] = []
        self.outdated: list[str] = []
        self._typed: dict[str, str] = {}

    def update(self, page: str, text: str) -> str:
        """Return the text of a page with the figures of the records."""

        def replaced(match: re.Match[str]) -> str:
            line = text.count("\n", 0, match.start()) + 1
            try:
                new = self._replacement(match)
            except FigureError as error:
                self.unknown.append(f"{page}:{line}: {error}")
                return match[0]
            if new != match[0]:
                name = match["name"] or f"table{match['columns']}"
                self.outdated.append(f"{page}:{line}: {name}: {_difference(match[0], new)}")
            return new

        return _MARK.sub(replaced, text)

    def _replacement(self, match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        if match["table"] is not None:
            columns = match["columns"]
            return (
                f"<!-- figures{columns} -->\n{self._table(columns.split(), match['table'])}<!-- /figures -->"
            )
        if match["name"] is None:
            raise FigureError(f"this has no counterpart, or no known form: {match[0]}")
        if match.start() == 0 or match.string[match.start() - 1] == "\n":
            raise FigureError(f"{match['name']}: a line can't begin with a figure, as this ends a paragraph")
        return f"<!-- figure {match['name']} -->{self._quote(match['name'], match['text'])}<!-- / -->"

    def _quote(self, name: str, text: str) -> str:
        """Return the text of a figure, or for a benchmark's name alone the date, commit and load."""
        key, form = _parsed(name)
        bench, _, key = key.partition(".")
        record = self._record(bench)
        if record is None:
            return self._typed.setdefault(name, text)
        if not key:
            return f"{record.start.day} {record.start:%B %Y}, commit {record.commit}, load {_load(record)}"
        if key not in record.figures:
            raise FigureError(f"{name}: the record of {bench} has no such figure")
        return FORMS[form](record.figures[key])

    def _table(self, columns: Sequence[str], text: str) -> str:
        """Return the text of a table."""
        if not columns:
            return _markdown(self._all())
        record = self._record(columns[0])
        if record is None:
            return self._typed.setdefault(" ".join(columns), text)
        return _markdown(_by_subject(record, columns[1:]))

    def _record(self, bench: str) -> Record | None:
        if bench not in BENCHES:
            raise FigureError(f"there is no benchmark {bench}")
        return self.records.get(bench)

    def _all(self) -> Iterator[Sequence[str]]:
        """Yield the rows of the table of all benchmarks."""
        yield "benchmark", "figure", "median (least to most)", "target", "date", "commit", "load", "took"
        for bench in BENCHES:
            record = self.records.get(bench)
            if record is None:
                yield bench, "no record yet", "", "", "", "", "", ""
                continue
            link = f"[{bench}](figures/{bench}.json)"
            day, minutes = record.start.date().isoformat(), f"{record.seconds / 60:.1f} min"
            run = (day, record.commit, _load(record), minutes)
            if record.faults:
                yield link, f"**faults: {len(record.faults)}**", "", "", *run
            for figure in record.figures.values():
                if figure.headline or figure.target is not None:
                    name = ": ".join(filter(None, (figure.subject, figure.program, figure.name)))
                    yield link, name, _full(figure), _target(figure), *run


def _by_subject(record: Record, columns: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the rows of a table with a row for each subject that has a figure in one of the columns."""
    subjects: dict[str, dict[str, Measured]] = {}
    for key, figure in record.figures.items():
        subject, _, part = key.partition(".")
        subjects.setdefault(subject, {})[part] = figure
    parsed = [_parsed(column) for column in columns]
    head = [""]
    for part, form in parsed:
        named = next((figures[part] for figures in subjects.values() if part in figures), None)
        if named is None:
            raise FigureError(f"the record of {record.bench} has no figure {part} of any subject")
        title = ": ".join(filter(None, (named.program, named.name)))
        head.append("target" if form == "target" else title)
    yield head
    for figures in subjects.values():
        row = [FORMS[form](figures[part]) if part in figures else "" for part, form in parsed]
        if any(row):
            yield next(iter(figures.values())).subject, *row


def _parsed(name: str) -> tuple[str, str]:
    """Return the id and the form in a name."""
    key, _, form = name.partition("/")
    if form not in FORMS:
        raise FigureError(f"{name}: there is no form {form}")
    return key, form


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    """Return rows, of which the first is the head, as a Markdown table between empty lines."""
    lines = ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in rows]
    lines.insert(1, "|" + " --- |" * (lines[0].count("|") - 1))
    return "\n" + "\n".join(lines) + "\n\n"


def _load(record: Record) -> str:
    return f"{record.load:.1f} to {record.highest_load:.1f}"


def _difference(old: str, new: str) -> str:
    """Return the first line that differs, in words and without comments."""
    lines = (_COMMENT.sub("", each).splitlines() for each in (old, new))
    before, after = next(pair for pair in zip_longest(*lines, fillvalue="") if pair[0] != pair[1])
    return f"{before!r} should be {after!r}"


def pages(root: Path) -> list[Path]:
    """Return the Markdown pages of the root and of docs, the page of reference first."""
    found = [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]
    return sorted(found, key=lambda page: page != root / REFERENCE)


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the figures into the pages, or check the pages, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="write_figures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing, and name each difference")
    parser.add_argument(
        "--records", type=Path, default=FOLDER, metavar="FOLDER", help="folder of other records"
    )
    options = parser.parse_args(arguments)
    docs = Docs(read(options.records))
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        new = docs.update(str(page.relative_to(root)), text)
        if new != text and not options.check:
            page.write_text(new, encoding="utf-8")
    problems = docs.unknown + (docs.outdated if options.check else [])
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
