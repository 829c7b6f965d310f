"""Readers of public traces: files of measured load and of a production cluster's nodes and pods.

- PlanetLab (CoMon, as published by Beloglazov and Buyya), one file a day: a row for each virtual machine, 288
  columns of CPU use in whole percent, one value every five minutes.
- openb (Alibaba cluster-trace-gpu-v2023): a list of nodes and a list of pods, CSV with a header.
- Google's cell of May 2011 (clusterdata-2011-2): files of the table task_usage, CSV without a header. The
  tasks of a job are one group, as the replicas of a Deployment are.

Files may be compressed by gzip.
"""

import csv
import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidelock.simulation.world import STEP, Floats, Loads, Machine

MEBIBYTE = 1 << 20
_STEP_MICROSECONDS = int(STEP * 1e6)
_LEAST_SAMPLED = 0.9  # part of the steps in which a group of tasks must have been measured
_START, _END, _JOB, _RATE = 0, 1, 2, 5  # columns of task_usage
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


def read_task_usage(files: Sequence[Path]) -> Loads:
    """Read task_usage files: jobs x steps, CPU use from 0 to 1 of the job's highest.

    A job's use is the mean of its tasks in each five minutes, by the time for which each was measured. The
    trace has rates in parts of its largest machine, and no limits, so a job's own peak stands for its limit.
    Jobs that were seldom measured are left out. Others keep their last use where they were not measured.

    Raises:
        TraceError: a line is not of this table, or no job was measured for long enough.

    """
    used: dict[str, dict[int, Floats]] = {}
    for file in files:
        for number, cells in _lines(file):
            try:
                start, end, rate = int(cells[_START]), int(cells[_END]), float(cells[_RATE])
            except (ValueError, IndexError) as error:
                raise TraceError(f"{file}: line {number}: {error}") from error
            if not (start < end and 0 <= rate < np.inf):
                raise TraceError(
                    f"{file}: line {number}: expected a time, a later one, and a rate of CPU use"
                )
            sums = used.setdefault(cells[_JOB], {}).setdefault(start // _STEP_MICROSECONDS, np.zeros(2))
            sums += ((end - start) * rate, end - start)
    first = min((min(of) for of in used.values()), default=0)
    steps = max((max(of) for of in used.values()), default=-1) + 1 - first
    rows = [_filled(of, first, steps) for of in used.values() if len(of) >= _LEAST_SAMPLED * steps]
    rows = [row / row.max() for row in rows if row.max() > 0]
    if not rows:
        raise TraceError(f"{', '.join(map(str, files))}: no job was measured for long enough")
    return np.asarray(rows, np.float32)


def _filled(sums: Mapping[int, Floats], first: int, steps: int) -> Floats:
    """Return the use of a job in all steps, with that of the step before where there is none."""
    known = sorted(sums)
    places = np.searchsorted(known, np.arange(first, first + steps), side="right") - 1
    means = np.array([sums[step][0] / sums[step][1] for step in known])
    filled: Floats = means[np.maximum(places, 0)]
    return filled


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
