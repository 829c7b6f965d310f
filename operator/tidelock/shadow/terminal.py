"""A report on the terminal: the findings and tables, without the charts."""

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidelock.model.printable import printable
from tidelock.shadow.document import Report, ReportTable

_UNBOUNDED = 10_000  # columns of a table in a file or for a program, where nothing is folded
# Rows of a table. The page has all of them.
_ROWS = 10


def print_report(report: Report) -> None:
    """Print a report to standard output."""
    width = None if sys.stdout.isatty() else _UNBOUNDED
    print_to(Console(width=width, highlight=False, markup=False, soft_wrap=True), report)


def print_to(console: Console, report: Report) -> None:
    """Print a report to a console."""
    console.print(Text(report.title, style="bold"))
    console.print(Text(printable(report.subtitle)))
    for section in report.sections:
        console.print()
        console.print(Text(section.title.upper(), style="bold"))
        for finding in section.findings:
            console.print(Text(printable(finding)))
        for table in section.tables:
            console.print()
            _print_table(console, table)


def _print_table(console: Console, table: ReportTable) -> None:
    console.print(Text(f"{table.caption}:"))
    drawn = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=any(table.columns))
    for place, heading in enumerate(table.columns):
        drawn.add_column(heading.upper(), justify="left" if place < table.words else "right", overflow="fold")
    for row in table.rows[:_ROWS]:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    console.print(drawn)
    if len(table.rows) > _ROWS:
        console.print(Text(f"and {len(table.rows) - _ROWS} more"))
