"""A simulated process with its own name, clocks, threads, sockets and death."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from world.loop import Lane, WorldLoop, WorldTask

if TYPE_CHECKING:
    from world.network import Network

_T = TypeVar("_T")

EPOCH = 1_796_083_200.0
"""The wall clock of a host without skew at the beginning of the world, in seconds: 1 December 2026, UTC."""

_LONGEST_UPTIME = 1e6  # seconds for which a machine may have run before the world begins


class Host:
    """One process on a machine of its own.

    Args:
        loop: the loop of the world.
        network: the network of the world.
        name: its name in the network.
        rng: its random generator.
        skew: seconds by which its wall clock is ahead.
        drift: seconds by which both of its clocks gain in a second.
        uptime: its monotonic clock at the beginning, in seconds. It is drawn if None.

    Attributes:
        alive: whether it runs. A dead process does not come back; another one of its name may.
        steps: steps of its threads so far.
        stalled_until: instant until which its threads stand still.
        dark: whether its machine has died with it, and answers no attempt to connect.
        status: the exit status, once it is dead, or None if it was killed.
        error: the error with which its program ended.

    """

    def __init__(
        self,
        loop: WorldLoop,
        network: "Network",
        name: str,
        rng: Random,
        *,
        skew: float,
        drift: float,
        uptime: float | None = None,
    ) -> None:
        self.name, self.rng = name, rng
        self.alive = True
        self.steps = 0
        self.stalled_until = 0.0
        self.dark = False
        self.status: int | None = None
        self.error: BaseException | None = None
        self.signal_handlers: dict[signal.Signals, Callable[[], object]] = {}
        self.exception_handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._loop, self._network = loop, network
        self._skew, self._rate = skew, 1.0 + drift
        self._born = loop.now
        self._uptime = rng.uniform(0.0, _LONGEST_UPTIME) if uptime is None else uptime
        self._lanes: dict[str, Lane] = {}
        self._tasks: list[WorldTask[Any]] = []
        self._ended: asyncio.Future[None] = loop.create_future()
        self._tidy_at = 64

    # Clocks

    def monotonic(self) -> float:
        """Return its monotonic clock, in seconds, which no step of the wall clock changes."""
        return self._uptime + (self._loop.look() - self._born) * self._rate

    def instant_of(self, monotonic: float) -> float:
        """Return the virtual instant at which its monotonic clock shows a time."""
        return self._born + (monotonic - self._uptime) / self._rate

    def wall(self) -> float:
        """Return its wall clock, in seconds since 1970."""
        return EPOCH + self._skew + (self._loop.instant() - self._born) * self._rate + self._born

    def now(self) -> float:
        """Return its wall clock in whole milliseconds, as `tidelock.clock.Clock` has it."""
        return round(self.wall(), 3)

    def step_clock(self, seconds: float) -> None:
        """Set its wall clock forward, or back."""
        self._skew += seconds

    # Threads and tasks

    def lane(self, name: str = "main") -> Lane:
        """Return its thread of a name."""
        if name not in self._lanes:
            self._lanes[name] = Lane(self, name)
        return self._lanes[name]

    def own(self, task: WorldTask[Any]) -> None:
        """Note a task, which ends with the process."""
        if len(self._tasks) >= self._tidy_at:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._tidy_at = 2 * len(self._tasks) + 64
        self._tasks.append(task)

    def tasks(self, lane: Lane | None = None) -> list[asyncio.Task[Any]]:
        """Return its tasks that have not ended, of one lane or of all, in the order of their start."""
        return [task for task in self._tasks if not task.done() and lane in {None, task.lane}]

    def take_tasks(self) -> list[WorldTask[Any]]:
        """Return its tasks that have not ended, and forget them."""
        left, self._tasks = [task for task in self._tasks if not task.done()], []
        return left

    def spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Start a coroutine in the process' main thread."""
        return self._loop.create_task(work, context=self.lane().context())

    def launch(
        self, program: Coroutine[Any, Any, object], *, expected: tuple[type[Exception], ...] = ()
    ) -> asyncio.Task[int | None]:
        """Run a program until it ends, and with it the process. Returns the exit status, or None if killed.

        An error of the program is its exit status 1. The world notes it as unhandled, unless it is expected.
        """
        main = self.spawn(program)
        main.add_done_callback(lambda _: self._leave(main, expected))

        async def wait() -> int | None:
            await self._ended
            return self.status

        return self._loop.create_task(wait())

    def stall(self, seconds: float) -> None:
        """Let all threads stand still, as a stopped virtual machine does. Its clocks go on."""
        self.stalled_until = max(self.stalled_until, self._loop.now) + seconds

    # The end

    def signal(self, number: signal.Signals) -> None:
        """Send a signal. Without a handler SIGTERM and SIGINT kill the process."""
        if not self.alive:
            return
        handler = self.signal_handlers.get(number)
        if handler is None:
            self.kill()
        else:
            handler()

    def end_within(self, seconds: float) -> None:
        """Kill the process after some seconds, if it has not ended by then."""
        self._loop.occur(self._loop.instant() + seconds, self._end, 1, None)

    def kill(self, *, silent: bool | None = None) -> None:
        """End the process at once. None of its tasks takes a further step.

        Its connections are reset by its machine, or fall silent with the machine, if `silent`. By default
        that is drawn.
        """
        self._end(None, silent)

    def _leave(self, main: asyncio.Task[Any], expected: tuple[type[Exception], ...]) -> None:
        if not self.alive:
            return
        self.error = None if main.cancelled() else main.exception()
        if self.error is not None and not isinstance(self.error, expected):
            context = {"message": f"{self.name} has failed", "exception": self.error, "task": main}
            self._loop.default_exception_handler(context)
        self._end(0 if self.error is None else 1, silent=False)

    def _end(self, status: int | None, silent: bool | None) -> None:
        if not self.alive:
            return
        self.alive = False
        self.status = status
        for lane in self._lanes.values():
            lane.ready.clear()
        self.dark = self.rng.random() < 0.5 if silent is None else silent  # noqa: PLR2004 -- either
        self._network.forget(self)
        self._ended.set_result(None)
