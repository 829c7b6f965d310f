"""Faults injected for one object: it is marked and retried, others go on, and sums stay correct."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from builders import NAMESPACE, SCHEDULER, encode, node, pod, reservation_json
from isolating import Isolating
from tidelock.cluster.cache import Follower
from tidelock.cluster.index.pod_counts import PodCountQuery
from tidelock.cluster.index.selection import Choice, Selection
from tidelock.framework.events import NODE_ADD, Registration
from tidelock.framework.extension_point_timer import PluginError
from tidelock.kube.client import PODS, RESERVATIONS
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.failures import StateLostError
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.quantities import plus
from tidelock.model.reservation import decode_reservation
from tidelock.model.unusable import unusable
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.outcomes import Unschedulable
from unit.scheduler.machinery import Core, Shell, pod_path, turns

BAD = Key(NAMESPACE, "bad")
EVERY = PodCountQuery((Choice(frozenset({NAMESPACE}), Selection(())),))

# The functions that are called during a change, by the part of the ledger and its method.
PARTS = (
    *("ownership.update", "ownership.remove", "groups.update", "groups.remove", "schedules.update"),
    *("schedules.remove", "quotas.update", "quotas.remove", "waiting_reservations.update"),
    *("waiting_reservations.renew", "holdings.update", "holdings.sharing.update", "holdings._set_held"),
    *("_alternatives.update", "nominations.update", "records.due.update", "records.commit"),
    *("records.note", "records.step", "records.end", "placement._place", "placement.displace"),
    *("_edits.apply", "_choices.decide"),
)


class Fed(Core):
    """A core with events as from watches: an object with a failing handler is delivered again as unusable."""

    def __init__(self, *nodes: Any) -> None:
        self.isolation = Isolating()
        super().__init__(*nodes, on_failure=self.isolation.failed)

    def tell(self, name: str, **fields: Any) -> None:
        new = decode_reservation(encode(reservation_json(name, **fields)))
        known = self.ledger.records.find(new.key)
        old = known.reservation if known is not None else None
        for version in (new, unusable(new, "the operator failed")):
            with self.isolation.attempt("event", RESERVATIONS, new.meta) as attempt:
                self.event_handlers.reservations.upsert(old, version)
            if attempt.error is None:
                return

    def steps(self, count: int = 5) -> None:
        for _ in range(count):
            self.step()
            self.check()

    def check(self) -> None:
        """Compare all sums with the ledger, entry by entry."""
        columns = self.decider.columns
        for name, row in columns.row_of.items():
            held: dict[str, int] = {}
            for entry in self.ledger.entries.values():
                if entry.node == name:
                    held = dict(plus(held, entry.held))
            assert columns.named(columns.reserved[row]) == {
                key: units for key, units in held.items() if units
            }
            listed = {entry.key for entry in self.ledger.holdings.held_on(name)}
            assert listed == {
                entry.key for entry in self.ledger.entries.values() if entry.node == name and entry.reserved
            }
        for key, entry in self.ledger.waiting_reservations.waiting.items():
            assert self.ledger.entries[key] is entry

    def phases(self) -> dict[str, Phase]:
        return {key.name: entry.phase for key, entry in self.ledger.entries.items()}


@contextmanager
def planted(owner: Any, path: str, *, name: str = "bad", times: int = 10**6) -> Iterator[list[int]]:
    """Make a method fail after its work for the object of a name, so many times."""
    *parents, method = path.split(".")
    part = attrgetter(".".join(parents))(owner) if parents else owner
    original: Callable[..., Any] = getattr(part, method)
    failed: list[int] = []

    def fails(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        if name in map(_name_of, arguments) and len(failed) < times:
            failed.append(1)
            raise LookupError(f"planted in {path}")
        return result

    setattr(part, method, fails)
    try:
        yield failed
    finally:
        setattr(part, method, original)


def _name_of(argument: Any) -> str:
    if isinstance(argument, ReservationInfo):
        return argument.key.name
    return str(getattr(getattr(argument, "meta", None), "name", ""))


@pytest.mark.parametrize("times", [1, 3, 10**6])
@pytest.mark.parametrize("path", PARTS)
def test_a_fault_in_a_part_of_the_ledger_for_one_reservation_affects_no_other(path: str, times: int) -> None:
    core = Fed(node("node-a", cpu="8"), node("node-b", cpu="8"))
    core.tell("a", owner="a")
    with planted(core.ledger, path, times=times):
        core.tell("bad", owner="b")
        core.tell("c", owner="c")
        core.steps()
        core.tell("bad", owner="b", resources={"cpu": "2"}, generation=2, version=2)
        core.tell("c", owner="c", resources={"cpu": "2"}, generation=2, version=2)
        core.steps()
        core.clock.advance(400)
        core.steps()
        assert core.phases()["a"] is core.phases()["c"] is Phase.ACTIVE
        core.clock.advance(300)
        core.steps()
        assert core.phases()["a"] is core.phases()["c"] is Phase.EXPIRED
    core.clock.advance(1000)
    core.tell("bad", owner="b", resources={"cpu": "2"}, ttlSeconds=9999, generation=3, version=3)
    core.steps()
    core.tell("d", owner="d", created=core.clock.now())
    core.steps()
    assert core.phases()["d"] is Phase.ACTIVE


def test_a_rebuilt_reservation_holds_the_amounts_of_its_status() -> None:
    core = Fed(node("node-a", cpu="2"))
    core.tell("bad")
    core.steps()
    core.store("bad")
    with planted(core.ledger, "ownership.update", times=1) as failed:
        core.tell("bad", version=9, status=core.ledger.entries[BAD].reservation.status)
    assert failed
    core.steps()
    assert core.phases() == {"bad": Phase.ACTIVE}
    assert core.reserved() == 1000
    core.add(pod("stranger", requests={"cpu": "2"}))
    assert isinstance(core.step(), Unschedulable)


def test_a_rebuilt_reservation_takes_no_capacity_that_others_were_granted() -> None:
    core = Fed(node("node-a", cpu="1"))
    core.tell("bad", owner="b")
    core.steps()
    core.store("bad")
    stored = core.ledger.entries[BAD].reservation
    core.ledger.placement.preempt(core.ledger.entries[BAD], "a pod", core.clock.now())
    core.ledger.recovery.checkpoint()
    core.tell("other", owner="o", priority=-5)
    core.ledger.waiting_reservations.leave_out(core.ledger.entries[BAD])
    core.steps()
    core.store("other")
    assert core.phases()["other"] is Phase.ACTIVE

    with planted(core.ledger, "ownership.update", times=1):
        core.tell("bad", owner="b", version=9, status=stored.status)
    core.steps()
    assert core.phases() == {"other": Phase.ACTIVE, "bad": Phase.PENDING}
    assert core.reserved() == 1000


def test_a_reservation_whose_removal_fails_midway_holds_nothing() -> None:
    core = Fed(node("node-a", cpu="2"))
    core.tell("bad")
    core.steps()
    bad = core.ledger.entries[BAD].reservation
    with planted(core.ledger, "holdings.sharing.update", times=1), pytest.raises(LookupError):
        core.event_handlers.reservations.remove(bad)
    assert core.phases() == {}
    core.check()
    assert core.reserved() == 0


def test_a_reservation_that_cannot_be_processed_waits_and_reports_it() -> None:
    core = Fed(node("node-a", cpu="2"))
    with planted(core.ledger, "_edits.apply"), planted(core.ledger, "quotas.update"):
        core.tell("bad")
        core.steps()
    entry = core.ledger.entries.get(BAD)
    assert entry is None or (entry.phase is Phase.PENDING and entry.reason == "InternalError")
    assert "event shop/bad: planted in quotas.update" in core.isolation.faults


def test_a_reservation_reports_a_failing_due_change(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Fed(node("node-a", cpu="2"))
    core.tell("bad", ttlSeconds=60)
    core.steps()
    core.store("bad")
    expire = core.ledger._endings.expire_if_over
    monkeypatch.setattr(core.ledger._endings, "expire_if_over", lambda *_: 1 / 0)
    core.clock.advance(61)
    core.effects.statuses.clear()
    core.steps()
    entry = core.ledger.entries[BAD]
    assert BAD in core.effects.statuses
    stalled = next(
        each
        for each in render_reservation(entry, core.clock.now())["conditions"]
        if each["type"] == "Stalled"
    )
    assert stalled["reason"] == "InternalError"
    assert "ZeroDivisionError" in stalled["message"]
    monkeypatch.setattr(core.ledger._endings, "expire_if_over", expire)
    core.clock.advance(60)
    core.steps()
    entry = core.ledger.entries[BAD]
    assert entry.phase is Phase.EXPIRED
    assert not any(
        each["type"] == "Stalled" for each in render_reservation(entry, core.clock.now())["conditions"]
    )


def test_a_reservation_for_which_a_plugin_fails_is_paused_and_equal_ones_are_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = Fed(node("node-a", cpu="8"))
    place, tries = core.decider.reservation_cycle.place, list[str]()

    def fails(profile: Any, entry: ReservationInfo, now: float) -> Any:
        if entry.key == BAD:
            tries.append(entry.key.name)
            raise ValueError("a plugin's bug")
        return place(profile, entry, now)

    monkeypatch.setattr(core.decider.reservation_cycle, "place", fails)
    for name in ("a", "bad", "c"):
        core.tell(name, owner=name, pendingDeadlineSeconds=3600)
    core.steps()
    assert core.phases() == {"a": Phase.ACTIVE, "bad": Phase.PENDING, "c": Phase.ACTIVE}
    assert core.ledger.entries[BAD].reason == "PluginFailed"
    for _ in range(60):
        core.tell("d", owner="d")
        core.steps(2)
        core.clock.advance(0.1)
    assert 2 <= len(tries) <= 4
    monkeypatch.undo()
    core.clock.advance(60)
    core.steps()
    assert core.phases()["bad"] is Phase.ACTIVE


def test_a_pod_with_a_failing_decision_gets_the_error_and_others_are_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = Fed(node("node-a", cpu="8"))
    schedule = core.decider._cycle.schedule

    def fails(profile: Any, waiting: Any, *arguments: Any, **options: Any) -> Any:
        if waiting.meta.name == "bad":
            raise ValueError("a plugin's bug")
        return schedule(profile, waiting, *arguments, **options)

    monkeypatch.setattr(core.decider._cycle, "schedule", fails)
    core.add(pod("bad"), pod("good"))
    outcomes = [core.step(), core.step()]
    refused = next(each for each in outcomes if isinstance(each, Unschedulable))
    assert refused.diagnosis.error
    assert "a plugin's bug" in refused.diagnosis.message
    assert any(isinstance(each, AssumedPod) and each.pod.meta.name == "good" for each in outcomes)
    assert core.isolation.faults == ["decision shop/bad: a plugin's bug"]


def test_a_failing_queueing_hint_wakes_its_pod_and_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: each event logged a traceback for each such pod."""
    core = Fed(node("node-a", cpu="1"))
    core.add(pod("bad", requests={"cpu": "2"}))
    core.refuse()

    def fails(*_: Any) -> bool:
        raise LookupError("a hint's bug")

    listeners = {(SCHEDULER, "NodeResourcesFit"): (Registration(NODE_ADD, fails),)}
    monkeypatch.setattr(core.queue.hints, "listeners", lambda _event: listeners)
    for _ in range(5):
        core.event_handlers.nodes.upsert(None, node("node-b", cpu="1"))
        core.event_handlers.nodes.remove(node("node-b", cpu="1"))
        core.clock.advance(20)
        core.refuse()
    told = core.isolation.faults
    assert len(told) >= 5
    assert set(told) == {"hint shop/bad: a hint's bug"}
    assert sum(record.exc_info is not None for record in caplog.records) == 1


