"""An event loop with virtual time. When nothing is ready, time jumps to the next event.

A real system has an event loop for each process, and threads beside it. Here each of them is a `Lane` of one
loop, with callbacks of its own. The seed draws the order of everything that no promise orders:

- which lane runs next, if several can at one instant,
- timers of one instant, and arrivals on different connections,
- the duration of each step. A lane is busy for so long, so timers and arrivals come between the steps of a
  chain of callbacks, as they do in a slow process,
- the instant at which a function that was passed to a thread runs,
- the order of a set of tasks or futures, which is that of addresses elsewhere.

The loop keeps all promises of asyncio within a lane. Callbacks of `call_soon` run in the order of their
registration, and those that they register run in the next iteration. Timers run in the order of their times,
and the data of one connection arrives in order. So each failure here is one of a real program.
"""

import asyncio
import contextvars
import signal
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple

from world.burial import end_generator

if TYPE_CHECKING:
    from world.host import Host

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

LANE: contextvars.ContextVar["Lane"] = contextvars.ContextVar("lane")
"""The lane of the running code, and of all callbacks that it registers."""

_STEP_SECONDS = 40e-6  # longest drawn duration of a step
_READ_SECONDS = (
    1e-6  # added by each look at the monotonic clock, so that a loop that waits for an instant ends
)
_THREAD_SECONDS = 2e-3  # mean wait of a function for its thread, and for the disk
_PURGE_FROM = 200  # cancelled timers from which the heap is cleaned
_NEXT = 1e-9  # seconds between two callbacks from another lane, at least, so that they stay in order
_LAST_STEPS = 40  # steps that an error shows


class BudgetExceededError(Exception):
    """The world took more steps or virtual time than it may. The message has the last steps."""


class DeadlockError(Exception):
    """Nothing is ready and no timer is set, so nothing can happen any more. The message has the tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a run, which end a livelock.

    Attributes:
        steps: callbacks of all lanes.
        seconds: virtual time.

    """

    steps: int = 5_000_000
    seconds: float = 3600.0


class Lane:
    """One thread of a process: it runs its callbacks one after the other.

    Attributes:
        host: its process.
        name: its name within the process.
        ready: callbacks that can run.
        free_at: instant at which the steps that it has taken are over.
        spent: seconds that the present turn has taken so far.
        queued: whether its next turn is scheduled.
        posted_at: instant of the last callback that another lane has registered.

    """

    __slots__ = ("free_at", "host", "name", "posted_at", "queued", "ready", "spent")

    def __init__(self, host: "Host", name: str) -> None:
        self.host, self.name = host, name
        self.ready: deque[asyncio.Handle] = deque()
        self.free_at = 0.0
        self.spent = self.posted_at = 0.0
        self.queued = False

    def __repr__(self) -> str:
        return f"{self.host.name}/{self.name}"

    def context(self) -> contextvars.Context:
        """Return a copy of the present context, in which new callbacks belong to this lane."""
        context = contextvars.copy_context()
        context.run(LANE.set, self)
        return context


class WorldFuture(asyncio.Future[_T]):
    """A future with a place in sets that is drawn from the seed, and is no address."""

    place: int | None = None

    def __hash__(self) -> int:
        return _place(self)


class WorldTask(asyncio.Task[_T]):
    """A task of a lane, with a place in sets that is drawn from the seed, and is no address."""

    lane: Lane
    place: int | None = None

    def __hash__(self) -> int:
        return _place(self)


def _place(future: "WorldFuture[Any] | WorldTask[Any]") -> int:
    """Return the hash of a future, which is drawn when it is first needed."""
    if future.place is None:
        loop = future.get_loop()
        assert isinstance(loop, WorldLoop)  # noqa: S101 -- for the type checker
        future.place = loop.draw_place()
    return future.place


_Entry = tuple[float, float, int, Lane | None, asyncio.Handle | None]


