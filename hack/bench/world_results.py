"""The results of the benchmark of balance, and their file."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidelock.simulation.results import RunFigures
from tidelock.simulation.traces import TraceError

PLAIN = "plain"
"""Name of the variant without a difference."""


@dataclass(frozen=True, slots=True)
class Case:
    """The parameters of a world, which is the same for all policies.

    Attributes:
        day: the day of its load.
        seed: its seed.
        noise: between replicas, unless the variant has its own.
        fault: name of the fault in it.
        variant: name of the variant, which differs in one respect from the plain world.

    """

    day: str
    seed: int
    noise: float
    fault: str = "none"
    variant: str = PLAIN

    @property
    def is_plain(self) -> bool:
        """Whether the world has neither a fault nor a variant."""
        return self.fault == "none" and self.variant == PLAIN


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case: figures by policy."""

    case: Case
    figures: dict[str, RunFigures]


class WorldResults(msgspec.Struct):
    """All results for worlds of one size, as in the file.

    Attributes:
        nodes: number of nodes of each world.
        steps: number of steps, of five minutes each.
        outcomes: cases and figures.
        burst: the highest number of a burst's pods on one node, by policy, with one Deployment and with many.

    """

    nodes: int
    steps: int
    outcomes: list[Outcome] = []
    burst: dict[str, tuple[int, int]] = {}

    def figures(self, case: Case) -> dict[str, RunFigures]:
        """Return the figures of a case by policy, as far as they exist."""
        return next((outcome.figures for outcome in self.outcomes if outcome.case == case), {})

    def plain(self, days: Sequence[str]) -> list[Outcome]:
        """Return the results of plain worlds of some days. Raises TraceError if there are none."""
        found = [each for each in self.outcomes if each.case.is_plain and each.case.day in days]
        if not found:
            raise TraceError(f"nothing was simulated of {', '.join(days)}")
        return found

    def add(self, outcome: Outcome) -> None:
        """Add the result of a case."""
        known = self.figures(outcome.case)
        if not known:
            self.outcomes.append(outcome)
        known |= outcome.figures

    def keep(self, file: Path | None) -> None:
        """Write all results to the file, if there is one. The file is always complete."""
        if file is not None:
            new = file.with_suffix(".new")
            new.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")
            new.replace(file)

    @classmethod
    def of(cls, options: argparse.Namespace) -> "WorldResults":
        """Read the file, or return no results if there is none.

        Raises:
            TraceError: the file has worlds of another size, or can't be read.

        """
        if options.worlds is None or not options.worlds.exists():
            return cls(options.nodes, options.steps)
        try:
            record = msgspec.json.decode(options.worlds.read_bytes(), type=cls)
        except msgspec.DecodeError as error:
            raise TraceError(f"--worlds: {options.worlds} is no file of bench.balance: {error}") from error
        if (record.nodes, record.steps) != (options.nodes, options.steps):
            raise TraceError(
                f"--worlds: {options.worlds} has worlds of {record.nodes} nodes and {record.steps} steps, "
                f"not of {options.nodes} and {options.steps}"
            )
        return record
