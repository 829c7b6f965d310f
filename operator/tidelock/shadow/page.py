"""A report as one page of HTML that loads nothing: pictures are inline, and there is no script."""

from collections.abc import Iterable, Iterator
from html import escape

from tidelock.model.printable import printable
from tidelock.shadow.document import Chart, Report, ReportTable, Section
from tidelock.shadow.figures import COLOURS, svg

# Okabe and Ito's colours, which people with colour blindness tell apart, with lighter ones for dark pages.
_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56606b")
_DARK = ("#56b4e9", "#f28e4b", "#3ecf9e", "#e59cc4", "#f0c94a", "#a7b4c0")

# The page has styles of its own, and a browser refuses everything else in it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --text: #17212b; --quiet: #55636f; --line: #d5dde3; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #10161c; --text: #e4eaef; --quiet: #9fb0bd; --line: #2c3943; }
}
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 60rem; background: var(--ground);
  color: var(--text); font: 16px/1.55 Georgia, "Times New Roman", serif; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.3rem; margin: 2.75rem 0 0.5rem; padding-top: 0.75rem; border-top: 1px solid var(--line); }
.subtitle, .definition, figcaption, caption { color: var(--quiet); }
.subtitle { margin: 0.5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
.definition { font-style: italic; }
.summary { border-left: 4px solid var(--c0); padding: 0.25rem 0 0.25rem 1rem; }
.summary ul { padding-left: 1.1rem; margin: 0.25rem 0; }
.wide { overflow-x: auto; margin: 1.25rem 0; }
table { border-collapse: collapse; font: 13px/1.4 system-ui, sans-serif; font-variant-numeric: tabular-nums;
  min-width: 60%; }
caption { text-align: left; padding-bottom: 0.4rem; font-size: 14px; }
th, td { padding: 0.3rem 0.75rem 0.3rem 0; text-align: right; vertical-align: top; }
th.word, td.word { text-align: left; white-space: nowrap; }
thead th { border-top: 2px solid var(--text); border-bottom: 1px solid var(--text); white-space: normal; }
tbody tr:last-child td { border-bottom: 2px solid var(--text); }
figure { margin: 1.5rem 0; }
figcaption { font-size: 14px; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; fill: var(--quiet); }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.legend { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; font: 13px system-ui, sans-serif; }
.legend span::before { content: ""; display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em;
  background: var(--colour); }
"""


def page(report: Report) -> str:
    """Return the page."""
    body = [
        f"<h1>{_text(report.title)}</h1>",
        f'<p class="subtitle">{_text(report.subtitle)}</p>',
        f'<div class="summary">{_list(report.summary)}</div>',
    ]
    figures, tables = _numbers(), _numbers()
    for section in report.sections:
        body += _section(section, figures, tables)
    body += ["<h2>Limits</h2>", _list(report.limits)]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>',
            f"<title>{_text(report.title)}</title>",
            f"<style>{_colours()}{_STYLE}</style>\n</head>\n<body>",
            *body,
            "</body>\n</html>\n",
        ]
    )


def _section(section: Section, figures: Iterator[int], tables: Iterator[int]) -> Iterator[str]:
    yield f"<h2>{_text(section.title)}</h2>"
    for finding in section.findings:
        yield f"<p>{_text(finding)}</p>"
    yield f'<p class="definition">{_text(section.definition)}</p>'
    for chart in section.charts:
        yield _figure(chart, next(figures))
    for table in section.tables:
        yield _table(table, next(tables))


def _figure(chart: Chart, number: int) -> str:
    legend = "".join(
        f'<span style="--colour: var(--c{place % COLOURS})">{_text(name)}</span>'
        for place, name in enumerate(chart.series)
    )
    caption = f"<figcaption>Figure {number}. {_text(chart.caption)}.</figcaption>"
    return f'<figure>{svg(chart)}<div class="legend">{legend}</div>{caption}</figure>'


def _table(table: ReportTable, number: int) -> str:
    def cell(tag: str, place: int, text: str) -> str:
        mark = ' class="word"' if place < table.words else ""
        return f"<{tag}{mark}>{_text(text)}</{tag}>"

    head = "".join(cell("th", place, text) for place, text in enumerate(table.columns))
    rows = "".join(
        f"<tr>{''.join(cell('td', place, text) for place, text in enumerate(row))}</tr>\n"
        for row in table.rows
    )
    caption = f"<caption>Table {number}. {_text(table.caption)}.</caption>"
    head = f"<thead><tr>{head}</tr></thead>" if any(table.columns) else ""
    return f'<div class="wide"><table>{caption}{head}<tbody>\n{rows}</tbody></table></div>'


def _colours() -> str:
    light, dark = (
        " ".join(f"--c{number}: {colour};" for number, colour in enumerate(colours))
        for colours in (_LIGHT, _DARK)
    )
    classes = " ".join(
        f".c{number} {{ fill: var(--c{number}); }} .line.c{number} {{ stroke: var(--c{number}); }}"
        for number in range(COLOURS)
    )
    return f"\n:root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{classes}\n"


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(each)}</li>' for each in items)}</ul>"


def _text(text: str) -> str:
    """Return a text for HTML. Names of others' objects get no markup, and no hidden characters."""
    return escape(printable(text))


def _numbers() -> Iterator[int]:
    yield from range(1, 1000)