def test_a_failing_gate_keeps_its_pod_gated_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Fed(node("node-a", cpu="8"))
    gate = core.decider.profile.pre_enqueue[0]
    ask = gate.pre_enqueue
    monkeypatch.setattr(gate, "pre_enqueue", lambda each: 1 / 0 if each.meta.name == "bad" else ask(each))
    core.add(pod("bad"), pod("good"))
    assert core.place().pod.meta.name == "good"
    assert core.step() is None
    assert core.isolation.faults == ["gate shop/bad: division by zero"]


def test_a_failing_gate_is_called_again_without_any_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the pod stayed gated until its next event, although the gate had failed only once."""
    core = Fed(node("node-a", cpu="8"))
    gate = core.decider.profile.pre_enqueue[0]
    ask, failures = gate.pre_enqueue, iter((True, True))
    monkeypatch.setattr(gate, "pre_enqueue", lambda each: 1 / 0 if next(failures, False) else ask(each))
    core.add(pod("bad"))
    begun = core.clock.now()
    for tries, pause in ((1, 1), (2, 2)):
        assert core.step() is None
        assert core.isolation.faults == tries * ["gate shop/bad: division by zero"]
        assert core.decider.next_due() == core.clock.now() + pause
        core.clock.advance(pause)
    assert core.place().pod.meta.name == "bad"
    assert core.clock.now() == begun + 3


def test_a_pod_that_is_removed_while_its_gate_fails_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Fed(node("node-a", cpu="8"))
    gate = core.decider.profile.pre_enqueue[0]
    monkeypatch.setattr(gate, "pre_enqueue", lambda _: 1 / 0)
    core.add(pod("bad"))
    core.queue.remove(pod("bad").uid)
    core.clock.advance(10)
    assert core.step() is None
    assert core.queue.next_due() is None
    assert len(core.isolation.faults) == 1


def test_unreserve_is_called_for_all_plugins_even_if_one_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: each attempt of such a pod logged a traceback."""
    core = Fed(node("node-a", cpu="8"))
    core.tell("bad", owner="bad")
    core.steps()
    volumes, reservation = (core.decider.profile.plugins[name] for name in ("VolumeBinding", "Reservation"))
    assert core.decider.profile.reserve[0] is volumes
    assert core.decider.profile.reserve[-1] is reservation
    monkeypatch.setattr(reservation, "unreserve", lambda *_: 1 / 0)
    undone = list[str]()
    monkeypatch.setattr(volumes, "unreserve", lambda _state, pod, *_: undone.append(pod.meta.name))
    core.add(pod("bad"))
    for _ in range(3):
        core.decider.binding_failed(core.place(), core.clock.now())
        core.clock.advance(20)
    assert undone == ["bad"] * 3
    assert core.isolation.faults == ["unreserve shop/bad: division by zero"] * 3
    assert sum(record.exc_info is not None for record in caplog.records) == 1


