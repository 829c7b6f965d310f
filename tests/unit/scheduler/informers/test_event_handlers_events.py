from collections.abc import Callable

import pytest

from builders import NOW, encode, node, pod, pod_json, reservation
from tidelock.ledger.messages import bound_text, taken_text
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.pods import Pod, decode_pod
from unit.scheduler.machinery import Core

SELECTED = [{"selector": {"matchLabels": {"app": "web"}}}]


@pytest.mark.parametrize(
    ("owners", "first"),
    [([{"pod": {"name": "web-0"}}], "pod"), ([{"pod": {"name": "web-0"}}], "lock"), (SELECTED, "lock")],
    ids=["by name, seen first", "by name", "by labels"],
)
def test_a_bound_owner_consumes_its_reservation_in_any_order_of_their_events(
    owners: list[dict[str, object]], first: str
) -> None:
    core = Core(node("node-a", cpu="1"))
    owner = pod(node_name="node-a", labels={"app": "web"}, bound_at=NOW)
    if first == "pod":
        core.add(owner)
    entry = core.reservation(owners=owners)
    if first == "lock":
        core.step()
        core.add(owner)
    assert (entry.phase, core.reserved(), core.used()) == (Phase.BOUND, 0, 1000)

    core.answer()
    assert (entry.phase, core.reserved(), core.used()) == (Phase.CONSUMED, 0, 1000)
    assert entry.message == bound_text("shop/web-0", "node-a")


@pytest.mark.parametrize(
    "others",
    [
        pod("web-1", node_name="node-a"),
        pod(namespace="other", node_name="node-a"),
        pod(node_name="node-a", deleted=True),
        pod(node_name="node-a", phase="Succeeded"),
        pod(scheduler="default-scheduler"),
    ],
    ids=["another name", "another namespace", "terminating", "finished", "not bound"],
)
@pytest.mark.parametrize("owners", [[{"pod": {"name": "web-0"}}], SELECTED], ids=["by name", "by labels"])
def test_any_other_pod_leaves_the_reservation_unchanged(others: Pod, owners: list[dict[str, object]]) -> None:
    core = Core(node("node-a"))
    core.add(others)
    entry = core.reservation(owners=owners)
    core.step()
    core.add(others)

    assert (entry.phase, core.reserved()) == (Phase.ACTIVE, 1000)


def test_an_owner_that_is_only_assumed_does_not_consume_a_reservation_that_comes_after_it() -> None:
    core = Core(node("node-a"))
    core.add(pod())
    assumed = core.place()
    entry = core.reservation()
    assert core.ledger.ownership.of(pod()) == [entry]

    core.decider.bound(assumed, NOW)
    core.answer()
    assert entry.phase is Phase.CONSUMED


def test_no_pod_takes_reserved_capacity_of_an_owner_that_was_bound_to_another_node() -> None:
    core = Core(node("node-a", cpu="1"), node("node-b", cpu="1"))
    entry = core.reservation(nodeName="node-a")
    core.step()
    core.add(pod())
    assumed = core.place()
    core.add(pod(node_name="node-b", version=2), pod("web-1"))
    core.refuse()
    assert (entry.phase, core.reserved("node-a"), core.used("node-b")) == (Phase.BOUND, 1000, 1000)

    core.decider.binding_failed(assumed, NOW)
    core.answer(gone=True)
    assert (entry.phase, core.reserved("node-a")) == (Phase.ACTIVE, 1000)


def test_a_terminating_pod_uses_capacity_until_it_is_gone() -> None:
    core = Core(node("node-a", cpu="1"))
    core.add(pod("old", node_name="node-a", deleted=True))
    core.add(pod("new"))
    core.refuse()
    assert core.used() == 1000

    core.event_handlers.pods.remove(pod("old"))
    assert core.used() == 0


def test_a_finished_pod_uses_no_capacity() -> None:
    core = Core(node("node-a"))
    core.add(pod(node_name="node-a"), pod(node_name="node-a", phase="Failed", version=2))

    assert core.used() == 0


@pytest.mark.parametrize("end", [{"deleted": True}, {"phase": "Failed"}, {"node_name": "node-a"}])
def test_a_pod_that_no_longer_needs_a_node_leaves_the_queue(end: dict[str, str]) -> None:
    core = Core(node("node-a"))
    core.add(pod(), pod(version=2, **end))

    assert core.queue.get("uid-web-0") is None
    assert core.step() is None


def test_a_deleted_pod_leaves_the_queue() -> None:
    core = Core(node("node-a"))
    core.add(pod())
    core.event_handlers.pods.remove(pod())

    assert core.step() is None


def test_duplicate_events_count_once() -> None:
    core = Core(node("node-a"))
    core.event_handlers.nodes.upsert(None, node("node-a"))
    core.add(*[pod("other", node_name="node-a")] * 2)
    entry = core.reservation(owner="nobody")
    core.step()
    assert core.reservation(owner="nobody") is entry

    assert (core.used(), core.reserved(), entry.phase) == (1000, 1000, Phase.ACTIVE)
    for _ in range(2):
        core.event_handlers.pods.remove(pod("other"))
        core.event_handlers.reservations.remove(entry.reservation)
    assert (core.used(), core.reserved()) == (0, 0)
    for _ in range(2):
        core.event_handlers.nodes.remove(node("node-a"))
    assert len(core.decider.columns) == 0