class WorldLoop(asyncio.BaseEventLoop):
    """The event loop of a world.

    Attributes:
        now: virtual seconds since the beginning, the same for all hosts.
        steps: callbacks so far.
        over: whether the world has ended.
        lane: the running lane. It is the world's own between the turns of others.
        before_step: called with the lane before each step, for faults.
        unhandled: errors that no task has handled, with their instants and lanes.

    """

    _stopping: bool

    def __init__(self, rng: Random, budget: Budget) -> None:
        super().__init__()
        self.set_debug(False)
        self.now = 0.0
        self.steps = 0
        self.over = False
        self.lane: Lane
        self.before_step: list[Callable[[Lane], None]] = []
        self.unhandled: list[tuple[float, str, dict[str, Any]]] = []
        self._own: Lane
        self._rng, self._budget = rng, budget
        self._random = rng.random
        self._numbers, self._names = count(), count(1)
        self._heap: list[_Entry] = []
        self._cancelled_timers = 0
        self._last: deque[tuple[float, Lane, asyncio.Handle]] = deque(maxlen=_LAST_STEPS)
        super().set_exception_handler(_dispatch)

    def begin(self, own: Lane) -> None:
        """Take the lane of code that belongs to no simulated process. Its steps take no time."""
        self._own = self.lane = own

    # Time and order

    def time(self) -> float:
        """Return the monotonic clock of the running host, in seconds."""
        return self.lane.host.monotonic()

    def instant(self) -> float:
        """Return the present virtual instant, within the present turn."""
        return self.now + self.lane.spent

    def look(self) -> float:
        """Return the present virtual instant after a look at the monotonic clock, which takes time itself."""
        lane = self.lane
        if lane is not self._own:
            lane.spent += _READ_SECONDS
        return self.now + lane.spent

    def draw_place(self) -> int:
        """Draw the hash of a task or future."""
        return self._rng.getrandbits(48)

    def call_soon(
        self,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Run a callback in the next iteration of the lane of its context."""
        self._check_open()
        if context is None:
            context = contextvars.copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._make_ready(context.get(LANE, self._own), handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback some seconds later, by the clock of its host."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a time of the clock of its host."""
        self._check_open()
        if context is None:
            context = contextvars.copy_context()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        lane = context.get(LANE, self._own)
        if lane.host.alive:
            handle._scheduled = True  # type: ignore[attr-defined]  # noqa: SLF001 -- as BaseEventLoop does
            self._push(lane.host.instant_of(when), lane, handle)
        return handle

    def arrive(
        self, when: float, context: contextvars.Context, callback: Callable[..., object], *args: Any
    ) -> None:
        """Run a callback in the lane of a context once an event from outside has reached it."""
        self._push(when, context.get(LANE, self._own), asyncio.Handle(callback, args, self, context))

    def make_ready(self, context: contextvars.Context, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback in the lane of a context, as an event from outside reaches it now."""
        self._make_ready(context.get(LANE, self._own), asyncio.Handle(callback, args, self, context))

    def occur(self, when: float, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback at an instant, outside of all lanes: on the wire, or as the machine does it."""
        self._push(when, None, asyncio.Handle(callback, args, self, contextvars.Context()))

    def _push(self, when: float, lane: Lane | None, handle: asyncio.Handle | None) -> None:
        heappush(self._heap, (when, self._random(), next(self._numbers), lane, handle))

    def _make_ready(self, lane: Lane, handle: asyncio.Handle) -> None:
        if lane is not self.lane and self.lane.spent:  # another thread, which learns of it when that is done
            lane.posted_at = max(self.instant(), lane.posted_at + _NEXT)
            self._push(lane.posted_at, lane, handle)
        elif lane.host.alive:
            lane.ready.append(handle)
            if not lane.queued and lane is not self.lane:
                self._queue(lane)

    def _queue(self, lane: Lane) -> None:
        lane.queued = True
        self._push(max(self.now, lane.free_at, lane.host.stalled_until), lane, None)

    def _check_open(self) -> None:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")

    def _run_once(self) -> None:
        """Let the next event happen: BaseEventLoop's hook."""
        if self.lane is self._own and self._own.ready:  # callbacks of the world itself, registered outside
            self._turn(self._own)
            return
        if not self._heap:
            raise DeadlockError(self._explain("nothing is ready and no timer is set"))
        when, _, _, lane, handle = heappop(self._heap)
        if when > self.now:
            self.now = when
            if when > self._budget.seconds:
                raise BudgetExceededError(
                    self._explain(f"more than {self._budget.seconds:g} virtual seconds")
                )
        if handle is None:
            assert lane is not None, "a turn is that of a lane"  # noqa: S101 -- for the type checker
            if self.now < lane.host.stalled_until:  # since it was scheduled
                self._queue(lane)
            else:
                self._turn(lane)
        elif handle.cancelled():
            self._cancelled_timers -= 1
        elif lane is None:
            handle._run()  # noqa: SLF001 -- as BaseEventLoop does
        else:
            if isinstance(handle, asyncio.TimerHandle):
                handle._scheduled = False  # type: ignore[attr-defined]  # noqa: SLF001 -- as BaseEventLoop does
            self._make_ready(lane, handle)

    def _turn(self, lane: Lane) -> None:
        """Run the callbacks of a lane that are ready, and none that they make ready."""
        lane.queued = False
        host, ready, own = lane.host, lane.ready, lane is self._own
        self.lane = lane
        try:
            for _ in range(len(ready)):
                if not host.alive:
                    break
                handle = ready.popleft()
                if not handle.cancelled():
                    self._step(lane, handle, own=own)
        finally:
            self.lane = self._own
        lane.free_at = self.now + lane.spent
        lane.spent = 0.0
        if ready and host.alive and not own:
            self._queue(lane)

    def _step(self, lane: Lane, handle: asyncio.Handle, *, own: bool) -> None:
        self.steps += 1
        self._last.append((self.now, lane, handle))
        if self.steps > self._budget.steps:
            raise BudgetExceededError(self._explain(f"more than {self._budget.steps} steps"))
        if own:
            handle._run()  # noqa: SLF001 -- as BaseEventLoop does
            return
        lane.host.steps += 1
        for fault in self.before_step:
            fault(lane)
        if lane.host.alive:
            lane.spent += self._random() * _STEP_SECONDS
            handle._run()  # noqa: SLF001 -- as BaseEventLoop does

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """Note a cancelled timer: BaseEventLoop's hook."""
        self._cancelled_timers += 1
        if self._cancelled_timers > max(_PURGE_FROM, len(self._heap) // 2):
            self._heap[:] = [entry for entry in self._heap if entry[4] is None or not entry[4].cancelled()]
            heapify(self._heap)
            self._cancelled_timers = 0

    def _explain(self, problem: str) -> str:
        """Return a problem with the steps before it and the tasks that wait."""
        steps = [f"  {when:.6f} {lane}: {handle!r}" for when, lane, handle in self._last]
        most = Counter(f"{lane}: {handle!r}".split(" at ")[0] for _, lane, handle in self._last).most_common(
            3
        )
        tasks = sorted(f"  {task!r}" for task in asyncio.all_tasks(self))
        text = (f"{problem} at {self.now:.6f} s after {self.steps} steps", "last steps:", *steps)
        often = (f"  {times} times {name}" for name, times in most)
        return "\n".join((*text, "most frequent of these:", *often, "tasks:", *tasks))

    # Tasks, threads, signals, errors

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future with a drawn place in sets."""
        return WorldFuture(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, _T] | Coroutine[Any, Any, _T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[_T]:
        """Start a task with a drawn place in sets, and a name that is the same in each run."""
        self._check_open()
        lane = LANE.get(self._own) if context is None else context.get(LANE, self._own)
        task = WorldTask(coro, loop=self, name=str(name or f"Task-{next(self._names)}"), context=context)
        task.lane = lane
        lane.host.own(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[[*_Ts], _T], *args: *_Ts) -> asyncio.Future[_T]:
        """Run a function of a thread at a drawn later instant. No other thread exists."""
        del executor
        self._check_open()
        future: asyncio.Future[_T] = self.create_future()
        lane = LANE.get(self._own)
        wait = self._rng.expovariate(1 / _THREAD_SECONDS)
        thread = Lane(lane.host, "thread").context()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 -- the awaiting task gets it
                future.set_exception(error)
            else:
                future.set_result(result)

        self.arrive(self.instant() + wait, thread, run)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Do nothing, as no threads exist."""

    def add_signal_handler(self, sig: int, callback: Callable[[*_Ts], object], *args: *_Ts) -> None:
        """Note the handler of a signal, which `Host.signal` calls."""
        context = contextvars.copy_context()
        self.lane.host.signal_handlers[signal.Signals(sig)] = lambda: self.call_soon(
            callback, *args, context=context
        )

    def remove_signal_handler(self, sig: int) -> bool:
        """Forget the handler of a signal."""
        return self.lane.host.signal_handlers.pop(signal.Signals(sig), None) is not None

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        """Set the handler of errors of the running host."""
        self.lane.host.exception_handler = handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Note an error that no task has handled."""
        self.unhandled.append((self.now, repr(self.lane), context))

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        """End a generator that has lost its consumer: BaseEventLoop's hook."""
        if self.over:
            end_generator(agen)
        else:
            super()._asyncgen_finalizer_hook(agen)  # type: ignore[misc]

    def _write_to_self(self) -> NoReturn:
        raise AssertionError("the world has no other thread that could wake the loop")


def _dispatch(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Pass an error on to the handler of the running host."""
    assert isinstance(loop, WorldLoop)  # noqa: S101 -- for the type checker
    handler = loop.lane.host.exception_handler
    if handler is None:
        loop.default_exception_handler(context)
    else:
        handler(loop, context)
