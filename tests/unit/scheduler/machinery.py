"""The scheduler with a clock that tests set and a fake API server."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from random import Random
from typing import Any

from msgspec.structs import replace as replace_meta

from builders import NAMESPACE, NOW, SCHEDULER, Json, encode, pod_json, quota, reservation_json
from isolating import Isolating
from tidelock.framework.config import Configuration, default_configuration
from tidelock.isolation import Isolation
from tidelock.kube.client import PODS, RESERVATIONS
from tidelock.kube.events import EventRecorder, EventType, ObjectReference
from tidelock.ledger.effects import Effects
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.owners.claim import Claim
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.failures import OnFailure, raise_failure
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod, assigned_to, claims_annotation, decode_pod
from tidelock.model.reservation import decode_reservation
from tidelock.pace import PACE
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.extenders import Extenders
from tidelock.scheduler.actions.tasks import Activity, Tasks
from tidelock.scheduler.assembly import assemble_scheduler, live_options
from tidelock.scheduler.controllers.controllers import Controllers
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.decider import DeciderOptions
from tidelock.scheduler.core.driver import due_steps
from tidelock.scheduler.core.outcomes import Outcome, Unschedulable
from tidelock.scheduler.core.pod_queue import FLUSH_AFTER
from tidelock.scheduler.core.preemption import PreemptionAttempt
from tidelock.scheduler.defrag.controller import MigrationTask
from tidelock.scheduler.scheduler_core import SchedulerCore, assemble_core
from tidelock.scheduler.views.recent_decisions import RecentDecisions
from tidelock.settings import Settings
from tidelock.telemetry import Telemetry
from unit.scheduler.fake_api import FakeApi

_MOST_TURNS = 200

CONFIGURATION = default_configuration(SCHEDULER, BUILTINS)

HELD = {
    "observedGeneration": 1,
    "phase": "Active",
    "nodeName": "node-a",
    "nodeUID": "uid-node-a",
    "activatedAt": "2027-01-15T07:59:00Z",
    "expiresAt": "2027-01-15T08:09:00Z",
    "resources": {"cpu": "1"},
    "conditions": [],
}
"""Status of a reservation that an earlier process has granted."""


class FakeClock:
    """A clock that stands still unless a test moves it. Each call of `monotonic` may take `tick` seconds."""

    def __init__(self, time: float = NOW, tick: float = 0.0) -> None:
        self.time = time
        self.tick = tick
        self.jumped = 0.0

    def now(self) -> float:
        return round(self.time, 3)

    def monotonic(self) -> float:
        self.time += self.tick
        return self.time - NOW - self.jumped

    def advance(self, seconds: float) -> None:
        self.time += seconds

    def jump(self, seconds: float) -> None:
        """Set the time of day forward or back. The monotonic clock does not change."""
        self.time += seconds
        self.jumped += seconds


class HearingTelemetry(Telemetry):
    """Metrics that list the ways of pods through the queue, too."""

    def __init__(self, monotonic: Callable[[], float], rng: Random) -> None:
        super().__init__(monotonic, rng)
        self.enqueued: list[tuple[str, str]] = []

    def queued(self, place: str, event: str) -> None:
        super().queued(place, event)
        self.enqueued.append((place, event))


class Core:
    """Event handlers and decider, without I/O. A quota permits any priority, and preemption."""

    def __init__(
        self,
        *nodes: Node,
        listed: bool = True,
        configuration: Configuration = CONFIGURATION,
        earmark_after: float = 60.0,
        on_failure: OnFailure = raise_failure,
        clock: FakeClock | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.telemetry = HearingTelemetry(self.clock.monotonic, Random(1))  # noqa: S311 -- no secret
        options = DeciderOptions(
            earmark_after=earmark_after,
            on_enqueue=self.telemetry.queued,
            recorder=self.telemetry,
            on_failure=on_failure,
        )
        self._begin(assemble_core(configuration, self.clock, self._wake, options), *nodes, listed=listed)

    def _begin(self, core: SchedulerCore, *nodes: Node, listed: bool) -> None:
        """Take over a core, and deliver the nodes to it."""
        self.core, self.decider, self.event_handlers = core, core.decider, core.event_handlers
        self.ledger, self.cache, self.queue = self.decider.ledger, self.decider.cache, self.decider.queue
        self._effects = Effects()
        self._preemptions: list[PreemptionAttempt] = []
        self._migrations: list[MigrationTask] = []
        self.wakes = 0
        self.core.all_listed(but={"nodes", "pods", "reservations"})
        self.decider.objects.reservation_quotas.upsert(None, quota())
        for node in nodes:
            self.event_handlers.nodes.upsert(None, node)
        if listed:
            self.list_all()

    def list_all(self) -> None:
        self.core.all_listed()

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.event_handlers.pods.upsert(None, pod)

    def reservation(self, name: str = "lock", **fields: Any) -> ReservationInfo:
        """Deliver a Reservation by the watch, new or in a newer version."""
        new = decode_reservation(encode(reservation_json(name, **fields)))
        known = self.ledger.entries.get(new.key)
        self.event_handlers.reservations.upsert(known.reservation if known else None, new)
        return self.ledger.entries[new.key]

    def store(self, name: str = "lock") -> None:
        """Store the status that the ledger renders for a reservation."""
        entry = self.ledger.entries[Key(NAMESPACE, name)]
        known = entry.reservation
        meta = replace_meta(known.meta, resource_version=str(known.meta.version + 1))
        self.ledger.acknowledge(replace(known, meta=meta, status=render_reservation(entry, self.clock.now())))

    def step(self) -> Outcome | None:
        step = self.decider.step(self.clock.now())
        self._effects.add(step.effects)
        self._preemptions += step.preemptions
        self._migrations += step.migrations
        return step.outcome

    def decide(self) -> list[Outcome]:
        """Run all decisions that are due now, and return the outcomes of pods."""
        outcomes = []
        for step in due_steps(self.decider, self.clock.now):
            self._effects.add(step.effects)
            self._preemptions += step.preemptions
            self._migrations += step.migrations
            outcomes += [] if step.outcome is None else [step.outcome]
        return outcomes

    @property
    def effects(self) -> Effects:
        """Effects that no driver has taken yet."""
        self._effects.add(self.ledger.effects.take())
        return self._effects

    def take_preemptions(self) -> list[PreemptionAttempt]:
        """Return the attempts of the steps since the last call."""
        attempts, self._preemptions = self._preemptions, []
        return attempts

    def take_migrations(self) -> list[MigrationTask]:
        """Return the migrations of the steps since the last call."""
        tasks, self._migrations = self._migrations, []
        return tasks

    def take_claims(self) -> list[Claim]:
        """Return the claims to verify since the last call."""
        claims, self.effects.claims = self.effects.claims, []
        return claims

    def answer(self, stored: Pod | None = None, *, gone: bool = False) -> None:
        """Answer all claims that wait for verification, by default with the pods as the cache has them."""
        for claim in self.take_claims():
            placed = self.cache.get(claim.pod.uid)
            known = assigned_to(placed.pod, placed.node_name) if placed is not None else None
            if known is not None and claim.unwritten:
                annotations = {**known.meta.annotations, **claims_annotation(claim.uids)}
                known = replace_meta(known, metadata=replace_meta(known.meta, annotations=annotations))
            self.event_handlers.answered(claim, None if gone else stored or known)

    def place(self) -> AssumedPod:
        """Run one step, and assert that it places a pod."""
        outcome = self.step()
        assert isinstance(outcome, AssumedPod), outcome
        return outcome

    def run(self, waiting: Pod, told: Pod | None = None) -> Pod:
        """Place a pod and deliver it as bound, in the other version if that is given."""
        self.event_handlers.pods.upsert(None, waiting)
        assumed = self.place()
        bound = assigned_to(told or waiting, assumed.node_name)
        self.decider.bound(assumed, self.clock.now())
        self.event_handlers.pods.upsert(waiting, bound)
        self.step()
        return bound

    def refuse(self) -> Unschedulable:
        """Run one step, and assert that it refuses a pod."""
        outcome = self.step()
        assert isinstance(outcome, Unschedulable), outcome
        return outcome

    def wake(self) -> None:
        """Let so much time pass that every refused pod is retried."""
        self.clock.advance(FLUSH_AFTER)

    def used(self, node_name: str = "node-a", resource: str = "cpu") -> int:
        """Return the requests of the pods of a node, in thousandths for CPU."""
        columns = self.decider.columns
        return int(columns.requested[columns.row_of[node_name], columns.resources.index(resource)])

    def reserved(self, node_name: str = "node-a", resource: str = "cpu") -> int:
        """Return the reserved amount of a node, in thousandths for CPU."""
        columns = self.decider.columns
        return int(columns.reserved[columns.row_of[node_name], columns.resources.index(resource)])

    def metric(self, name: str, **labels: str) -> float | None:
        return self.telemetry.registry.get_sample_value(name, labels)

    @property
    def enqueued(self) -> list[tuple[str, str]]:
        """The parts of the queue that pods have entered, with the events that brought them there."""
        return self.telemetry.enqueued

    def _wake(self) -> None:
        self.wakes += 1


@dataclass(frozen=True, slots=True)
class Told:
    """An event that was recorded."""

    regarding: ObjectReference
    type: str
    reason: str
    action: str
    note: str
    controller: str = ""
    related: ObjectReference | None = None


class FakeTasks(Tasks):
    """Tasks with pauses that last until the test's clock has passed them.

    Attributes:
        pauses: the seconds of each pause that has begun.

    """

    def __init__(self, clock: FakeClock, isolation: Isolation) -> None:
        super().__init__(Random(1), isolation, Activity())  # noqa: S311 -- for jitter
        self.pauses: list[float] = []
        self._clock = clock
        self._ends: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, function: Callable[..., None], *args: object) -> None:
        self.pauses.append(seconds)
        self._ends.append((self._clock.monotonic() + seconds, partial(function, *args)))

    def end_pauses(self) -> None:
        """End the pauses that are over by now."""
        now = self._clock.monotonic()
        due = [function for end, function in self._ends if end <= now]
        self._ends = [each for each in self._ends if each[0] > now]
        for function in due:
            function()

    def await_pause(self) -> bool:
        """Advance the clock to the end of the next pause, and end it. Return whether there was one."""
        if not self._ends:
            return False
        left = min(end for end, _ in self._ends) - self._clock.monotonic()
        self._clock.advance(max(left, 0.0) + 1e-6)
        self.end_pauses()
        return True


class FakeRecorder(EventRecorder):
    """Keeps events instead of sending them."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def record(
        self,
        regarding: ObjectReference,
        type: EventType,  # noqa: A002 -- the recorder's signature
        reason: str,
        action: str,
        note: str,
        *,
        controller: str = "",
        related: ObjectReference | None = None,
    ) -> None:
        self.told.append(Told(regarding, type, reason, action, note, controller, related))

    def __iter__(self) -> Iterator[Told]:
        return iter(self.told)

    @property
    def reasons(self) -> list[str]:
        return [told.reason for told in self.told]


