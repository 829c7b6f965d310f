"""The record of a benchmark's run: its figures, and the code and the machine that they apply to.

The records of the last runs are in docs/figures. `hack/update-figures` quotes them in the docs.
"""

import argparse
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from statistics import median

import msgspec

from bench.figures import Figure

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "figures"
"""The folder of the records, one file for each benchmark."""

BENCHES = (
    "lock",
    "tenants",
    "throughput",
    "growth",
    "devices",
    "admission",
    "failover",
    "contend",
    "refresh",
    "dispatch",
    "plan",
    "quote",
    "estimate",
    "moves",
    "cycle",
    "start",
    "plugin",
    "worst",
    "balance",
    "water",
)
"""The benchmarks with records, in the order of the docs."""

# The files that a benchmark measures.
_CODE = ("operator", "hack", "requirements.lock")
_DIGITS = 6  # significant ones of a value in a record
_CPUS = Path("/proc/cpuinfo")


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure of a record.

    Attributes:
        name: name of the quantity.
        unit: unit of the values. Empty for ratios and counts.
        median: median of the rounds, and `least` and `most` are their lowest and highest value.
        rounds: number of values.
        subject: the situation or object that was measured. Empty if the benchmark has only one.
        program: the program that was measured, or what the value compares. Empty for Tidelock.
        target: value that meets the target. None for no target.
        met: whether the median meets the target.
        headline: whether the table of all benchmarks shows the figure, as it shows those with a target.

    """

    name: str
    unit: str
    median: float
    least: float
    most: float
    rounds: int
    subject: str = ""
    program: str = ""
    target: float | None = None
    met: bool | None = None
    headline: bool = False

    @classmethod
    def of(cls, figure: Figure, subject: str, program: str, *, aimed: bool) -> "Measured":
        """Summarize a figure's rounds, with its target if that applies."""
        values = [float(f"{value:.{_DIGITS}g}") for value in figure.values]
        return cls(
            figure.name,
            figure.unit,
            float(f"{median(values):.{_DIGITS}g}"),
            min(values),
            max(values),
            len(values),
            subject,
            program,
            figure.target if aimed else None,
            figure.met if aimed else None,
            figure.headline,
        )


class Record(msgspec.Struct):
    """A run of a benchmark.

    Attributes:
        bench: name of the benchmark.
        start: time of the run's start (UTC), and `seconds` its duration.
        commit: short hash of the commit, with "-dirty" if the measured code differed from it.
        machine: cores, processor and kernel.
        command: the command line.
        load: the machine's load average (1 minute) at the start.
        highest_load: the highest load average that was seen beside a figure, or at the end.
        faults: a text for each fault.
        figures: the figures by their ids within the benchmark, such as `drain-5000.pods-bound`.

    """

    bench: str
    start: datetime
    commit: str
    machine: str
    command: str
    load: float
    highest_load: float
    seconds: float = 0.0
    faults: list[str] = []
    figures: dict[str, Measured] = {}

    @classmethod
    def begin(cls, options: argparse.Namespace) -> "Record":
        """Return the record of a run that starts now. The options are those of `bench.command.add_json`."""
        load = round(os.getloadavg()[0], 1)
        start = datetime.now(UTC).replace(microsecond=0)
        return cls(options.bench, start, _commit(), _machine(), options.command, load, load)

    def add(
        self,
        figures: Sequence[Figure],
        subject: str = "",
        program: str = "",
        key: str = "",
        *,
        aimed: bool = True,
    ) -> None:
        """Add figures. Those without a known value are left out.

        Args:
            figures: the figures.
            subject: the situation or object that was measured.
            program: the program that was measured, if not Tidelock.
            key: the subject's part of the ids. By default it is made from the subject.
            aimed: whether the targets of the figures apply.

        """
        for figure in figures:
            self.highest_load = max(self.highest_load, *(round(load, 1) for load in figure.loads), 0.0)
            if figure.values and all(map(isfinite, figure.values)):
                parts = filter(None, (key or slug(subject), slug(program), slug(figure.name)))
                self.figures[".".join(parts)] = Measured.of(figure, subject, program, aimed=aimed)

    def write(self, file: Path | None) -> None:
        """End the run, and write the record to a file, if there is one."""
        self.seconds = round((datetime.now(UTC) - self.start).total_seconds(), 1)
        self.highest_load = max(self.highest_load, round(os.getloadavg()[0], 1))
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")


def read(folder: Path = FOLDER) -> dict[str, Record]:
    """Return the records of a folder by benchmark, in the order of `BENCHES`."""
    files = ((bench, folder / f"{bench}.json") for bench in BENCHES)
    return {
        bench: msgspec.json.decode(file.read_bytes(), type=Record) for bench, file in files if file.exists()
    }


def slug(text: str) -> str:
    """Return a text as a part of an id: lower-case letters and digits, joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _commit() -> str:
    """Return the commit of the checkout, or "unknown" outside of one."""
    git = ("git", "-C", str(ROOT))
    try:
        head = subprocess.check_output((*git, "rev-parse", "--short", "HEAD"), text=True).strip()
        changes = subprocess.check_output((*git, "status", "--porcelain", "--", *_CODE), text=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}-dirty" if changes else head


def _machine() -> str:
    """Return the machine's cores, processor and kernel."""
    names = re.findall(r"^model name\s*: (.+)$", _CPUS.read_text(), re.MULTILINE) if _CPUS.exists() else []
    processor = names[0] if names else platform.machine()
    return f"{os.cpu_count()} cores, {processor}, {platform.system()} {platform.release()}"
