"""The serial order of decisions: what is due, then locks in line, then one pod, over one ledger.

Pure: time comes in as a parameter, and outcomes are returned for somebody else to write to the API server.
"""

import heapq
from dataclasses import dataclass
from itertools import count

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.objects import Objects
from tidelock.framework.api import Api, Handle
from tidelock.framework.profile import Profile, build_profile
from tidelock.ledger.book import Book
from tidelock.ledger.entry import Entry, Order
from tidelock.model.reservations import Phase
from tidelock.plugins.default_preemption import NEVER
from tidelock.plugins.registry import DEFAULT_PLUGINS, REGISTRY
from tidelock.scheduler.cycle import Assumed, Cycle, Refusal
from tidelock.scheduler.preempting import Preemption
from tidelock.scheduler.queue import EnqueueHook, SchedulingQueue, Waiting

# Locks placed in one step, so that the event loop turns between the steps of a long line.
LOCKS_A_STEP = 16


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """A pod that fits nowhere now."""

    waiting: Waiting
    refusal: Refusal


Outcome = Assumed | Unschedulable
"""What became of a pod."""


class Decider:
    """All state of the scheduler, and the next decision over it."""

    def __init__(
        self,
        scheduler_name: str,
        *,
        epoch: int = 0,
        move_after: float = 300.0,
        on_enqueue: EnqueueHook | None = None,
        api: Api | None = None,
    ) -> None:
        self.columns = Columns()
        self.cache = Cache(self.columns)
        self.objects = Objects()
        self.book = Book(self.columns, nominator=self.cache.nominator, epoch=epoch, move_after=move_after)
        self.profile: Profile = build_profile(
            scheduler_name, DEFAULT_PLUGINS, REGISTRY, Handle(self.book, self.cache, self.objects, api)
        )
        self.queue = SchedulingQueue({scheduler_name: self.profile}, on_enqueue)
        self._cycle = Cycle(self.cache, self.book)
        self._line: list[tuple[Order, int, Entry]] = []  # a heap
        self._sequence = count()
        self._freed = -1
        self._refused: dict[object, Refusal] = {}

    def step(self, now: float) -> Outcome | None:
        """Do what is due, place a few locks, decide one pod."""
        self.book.advance(now)
        self._line_up(now)
        for _ in range(min(LOCKS_A_STEP, len(self._line))):
            self._place(heapq.heappop(self._line)[-1], now)
        if self._line:
            return None  # locks first: they were promised an answer at once
        waiting = self.queue.pop(now)
        return None if waiting is None else self._schedule(waiting, now)

    def next_due(self) -> float | None:
        """Instant at which there is something to do without any event; 0 for at once, None for never."""
        if self._line or self.book.untried or self._freed != self.columns.freed:
            return 0.0
        due = [
            instant for instant in (self.book.next_deadline(), self.queue.next_due()) if instant is not None
        ]
        return min(due, default=None)

    def bound(self, assumed: Assumed, now: float) -> None:
        """Learn that a pod has been bound as decided."""
        self.queue.remove(assumed.pod.uid)
        self.book.owner_bound(assumed.pod, assumed.node_name, now)

    def binding_failed(self, assumed: Assumed, now: float) -> None:
        """Learn that a pod could not be bound: its room is free, its locks are back, it tries again later."""
        self._cycle.undo(assumed, now)
        self.queue.back_off(assumed.pod.uid, now)

    def take_preemptions(self) -> list[Preemption]:
        """Give the attempts to make room since the last call, for somebody else to carry out."""
        attempts, self._cycle.preempting.attempts = self._cycle.preempting.attempts, []
        return attempts

    def reject_waiting(self, uid: str) -> bool:
        """Refuse a victim that is reserved and waits for its permit; whether it did, so that it may live."""
        del uid
        return False  # no plugin lets pods wait

    def eviction_failed(self, uid: str, now: float) -> None:
        """Learn that a victim could not be evicted: whoever waits for its room may choose again."""
        self.cache.evicting.discard(uid)
        self.queue.wake(now, "EvictionFailed")

    def _line_up(self, now: float) -> None:
        """Line up the locks that may fit: all that wait if room came free, else those that are new."""
        if self._freed != self.columns.freed:
            self._freed = self.columns.freed
            self._refused.clear()
            self._line.clear()
            entries = self.book.in_line(untried_only=False)
            self.queue.wake(now, "RoomFreed")
        else:
            entries = self.book.in_line(untried_only=True)
        for entry in entries:
            heapq.heappush(self._line, (entry.order, next(self._sequence), entry))

    def _place(self, entry: Entry, now: float) -> None:
        if self.book.waiting.get(entry.key) is not entry:
            return
        shape = _shape(entry)
        refusal = self._refused.get(shape)
        if refusal is None:
            refusal = self._cycle.place_lock(self.profile, entry, now)
        else:
            self._cycle.refuse_lock(entry, refusal, now)
        if refusal is None:
            self.queue.wake(now, "ReservationActive")
        elif shape is not None:
            self._refused[shape] = refusal

    def _schedule(self, waiting: Waiting, now: float) -> Outcome:
        outcome = self._cycle.schedule(waiting.profile, waiting.pod, now)
        if isinstance(outcome, Assumed):
            return outcome
        self.queue.park(waiting.pod.uid, now)
        return Unschedulable(waiting, outcome)


def _shape(entry: Entry) -> object:
    """Give a value that is equal for locks of which all or none fit; None for a lock that holds room already.

    While nothing is freed, what was refused to one is refused to all alike, so a long line costs little.
    """
    pod = entry.reservation.pod
    if pod is None or entry.phase is Phase.ACTIVE or pod.spec.preemption_policy != NEVER:
        return None
    return pod.spec.priority, pod.placement_key  # priority: whose nominations it has to yield to