@pytest.mark.parametrize(
    "part", ["affinity_terms.count", "pod_counts.count", "pod_counts.place", "columns.request"]
)
def test_a_pod_for_which_an_index_fails_changes_no_sum(part: str) -> None:
    core = Fed(node("node-a", cpu="4"))
    core.add(pod("a", node_name="node-a", requests={"cpu": "1"}))
    columns = core.decider.columns
    before = columns.requested.copy()
    bad = pod("bad", node_name="node-a", requests={"cpu": "2"})
    *parents, method = part.split(".")
    owner = attrgetter(".".join(parents))(core.cache)
    original = getattr(owner, method)

    def fails(*arguments: Any, **options: Any) -> Any:
        known = [getattr(each, "pod", each) for each in arguments]
        if bad in known or bad.requests in [each for each in known if isinstance(each, dict)]:
            raise LookupError("planted")
        return original(*arguments, **options)

    setattr(owner, method, fails)
    with pytest.raises(LookupError):
        core.event_handlers.pods.upsert(None, bad)
    setattr(owner, method, original)
    assert np.array_equal(columns.requested, before)
    assert core.cache.get(bad.uid) is None
    core.event_handlers.pods.upsert(None, unusable(bad, "the operator failed"))
    core.add(pod("next"))
    refused = core.refuse()
    assert "unreadable" in refused.diagnosis.message
    core.event_handlers.pods.upsert(unusable(bad, "the operator failed"), bad)
    assert core.used() == 3000


