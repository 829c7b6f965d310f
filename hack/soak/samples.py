"""Samples of the operator's memory, open files and tasks, and their growth."""

import asyncio
import os
import time
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import fmean, linear_regression
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from bench.programs import pid, resident_bytes, scrape
from devcluster import Component

_MEBI = 2**20
_HOUR = 3600.0
# A line is fitted through the means of so many stretches of equal length. Neighbouring samples resemble each
# other, so a fit of single samples would make the interval too narrow. Caches fill in the first part, which
# does not count.
_STRETCHES = 12
_WARM_UP = 0.2
_LEAST = 2 * _STRETCHES  # samples
# Student's t for an interval of 95 % and two parameters less than stretches.
_STUDENT = 2.228

Metrics = dict[str, dict[tuple[str, ...], float]]
"""Values by the name of a metric and the values of its labels."""


class Sample(NamedTuple):
    """One sample: seconds since the start, resident MiB, open files, and tasks of the event loop."""

    at: float
    memory: float
    files: int
    tasks: int


class Trend(NamedTuple):
    """The growth of a quantity in an hour, in its unit: the estimate, and its interval of 95 %."""

    slope: float
    low: float
    high: float

    def verdict(self, limit: float) -> str:
        """Return, as text, whether the growth exceeds a limit in an hour."""
        if self.low > limit:
            return f"grows by more than {limit:g} an hour"
        if self.high <= limit:
            return f"does not grow by more than {limit:g} an hour"
        return f"too short to tell whether it grows by more than {limit:g} an hour"


def read_metrics(text: str) -> Metrics:
    """Read an exposition."""
    metrics: Metrics = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            metrics.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return metrics


async def metrics_of(program: Component) -> Metrics:
    """Scrape a program."""
    return read_metrics(await asyncio.to_thread(scrape, program))


async def look(program: Component, begin: float) -> Sample:
    """Take a sample. `begin` is the start of the run, as of `time.perf_counter`."""
    metrics = await metrics_of(program)
    files = len(os.listdir(f"/proc/{pid(program)}/fd"))  # noqa: PTH208 -- names alone, of which none is a path
    tasks = int(metrics["tidelock_tasks"][()])
    return Sample(time.perf_counter() - begin, resident_bytes(program) / _MEBI, files, tasks)


def trend(times: Sequence[float], values: Sequence[float]) -> Trend | None:
    """Return the growth of values in an hour, or None for too few values. Times are in seconds.

    The method is ordinary least squares. The slope's standard error is sqrt(RSS / (n - 2) / Sxx).
    """
    first = int(len(times) * _WARM_UP)
    times, values = times[first:], values[first:]
    if len(times) < _LEAST:
        return None
    bounds = [len(times) * number // _STRETCHES for number in range(_STRETCHES + 1)]
    stretches = [slice(*pair) for pair in pairwise(bounds)]
    hours = [fmean(times[each]) / _HOUR for each in stretches]
    means = [fmean(values[each]) for each in stretches]
    slope, intercept = linear_regression(hours, means)
    residual = sum((mean - intercept - slope * at) ** 2 for at, mean in zip(hours, means, strict=True))
    middle = fmean(hours)
    spread = sum((at - middle) ** 2 for at in hours)
    half = _STUDENT * sqrt(residual / (_STRETCHES - 2) / spread)
    return Trend(slope, slope - half, slope + half)
