"""Kept screens: their text is in snapshots/, and their pictures for the docs are in docs/images.

TIDELOCK_SNAPSHOTS=write writes them again. Both are compared by their text, cell by cell, as a library may
change its drawing and its colours.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from textual.app import App

from tidelock.cli.layout import UNBOUNDED, cells
from tidelock.cli.tables import Table, lines_of

_FOLDER = Path(__file__).with_name("snapshots")
_PICTURES = Path(__file__).parents[3] / "docs" / "images"
_SVG = "{http://www.w3.org/2000/svg}"
_CELL = 12.2  # Width of a character in pictures by rich.


def assert_screen(name: str, parts: Sequence[Table | str], width: int = UNBOUNDED) -> None:
    """Compare output for a terminal of `width` cells, or for a file, with the kept screen of that name."""
    printed = lines_of(*parts, width=width)
    _compare(_FOLDER / f"{name}.txt", printed)
    assert all(cells(line) <= width for line in printed.splitlines())


def assert_terminal(name: str, app: App[None], *, picture: bool = False) -> None:
    """Compare a terminal with the kept screen of that name, and with its `picture`."""
    svg = _without_strangers(app.export_screenshot(title="kubectl tidelock top", simplify=True))
    _compare(_FOLDER / f"{name}.txt", text_of(svg))
    if not picture:
        return
    file = _PICTURES / f"{name}.svg"
    if _writing():
        file.write_text(svg, encoding="utf-8")
    assert text_of(svg) == text_of(file.read_text(encoding="utf-8")), f"{file} is old: make screenshots"


def text_of(svg: str) -> str:
    """Return the text in a picture of a terminal."""
    lines: dict[int, str] = {}
    for text in ET.fromstring(svg).iter(f"{_SVG}text"):  # noqa: S314 -- it is our own picture
        line = re.search(r"-line-(\d+)\)", text.get("clip-path", ""))
        if line is not None:  # Otherwise it is the title.
            number, column = int(line[1]), round(float(text.get("x", "0")) / _CELL)
            before = lines.get(number, "")
            lines[number] = f"{before:{column}}{text.text}".replace("\xa0", " ")
    return "".join(f"{lines.get(number, '').rstrip()}\n" for number in range(max(lines) + 1))


def _without_strangers(svg: str) -> str:
    """Remove fonts from other servers and comments, so the picture looks the same offline."""
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines() if line.strip())


def _compare(file: Path, shown: str) -> None:
    if _writing():
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8"), f"{file} differs: look at it, then make screenshots"


def _writing() -> bool:
    return os.environ.get("TIDELOCK_SNAPSHOTS") == "write"