def test_a_waiting_pod_that_cannot_be_processed_gets_the_reason_and_is_placed_later() -> None:
    """Regression: there was only an event."""
    core, bad = Fed(node("node-a", cpu="4")), pod("bad", requests={"cpu": "1"})
    core.event_handlers.pods.upsert(None, unusable(bad, "the operator failed"))
    assert "pod can't be read: the operator failed." in core.refuse().diagnosis.message
    core.event_handlers.pods.upsert(unusable(bad, "the operator failed"), bad)
    core.clock.advance(10)
    assert core.place().pod == bad


class Plugin(Follower):
    """A plugin that follows the nodes, and fails for the node of a name before or after other plugins."""

    def __init__(self) -> None:
        self.name = ""
        self.rows: list[str] = []

    def put_node(self, row: int, old: Node | None, new: Node) -> None:
        del row
        if new.name == self.name:
            raise LookupError("planted")
        if old is None:
            self.rows.append(new.name)

    def drop_node(self, row: int, end: int) -> None:
        del end
        if self.rows[row] == self.name:
            raise LookupError("planted")
        self.rows[row] = self.rows[-1]
        self.rows.pop()


def sums(core: Core) -> list[Any]:
    """Return the sums of each node."""
    columns, cache = core.decider.columns, core.cache
    rows = {name: columns.requested[row].tolist() for name, row in sorted(columns.row_of.items())}
    counts = {name: int(cache.neighbours(EVERY)[row]) for name, row in sorted(columns.row_of.items())}
    return [rows, counts, [each.name for each in columns.nodes]]


