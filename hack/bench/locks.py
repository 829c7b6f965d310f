"""Reservations that the benchmark creates, and the time until they are Active."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from bench.reservation_observer import ReservationObserver
from bench.world import NAMESPACE, each
from tidelock.kube.client import RESERVATIONS, KubeClient

_COLLECTION = RESERVATIONS.collection(NAMESPACE)
_PATIENCE = 300.0  # seconds after which a reservation that is not Active counts as lost


class ReservationLostError(Exception):
    """A reservation was created and never became Active."""


@dataclass
class Reservations:
    """A writer of reservations for any node, of one core and four GiB each, that live for a day."""

    client: KubeClient
    observer: ReservationObserver
    _numbers: Iterator[int] = field(default_factory=count)

    def names(self, amount: int) -> list[str]:
        """Return names that no reservation has had."""
        return [f"lock-{next(self._numbers):06}" for _ in range(amount)]

    async def latencies(self, amount: int) -> list[float]:
        """Create reservations one at a time, and return the seconds from each request to its Active=True."""
        taken = []
        for name in self.names(amount):
            start = time.perf_counter()
            await self.write(name)
            taken.append(await self._active([name]) - start)
        return taken

    async def burst(self, amount: int) -> float:
        """Create reservations at once, and return the seconds from the first request to the last Active."""
        names = self.names(amount)
        start = time.perf_counter()
        await each(self.write, names)
        return await self._active(names) - start

    async def write(self, name: str) -> None:
        """Create one reservation."""
        await self.client.create(_COLLECTION, reservation(name))

    async def seen(self, name: str) -> float:
        """Wait for a reservation's Active=True, and return when it was seen, as of `time.perf_counter`."""
        return await self._active([name])

    async def clear(self) -> None:
        """Delete all reservations."""
        await self.client.delete(_COLLECTION)

    async def _active(self, names: Sequence[str]) -> float:
        """Wait for all names, and return when the last was seen Active, as of `time.perf_counter`."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return max([await self.observer.active(name) for name in names])
        except TimeoutError as error:
            raise ReservationLostError(f"not all of {names[0]} to {names[-1]} became Active") from error


def reservation(name: str, **spec: Any) -> dict[str, Any]:
    """Return the manifest of a reservation, with further fields of its spec."""
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name},
        "spec": {
            "resources": {"cpu": "1", "memory": "4Gi"},
            "owners": [{"pod": {"name": name}}],
            "ttlSeconds": 86_400,
            **spec,
        },
    }
