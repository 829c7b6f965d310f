"""Output of commands: tables like kubectl's, JSON, YAML.

All output passes through here, so texts of other authors can't send commands to the terminal or forge a line.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml
from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

from tidelock.cli.options import Output
from tidelock.model.printable import printable, printable_json

_UNBOUNDED = 10_000  # columns of a table in a file or for a program, where nothing is folded

STYLES = {
    "Active": "green",
    "Bound": "green",
    "Consumed": "green",
    "Pending": "yellow",
    "Expired": "dim",
    "Lost": "red",
    "Planned": "cyan",
    "Rejected": "red",
    "Terminating": "dim",
    "fits": "green",
    "now": "green",
    "ok": "green",
    "note": "yellow",
    "unknown": "yellow",
    "wrong": "bold red",
}
"""Styles of words for good and bad states, on terminals with colours."""


@dataclass(frozen=True)
class Table:
    """Headings and rows. `right` are the headings of numeric columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[str] = field(default_factory=frozenset)

    def __rich__(self) -> RichTable:
        table = RichTable(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
        for heading in self.columns:
            table.add_column(heading, justify="right" if heading in self.right else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*(shown(cell) for cell in row))
        return table


def shown(text: str, style: str = "") -> Text:
    """Return a text of one line for display: safe for a terminal, and in the style of its word."""
    return Text(printable(text), style=style or STYLES.get(text, ""))


def parts_of(*parts: Table | str) -> Group:
    """Return tables and sentences for display."""
    return Group(*(shown(part) if isinstance(part, str) else part for part in parts))


def terminal(*, stderr: bool = False) -> Console:
    """Return the console, without colours if they are unwanted ($NO_COLOR) or impossible."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _UNBOUNDED
    return Console(stderr=stderr, width=width, highlight=False, markup=False, soft_wrap=not stream.isatty())


def lines_of(*parts: Table | str, width: int = _UNBOUNDED) -> str:
    """Render as it is printed to a file. No line ends in spaces."""
    console = Console(width=width, no_color=True, highlight=False, markup=False, force_terminal=False)
    with console.capture() as captured:
        console.print(parts_of(*parts))
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def show(*parts: Table | str) -> None:
    """Print tables and sentences, as wide as the terminal, or in full without a terminal."""
    console = terminal()
    if not console.is_terminal:
        sys.stdout.write(lines_of(*parts))
        return
    console.print(parts_of(*parts))


def print_remark(sentence: str) -> None:
    """Print a remark beside the result."""
    terminal(stderr=True).print(shown(sentence))


def show_plain(plain: Any, output: Output) -> None:
    """Print for programs."""
    if output is Output.YAML:
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
        if not all(line.isprintable() for line in text.split("\n")):
            text = yaml.safe_dump(plain, sort_keys=False)
        sys.stdout.write(text)
    else:
        text = msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()
        sys.stdout.write(printable_json(text) + "\n")


def span(seconds: float) -> str:
    """Format a duration as kubectl does, by its two largest units at most: `45s`, `5m3s`, `2h`, `3d4h`."""
    left = int(seconds)
    if left < 0:
        return f"-{span(-seconds)}"
    if left < 120:  # noqa: PLR2004 -- as kubectl: 119s
        return f"{left}s"
    units = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    parts: list[tuple[int, str]] = []
    for name, size in units:
        count, left = divmod(left, size)
        if count or parts:
            parts.append((count, name))
    return "".join(f"{count}{name}" for count, name in parts[:2] if count)