def test_a_node_for_which_a_plugin_fails_is_unchanged_and_is_processed_later() -> None:
    """Regression: its pods were never counted, as the node counted as known by then."""
    core = Fed(node("node-a", cpu="4"))
    first, last = Plugin(), Plugin()
    core.cache.follow(first)
    core.cache.follow(last)
    for name in ("node-a", "bad"):
        core.add(pod(f"on-{name}", node_name=name, requests={"cpu": "1"}))
    core.tell("lock", nodeName="bad")
    before = sums(core)
    last.name = "bad"
    for _ in range(2):
        with pytest.raises(LookupError):
            core.event_handlers.nodes.upsert(None, node("bad", cpu="4"))
        assert sums(core) == before
        assert first.rows == last.rows == ["node-a"]
    last.name = ""
    core.event_handlers.nodes.upsert(None, node("bad", cpu="4"))
    assert core.used("bad") == 1000

    before = sums(core)
    last.name = "bad"
    with pytest.raises(LookupError):
        core.event_handlers.nodes.upsert(node("bad", cpu="4"), node("bad", cpu="1"))
    assert sums(core) == before
    assert core.decider.columns.nodes[1].allocatable["cpu"] == 4000


def test_a_node_that_can_only_be_removed_in_part_ends_the_process() -> None:
    core, plugin = Fed(node("node-a"), node("bad")), Plugin()
    core.cache.follow(plugin)
    plugin.name = "bad"
    with pytest.raises(StateLostError, match="node bad can't be taken out of the columns: planted"):
        core.event_handlers.nodes.remove(node("bad"))


