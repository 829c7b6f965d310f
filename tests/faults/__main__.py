"""Runs plans in worlds: python -m faults [--shrink] [--exceptions] SEED..., or --hours 8 for new seeds.

Each failed run is kept with its evidence in build/faults. With --shrink its story is that of the smallest
plan that still fails.
"""

import argparse
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from faults.exceptions import with_exceptions
from faults.plan import Plan, make_plan
from faults.replayed import Replay, replay
from faults.shrinking import shrunk
from faults.verdict import Verdict
from world.operator import import_all

_SEEDS_A_ROUND = 500
_SECONDS_AN_HOUR = 3600
_KIND = re.compile(r" \d+(?=:|$)| [\d.]+ s$")  # the number and the duration of a fault


def main() -> int:
    """Run the plans, and return the exit status."""
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int)
    parser.add_argument("--hours", type=float, default=0.0, help="run new seeds for so long")
    parser.add_argument("--shrink", action="store_true", help="shrink each failed run")
    parser.add_argument("--exceptions", action="store_true", help="let steps of the operator raise, too")
    asked = parser.parse_args()
    end = time.monotonic() + asked.hours * _SECONDS_AN_HOUR
    import_all()  # before the processes are forked
    failed, summary = 0, Summary()
    with ProcessPoolExecutor() as processes:
        for seeds in _rounds(asked.seeds, end):
            plans = [
                with_exceptions(make_plan(each)) if asked.exceptions else make_plan(each) for each in seeds
            ]
            for done in processes.map(replay, plans, chunksize=4):
                summary.add(done)
                if done.verdict.violations:
                    failed += 1
                    _tell(done.verdict, shrink=asked.shrink)
    print(summary)  # noqa: T201 -- it talks to a terminal
    return bool(failed)


def _rounds(seeds: list[int], end: float) -> Iterator[list[int]]:
    """Yield the seeds, or new ones until an instant of the monotonic clock."""
    if seeds:
        yield seeds
    while time.monotonic() < end:
        first = 10**6 + secrets.randbelow(10**9)
        print(f"seeds {first} to {first + _SEEDS_A_ROUND - 1}", flush=True)  # noqa: T201 -- it talks to a terminal
        yield list(range(first, first + _SEEDS_A_ROUND))


def _tell(verdict: Verdict, *, shrink: bool) -> None:
    """Keep a failed run, and print its story."""
    if shrink:
        verdict = shrunk(verdict.plan, _verdict)
    print(verdict, *verdict.description, f"kept as {verdict.keep()}", sep="\n", flush=True)  # noqa: T201 -- it talks to a terminal


def _verdict(plan: Plan) -> Verdict:
    return replay(plan).verdict


class Summary:
    """Figures of all runs."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._requests: list[int] = []
        self._faults: list[int] = []
        self._fired: Counter[str] = Counter()

    def add(self, done: Replay) -> None:
        """Add a run."""
        self._seconds.append(done.seconds)
        self._requests.append(done.requests)
        self._faults.append(len(done.verdict.fired))
        self._fired.update(_KIND.sub("", each) for each in done.verdict.fired)

    def __str__(self) -> str:
        fired = (f"{name} {times}" for name, times in sorted(self._fired.items()))
        medians = [median(each) for each in (self._seconds, self._requests, self._faults)]
        hours = sum(self._seconds) / _SECONDS_AN_HOUR
        return (
            f"{len(self._seconds)} runs with {hours:.1f} virtual hours. Medians:"
            f" {medians[0]:.0f} virtual seconds, {medians[1]:.0f} requests, {medians[2]:.0f} faults\n"
            f"faults that fired: {', '.join(fired)}"
        )


if __name__ == "__main__":
    sys.exit(main())
