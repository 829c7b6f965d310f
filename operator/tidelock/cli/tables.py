"""Output of commands: tables like kubectl's, JSON, YAML.

All output passes through here, so texts of other authors can't send commands to the terminal or forge a line.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelock.cli.layout import UNBOUNDED, folded, table_lines
from tidelock.cli.options import Output
from tidelock.model.printable import printable, printable_json

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
    "bound": "green",
    "fits": "green",
    "now": "green",
    "ok": "green",
    "note": "yellow",
    "unknown": "yellow",
    "wrong": "bold red",
}
"""Styles of words for good and bad states, on terminals with colours."""

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
"""The parameters of the control sequence SGR (ECMA-48) for each part of a style."""


@dataclass(frozen=True)
class Table:
    """Headings and rows. A row that is one text is a line across all columns.

    Attributes:
        columns: the headings.
        rows: the cells of each row, or the text of a line.
        right: headings of numeric columns.
        optional: headings of columns that a narrow terminal leaves out, the least important first.
        names: headings of columns with names, which a narrow terminal shortens.
        fold: whether long texts of the last column are folded on a terminal, or cut.

    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str] | str]
    right: frozenset[str] = field(default_factory=frozenset)
    optional: tuple[str, ...] = ()
    names: frozenset[str] = field(default_factory=frozenset)
    fold: bool = True

    def lines(self, width: int) -> Iterator[list[str]]:
        """Yield the lines for a terminal of `width` cells, each as its cells."""
        rows = [
            printable(row) if isinstance(row, str) else [printable(cell) for cell in row] for row in self.rows
        ]
        yield from table_lines(
            self.columns,
            rows,
            width=width,
            right=self.right,
            optional=self.optional,
            names=self.names,
            fold=self.fold,
        )


def terminal_width() -> int:
    """Return the cells of a line of the terminal, or no bound in a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNBOUNDED


def lines_of(*parts: Table | str, width: int = UNBOUNDED, coloured: bool = False) -> str:
    """Render tables and sentences in lines of at most `width` cells. No line ends in spaces."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, str):
            lines += folded(printable(part), width)
            continue
        heads, *rows = part.lines(width)
        if coloured:
            lines.append(_painted("".join(heads), "bold"))
            lines += ["".join(map(_painted, row)) for row in rows]
        else:
            lines += ["".join(row) for row in (heads, *rows)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _painted(cell: str, style: str = "") -> str:
    """Return a cell in the style of its word."""
    word = cell.strip()
    style = style or STYLES.get(word, "")
    if not style or not word:
        return cell
    codes = ";".join(_CODES[part] for part in style.split())
    return cell.replace(word, f"\x1b[{codes}m{word}\x1b[0m")


def coloured() -> bool:
    """Return whether standard output is a terminal with colours that are not unwanted ($NO_COLOR)."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def show(*parts: Table | str) -> None:
    """Print tables and sentences, as wide as the terminal, or in full without a terminal."""
    sys.stdout.write(lines_of(*parts, width=terminal_width(), coloured=coloured()))


def print_remark(sentence: str) -> None:
    """Print a remark beside the result."""
    sys.stderr.write(f"{printable(sentence)}\n")


def show_plain(plain: Any, output: Output) -> None:
    """Print for programs."""
    import msgspec  # noqa: PLC0415 -- a table needs neither of them
    import yaml  # noqa: PLC0415

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
