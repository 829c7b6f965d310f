"""Writes the drawn pictures to docs/images: python -m pictures [--check].

With --check it writes nothing, and the exit status is 1 if a file differs from its drawing.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pictures import reservations, sharing, simulated, water
from pictures.canvas import Canvas

FOLDER = Path(__file__).parents[2] / "docs" / "images"

PICTURES: Mapping[str, Callable[[], Canvas]] = MappingProxyType(
    {
        "phases": reservations.phases,
        "two-phase": reservations.two_phase,
        "borrowing": reservations.borrowing,
        "windows": reservations.windows,
        "schedules": reservations.schedules,
        "race": sharing.race,
        "moves": sharing.moves,
        "groups": sharing.groups,
        "quotas": sharing.quotas,
        "devices": sharing.devices,
        "queue": sharing.queue,
        "quotes": sharing.quotes,
        "water-levels": sharing.water_levels,
        "water-change": water.levels,
        "water-choices": water.choices,
        "water-score": water.score,
        "tides": simulated.tides,
    }
)
"""The functions that draw, by the name of the file without its suffix."""


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write the pictures, or compare them, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="pictures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing, and name each file that differs")
    options = parser.parse_args(arguments)
    outdated = []
    for name, draw in PICTURES.items():
        path, drawn = folder / f"{name}.svg", draw().svg()
        if not path.is_file() or path.read_text(encoding="utf-8") != drawn:
            outdated.append(path.name)
            if not options.check:
                path.write_text(drawn, encoding="utf-8")
    if not options.check:
        return 0
    sys.stderr.writelines(f"{name} differs from its drawing\n" for name in outdated)
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
