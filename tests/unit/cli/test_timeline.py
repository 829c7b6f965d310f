from pathlib import Path

import pytest

from builders import NOW, reservation
from tidelock.cli.failure import Failure
from tidelock.cli.timeline import ShownSpan, ShownTime, draw, screen, spans_of
from unit.cli.scenes import active_json, consumed_json, lock, pending_json
from unit.cli.screens import assert_screen

WINDOW = ShownTime(NOW - 1800, NOW + 1800, NOW + 300)


def spans(node: str = "") -> list[ShownSpan]:
    reservations = [
        lock(active_json("batch")),
        lock(active_json("second", "node-b", ends=NOW + 3600)),
        lock(active_json("old", ends=NOW - 3600)),
        lock(pending_json()),
        lock(consumed_json()),
        reservation("new"),
    ]
    return spans_of(reservations, WINDOW, node)


def test_reservations_are_shown_by_node() -> None:
    assert_screen("timeline", screen(spans(), WINDOW))


def test_the_timeline_can_be_limited_to_one_node() -> None:
    assert [each.reservation for each in spans("node-b")] == ["shop/used", "shop/second"]


def test_an_empty_timeline_suggests_other_options() -> None:
    assert screen([], WINDOW) == [
        "No reservation in this time; extend it with --since and --ahead, -A shows all namespaces."
    ]


@pytest.mark.filterwarnings("default")  # matplotlib's own imports raise warnings
def test_a_picture_is_drawn(tmp_path: Path) -> None:
    file = tmp_path / "reservations.png"
    draw(spans(), WINDOW, str(file))
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"--png: .*No such file or directory"):
        draw(spans(), WINDOW, str(tmp_path / "none" / "reservations.png"))
