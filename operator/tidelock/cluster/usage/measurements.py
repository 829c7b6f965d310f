"""The last measurements of pods and workloads, and their followers."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from tidelock.cluster.usage.levels import NEVER
from tidelock.model.usage_annotations import MeasuredUses

_NOTHING = MeasuredUses({}, {})
_SLICE = 1000


class MeasurementReader(Protocol):
    """A follower of the measurements of pods."""

    def remeasure(self) -> Iterator[None]:
        """Take over the newest reading in slices."""


class Measurements:
    """The newest reading.

    Attributes:
        uses: use of pods and of workloads.
        at: time of the newest measurement of a pod. Stored histories of workloads may be older.

    """

    def __init__(self) -> None:
        self.uses = _NOTHING
        self.at = NEVER
        self._readers: list[MeasurementReader] = []

    def read_by(self, reader: MeasurementReader) -> None:
        """Add a follower, which gets each reading."""
        self._readers.append(reader)

    def take(self, uses: MeasuredUses) -> Iterator[None]:
        """Take over a reading in slices, so that decisions can be made between them.

        Nothing is done before the first slice is asked for.
        """
        self.uses = uses
        for reader in self._readers:
            yield from reader.remeasure()
        newest = NEVER
        for number, usage in enumerate(uses.pods.values()):
            newest = max(newest, usage.at)
            if number % _SLICE == _SLICE - 1:
                yield
        self.at = max(self.at, newest)


def at_once(slices: Iterable[None]) -> None:
    """Take all slices without a pause."""
    for _ in slices:
        pass
