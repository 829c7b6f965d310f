"""A start beside so many pods and locks that to hear which took which takes long."""

from collections.abc import Iterator
from itertools import count

import pytest

from builders import NOW, Json, node, pod
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import ObjectMeta
from tidelock.model.pods import Pod
from unit.scheduler.machinery import HELD, Core

WEB = [{"selector": {"matchLabels": {"app": "web"}}}]
TWO: Json = {"resources": {"cpu": "2"}}
A_TURN = 0.4
"""Seconds that each look at the clock takes: three pods are heard before all else begins."""


def held(core: Core, name: str = "lock", **fields: object) -> ReservationInfo:
    """Have two of a node's three cpus be locked for any pod with the label."""
    return core.reservation(name, owners=WEB, status=HELD | TWO, **TWO, **fields)


def bound(number: int, labels: dict[str, str], **fields: object) -> Pod:
    """Give a pod that another scheduler bound after the reservations were made."""
    return pod(f"pod-{number}", node_name="node-a", labels=labels, bound_at=NOW + number, **fields)


def started(owner: int) -> tuple[Core, ReservationInfo]:
    """Start slowly beside five pods of which one has the lock's room."""
    core = Core(node("node-a", cpu="3"), node("node-b"), listed=False)
    entry = held(core)
    for number in range(5):
        owns = number == owner
        requests = {"cpu": "2" if owns else "0"}
        core.add(bound(number, {"app": "web"} if owns else {}, requests=requests))
    core.clock.tick = A_TURN
    core.list_all()
    return core, entry


def heard(core: Core) -> Iterator[int]:
    """Catch up turn by turn; the last one has nothing left."""
    for turn in count():
        yield turn
        if core.event_handlers.next_due is None:
            return
        core.event_handlers.catch_up()


def test_a_node_is_not_judged_before_all_pods_are_heard_that_may_use_its_locks() -> None:
    """The room of a lock was in use by its owner, which was not heard yet: it seemed to be gone."""
    core, entry = started(owner=4)
    assert core.event_handlers.ready
    assert (entry.phase, core.reserved()) == (Phase.ACTIVE, 2000)

    core.event_handlers.nodes.upsert(None, node("node-a", cpu="3", version=2))
    core.event_handlers.pods.remove(bound(3, {}))
    assert (entry.phase, entry.violation) == (Phase.ACTIVE, "")

    turns = list(heard(core))
    assert len(turns) > 2
    assert (entry.phase, core.reserved()) == (Phase.BOUND, 0)
    core.answer()
    assert entry.phase is Phase.CONSUMED


def test_what_no_longer_fits_is_found_after_all_pods_are_heard() -> None:
    core = Core(node("node-a", cpu="3"), listed=False)
    entry = held(core)
    core.add(*(bound(number, {}, requests={"cpu": "1"}) for number in range(5)))
    core.clock.tick = A_TURN
    core.list_all()
    assert entry.phase is Phase.ACTIVE

    list(heard(core))
    assert (entry.phase, entry.reason) == (Phase.PENDING, "Overcommitted")


def test_all_else_is_decided_meanwhile_and_has_as_much_time() -> None:
    core, _ = started(owner=4)
    core.clock.tick = 0.0
    due = core.event_handlers.next_due
    assert due is not None
    assert due - core.clock.now() == pytest.approx(3 * A_TURN), "as long as the first three pods took"
    core.add(pod("other", namespace="elsewhere"))
    assert core.place().node_name == "node-b"
    core.event_handlers.catch_up()
    assert core.event_handlers.next_due == due, "it is not its turn yet"
    core.clock.advance(due - core.clock.now())
    core.event_handlers.catch_up()
    assert core.event_handlers.next_due is None


def test_a_namespace_with_less_to_do_does_not_wait_for_others() -> None:
    core = Core(node("node-a"), listed=False)
    held(core)
    core.add(*(bound(number, {}, requests={}) for number in range(5)))
    small = held(core, "small", namespace="elsewhere")
    core.add(bound(9, {"app": "web"}, namespace="elsewhere", requests={"cpu": "2"}))
    core.clock.tick = A_TURN
    core.list_all()

    assert small.phase is Phase.BOUND
    assert core.event_handlers.next_due is not None


def test_a_pod_that_was_heard_by_an_event_or_is_gone_is_not_heard_again() -> None:
    core, entry = started(owner=4)
    core.event_handlers.pods.upsert(None, bound(4, {"app": "web"}, requests={"cpu": "2"}, version=2))
    assert entry.phase is Phase.BOUND
    core.event_handlers.pods.remove(bound(3, {}))
    list(heard(core))
    assert len(core.take_claims()) == 1


def test_a_fault_costs_one_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[str] = []

    def failed(step: str, kind: str, meta: ObjectMeta, error: Exception) -> float:
        faults.append(f"{step} {kind} {meta.name}: {error}")
        return 1.0

    core = Core(node("node-a"), listed=False, on_failure=failed)
    entry = held(core)
    core.add(bound(0, {}, requests={}), bound(1, {"app": "web"}, requests={"cpu": "2"}))
    hear = core.ledger.claims.claim_tentatively

    def hear_most(owner: Pod, node_name: str, now: float) -> None:
        if owner.meta.name == "pod-0":
            raise ValueError("odd")
        hear(owner, node_name, now)

    monkeypatch.setattr(core.ledger.claims, "claim_tentatively", hear_most)
    core.list_all()
    assert faults == ["owners Pod pod-0: odd"]
    assert entry.phase is Phase.BOUND