def test_an_update_of_a_pod_in_flight_keeps_it_there() -> None:
    core = Core(node("node-a"))
    core.add(pod())
    assumed = core.place()
    core.add(pod(version=2))

    assert core.step() is None
    assert core.used() == 1000
    core.decider.binding_failed(assumed, NOW)
    core.clock.advance(1)
    assert core.place().pod.meta.version == 2


def test_a_late_event_of_a_bound_pod_does_not_queue_it_again() -> None:
    core = Core(node("node-a"))
    core.add(pod())
    core.decider.bound(core.place(), NOW)
    core.add(pod(version=2))

    assert core.step() is None
    assert core.used() == 1000


def test_a_late_version_of_a_reservation_does_not_restore_an_old_spec() -> None:
    core = Core(node("node-a"))
    core.reservation(resources={"cpu": "1"}, version=5, generation=2)
    core.step()
    core.reservation(resources={"cpu": "3"}, version=4, generation=1)
    core.step()

    assert core.reserved() == 1000


def test_a_reservation_that_is_being_deleted_counts_as_gone() -> None:
    core = Core(node("node-a"))
    entry = core.reservation()
    core.step()
    core.event_handlers.reservations.upsert(entry.reservation, reservation(version=2, deleted=True))

    assert (core.reserved(), len(core.ledger.entries)) == (0, 0)


def test_a_node_that_is_recreated_loses_its_reservations() -> None:
    core = Core(node("node-a"))
    named, anywhere = core.reservation("named", nodeName="node-a"), core.reservation("anywhere")
    core.step()
    core.event_handlers.nodes.remove(node("node-a"))
    core.event_handlers.nodes.upsert(None, node("node-a", uid="another"))
    assert (named.phase, anywhere.phase) == (Phase.LOST, Phase.PENDING)
    core.step()

    assert (anywhere.phase, anywhere.node_uid, core.reserved()) == (Phase.ACTIVE, "another", 1000)


def test_a_node_that_is_replaced_during_a_relist_loses_its_reservations() -> None:
    """After a relist the old node has no delete event: the watch reports the new one as its update."""
    core = Core(node("node-a"))
    named = core.reservation(nodeName="node-a")
    core.step()
    core.event_handlers.nodes.upsert(node("node-a"), node("node-a", uid="another"))

    assert (named.phase, core.reserved()) == (Phase.LOST, 0)


def test_pods_are_counted_on_a_node_that_comes_after_them() -> None:
    core = Core()
    core.add(pod(node_name="node-a"))
    core.event_handlers.nodes.upsert(None, node("node-a"))

    assert core.used() == 1000


def test_a_pod_that_takes_reserved_capacity_violates_the_reservation() -> None:
    core = Core(node("node-a", cpu="1"))
    entry = core.reservation(owner="nobody")
    core.step()
    core.add(pod("intruder", node_name="node-a"))

    assert (entry.phase, entry.reason, core.reserved()) == (Phase.ACTIVE, "Violated", 0)
    assert entry.violation == taken_text("pod shop/intruder", "cpu 1", "node-a")


def test_a_violated_reservation_gets_its_capacity_back_before_any_pod() -> None:
    core = Core(node("node-a", cpu="2"))
    entry = core.reservation(owner="nobody", resources={"cpu": "2"})
    core.step()
    intruder = pod("intruder", node_name="node-a")
    core.add(intruder)
    core.step()
    core.add(pod("web-1"))
    core.event_handlers.pods.remove(intruder)

    assert core.refuse().waiting.pod.meta.name == "web-1"
    assert (entry.violation, core.reserved()) == ("", 2000)


def test_a_reservation_that_moves_on_a_violation_leaves_the_node_of_the_intruder() -> None:
    core = Core(node("node-a", cpu="1"), node("node-b", cpu="1"))
    entry = core.reservation(owner="nobody", onViolation="Move")
    core.step()
    first = entry.node
    core.add(pod("intruder", node_name=first))
    assert (entry.phase, entry.reason) == (Phase.PENDING, "Violated")
    core.step()
    assert (entry.phase, entry.violation) == (Phase.ACTIVE, "")
    assert {first, entry.node} == {"node-a", "node-b"}


def test_a_pod_that_took_capacity_while_no_operator_ran_is_named() -> None:
    core = Core(node("node-a", cpu="1"), listed=False)
    held = {
        "observedGeneration": 1,
        "phase": "Active",
        "nodeName": "node-a",
        "nodeUID": "uid-node-a",
        "resources": {"cpu": "1"},
        "activatedAt": format_instant(NOW - 100),
        "expiresAt": format_instant(NOW + 100),
    }
    entry = core.reservation(owner="nobody", status=held)
    late = pod_json("intruder", node_name="node-a")
    late["metadata"]["creationTimestamp"] = format_instant(NOW - 50)
    core.add(decode_pod(encode(late)))
    core.list_all()
    assert entry.violation == taken_text("pod shop/intruder", "cpu 1", "node-a")


def test_every_event_wakes_the_loop() -> None:
    core = Core()
    events: list[Callable[[], None]] = [
        lambda: core.event_handlers.nodes.upsert(None, node("node-a")),
        lambda: core.event_handlers.nodes.remove(node("node-a")),
        lambda: core.add(pod()),
        lambda: core.event_handlers.pods.remove(pod()),
        lambda: core.event_handlers.reservations.upsert(None, reservation()),
        lambda: core.event_handlers.reservations.remove(reservation()),
    ]
    assert events
    for count, event in enumerate(events, start=2):
        event()
        assert core.wakes == count
