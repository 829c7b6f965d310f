"""An SVG picture in one style, which follows the reader's light or dark scheme."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from xml.sax.saxutils import escape

SIZE = 13
"""The height of text in pixels, if a call names no other."""

_LINE = 1.35  # distance of two lines of text, in heights
_WIDTH = 0.58  # width of an average character of a wide font such as DejaVu Sans, in heights
_INSET = 4  # least distance of a text from the sides of its box, in pixels
_BAR = 34  # height of a node's bar, in pixels


class Kind(StrEnum):
    """The meaning of an area, which has one colour in all pictures."""

    POD = "pod"
    RESERVED = "reserved"
    PREPARED = "prepared"
    LENT = "lent"
    REFUSED = "refused"
    PART = "part"
    FREE = "free"


# Fill and outline, in the light and in the dark scheme.
_COLOURS = {
    Kind.POD: ("#a9bccb", "#5b7383", "#4b6375", "#93a9b8"),
    Kind.RESERVED: ("#bfe3c8", "#3f7d53", "#235c38", "#7cc394"),
    Kind.PREPARED: ("#fdeec4", "#94762a", "#5d4a17", "#d9b95f"),
    Kind.LENT: ("#cfd8f4", "#5567a8", "#35437c", "#97a8e6"),
    Kind.REFUSED: ("#f6cfcb", "#b0493f", "#6d2d27", "#e58d84"),
    Kind.PART: ("#dbe6ee", "#5b7383", "#2b3943", "#8ba1b0"),
    Kind.FREE: ("none", "#8298a6", "none", "#71899a"),
}
_PAGE, _INK, _FAINT = ("#f4f7f9", "#1b2228"), ("#1c2b36", "#e4ebf0"), ("#566975", "#a3b3be")


class WidthError(Exception):
    """A text is wider than its box."""


class Segment(NamedTuple):
    """A part of a node's bar: its amount in cores, and what it is."""

    amount: float
    kind: Kind
    text: str = ""


@dataclass(frozen=True)
class Scale:
    """A horizontal axis from an amount or a time to pixels."""

    start: float
    pixels: float

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        return self.start + value * self.pixels


class Canvas:
    """A picture that grows by calls, in drawing order.

    Args:
        width: width in pixels.
        height: height in pixels.
        title: description of the picture for readers who do not see it.

    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self._width, self._height, self._title = width, height, title
        self._parts: list[str] = []

    def box(self, place: tuple[float, float, float, float], kind: Kind, text: str = "") -> None:
        """Draw an area at x and y with a width and a height, with centred lines of text.

        Raises:
            WidthError: the text does not fit.

        """
        x, y, width, height = place
        lines = text.split("\n") if text else []
        if any(text_width(line) + 2 * _INSET > width for line in lines):
            raise WidthError(f"{self._title}: {text!r} is wider than {width:.0f}")
        self._parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"/>'
        )
        first = y + height / 2 - (len(lines) - 1) * SIZE * _LINE / 2 + SIZE * 0.36
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + number * SIZE * _LINE, line, anchor="middle")

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "start", size: int = SIZE, style: str = "ink"
    ) -> None:
        """Write one line, of which y is the base. A style is `ink`, `faint` or `bold`.

        Raises:
            WidthError: the line leaves the picture.

        """
        width = text_width(text, size)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        if left < 0 or left + width > self._width:
            raise WidthError(f"{self._title}: {text!r} leaves the picture")
        where = f'x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
        self._parts.append(f'<text class="{style}" {where}>{escape(text)}</text>')

    def line(self, *points: tuple[float, float], style: str = "line") -> None:
        """Draw a path through points. A style is `line`, `arrow` or `dashes`."""
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
        self._parts.append(f'<path class="{style}" d="{path}"/>')

    def bar(self, at: tuple[float, float], scale: float, segments: Sequence[Segment], name: str = "") -> None:
        """Draw the capacity of a node from left to right, `scale` pixels for a core, and its name."""
        x, y = at
        if name:
            self.text(x - 10, y + _BAR / 2 + SIZE * 0.36, name, anchor="end")
        for segment in segments:
            self.box((x, y, segment.amount * scale, _BAR), segment.kind, segment.text)
            x += segment.amount * scale

    def svg(self) -> str:
        """Return the file."""
        light = "".join(
            f".{kind}{{fill:{fill};stroke:{edge}}}" for kind, (fill, edge, _, _) in _COLOURS.items()
        )
        dark = "".join(
            f".{kind}{{fill:{fill};stroke:{edge}}}" for kind, (_, _, fill, edge) in _COLOURS.items()
        )
        plain, night = _scheme(0), _scheme(1)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self._width} {self._height}" role="img" '
            'font-family="system-ui, DejaVu Sans, sans-serif">\n'
            f"<title>{escape(self._title)}</title>\n<style>\n"
            f".free{{stroke-dasharray:4 3}}.bold{{font-weight:bold}}path{{fill:none;stroke-width:1.4}}"
            f".dashes{{stroke-dasharray:4 4}}.arrow{{marker-end:url(#tip)}}\n{plain}{light}\n"
            f"@media (prefers-color-scheme: dark){{{night}{dark}}}\n</style>\n"
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><polygon class="tip" points="0,0 8,4 0,8"/></marker></defs>\n'
            f'<rect class="page" width="{self._width}" height="{self._height}" rx="10"/>\n'
        )
        return head + "\n".join(self._parts) + "\n</svg>\n"


def _scheme(number: int) -> str:
    """Return the colours of page, text and lines in the light scheme (0) or the dark one (1)."""
    page, ink, faint = _PAGE[number], _INK[number], _FAINT[number]
    return (
        f".page{{fill:{page}}}.ink,.bold,.tip{{fill:{ink}}}.faint{{fill:{faint}}}"
        f".line,.arrow{{stroke:{ink}}}.dashes{{stroke:{faint}}}"
    )


def text_width(text: str, size: int = SIZE) -> float:
    """Return an upper estimate of the width of a line in pixels."""
    return len(text) * size * _WIDTH
