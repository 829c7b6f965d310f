"""One life of the operator: its pure core over the model API server, driven by hand instead of by tasks.

Where the shell would wait for an answer, the answer waits here until somebody delivers it: a binding or a
status write is carried out by one call and learnt of by another, or never.
"""

from collections.abc import Callable
from functools import partial

from builders import SCHEDULER, Json, encode
from property.model_api import Delivering, ModelApi, Reflection, RefusedError
from tidelock.framework.config import default_configuration
from tidelock.ledger.entry import Entry
from tidelock.ledger.status import render
from tidelock.model.locks import decode_reservation
from tidelock.model.meta import Key
from tidelock.model.nodes import decode_node
from tidelock.model.pods import decode_pod
from tidelock.model.reservations import Phase
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.cycle import Assumed
from tidelock.scheduler.decider import Decider
from tidelock.scheduler.feed import Feed

MOVE_AFTER = 30.0

_MOST_MOVES = 500


class HandClock:
    """A clock that moves when it is told to."""

    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


class Process:
    """The decider and its feed, with the bindings and writes that are under way."""

    def __init__(self, api: ModelApi, clock: HandClock, scheduler_name: str = SCHEDULER) -> None:
        self.api = api
        self.clock = clock
        self.decider = Decider(default_configuration(scheduler_name, BUILTINS), move_after=MOVE_AFTER)
        self.book, self.cache, self.columns = self.decider.book, self.decider.cache, self.decider.columns
        self.feed = Feed(self.cache, self.book, self.decider.queue, clock, lambda: None)
        self.watches: dict[str, Delivering] = {
            "nodes": Reflection(api.nodes, decode_node, self.feed.nodes),
            "pods": Reflection(api.pods, decode_pod, self.feed.pods),
            "reservations": Reflection(api.reservations, decode_reservation, self.feed.reservations),
        }
        self.decided_at = 0.0
        self.in_flight: dict[str, Assumed] = {}
        self.bind_answers: dict[str, bool] = {}
        self.unwritten: dict[Key, None] = {}
        self.write_answers: dict[Key, Json] = {}

    # Decisions.

    def step(self) -> None:
        """Decide once, as the loop does when the feed is ready, and note what is to be written."""
        if not self.feed.ready:
            return
        self.decided_at = self.clock.now()
        outcome = self.decider.step(self.decided_at)
        if isinstance(outcome, Assumed):
            self.in_flight[outcome.pod.uid] = outcome
        self.unwritten.update(self.book.changed)
        self.book.changed.clear()

    @property
    def due(self) -> bool:
        """Whether there is anything to decide now."""
        due = self.decider.next_due()
        return self.feed.ready and (bool(self.book.changed) or (due is not None and due <= self.clock.now()))

    @property
    def behind(self) -> list[str]:
        """Resources of which something is left to deliver."""
        return [resource for resource, watch in self.watches.items() if watch.behind]

    def moves(self) -> dict[str, Callable[[], None]]:
        """Name what may happen next; in which order it does is up to the world."""
        return {
            **{f"deliver {resource}": self.watches[resource].deliver for resource in self.behind},
            **({"decide": self.step} if self.due else {}),
            **{f"send binding of {uid}": partial(self.send_binding, uid) for uid in self.unsent_bindings},
            **{f"learn binding of {uid}": partial(self.learn_binding, uid) for uid in self.bind_answers},
            **{f"send write of {key}": partial(self.send_write, key) for key in self.unsent_writes},
            **{f"learn write of {key}": partial(self.learn_write, key) for key in self.write_answers},
        }

    def accidents(self) -> dict[str, Callable[[], None]]:
        """Name what may go wrong next."""
        return {
            **{f"lose binding of {uid}": partial(self.lose_binding, uid) for uid in self.unsent_bindings},
            **{f"lose answer for {key}": partial(self.lose_answer, key) for key in self.write_answers},
        }

    # Bindings.

    @property
    def unsent_bindings(self) -> list[str]:
        """Uids of the pods whose bindings are on their way."""
        return [uid for uid in self.in_flight if uid not in self.bind_answers]

    def send_binding(self, uid: str) -> None:
        """Have the API server carry a binding out, or refuse it."""
        assumed = self.in_flight[uid]
        try:
            self.api.bind(assumed.pod.key, uid, assumed.node_name)
        except RefusedError:
            self.bind_answers[uid] = False
        else:
            self.bind_answers[uid] = True

    def lose_binding(self, uid: str) -> None:
        """Have a binding never arrive."""
        self.bind_answers[uid] = False

    def learn_binding(self, uid: str) -> None:
        """Get the answer to a binding, or look its outcome up."""
        assumed = self.in_flight.pop(uid)
        if self.bind_answers.pop(uid):
            self.decider.bound(assumed, self.clock.now())
        else:
            self.decider.binding_failed(assumed, self.clock.now())

    # Writes.

    @property
    def unsent_writes(self) -> list[Key]:
        """Keys of the objects that are to be compared and are not being written."""
        return [key for key in self.unwritten if key not in self.write_answers]

    def send_write(self, key: Key) -> None:
        """Begin to make an object what it ought to be; one that is refused waits for the watch."""
        del self.unwritten[key]
        entry = self.book.entries.get(key)
        if entry is None or not self._differs(entry):
            return
        try:
            if self._removable(entry) and (entry.phase is Phase.CONSUMED or not self._status_differs(entry)):
                self.api.delete_reservation(key, entry.uid)
                entry.deleted = True
                return
            version = entry.reservation.meta.resource_version
            self.write_answers[key] = self.api.write_status(key, entry.uid, version, self.wanted(entry))
        except RefusedError:
            return

    def learn_write(self, key: Key) -> None:
        """Get the answer to a write, and look again."""
        self.book.acknowledge(decode_reservation(encode(self.write_answers.pop(key))))
        self.unwritten[key] = None

    def lose_answer(self, key: Key) -> None:
        """Get no answer to a write, and look again."""
        del self.write_answers[key]
        self.unwritten[key] = None

    def wanted(self, entry: Entry) -> Json:
        return render(entry, self.clock.now())

    def _differs(self, entry: Entry) -> bool:
        if entry.deleted:
            return False
        return self._removable(entry) or (entry.phase is not Phase.BOUND and self._status_differs(entry))

    def _status_differs(self, entry: Entry) -> bool:
        return self.wanted(entry) != entry.reservation.status

    def _removable(self, entry: Entry) -> bool:
        removable_at = entry.removable_at()
        return removable_at is not None and removable_at <= self.clock.now()

    # All of it.

    def catch_up(self) -> None:
        """Deliver all events."""
        for watch in self.watches.values():
            while watch.behind:
                watch.deliver()

    def settle(self, check: Callable[[], None]) -> None:
        """Let all that is under way happen, which must come to an end; `check` after every single move."""
        for _ in range(_MOST_MOVES):
            move = next(iter(self.moves().values()), None)
            if move is None:
                return
            move()
            check()
        raise AssertionError(f"not settled after {_MOST_MOVES} moves: {self.moves().keys()}")
