"""One instance of the operator: its pure core over the model API server, driven by hand instead of by tasks.

Where the shell would wait for an answer, here the answer waits until a test delivers it. One call carries out
a binding, a status write, an eviction or a read of a pod. Another call delivers the answer, or none does.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from builders import SCHEDULER, Json
from property.creations import Creation
from property.model_api import Delivering, ModelApi, Reflection, RefusedError
from tidelock.binders.creation_reviews import read_creation
from tidelock.binders.creation_webhook import answerable
from tidelock.framework.config import default_configuration
from tidelock.framework.own_reservations import ClaimedReservations
from tidelock.ledger.answers import is_decided
from tidelock.ledger.effects import Effects
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.owners.claim import Claim
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.answer import Answer
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.reservation import Reservation
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.decider import DeciderOptions
from tidelock.scheduler.core.outcomes import Outcome
from tidelock.scheduler.core.preemption import PreemptionAttempt
from tidelock.scheduler.defrag.controller import MigrationTask
from tidelock.scheduler.scheduler_core import assemble_core
from unit.scheduler.machinery import FakeClock

MOVE_AFTER = 30.0
EARMARK_AFTER = 10.0

KINDS = (
    *("nodes", "pods", "reservations", "quotas", "budgets", "ask", "decide", "answer", "store"),
    *("bind", "bound", "write", "written", "look up", "looked up", "evict", "move", "report"),
)
"""Kinds of moves: an event is delivered, a request is carried out, or its answer is delivered."""

_MOST_MOVES = 1000
_PATIENCE = 3.0
_KEY = b"the key of all operators"
_QUOTAS, _BUDGETS = "reservation_quotas", "pod_disruption_budgets"


class Process:
    """The decider and its event handlers, with all requests under way.

    `go_on` calls `check` after each move, with the outcome of the move. `accidents` are moves that go wrong,
    each once: a request that never arrives ("bind", "evict", "ask"), a lost answer ("written", "move",
    "answer"), or an event that comes twice ("nodes", "pods", "reservations").
    """

    def __init__(self, api: ModelApi, clock: FakeClock, epoch: int, scheduler_name: str = SCHEDULER) -> None:
        self.api = api
        self.clock = clock
        options = DeciderOptions(move_after=MOVE_AFTER, earmark_after=EARMARK_AFTER)
        core = assemble_core(default_configuration(scheduler_name, BUILTINS), clock, options=options)
        self.decider, self.event_handlers = core.decider, core.event_handlers
        self.decider.ledger.lead(epoch)
        self.ledger, self.cache, self.columns = self.decider.ledger, self.decider.cache, self.decider.columns
        self.ledger.answers.keys.use(_KEY)
        self.queue, self.nominator = self.decider.queue, self.decider.cache.nominator
        core.all_listed(but={"nodes", "pods", "reservations", _QUOTAS, _BUDGETS})
        self.watches: dict[str, Delivering] = {
            "nodes": Reflection(api.nodes, self.event_handlers.nodes),
            "pods": Reflection(api.pods, self.event_handlers.pods),
            "reservations": Reflection(api.reservations, self.event_handlers.reservations),
            "quotas": Reflection(api.quotas, self.event_handlers.others[_QUOTAS]),
            "budgets": Reflection(api.budgets, self.event_handlers.others[_BUDGETS]),
        }
        self.accidents: list[str] = []
        self.decided_at = 0.0
        self.outcome: Outcome | None = None
        self._effects = Effects()
        self.attempts: list[PreemptionAttempt] = []
        self.in_flight: dict[str, AssumedPod] = {}
        self.bind_answers: dict[str, bool] = {}
        self.unwritten: dict[Key, None] = {}
        self.write_answers: dict[Key, Reservation] = {}
        self.questions: list[Claim] = []
        self.answers: list[tuple[Claim, Pod | None]] = []
        self.evictions: dict[str, tuple[Pod, str]] = {}
        self.unreported: dict[str, Pod] = {}
        self.moving: dict[MigrationTask, None] = {}
        self.moved: list[tuple[MigrationTask, Pod]] = []
        self.asked: dict[str, Creation] = {}  # by nonce
        self._changed: dict[Key, None] = {}

    def moves(self) -> dict[str, Callable[[], None]]:
        """Return the first possible move of each kind."""
        return dict(self._moves())

    def _moves(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for resource, watch in self.watches.items():
            if watch.behind:
                yield resource, partial(self._deliver, resource)
        if self.due:
            yield "decide", self.step
        if unsent := next((uid for uid in self.in_flight if uid not in self.bind_answers), ""):
            yield "bind", partial(self.send_binding, unsent)
        for kind, work, waits in (
            ("bound", self._learn_binding, self.bind_answers),
            ("written", self._learn_write, self.write_answers),
            ("look up", self._look_up, self.questions),
            ("looked up", self._learn_answer, self.answers),
            ("evict", self._evict, self.evictions),
            ("move", self._move, self.moving),
            ("report", self._report, self.unreported),
        ):
            if waits:
                yield kind, work
        yield from self._moves_of_creations()
        if key := next(filter(self._may_write, self.unwritten), None):
            yield "write", partial(self._write, key)

    def _moves_of_creations(self) -> Iterator[tuple[str, Callable[[], None]]]:
        creations = self.api.creations
        if new := next((each for each in creations if not (each.nonce or each.passed)), None):
            yield "ask", partial(self._ask, new)
        if decided := next((nonce for nonce in self.asked if self._is_answered(nonce)), ""):
            yield "answer", partial(self._answer, decided)
        if passed := next(filter(self.api.may_finish, creations), None):
            yield "store", partial(self.api.finish, passed)

    def go_on(self, check: Callable[[], None], order: Sequence[str] = KINDS, most: int | None = None) -> None:
        """Make the possible moves in the given order of kinds.

        Kinds that the order lacks have to wait. The moves must come to an end, unless `most` limits them.
        """
        for _ in range(_MOST_MOVES if most is None else most):
            moves = self.moves()
            kind = next((kind for kind in order if kind in moves), None)
            if kind is None:
                return
            moves[kind]()
            check()
            self.outcome, self.attempts, self.moved = None, [], []
        assert most is not None, f"no end of {self.moves().keys()}"

    # Decisions.

    @property
    def effects(self) -> Effects:
        """Effects that were not carried out yet, and transitions that were not checked yet."""
        self._effects.add(self.ledger.effects.take())
        return self._effects

    @property
    def due(self) -> bool:
        """Whether there is anything to decide now."""
        due = self.decider.next_due()
        asked = self.effects.statuses or self.effects.claims
        return self.event_handlers.ready and (bool(asked) or (due is not None and due <= self.clock.now()))

    def step(self) -> None:
        """Decide once, as the loop does when the informers have synced, and note the requests that follow."""
        if not self.event_handlers.ready:
            return
        self.decided_at = self.clock.now()
        step = self.decider.step(self.decided_at)
        outcome = self.outcome = step.outcome
        self._effects.add(step.effects)
        if isinstance(outcome, AssumedPod):
            self.in_flight[outcome.pod.uid] = outcome
        elif outcome is not None:
            self.unreported[outcome.waiting.pod.uid] = outcome.waiting.pod
        self.attempts = step.preemptions
        for attempt in self.attempts:
            self.evictions.update({pod.uid: (pod, attempt.pod.uid) for pod in attempt.victims})
            self.unreported.update({pod.uid: pod for pod in attempt.cleared})
        self.moving.update(dict.fromkeys(step.migrations))
        self.questions += self.effects.claims
        self.unwritten |= self.effects.statuses
        self._changed |= self.effects.answers
        self.effects.claims, self.effects.statuses, self.effects.answers = [], {}, {}

    def _has_accident(self, kind: str) -> bool:
        if kind not in self.accidents:
            return False
        self.accidents.remove(kind)
        return True

    def _deliver(self, resource: str) -> None:
        self.watches[resource].deliver()
        if self._has_accident(resource):
            self.watches[resource].repeat()

    # Creations.

    def _ask(self, creation: Creation) -> None:
        """Call the webhook for a new Reservation. A failure does not stop the creation."""
        now = self.clock.now()
        if self._has_accident("ask") or not self.event_handlers.ready:
            creation.passed = True
            return
        review = read_creation(creation.review(), f"nonce-{creation.uid}", now)
        if review.answered:
            self.api.creations.remove(creation)
        elif answerable(review.reservation):
            creation.nonce, creation.asked_at = review.nonce, now
            self.asked[review.nonce] = creation
            self.ledger.propose(review.reservation, now)
        else:
            creation.passed = True

    def _is_answered(self, nonce: str) -> bool:
        """Return whether a creation is decided, as a step has announced, or has waited for too long."""
        entry, asked_at = self.ledger.answers.find(nonce), self.asked[nonce].asked_at
        announced = entry is None or (entry.key in self._changed and is_decided(entry))
        return announced or self.clock.now() > asked_at

    def _answer(self, nonce: str) -> None:
        creation, now = self.asked.pop(nonce), self.clock.now()
        status = self.ledger.answers.conclude(nonce, now, stored=creation.fate != "dry run")
        creation.passed = True
        if status is None or creation not in self.api.creations or self._has_accident("answer"):
            return
        creation.answer = Answer(
            nonce=nonce,
            leadership=self.ledger.records.epoch,
            at=format_instant(now),
            status=status,
            namespace=creation.key.namespace,
            name="" if creation.generated_from else creation.key.name,
            generate_name=creation.generated_from,
        )
        creation.annotate(self.ledger.answers.keys.sign(creation.answer))
        self.api.answered[creation.uid] = creation

    # Pods.

    def send_binding(self, uid: str) -> None:
        """Send a binding to the API server, which carries it out or refuses it."""
        assumed = self.in_flight[uid]
        self.bind_answers[uid] = not self._has_accident("bind") and _accepted(
            lambda: self.api.bind(assumed.pod.key, uid, assumed.node_name, _claims(assumed))
        )

    def _learn_binding(self) -> None:
        """Deliver the answer to a binding."""
        uid = next(iter(self.bind_answers))
        assumed = self.in_flight.pop(uid)
        if self.bind_answers.pop(uid):
            self.decider.bound(assumed, self.clock.now())
        else:
            self.decider.binding_failed(assumed, self.clock.now())
            self.unreported[uid] = assumed.pod

    def _look_up(self) -> None:
        claim = self.questions.pop(0)
        if claim.unwritten:
            _accepted(lambda: self.api.write_claims(claim.pod.key, claim.pod.uid, claim.uids))
        stored = self.api.pods.decoded.get(claim.pod.key)
        self.answers.append((claim, stored if stored is not None and stored.uid == claim.pod.uid else None))

    def _learn_answer(self) -> None:
        self.event_handlers.answered(*self.answers.pop(0))

    def _evict(self) -> None:
        uid = next(iter(self.evictions))
        victim, for_whom = self.evictions.pop(uid)
        if self._has_accident("evict"):
            self.decider.eviction_failed(uid, for_whom, self.clock.now())
            return
        stored = self.api.pods.decoded.get(victim.key)
        if stored is not None and stored.uid == uid and not stored.meta.deletion_timestamp:
            self.api.end_pod(victim.key, self.clock.now())

    def _move(self) -> None:
        """Evict the next pod of a migration plan, or stop until the next attempt if a budget forbids it."""
        task, moving = next(iter(self.moving)), self.decider.moving
        victim = moving.next_victim(task)
        if victim is None:
            del self.moving[task]
        elif not _accepted(lambda: self.api.evict(victim.key, victim.uid)):
            moving.spared(task, victim.uid)
            del self.moving[task]
        else:
            self.moved.append((task, victim))
            if not self._has_accident("move"):
                moving.evicted(victim.uid)

    def _report(self) -> None:
        """Write the nominated node of a pod if it has changed."""
        uid, pod = self.unreported.popitem()
        waiting, node_name = self.queue.get(uid), self.nominator.node_of(uid)
        if waiting is not None and waiting.pod.status.nominated_node_name != node_name:
            _accepted(lambda: self.api.nominate(pod.key, uid, node_name))

    # Reservations.

    def _may_write(self, key: Key) -> bool:
        """Return whether it is time to write a status. One that repeats an answer may wait for seconds."""
        entry = self.ledger.entries.get(key)
        repeats = entry is not None and entry.answered == entry.phase == Phase.ACTIVE
        waits = repeats and entry is not None and self.clock.now() < entry.seen_waiting_at + _PATIENCE
        return key not in self.write_answers and (self.api.calm or not waits)

    def _write(self, key: Key) -> None:
        """Write the wanted status of an object, or delete it, where a refusal leaves it to the watch."""
        del self.unwritten[key]
        entry = self.ledger.records.find(key)
        if entry is None or entry.unseen or not self._differs(entry):
            return
        version = entry.reservation.meta.resource_version
        if self._removable(entry) and (entry.phase is Phase.CONSUMED or not self._status_differs(entry)):
            entry.deleted = _accepted(lambda: self.api.delete_reservation(key, entry.uid, version))
            return
        try:
            self.write_answers[key] = self.api.write_status(key, entry.uid, version, self.wanted(entry))
        except RefusedError:
            return

    def _learn_write(self) -> None:
        """Deliver the answer to a write, or lose it, and check the object again."""
        key = next(iter(self.write_answers))
        written = self.write_answers.pop(key)
        if not self._has_accident("written"):
            self.ledger.acknowledge(written)
        self.unwritten[key] = None

    def wanted(self, entry: ReservationInfo) -> Json:
        return render_reservation(entry, self.clock.now())

    def _differs(self, entry: ReservationInfo) -> bool:
        if entry.deleted:
            return False
        return self._removable(entry) or (entry.phase is not Phase.BOUND and self._status_differs(entry))

    def _status_differs(self, entry: ReservationInfo) -> bool:
        return self.wanted(entry) != entry.reservation.status

    def _removable(self, entry: ReservationInfo) -> bool:
        removable_at = deadlines.removable_at(entry)
        return removable_at is not None and removable_at <= self.clock.now()


def reported_status(process: Process, reservation: Reservation) -> Json:
    """Return the stored status of an object, or the one in the answer to its creation if there is none."""
    creation = process.api.answered.get(reservation.meta.uid)
    if reservation.decided or creation is None or creation.answer is None:
        return reservation.status
    return creation.answer.status


def _claims(assumed: AssumedPod) -> list[str] | None:
    """Return the taken reservations that a binding names, or None if it has no list of them."""
    claims = assumed.state.read(ClaimedReservations)
    return None if claims is None else list(claims.uids)


def _accepted(request: Callable[[], None]) -> bool:
    try:
        request()
    except RefusedError:
        return False
    return True
