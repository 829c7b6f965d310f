"""The scheduling queue against a model that asks every pod about every event."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from builders import NOW, SCHEDULER, pod
from sampling import sample
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.framework.api import (
    SUCCESS,
    Code,
    EnqueueExtensions,
    Handle,
    PostBind,
    PreEnqueue,
    Status,
)
from tidelock.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    RESERVATION_ACTIVE,
    Action,
    ClusterEvent,
    Registration,
    Resource,
)
from tidelock.framework.profile import (
    Enabled,
    PluginFactory,
    Profile,
    ProfileSettings,
    build_profile,
)
from tidelock.ledger.ledger import Ledger
from tidelock.model.pods import Pod
from tidelock.plugins.priority_sort import PrioritySort
from tidelock.scheduler.core.pod_queue import SchedulingQueue
from tidelock.scheduler.core.queued_pod import QueuedPodInfo, QueueName

FLUSH_AFTER = 300.0
NAMES = [f"web-{number}" for number in range(3)]
EVENTS = [NODE_ADD, NODE_DELETE, ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, RESERVATION_ACTIVE]


@dataclass(frozen=True)
class Thing:
    """The object of an event, and the names of the pods that it helps by the queueing hints."""

    helps: frozenset[str]
    uid: str = ""


def helped(wanting: Pod, old: Thing | Pod | None, new: Thing | Pod | None) -> bool:
    """Return whether the object of an event helps a pod."""
    return any(isinstance(thing, Thing) and wanting.meta.name in thing.helps for thing in (old, new))


class Silent(PostBind):
    """A plugin that registers no events, so that any event may help."""

    name = "Silent"

    def post_bind(self, *_: object) -> None:
        """Do nothing."""


class Careful(Silent, EnqueueExtensions):
    """A plugin with a queueing hint for events of nodes."""

    name = "Careful"

    def events_to_register(self) -> Sequence[Registration]:
        return (Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.DELETE), helped),)


class Hopeful(Silent, EnqueueExtensions):
    """A plugin that registers deletions of pods, and label changes of the pod itself."""

    name = "Hopeful"

    def events_to_register(self) -> Sequence[Registration]:
        own_label = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)
        return (Registration(ClusterEvent(Resource.POD, Action.DELETE)), Registration(own_label))


class Gate(PreEnqueue, EnqueueExtensions):
    """A plugin that gates the pods in `closed`."""

    name = "Gate"
    closed: ClassVar[set[str]] = set()

    def pre_enqueue(self, pod: Pod) -> Status:
        return Status(Code.UNSCHEDULABLE, ("closed",)) if pod.meta.name in self.closed else SUCCESS

    def events_to_register(self) -> Sequence[Registration]:
        return (Registration(RESERVATION_ACTIVE, helped),)


# The events that help by the plugins above, once more for the model.
HOPES: dict[str, Callable[[str, ClusterEvent, Thing], bool]] = {
    "Silent": lambda _name, _event, _thing: True,
    "Careful": lambda name, event, thing: event in (NODE_ADD, NODE_DELETE) and name in thing.helps,
    "Hopeful": lambda _name, event, _thing: event == ASSIGNED_POD_DELETE or event.label.endswith("PodLabel"),
    "Gate": lambda name, event, thing: event == RESERVATION_ACTIVE and name in thing.helps,
}
REFUSERS = st.sampled_from(
    [{"Careful"}, {"Hopeful"}, {"Careful", "Hopeful"}, {"Silent"}, {"Silent", "Careful"}]
)

# There are few rules with many kinds, because a run draws only some of the rules.
ENDS = st.sampled_from(["refused", "refused", "refused", "failed", "in flight", "done", "unknown"])
KINDS = st.sampled_from(["event", "event", "event", "event", "time", "pod", "gate"])


def made_profile() -> Profile:
    columns = Columns()
    kinds = (PrioritySort, Gate, Silent, Careful, Hopeful)
    made = ProfileSettings(SCHEDULER, tuple(Enabled(kind.name) for kind in kinds))
    registry: dict[str, PluginFactory] = {kind.name: kind for kind in kinds}
    return build_profile(made, registry, Handle(Ledger(columns).plugin_view, Cache(columns)))


@dataclass
class Record:
    """A pod in the model, with the events that it `missed` in flight, if they still count."""

    name: str
    priority: int
    since: float
    queue: QueueName = QueueName.GATED
    due: float = 0.0
    flush_at: float = 0.0
    diagnoses: int = 0
    errors: int = 0
    refused_by: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    gated: bool = False
    missed: list[tuple[ClusterEvent, Thing]] | None = None

    def hopes(self, event: ClusterEvent, thing: Thing) -> QueueName | None:
        """Return the queue to which an event moves the pod if it waits for one, or None."""
        if event == ASSIGNED_POD_DELETE and thing.uid == f"uid-{self.name}":
            return None
        hoping = [plugin for plugin in self.keepers if HOPES[plugin](self.name, event, thing)]
        if not hoping:
            return None
        return QueueName.ACTIVE if self.pending.intersection(hoping) else QueueName.BACKOFF

    @property
    def order(self) -> tuple[float, ...]:
        """The sort key among the pods that may be tried, with ready ones first."""
        due = self.due if self.queue is QueueName.BACKOFF else 0.0
        return (due, -self.priority, self.since)

    @property
    def keepers(self) -> set[str]:
        return {"Gate"} if self.gated else self.refused_by | self.pending


class Queueing(RuleBasedStateMachine):
    """Pods that arrive, are tried and are refused, with events in between."""

    def __init__(self) -> None:
        super().__init__()
        Gate.closed.clear()
        self.queue = SchedulingQueue({SCHEDULER: made_profile()}, flush_after=FLUSH_AFTER)
        self.now = NOW
        self.pods: dict[str, Pod] = {}
        self.records: dict[str, Record] = {}

    @initialize(priorities=st.lists(st.integers(0, 1), min_size=2, max_size=2))
    def two_pods(self, priorities: list[int]) -> None:
        for name, priority in zip(NAMES, priorities, strict=False):
            self.add(name, priority, closed=False)

    # Changes of pods.

    def add(self, name: str, priority: int, closed: bool) -> None:
        if name in self.records:
            return
        (Gate.closed.add if closed else Gate.closed.discard)(name)
        self.pods[name] = pod(name, priority=priority)
        self.queue.upsert(self.pods[name], self.now)
        self.records[name] = record = Record(name, priority, self.now)
        self._place(record, QueueName.ACTIVE)

    def edit(self, name: str, change: str) -> None:
        if name not in self.records:
            return
        old = self.pods[name]
        version = old.meta.version + 1
        text = {"edited": str(version)}
        labels = text if change == "label" else old.meta.labels
        annotations = text if change == "annotation" else old.meta.annotations
        if change == "priority":
            self.records[name].priority ^= 1
        priority = self.records[name].priority
        self.pods[name] = new = pod(
            name, priority=priority, labels=labels, annotations=annotations, version=version
        )
        self.queue.upsert(new, self.now)
        record = self.records[name]
        actions = {"label": Action.UPDATE_POD_LABEL, "annotation": Action.UPDATE, "priority": Action.UPDATE}
        action = actions.get(change)
        if action is None:
            return
        event, thing = ClusterEvent(Resource.TARGET_POD, action), Thing(frozenset())
        if record.missed is not None and record.queue is QueueName.IN_FLIGHT:
            record.missed.append((event, thing))
        if record.queue is QueueName.GATED:
            self._place(record, QueueName.BACKOFF)
        elif record.queue is QueueName.UNSCHEDULABLE and (place := record.hopes(event, thing)):
            self._place(record, place)

    def remove(self, name: str) -> None:
        self.queue.remove(f"uid-{name}")
        self.records.pop(name, None)

    # Attempts.

    @rule(data=st.data(), first=st.booleans(), ends=ENDS)
    def attempt(self, data: st.DataObject, first: bool, ends: str) -> None:
        """Begin an attempt, or end one that has begun."""
        if first or not self._flying():
            self._try_one(data, ends)
        elif ends != "in flight":
            names = NAMES if ends == "unknown" else self._flying()
            self._end(data, data.draw(st.sampled_from(names)), "refused" if ends == "unknown" else ends)

    def _try_one(self, data: st.DataObject, ends: str) -> None:
        """Pop a pod, and end its attempt at once or later."""
        self._let_time_work()
        waiting = self.queue.pop(self.now)
        self._take(waiting)
        if waiting is not None and ends in ("refused", "failed"):
            self._end(data, waiting.pod.meta.name, ends)

    def _end(self, data: st.DataObject, name: str, ends: str) -> None:
        if ends == "refused":
            pending = data.draw(st.sampled_from([set[str](), set[str](), {"Hopeful"}, {"Careful"}]))
            self._refuse(name, data.draw(REFUSERS) - pending, pending)
        elif ends == "failed":
            self._fail(name)
        else:
            self.queue.done(f"uid-{name}")
            self.records[name].missed = None

    def _flying(self) -> list[str]:
        return [name for name, record in self.records.items() if record.queue is QueueName.IN_FLIGHT]

    def _refuse(self, name: str, plugins: set[str], pending: set[str]) -> None:
        self.queue.add_unschedulable(f"uid-{name}", self.now, plugins, pending)
        record = self.records.get(name)
        if record is None or record.queue is not QueueName.IN_FLIGHT:
            return
        missed, record.missed = record.missed or [], None
        record.refused_by, record.pending = plugins, pending
        record.diagnoses, record.errors = record.diagnoses + 1, 0
        record.since, record.due = self.now, self.now + min(2.0 ** (record.diagnoses - 1), 10)
        places = {record.hopes(*each) for each in missed}
        if QueueName.ACTIVE in places:
            self._place(record, QueueName.ACTIVE)
        else:
            self._place(record, QueueName.BACKOFF if QueueName.BACKOFF in places else QueueName.UNSCHEDULABLE)

    def _fail(self, name: str) -> None:
        self.queue.back_off(f"uid-{name}", self.now)
        record = self.records.get(name)
        if record is None or record.queue is not QueueName.IN_FLIGHT:
            return
        record.missed = None
        record.refused_by, record.pending = set(), set()
        record.errors += 1
        record.since, record.due = self.now, self.now + min(2.0 ** (record.errors - 1), 10)
        self._place(record, QueueName.BACKOFF)

    # Events of the cluster.

    @rule(
        data=st.data(), kind=KINDS, name=st.sampled_from(NAMES), helps=st.frozensets(st.sampled_from(NAMES))
    )
    def meanwhile(self, data: st.DataObject, kind: str, name: str, helps: frozenset[str]) -> None:
        """Apply an event or a change that is no attempt."""
        if kind == "event":
            about = data.draw(st.sampled_from([name, "other"]))
            self.happens(data.draw(st.sampled_from(EVENTS)), helps, about, named=data.draw(st.booleans()))
        elif kind == "time":
            self.now += data.draw(st.sampled_from([0.5, 1, 5, 299]))
        elif kind == "pod" and name not in self.records:
            self.add(name, data.draw(st.integers(0, 1)), closed=data.draw(st.booleans()))
        elif kind == "pod" and helps:
            self.edit(name, data.draw(st.sampled_from(["label", "status", "annotation", "priority"])))
        elif kind == "pod":
            self.remove(name)
        else:  # the pod notices that when it is enqueued again
            (Gate.closed.add if helps else Gate.closed.discard)(name)

    def happens(self, event: ClusterEvent, helps: frozenset[str], about: str, named: bool) -> None:
        thing = Thing(helps, f"uid-{about}")
        old, new = (thing, None) if event.action is Action.DELETE else (None, thing)
        only = [self.pods[name].key for name in helps if name in self.pods] if named else None
        self.queue.notify(event, old, new, self.now, only)
        for name, record in self.records.items():
            if record.missed is not None:
                record.missed.append((event, thing))
            if named and name not in helps:
                continue
            waits = record.queue is QueueName.UNSCHEDULABLE
            # An event that the gate has not registered does not move a gated pod.
            waits |= record.queue is QueueName.GATED and event == RESERVATION_ACTIVE
            if waits and (place := record.hopes(event, thing)):
                self._place(record, place)

    # Invariants.

    @invariant()
    def every_pod_is_where_the_model_has_it(self) -> None:
        places = {}
        for name in NAMES:
            waiting = self.queue.get(f"uid-{name}")
            if waiting is not None:
                places[name] = waiting.queue
        assert places == {name: record.queue for name, record in self.records.items()}
        assert sum(self.queue.counts().values()) == len(self.records)

    @invariant()
    def no_wakeup_is_missed(self) -> None:
        due = self._due()
        promised = self.queue.next_due()
        assert due is None or (promised is not None and promised <= max(due, self.now))

    def teardown(self) -> None:
        """Check that no pod starves: in the end all that are not gated are tried, once."""
        for name in self.records:
            self._fail(name)
        self.now += FLUSH_AFTER
        self._let_time_work()
        wanting = {name for name, record in self.records.items() if record.queue is not QueueName.GATED}
        tried = []
        while (waiting := self.queue.pop(self.now)) is not None:
            self._take(waiting)
            tried.append(waiting.pod.meta.name)
        assert sorted(tried) == sorted(wanting)

    def _place(self, record: Record, place: QueueName) -> None:
        """Move a pod to a queue, as the gate and its backoff allow."""
        record.gated, record.flush_at = False, self.now + FLUSH_AFTER
        if place in (QueueName.ACTIVE, QueueName.BACKOFF):
            if record.name in Gate.closed:
                record.gated, record.queue = True, QueueName.GATED
                return
            if place is QueueName.BACKOFF and record.due <= self.now:
                place = QueueName.ACTIVE
        record.queue = place

    def _let_time_work(self) -> None:
        for record in self.records.values():
            if record.queue in (QueueName.UNSCHEDULABLE, QueueName.GATED) and record.flush_at <= self.now:
                self._place(record, QueueName.BACKOFF)
            if record.queue is QueueName.BACKOFF and record.due <= self.now:
                record.queue = QueueName.ACTIVE

    def _take(self, waiting: QueuedPodInfo | None) -> None:
        """Check that a popped pod is the first in order, and note that it is in flight."""
        ready = [
            record.order
            for record in self.records.values()
            if record.queue is QueueName.ACTIVE or (record.queue is QueueName.BACKOFF and not record.errors)
        ]
        if waiting is None:
            assert not ready
            return
        record = self.records[waiting.pod.meta.name]
        assert waiting.pod == self.pods[record.name]
        assert record.order == min(ready)
        record.queue = QueueName.IN_FLIGHT
        record.missed = []

    def _due(self) -> float | None:
        dues = []
        for record in self.records.values():
            if record.queue is QueueName.ACTIVE:
                dues.append(0.0)
            elif record.queue is QueueName.BACKOFF:
                dues.append(record.due if record.errors else 0.0)
            elif record.queue in (QueueName.UNSCHEDULABLE, QueueName.GATED):
                dues.append(record.flush_at)
        return min(dues, default=None)


Queueing.TestCase.settings = settings(max_examples=sample(60, 150), stateful_step_count=60, deadline=None)
TestQueueing = Queueing.TestCase