@pytest.mark.parametrize("part", ["images.drop", "reserve_pods._count", "pod_counts.count"])
def test_a_node_that_cannot_be_removed_stays_as_it_was(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    core = Fed(node("node-a", cpu="4"), node("node-b", cpu="4"))
    core.add(pod("a", node_name="node-a", requests={"cpu": "1"}))
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main"}]}}
    core.tell("lock", nodeName="node-a", resources=None, template=template)
    core.steps()
    before = sums(core)
    *owner, method = part.split(".")
    fails: Any = lambda *_: 1 / 0  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(attrgetter(".".join(owner))(core.cache) if owner else core.cache, method, fails)
        with pytest.raises(ZeroDivisionError):
            core.event_handlers.nodes.remove(node("node-a"))
    assert sums(core) == before
    core.event_handlers.nodes.remove(node("node-a"))
    assert list(core.decider.columns.row_of) == ["node-b"]


def test_a_failing_part_of_a_step_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Fed(node("node-a", cpu="8"))
    calls: list[float] = []

    def fails(now: float) -> None:
        calls.append(now)
        raise ValueError("a bug")

    monkeypatch.setattr(core.decider._backfill, "step", fails)
    core.tell("huge", resources={"cpu": "9"}, pendingDeadlineSeconds=3600)
    for name in ("a", "b", "c"):
        core.tell(name, owner=name)
        core.steps(3)
    assert [core.phases()[name] for name in ("a", "b", "c")] == [Phase.ACTIVE] * 3
    assert len(calls) == 1
    core.clock.advance(10)
    core.steps(3)
    assert len(calls) == 2


async def test_a_status_that_cannot_be_rendered_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = Shell(node("node-a", cpu="8"))
    news = shell.publisher._news
    monkeypatch.setattr(shell.publisher, "_news", lambda entry: 1 / 0 if entry.key == BAD else news(entry))
    for name in ("a", "bad", "c"):
        shell.store_reservation(name, owner=name)
    shell.step()
    await shell.publish()
    assert shell.stored_status("a")["phase"] == shell.stored_status("c")["phase"] == "Active"
    assert "phase" not in shell.stored_status("bad")
    assert shell.isolation.faults == ["status shop/bad: division by zero"]


async def test_a_fault_during_a_binding_returns_the_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(node("node-a", cpu="1"))
    stored = shell.store_pod("bad", requests={"cpu": "1"})

    async def fails(*_: Any) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(shell.binder, "_wait_on_permit", fails)
    shell.binder.bind(shell.place(), 0.0)
    await shell.settle()
    assert shell.cache.get(stored.uid) is None
    assert shell.used() == 0
    assert shell.isolation.faults == ["binding shop/bad: a bug"]
    await turns()
    assert PODS.item("bad", NAMESPACE) in shell.api.objects


PARTS_OF_A_STEP = (
    "decider._backfill.step",
    "decider.moving.step",
    "decider.reservation_scheduler._fill_queue",
    "decider._capacity_events.notify",
    "ledger.queue_positions.renew",
)


@pytest.mark.parametrize("path", PARTS_OF_A_STEP)
def test_a_step_goes_on_without_a_failing_part(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: some faults ended the process. After others the loop ran again and again at once."""
    core = Fed(node("node-a", cpu="8"))
    core.tell("huge", resources={"cpu": "9"}, pendingDeadlineSeconds=3600, mayMove={"maxPods": 1})
    core.steps()
    *owner, method = path.split(".")
    part, calls = attrgetter(".".join(owner))(core), list[float]()
    original = getattr(part, method)

    def fails(*_: Any, **__: Any) -> None:
        calls.append(core.clock.now())
        raise ValueError("a bug")

    monkeypatch.setattr(part, method, fails)
    core.tell("a", owner="a", ttlSeconds=60, pendingDeadlineSeconds=3600)
    core.tell("next", resources={"cpu": "9"}, pendingDeadlineSeconds=3600)
    core.clock.advance(20)
    for _ in range(100):
        core.add(pod("plain", requests={"cpu": "1"}))
        for _ in range(5):
            core.step()
        due = core.decider.next_due()
        assert due is None or due > core.clock.now()
        core.clock.advance(0.1)
    assert 1 <= len(calls) <= 4
    assert core.cache.get("uid-plain") is not None
    monkeypatch.setattr(part, method, original)
    core.clock.advance(600)
    core.steps(20)
    assert core.phases()["huge"] is Phase.PENDING
    assert core.phases()["a"] in {Phase.ACTIVE, Phase.EXPIRED}


def test_a_pod_with_a_failing_sort_key_is_sorted_by_its_priority(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = Fed(node("node-a", cpu="8"))
    sort = core.decider.profile.queue_sort
    key = sort.sort_key
    odd: dict[str, Any] = {"bad": None, "odd": ("first", "second")}
    monkeypatch.setattr(
        sort,
        "sort_key",
        lambda each, since: odd[each.meta.name] if each.meta.name in odd else key(each, since),
    )
    core.add(pod("bad"), pod("good"), pod("odd"), pod("better", priority=5))
    assert [core.place().pod.meta.name for _ in range(4)] == ["better", "bad", "good", "odd"]
    assert {fault.partition(":")[0] for fault in core.isolation.faults} == {"sort shop/bad", "sort shop/odd"}


async def test_a_decision_that_cannot_be_recorded_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = Shell(node("node-a", cpu="8"))
    monkeypatch.setattr(shell.recent, "refused", lambda *_: 1 / 0)
    shell.store_pod("bad", requests={"cpu": "9"})
    shell.store_pod("good", requests={"cpu": "1"})
    shell.loop._work(shell.event_handlers)
    await shell.settle()
    assert shell.api.objects[pod_path("good")]["spec"]["nodeName"] == "node-a"
    assert shell.isolation.faults == ["decision shop/bad: division by zero"]


@pytest.mark.parametrize(
    "path", ["decider.rejected", "ledger.placement.settle_unseen", "queue.back_off", "cache.forget"]
)
@pytest.mark.parametrize("times", [1, 3])
async def test_a_failed_binding_is_undone_later_if_undoing_it_fails(
    path: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the capacity stayed in use, and the pod in flight, until the next process."""
    shell = Shell(node("node-a", cpu="1"))
    shell.isolation.pause = 0.0
    stored = shell.store_pod("bad", requests={"cpu": "1"})
    *owner, method = path.split(".")
    part = attrgetter(".".join(owner))(shell)
    original, failed = getattr(part, method), list[int]()

    def fails(*arguments: Any) -> Any:
        if len(failed) < times:
            failed.append(1)
            raise LookupError("planted")
        return original(*arguments)

    async def refuses(*_: Any) -> None:
        if path == "decider.rejected":
            return shell.decider.rejected(assumed, Diagnosis("no", frozenset()), 0.0)
        raise PluginError("no")

    monkeypatch.setattr(part, method, fails)
    monkeypatch.setattr(shell.binder, "_wait_on_permit", refuses)
    assumed = shell.place()
    shell.binder.bind(assumed, 0.0)
    await shell.settle()
    assert failed
    assert shell.cache.get(stored.uid) is None
    assert shell.used() == 0
    shell.clock.advance(20)
    assert shell.place().pod.uid == stored.uid


async def test_a_binding_that_cannot_be_processed_is_processed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the reservation stayed claimed until a restart if the watch preceded the response."""
    shell = Shell(node("node-a", cpu="1"))
    shell.isolation.pause = 0.0
    shell.store_reservation("bad", owner="bad")
    shell.step()
    await shell.publish()
    shell.store_pod("bad", requests={"cpu": "1"})
    with planted(shell.ledger, "claims.owner_bound", times=2) as failed:
        shell.binder.bind(shell.place(), 0.0)
        await shell.settle()
    assert len(failed) == 2
    assert shell.ledger.entries[BAD].phase is Phase.CONSUMED
    assert (shell.used(), shell.reserved()) == (1000, 0)


def test_a_pod_that_cannot_be_queued_is_queued_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the pod was known to the queue, but in none of its parts."""
    core, bad = Fed(node("node-a", cpu="4")), pod("bad")
    with monkeypatch.context() as patch:
        patch.setattr(core.queue, "_on_enqueue", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            core.event_handlers.pods.upsert(None, bad)
    core.event_handlers.pods.upsert(None, bad)
    assert core.place().pod is bad


@pytest.mark.parametrize(
    "part", ["cache.assume", "ledger.holdings.hold", "ledger.records.commit", "ledger.records.note"]
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_decision_that_fails_midway_leaves_its_pod_unplaced_and_its_reservation_active(
    part: str, times: int
) -> None:
    core = Fed(node("node-a", cpu="1"))
    core.tell("bad", owner="bad")
    core.steps()
    core.store("bad")
    core.add(pod("bad", requests={"cpu": "1"}))
    with planted(core, part, times=times) as failed:
        for _ in range(times):
            core.step()
            core.clock.advance(20)
    assert failed
    core.check()
    if core.cache.get("uid-bad") is None:
        assert core.used() == 0
        assert core.phases() == {"bad": Phase.ACTIVE}
        core.steps()
    core.check()
    assert core.used() == 1000
