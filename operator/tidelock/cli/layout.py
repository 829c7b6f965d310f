"""The layout of tables and sentences in lines of a terminal. No word is broken in two.

If the columns of a table are too wide, the least important ones are left out. Then names are shortened to
their most telling part, and the last column gets the remaining cells.
"""

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass

UNBOUNDED = 10_000
"""Cells of a line in a file or for a program, where nothing is left out or cut."""

_GAP = 2  # cells between columns on a terminal
_WIDE_GAP = 3  # elsewhere, as in kubectl's tables
_LEAST_TEXT = 24  # cells of the last column, unless its texts are shorter
_LEAST_NAME = 16  # cells of a name that is shortened
_FOLDED_TEXT = 30  # cells of a last column that is folded. With fewer it gets lines of its own
_INDENT = 4  # cells before these
_MORE = "…"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that fit: the places of their headings, and their widths in cells."""

    places: tuple[int, ...]
    widths: tuple[int, ...]


def cells(text: str) -> int:
    """Return the number of cells that a text of one line takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 -- its tables are slow to import, and rarely needed

    return cell_len(text)


def fit(
    heads: Sequence[str],
    widths: Sequence[int],
    *,
    width: int,
    optional: Sequence[str] = (),
    names: Collection[str] = (),
    gap: int,
) -> Columns:
    """Choose the columns for a line of `width` cells.

    Args:
        heads: all headings. The last column is one of texts that may be cut or folded.
        widths: the cells that each column needs for all of its content.
        width: the cells of a line.
        optional: headings of the columns that may be left out, the least important first.
        names: headings of the columns with names that may be shortened.
        gap: cells between two columns.

    """
    last = len(heads) - 1
    chosen = dict(enumerate(widths))
    chosen[last] = max(min(widths[last], _LEAST_TEXT), cells(heads[last]))

    def excess() -> int:
        return sum(chosen.values()) + gap * (len(chosen) - 1) - width

    for head in optional:
        if excess() <= 0:
            break
        chosen.pop(heads.index(head), None)
    for place in sorted(chosen, key=lambda place: -chosen[place]):
        if heads[place] in names and excess() > 0:
            least = max(min(chosen[place], _LEAST_NAME), cells(heads[place]))
            chosen[place] = max(chosen[place] - excess(), least)
    if last in chosen:
        chosen[last] = max(min(widths[last], chosen[last] - excess()), 1)
    return Columns(tuple(chosen), tuple(chosen.values()))


def shortened(name: str, width: int) -> str:
    """Shorten a name to its most telling part: the host of a domain name, or the last segments of another."""
    if cells(name) <= width:
        return name
    host, dot, _ = name.partition(".")
    if dot and cells(host) + 2 <= width:
        return f"{host}.{_MORE}"
    first, *segments = host.split("-")
    while segments:
        short = f"{first}-{_MORE}-{'-'.join(segments)}"
        if cells(short) <= width:
            return short
        segments = segments[1:]
    return f"{name[: max(width - 1, 0)]}{_MORE}"


def clipped(text: str, width: int) -> str:
    """Cut a text behind its last word that fits, or within its first one if that is too long alone."""
    if cells(text) <= width:
        return text
    part = text[: max(width - 1, 0)]
    while cells(part) >= max(width, 1):
        part = part[:-1]
    whole = part if text[len(part) :].startswith(" ") else part.rpartition(" ")[0]
    return f"{whole.rstrip(' ,;:=+') or part}{_MORE}"


def folded(text: str, width: int) -> list[str]:
    """Return the lines of a text, which is folded between words."""
    if width >= UNBOUNDED:
        return [text]
    return textwrap.wrap(
        text, max(width, 1), break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    ) or [""]


def table_lines(
    heads: Sequence[str],
    rows: Sequence[Sequence[str] | str],
    *,
    width: int = UNBOUNDED,
    right: Collection[str] = (),
    optional: Sequence[str] = (),
    names: Collection[str] = (),
    fold: bool = True,
) -> list[list[str]]:
    """Return the lines of a table, each as its cells. The first line has the headings.

    A row that is one text is a line of its own, across all columns. The last column is folded, or cut if
    `fold` is not set.
    """
    full = [row for row in rows if not isinstance(row, str)]
    needed = [max(cells(head), *(cells(row[place]) for row in full), 0) for place, head in enumerate(heads)]
    gap = _WIDE_GAP if width >= UNBOUNDED else _GAP
    columns = fit(heads, needed, width=width, optional=optional, names=names, gap=gap)
    shown = [
        [
            shortened(row[place], size) if heads[place] in names else row[place]
            for place, size in zip(columns.places, columns.widths, strict=True)
        ]
        for row in full
    ]
    columns = _closed_up(columns, [heads[place] for place in columns.places], shown, names, needed[-1])

    def line(texts: Sequence[str]) -> list[str]:
        return _padded(texts, columns.widths, [heads[place] in right for place in columns.places], gap)

    lines = [line([heads[place] for place in columns.places])]
    cut = iter(shown)
    for row in rows:
        if isinstance(row, str):
            lines += [[part] for part in folded(row, width)]
            continue
        chosen = next(cut)
        *front, text = chosen
        room, before = columns.widths[-1], sum(columns.widths[:-1]) + gap * len(front)
        if cells(text) <= room:
            lines.append(line(chosen))
        elif not fold:
            lines.append(line([*front, clipped(text, room)]))
        elif room >= _FOLDED_TEXT:
            first, *more = folded(text, room)
            lines.append(line([*front, first]))
            lines += [[" " * before + part] for part in more]
        else:
            lines.append(line([*front, ""]))
            lines += [[" " * _INDENT + part] for part in folded(text, width - _INDENT)]
    return lines


def _closed_up(
    columns: Columns,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    names: Collection[str],
    needed: int,
) -> Columns:
    """Widen the last column by the cells that shortened names leave free, as far as it needs them."""
    widths = list(columns.widths)
    for place, head in enumerate(heads[:-1]):
        if head in names:
            least = max(cells(head), *(cells(row[place]) for row in rows), 0)
            spare = max(widths[place] - least, 0)
            widths[place] -= spare
            widths[-1] = max(min(widths[-1] + spare, needed), widths[-1])
    return Columns(columns.places, tuple(widths))


def _padded(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool], gap: int) -> list[str]:
    """Pad each cell to its column's width and the gap behind it. Nothing is behind the last text."""
    padded = []
    for text, width, to_the_right in zip(texts, widths, right, strict=True):
        space = " " * (width - cells(text))
        padded.append((space + text if to_the_right else text + space) + " " * gap)
    while padded and not padded[-1].strip():
        padded.pop()
    if padded:
        padded[-1] = padded[-1].rstrip()
    return padded
