"""A start with so many pods and reservations that matching them takes long."""

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
"""Seconds that each reading of the clock takes: three pods are processed before anything else begins."""


def held(core: Core, name: str = "lock", **fields: object) -> ReservationInfo:
    """Create a reservation of two of a node's three CPUs for any pod with the label."""
    return core.reservation(name, owners=WEB, status=HELD | TWO, **TWO, **fields)


def bound(number: int, labels: dict[str, str], **fields: object) -> Pod:
    """Build a pod that another scheduler bound after the reservations were created."""
    return pod(f"pod-{number}", node_name="node-a", labels=labels, bound_at=NOW + number, **fields)


def started(owner: int) -> tuple[Core, ReservationInfo]:
    """Start slowly with five pods, one of which uses the capacity of the reservation."""
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
    """Process the backlog turn by turn. After the last turn nothing is left."""
    for turn in count():
        yield turn
        if core.event_handlers.next_due is None:
            return
        core.event_handlers.catch_up()


def test_a_node_is_not_judged_before_all_pods_that_may_use_its_reservations_are_processed() -> None:
    """Regression: the reservation seemed to have lost its capacity, which its unprocessed owner used."""
    core, entry = started(owner=4)
    assert core.event_handlers.ready
    assert (entry.phase, core.reserved()) == (Phase.ACTIVE, 2000)

    core.event_handlers.nodes.upsert(None, node("node-a", cpu="3", version=2))
    core.event_handlers.pods.remove(bound(3, {}))
    assert (entry.phase, entry.violation) == (Phase.ACTIVE, "")

    turns = list(heard(core))
    assert len(turns) > 2
    assert (entry.phase, core.reserved()) == (Phase.BOUND, 1000)
    core.answer()
    assert entry.phase is Phase.CONSUMED


def test_reservations_that_no_longer_fit_are_found_after_all_pods_are_processed() -> None:
    core = Core(node("node-a", cpu="3"), listed=False)
    entry = held(core)
    core.add(*(bound(number, {}, requests={"cpu": "1"}) for number in range(5)))
    core.clock.tick = A_TURN
    core.list_all()
    assert entry.phase is Phase.ACTIVE

    list(heard(core))
    assert (entry.phase, entry.reason) == (Phase.PENDING, "Overcommitted")


def test_other_decisions_are_made_in_between_and_get_as_much_time() -> None:
    core, _ = started(owner=4)
    core.clock.tick = 0.0
    due = core.event_handlers.next_due
    assert due is not None
    assert due - core.clock.now() == pytest.approx(3 * A_TURN), "as long as the first three pods took"
    core.add(pod("other", namespace="elsewhere"))
    assert core.place().node_name == "node-b"
    core.event_handlers.catch_up()
    assert core.event_handlers.next_due == due, "the next turn is later"
    core.clock.advance(due - core.clock.now())
    core.event_handlers.catch_up()
    assert core.event_handlers.next_due is None


def test_a_namespace_with_a_short_backlog_does_not_wait_for_others() -> None:
    core = Core(node("node-a"), listed=False)
    held(core)
    core.add(*(bound(number, {}, requests={}) for number in range(5)))
    small = held(core, "small", namespace="elsewhere")
    core.add(bound(9, {"app": "web"}, namespace="elsewhere", requests={"cpu": "2"}))
    core.clock.tick = A_TURN
    core.list_all()

    assert small.phase is Phase.BOUND
    assert core.event_handlers.next_due is not None


def test_a_pod_that_was_processed_by_an_event_or_is_gone_is_not_processed_again() -> None:
    core, entry = started(owner=4)
    core.event_handlers.pods.upsert(None, bound(4, {"app": "web"}, requests={"cpu": "2"}, version=2))
    assert entry.phase is Phase.BOUND
    core.event_handlers.pods.remove(bound(3, {}))
    list(heard(core))
    assert len(core.take_claims()) == 1


def test_a_fault_affects_only_one_pod(monkeypatch: pytest.MonkeyPatch) -> None:
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
