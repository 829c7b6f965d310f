"""Readers of public traces: files of measured load and of a production cluster's nodes and pods.

- PlanetLab (CoMon, as published by Beloglazov and Buyya), one file a day: a row for each virtual machine, 288
  columns of CPU use in whole percent, one value every five minutes.
- openb (Alibaba cluster-trace-gpu-v2023): a list of nodes and a list of pods, CSV with a header.

Files may be compressed by gzip.
"""

import csv
import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidelock.simulation.world import Loads, Machine

MEBIBYTE = 1 << 20
_LARGEST_PERCENT = 100.0


class TraceError(ValueError):
    """A file that is no such trace. The message names the file, the line and the expectation."""


@dataclass(frozen=True, slots=True)
class TracedPod:
    """A pod of a trace: cpu in millicores, memory in bytes, whole GPUs, times in seconds of the trace."""

    name: str
    cpu: int
    memory: int
    created: float
    deleted: float
    gpus: int = 0


def planetlab_days(folder: Path) -> dict[str, Path]:
    """Return the PlanetLab files of a folder by their days, in order.

    Raises:
        TraceError: there is none.

    """
    files = sorted(folder.glob("planetlab-*.csv*"))
    if not files:
        raise TraceError(f"{folder}: no planetlab-DAY.csv or planetlab-DAY.csv.gz is there")
    return {file.name.removeprefix("planetlab-").split(".")[0]: file for file in files}


def read_planetlab(file: Path) -> Loads:
    """Read a day: virtual machines x steps, CPU use from 0 to 1.

    Raises:
        TraceError: a row differs in length from the first, or a value is no percentage.

    """
    rows: list[list[float]] = []
    for number, cells in _lines(file):
        try:
            row = [float(cell) for cell in cells]
        except ValueError as error:
            raise TraceError(f"{file}: line {number}: {error}") from error
        if rows and len(row) != len(rows[0]):
            raise TraceError(
                f"{file}: line {number}: {len(row)} values, where the first line has {len(rows[0])}"
            )
        if not all(0.0 <= value <= _LARGEST_PERCENT for value in row):
            raise TraceError(f"{file}: line {number}: every value should be a percentage from 0 to 100")
        rows.append(row)
    if not rows:
        raise TraceError(f"{file}: has no line")
    return np.asarray(rows, np.float32) / np.float32(_LARGEST_PERCENT)


def read_openb_nodes(file: Path) -> tuple[Machine, ...]:
    """Read a list of nodes, or raise TraceError for a bad file."""
    return tuple(
        Machine(
            name=row["sn"],
            cpu=_number(file, number, row, "cpu_milli"),
            memory=_number(file, number, row, "memory_mib") * MEBIBYTE,
            gpus=_number(file, number, row, "gpu"),
        )
        for number, row in _records(file, "sn", "cpu_milli", "memory_mib", "gpu")
    )


def read_openb_pods(file: Path) -> tuple[TracedPod, ...]:
    """Read a list of pods in the order of their creation, or raise TraceError for a bad file."""
    fields = ("name", "cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time")
    pods = [
        TracedPod(
            name=row["name"],
            cpu=_number(file, number, row, "cpu_milli"),
            memory=_number(file, number, row, "memory_mib") * MEBIBYTE,
            created=float(_number(file, number, row, "creation_time")),
            deleted=float(_number(file, number, row, "deletion_time")),
            gpus=_number(file, number, row, "num_gpu"),
        )
        for number, row in _records(file, *fields)
    ]
    return tuple(sorted(pods, key=lambda pod: (pod.created, pod.name)))


def _records(file: Path, *fields: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the lines below the header by its names, with their numbers."""
    lines = _lines(file)
    _, header = next(lines, (0, []))
    missing = [field for field in fields if field not in header]
    if missing:
        raise TraceError(f"{file}: line 1: the header lacks {', '.join(missing)}")
    for number, cells in lines:
        if len(cells) != len(header):
            raise TraceError(f"{file}: line {number}: {len(cells)} values for {len(header)} columns")
        yield number, dict(zip(header, cells, strict=True))


def _lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with opened(file, "rt", encoding="utf-8", newline="") as text:
            for number, cells in enumerate(csv.reader(text), start=1):
                if cells:
                    yield number, cells
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise TraceError(f"{file}: {error}") from error


def _number(file: Path, line: int, row: Mapping[str, str], field: str) -> int:
    try:
        value = int(float(row[field]))
    except (ValueError, OverflowError) as error:
        raise TraceError(f"{file}: line {line}: {field}: {row[field]!r} is not a number") from error
    if value < 0:
        raise TraceError(f"{file}: line {line}: {field}: {row[field]!r} is negative")
    return value
