"""Screens as they are kept in snapshots/; TIDELOCK_SNAPSHOTS=write writes them anew."""

import os
from collections.abc import Sequence
from pathlib import Path

from tidelock.cli.tables import Table, lines_of

_FOLDER = Path(__file__).with_name("snapshots")


def assert_screen(name: str, parts: Sequence[Table | str]) -> None:
    """Compare what is shown with the kept screen of that name."""
    file, shown = _FOLDER / f"{name}.txt", lines_of(*parts)
    if os.environ.get("TIDELOCK_SNAPSHOTS") == "write":
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8"), f"{file} differs; look at it, and write it anew"
