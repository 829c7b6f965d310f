"""A world: a loop, a network and hosts, all drawn from one seed."""

from collections import Counter
from collections.abc import Coroutine
from random import Random
from typing import Any, Final, TypeVar

from world.burial import bury
from world.chance import drawn
from world.history import History
from world.host import Host
from world.loop import Budget
from world.network import Latency, Network
from world.sockets import SocketLoop

_T = TypeVar("_T")

_BUDGET: Final = Budget()
_LATENCY: Final = Latency()


class World:
    """Everything that one run consists of. The same seed and commit give the same `history`.

    Args:
        seed: any text or number.
        budget: limits of the run.
        latency: of all connections.

    Attributes:
        loop: the event loop, with `now`, the virtual time.
        network: hosts, connections, partitions and faults.
        history: each delivery.
        counts: the faults that took effect, by name.

    """

    def __init__(self, seed: int | str, *, budget: Budget = _BUDGET, latency: Latency = _LATENCY) -> None:
        self._seed = str(seed)
        self.history = History()
        self.counts: Counter[str] = Counter()
        self.loop = SocketLoop(self.rng("order"), budget)
        self.network = Network(self.loop, self.rng("network"), self.history, self.fired, latency)
        self.loop.network = self.network
        self._hosts: list[Host] = []
        self._own = Host(self.loop, self.network, "world", self.rng("world"), skew=0.0, drift=0.0)
        self.loop.begin(self._own.lane())
        self.network.add(self._own)

    def rng(self, purpose: str) -> Random:
        """Return a new random generator for a purpose: the draws of one never move those of another."""
        return Random(f"{self._seed}/{purpose}")  # noqa: S311 -- no secret

    def host(self, name: str, *, skew: float = 0.0, drift: float = 0.0, uptime: float | None = None) -> Host:
        """Start a process on a machine of its own, or again on that of a dead one.

        Args:
            name: its name in the network.
            skew: seconds by which its wall clock is ahead.
            drift: seconds by which both of its clocks gain in a second.
            uptime: its monotonic clock at the beginning, in seconds. It is drawn if None.

        """
        rng = self.rng(f"{len(self._hosts)}/{name}")
        host = Host(self.loop, self.network, name, rng, skew=skew, drift=drift, uptime=uptime)
        self.network.add(host)
        self._hosts.append(host)
        return host

    def fired(self, name: str) -> None:
        """Count a fault that took effect."""
        self.counts[name] += 1

    def unhandled(self) -> list[str]:
        """Return the errors that no task has handled, with their instants and threads."""
        return [
            f"{when:.6f} {lane}: {context.get('message')}: {context.get('exception')!r}"
            for when, lane, context in self.loop.unhandled
        ]

    def run(self, main: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end, as the world's own code. Its steps take no virtual time.

        All processes end with it. The world can't be used again.

        Raises:
            BudgetExceededError, DeadlockError: the run can't go on.

        """
        with drawn(self.loop, self._seed):
            try:
                return self.loop.run_until_complete(main)
            finally:
                self._end()

    def _end(self) -> None:
        """End all processes without a further step, and close what they leave behind."""
        hosts = (*self._hosts, self._own)
        for host in hosts:
            host.alive = False
        self.loop.over = True
        self.network.end()
        bury(self.loop, hosts)
        self.loop.close()
