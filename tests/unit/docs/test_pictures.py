"""The drawn pictures: each is a readable file in both schemes, and no text leaves its box."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pictures.__main__ import PICTURES, main
from pictures.canvas import Canvas, Kind, Segment, WidthError

SVG = "{http://www.w3.org/2000/svg}"


def drawn(name: str) -> ET.Element:
    return ET.fromstring(PICTURES[name]().svg())  # noqa: S314 (the text is the project's own)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_a_title_and_a_colour_for_each_class_in_both_schemes(name: str) -> None:
    root = drawn(name)
    assert (root.findtext(f"{SVG}title") or "").strip()
    light, _, dark = (root.findtext(f"{SVG}style") or "").partition("@media (prefers-color-scheme: dark)")
    for element in root.iter():
        if used := element.get("class"):
            assert re.search(rf"\.{used}\b", light), used
            assert re.search(rf"\.{used}\b", dark), used


@pytest.mark.parametrize("name", PICTURES)
def test_all_areas_are_inside_the_picture(name: str) -> None:
    root = drawn(name)
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    for area in root.iter(f"{SVG}rect"):
        x, y = (float(area.get(each, "0")) for each in ("x", "y"))
        assert min(x, y) >= 0
        assert x + float(str(area.get("width"))) <= width
        assert y + float(str(area.get("height"))) <= height
    for text in root.iter(f"{SVG}text"):
        assert 0 < float(str(text.get("y"))) < height


def test_a_text_that_is_wider_than_its_box_is_refused() -> None:
    picture = Canvas(200, 100, "Wide")
    with pytest.raises(WidthError, match="is wider than 30"):
        picture.bar((0, 0), 30, [Segment(1, Kind.POD, "other pods")])
    with pytest.raises(WidthError, match="leaves the picture"):
        picture.text(150, 20, "other pods")


def test_markup_in_a_text_is_escaped() -> None:
    picture = Canvas(200, 100, "a < b")
    picture.text(10, 20, "<b> & more")
    assert "<title>a &lt; b</title>" in picture.svg()
    assert "&lt;b&gt; &amp; more" in picture.svg()


def test_pictures_are_written_or_only_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"], tmp_path) == 1
    assert f"{next(iter(PICTURES))}.svg differs from its drawing" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert main([], tmp_path) == 0
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(PICTURES)
    assert main(["--check"], tmp_path) == 0