class Shell(Core):
    """Core with all writers around it. It must be built inside a running event loop."""

    def __init__(
        self,
        *nodes: Node,
        listed: bool = True,
        configuration: Configuration = CONFIGURATION,
        api: FakeApi | None = None,
        extenders: Extenders | None = None,
    ) -> None:
        self.api, self.recorder = api or FakeApi(), FakeRecorder()
        self.isolation, self.clock, self.wakeup = Isolating(), FakeClock(), asyncio.Event()
        self.telemetry = HearingTelemetry(self.clock.monotonic, Random(1))  # noqa: S311 -- no secret
        self.tasks, self.recent = FakeTasks(self.clock, self.isolation), RecentDecisions()
        self.context = context = WriterContext(
            self.api, self.recorder, self.telemetry, self.clock, self.tasks, self.recent, self.isolation
        )
        settings = Settings()
        options = live_options(context, settings, PACE)
        core = assemble_core(configuration, self.clock, self.wakeup.set, options)
        self._begin(core, *nodes, listed=listed)
        self.scheduler = made = assemble_scheduler(
            core,
            extenders or Extenders(configuration.extenders),
            context,
            self.wakeup,
            borrower_grace=settings.borrower_grace_seconds,
            gate_renewal=PACE.gate_renewal,
            on_answers=lambda _keys: None,
        )
        self.extenders, self.binder, self.gates = made.extenders, made.binder, made.gates
        self.evictor, self.publisher, self.groups = made.evictor, made.status_writer, made.pod_groups
        self.loop = made.loop

    @cached_property
    def controllers(self) -> Controllers:
        """The controllers of Tidelock's own kinds."""
        return Controllers.of(self.context, self.decider)

    def store_reservation(
        self, name: str = "lock", *, namespace: str = NAMESPACE, **fields: Any
    ) -> ReservationInfo:
        """Create a Reservation and deliver it by the watch."""
        stored = reservation_json(name, namespace=namespace, **fields)
        self.api.objects[lock_path(name, namespace)] = stored
        return self.see_reservation(name, namespace)

    def see_reservation(self, name: str = "lock", namespace: str = NAMESPACE) -> ReservationInfo:
        """Deliver the stored version by the watch."""
        new = decode_reservation(encode(self.api.objects[lock_path(name, namespace)]))
        self.event_handlers.reservations.upsert(None, new)
        return self.ledger.entries[new.key]

    def store_pod(self, name: str = "web-0", **fields: Any) -> Pod:
        """Create a pod and deliver it by the watch."""
        self.api.objects[pod_path(name)] = pod_json(name, **fields)
        return self.see_pod(name)

    def see_pod(self, name: str = "web-0") -> Pod:
        """Deliver the stored version by the watch."""
        new = decode_pod(encode(self.api.objects[pod_path(name)]))
        self.event_handlers.pods.upsert(None, new)
        return new

    def stored_status(self, name: str = "lock", namespace: str = NAMESPACE) -> Json:
        status: Json = self.api.objects[lock_path(name, namespace)]["status"]
        return status

    def flush(self) -> bool:
        """Pass changes on to the writers, and begin to write. Return whether more changes are left."""
        changes = self.effects.take()
        self.effects.claims = list(changes.claims)
        self.publisher.record(changes)
        self.gates.note(changes.namespaces)
        return self.publisher.flush()

    def evict(self) -> None:
        """Begin the evictions that the steps have decided on."""
        self.evictor.begin(self.take_preemptions(), self.take_migrations())

    async def settle(self) -> None:
        """Wait until all writes under way have ended, and those of pauses that are over by now."""
        self.tasks.end_pauses()
        for _ in range(_MOST_TURNS):
            if not len(self.tasks):
                return
            await asyncio.sleep(0)
        raise AssertionError("the writes do not end")

    async def publish(self) -> None:
        """Write all that has changed, until nothing is left but pauses."""
        self.flush()
        await self.settle()
        while self.publisher.waiting or self.publisher.unwritten:
            self.publisher.flush()
            await self.settle()

    async def publish_through_pauses(self) -> None:
        """Write all that has changed, and wait for the end of each pause, until there is none."""
        await self.publish()
        while self.tasks.await_pause():
            await self.publish()


async def turns(count: int = 10) -> None:
    """Let the event loop run a number of iterations."""
    for _ in range(count):
        await asyncio.sleep(0)


def lock_path(name: str = "lock", namespace: str = NAMESPACE) -> str:
    return RESERVATIONS.item(name, namespace)


def pod_path(name: str = "web-0") -> str:
    return PODS.item(name, NAMESPACE)
