"""Reservations with `reuse: Always`: an owner comes and goes, and its replacement gets the capacity."""

from typing import Any

import pytest

from builders import NOW, Json, node, pod
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.audit import record
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.pods import assigned_to
from tidelock.model.quotas import decode_reservation_quota
from tidelock.scheduler.core import reservation_cycle, reservation_scheduler
from tidelock.scheduler.core.cycle import AssumedPod
from unit.scheduler.machinery import Core

TWO = {"cpu": "2"}


@pytest.fixture
def core() -> Core:
    """Build two nodes of 4 CPU. The first has a reservation of 2 CPU, and a pod that uses the rest."""
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="4", cordoned=True))
    core.add(pod("other", requests=TWO, node_name="node-a"))
    assert reservation(core).node == "node-a"
    return core


def reservation(core: Core, name: str = "lock", **fields: Any) -> ReservationInfo:
    """Create a reusable reservation, and decide on it."""
    entry = core.reservation(name, **{"reuse": "Always", "resources": TWO, "ttlSeconds": 600} | fields)
    core.step()
    return entry


def entry_of(core: Core, name: str = "lock") -> ReservationInfo:
    return core.ledger.entries[Key("shop", name)]


def occupied(core: Core, name: str = "lock") -> tuple[str, str, str]:
    conditions = {
        each["type"]: each
        for each in render_reservation(entry_of(core, name), core.clock.now())["conditions"]
    }
    told = conditions["Occupied"]
    return told["status"], told["reason"], told["message"]


def test_a_reservation_stays_active_with_its_owner_inside_and_its_capacity_counts_once(core: Core) -> None:
    assert occupied(core) == ("False", reasons.VACANT, "no owner uses it")
    core.run(pod("web-0", requests=TWO))

    entry = entry_of(core)
    assert (entry.phase, entry.reserved["cpu"], core.reserved(), core.used()) == (Phase.ACTIVE, 2000, 0, 4000)
    assert occupied(core) == ("True", reasons.OCCUPIED, "pod shop/web-0 uses it")
    status = render_reservation(entry, core.clock.now())
    assert (status["boundPod"]["name"], status["resources"], status["used"]) == ("web-0", TWO, TWO)


def test_a_reservation_is_placed_beside_an_owner_only_once_that_is_bound() -> None:
    """Regression: it was granted capacity that another reservation got back when the binding failed."""
    core = Core(node("node-a", cpu="2500m"))
    core.reservation("first", resources={"cpu": "1750m"})
    core.step()
    core.add(pod("web-0", requests={"cpu": "1500m"}))
    assumed = core.place()
    entry = reservation(core)
    assert entry.phase is Phase.PENDING

    core.decider.bound(assumed, NOW)
    core.step()
    core.add(pod("web-0", requests={"cpu": "1500m"}, node_name="node-a", version=2))
    core.step()

    assert (entry.phase, entry.reserved["cpu"], core.reserved()) == (Phase.ACTIVE, 2000, 500)


@pytest.mark.parametrize("arrives", ["before the owner", "during its binding"])
def test_the_reservations_of_an_owner_have_their_capacity_again_when_its_binding_fails(arrives: str) -> None:
    """Regression: the capacity of one owner counted for the consumed and for the reusable reservation."""
    core = Core(node("node-a", cpu="4"))
    first = core.reservation("first", resources=TWO)
    core.step()
    if arrives == "before the owner":
        reservation(core)
    core.add(pod("web-0", requests=TWO))
    assumed = core.place()
    if arrives == "during its binding":
        reservation(core)
    core.add(pod("thief", requests=TWO))
    assert core.refuse().waiting.pod.key.name == "thief"

    core.decider.binding_failed(assumed, NOW)
    core.step()

    assert (first.phase, first.held["cpu"]) == (Phase.ACTIVE, 2000)
    assert (entry_of(core).phase, entry_of(core).held["cpu"]) == (Phase.ACTIVE, 2000)


def test_a_reservation_gets_its_node_when_the_claim_of_its_owner_has_succeeded() -> None:
    """Until then its owner uses the capacity of another reservation."""
    core = Core(node("node-a", cpu="2"))
    core.reservation("first", resources=TWO)
    core.step()
    entry = reservation(core)
    core.add(pod("web-0", requests=TWO))
    core.place()
    core.step()
    assert entry.phase is Phase.PENDING
    core.add(pod("web-0", requests=TWO, node_name="node-a", version=2))
    core.step()
    assert (entry.phase, entry.node, core.reserved()) == (Phase.ACTIVE, "node-a", 0)


def test_an_owner_uses_its_reusable_reservation_once_its_claim_has_succeeded() -> None:
    core = Core(node("node-a", cpu="4"))
    core.reservation("first", resources=TWO)
    core.step()
    reservation(core)
    core.run(pod("web-0", requests=TWO))
    assert (entry_of(core, "first").phase, core.used(), core.reserved()) == (Phase.CONSUMED, 2000, 0)


def test_the_capacity_returns_to_the_reservation_in_the_step_in_which_the_owner_goes(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    thief = pod("thief", requests=TWO)
    core.add(thief)
    assert core.refuse().waiting.pod.key == thief.key
    core.clock.advance(60)
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 2000)
    core.wake()
    assert "reserved by shop/lock" in core.refuse().diagnosis.message

    replacement = pod("web-0", requests=TWO, uid="another")
    core.add(replacement)
    assert core.place().pod.uid == "another"
    assert (core.used(), core.reserved()) == (4000, 0)


def test_each_change_of_the_occupancy_is_an_event(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    core.clock.advance(60)
    core.event_handlers.pods.remove(bound)
    core.step()

    events = [change.event for change in core.effects.transitions]
    assert events == [Event.ADMIT, Event.OCCUPY, Event.VACATE]
    assert occupied(core)[0] == "False"
    assert render_reservation(entry_of(core), core.clock.now())["occupiedSeconds"] == 60
    assert "boundPod" not in render_reservation(entry_of(core), core.clock.now())


def test_a_failed_binding_returns_the_capacity(core: Core) -> None:
    core.add(pod("web-0", requests=TWO))
    assumed = core.place()
    assert (core.used(), core.reserved()) == (4000, 0)
    assert occupied(core)[0] == "False"  # the owner is only assumed
    core.decider.binding_failed(assumed, core.clock.now())
    assert (core.used(), core.reserved()) == (2000, 2000)


def test_expiry_ends_the_reservation_and_its_owner_keeps_running(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    core.clock.advance(600)
    core.step()

    entry = entry_of(core)
    assert (entry.phase, core.used(), entry.occupied_seconds) == (Phase.EXPIRED, 4000, 600)
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 0)


def test_an_expired_lease_ends_the_reservation_and_its_owner_keeps_running() -> None:
    core = Core(node("node-a", cpu="2"))
    entry = reservation(core, lease={"durationSeconds": 20, "graceSeconds": 10}, retention="Retain")
    core.run(pod("web-0", requests=TWO))
    core.clock.advance(20)
    core.step()
    assert (entry.phase, occupied(core)[0]) == (Phase.ACTIVE, "True")
    core.clock.advance(10)
    core.step()
    assert (entry.phase, entry.reason, core.used()) == (Phase.EXPIRED, reasons.LEASE_EXPIRED, 2000)


def test_the_owner_of_a_deleted_reservation_keeps_running(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    assert (core.used(), core.reserved()) == (4000, 0)
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 0)


def test_a_replacement_after_the_end_of_the_reservation_is_an_ordinary_pod(core: Core) -> None:
    core.event_handlers.pods.remove(core.run(pod("web-0", requests=TWO)))
    core.clock.advance(600)
    core.step()
    core.add(pod("stranger", requests=TWO))
    assert core.place().pod.meta.name == "stranger"
    core.add(pod("web-0", requests=TWO, uid="late"))
    assert core.refuse().waiting.pod.uid == "late"


def test_a_second_owner_that_does_not_fit_beside_the_first_waits_for_its_end() -> None:
    core = Core(node("node-a", cpu="2"))
    reservation(core, owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    first, second = (pod(name, requests=TWO, labels={"app": "web"}) for name in ("web-0", "web-1"))
    bound = core.run(first)
    core.add(second)
    assert core.refuse().waiting.pod.key == second.key
    core.event_handlers.pods.remove(bound)
    core.wake()
    assert core.place().pod.key == second.key
    assert (core.used(), core.reserved()) == (2000, 0)


def test_the_record_of_a_reservation_has_its_occupied_and_idle_seconds(core: Core) -> None:
    core.clock.advance(100)
    bound = core.run(pod("web-0", requests=TWO))
    core.clock.advance(200)
    core.event_handlers.pods.remove(bound)
    core.step()
    core.clock.advance(100)
    core.run(pod("web-0", requests=TWO, uid="another"))
    core.clock.advance(50)
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    life = record(core.effects.ended[0], core.clock.now())
    assert (life.outcome, life.idle, life.occupied, life.used) == ("Deleted", 200.0, 250.0, True)
    assert life.text == "waited 0s, idle 200s, occupied 250s"
    core.telemetry.ended(life)
    assert core.metric("tidelock_reservation_idle_seconds_total", namespace="shop", used="true") == 200
    assert core.metric("tidelock_reservation_occupied_seconds_total", namespace="shop") == 250
    assert core.metric("tidelock_reservations_ended_total", namespace="shop", outcome="Deleted") == 1


def test_an_owner_on_another_node_leaves_the_reservation_unchanged(core: Core) -> None:
    core.add(pod("web-0", requests=TWO, node_name="node-b"))
    core.answer()
    core.step()
    assert (entry_of(core).phase, core.reserved(), occupied(core)[0]) == (Phase.ACTIVE, 2000, "False")


def test_a_smaller_owner_leaves_the_rest_to_the_next_one(core: Core) -> None:
    core.run(pod("web-0", requests={"cpu": "500m"}))
    assert core.reserved() == 1500


def test_a_second_owner_shares_the_rest_of_the_reservation() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core, resources={"cpu": "4"}, owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    for name in ("web-0", "web-1"):
        core.run(pod(name, requests=TWO, labels={"app": "web"}))
    assert (core.used(), core.reserved()) == (4000, 0)
    assert occupied(core)[2] == "pod shop/web-0 uses it, and 1 more"

    core.add(pod("web-2", requests=TWO, labels={"app": "web"}))
    assert "Insufficient cpu" in core.refuse().diagnosis.message


def test_a_replacement_that_requires_its_reservation_waits_until_the_former_owner_is_gone(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    annotations = {"tidelock.dev/require-reservation": "true"}
    leaving = pod("web-0", requests=TWO, node_name="node-a", deleted=True)
    core.event_handlers.pods.upsert(bound, leaving)
    core.add(pod("web-0", requests=TWO, uid="another", annotations=annotations))
    assert core.step() is None
    assert (core.used(), core.reserved()) == (4000, 0)
    core.event_handlers.pods.remove(leaving)
    assert core.place().node_name == "node-a"


def test_a_pod_that_requires_a_reservation_waits_while_others_use_the_amounts_that_it_needs() -> None:
    """Regression: the pod was bound beside the reservation.

    A resource of the reservation was left, but the pod did not request it.
    """
    core = Core(node("node-a", cpu="4", **{"example.com/gpu": "1"}))
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    reservation(core, resources=TWO | {"example.com/gpu": "1"}, owners=owners)
    bound = core.run(pod("web-0", requests=TWO, labels={"app": "web"}))
    annotations = {"tidelock.dev/require-reservation": "true"}
    core.add(pod("web-1", requests=TWO, labels={"app": "web"}, annotations=annotations))
    assert core.step() is None
    core.event_handlers.pods.remove(bound)
    assert core.place().node_name == "node-a"


def test_a_reservation_for_a_running_owner_needs_no_additional_capacity() -> None:
    core = Core(node("node-a", cpu="2"), node("node-b", cpu="4"))
    core.add(pod("web-0", requests=TWO, node_name="node-a"))
    entry = reservation(core)
    assert (entry.phase, entry.node, core.reserved("node-a")) == (Phase.ACTIVE, "node-a", 0)
    core.step()
    assert occupied(core)[0] == "True"


def test_a_running_owner_does_not_count_as_gone_by_the_start_of_a_window() -> None:
    core = Core(node("node-a", cpu="2"))
    core.add(pod("web-0", requests=TWO, node_name="node-a"))
    entry = reservation(core, startAt=format_instant(NOW + 3600))
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.INSUFFICIENT_CAPACITY)


def test_reservations_that_are_compared_with_many_pods_are_placed_over_several_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: 16 reservations with 64 expressions took 9.5 s in one step.

    They were compared with 10,000 pods, which were owners of each.
    """
    monkeypatch.setattr(reservation_scheduler, "COMPARED_A_STEP", 3)
    core = Core(node("node-a", cpu="9"))
    core.add(*(pod(f"other-{number}", node_name="node-a") for number in range(2)))
    selected = [{"selector": {"matchLabels": {"app": "web"}}}]
    for number in range(4):
        core.reservation(f"lock-{number}", reuse="Always", owners=selected)
    placed = []
    while core.ledger.waiting_reservations.waiting:
        core.step()
        placed.append(sum(entry.phase is Phase.ACTIVE for entry in core.ledger.entries.values()))
    assert placed == [2, 4]


def test_of_many_nodes_with_owners_only_the_first_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation_cycle, "_MOST_HOMES", 1)
    core = Core(node("node-a", cpu="2", cordoned=True), node("node-b", cpu="2"), node("node-c", cpu="2"))
    for name in ("a", "b"):
        core.add(pod(f"web-{name}", requests=TWO, node_name=f"node-{name}", labels={"app": "web"}))
    entry = reservation(core, owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    assert entry.node == "node-c"


def test_a_reservation_grows_around_its_owner() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core)
    core.run(pod("web-0", requests=TWO))
    reservation(core, resources={"cpu": "3"}, generation=2, version=2)
    assert (entry_of(core).reserved["cpu"], core.reserved()) == (3000, 1000)
    reservation(core, resources={"cpu": "5"}, generation=3, version=3)
    assert (entry_of(core).reserved["cpu"], core.reserved()) == (3000, 1000)


def test_a_reservation_is_retried_when_another_one_leaves_the_use_of_its_owner_to_it(core: Core) -> None:
    """The owner used another reservation, which held nothing beside it and was then deleted.

    Regression: a second reservation on the same node needed as much capacity again until then, and none
    afterwards. No capacity had come free, so it was not retried, and it was rejected at its deadline.
    """
    core.run(pod("web-0", requests=TWO))
    second = reservation(core, "second", nodeName="node-a", pendingDeadlineSeconds=600)
    assert second.phase is Phase.PENDING
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    core.step()
    assert (second.phase, core.used(), core.reserved()) == (Phase.ACTIVE, 4000, 0)


def test_a_reservation_smaller_than_the_use_of_its_owner_holds_nothing_beside_it(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    reservation(core, resources={"cpu": "1"}, generation=2, version=2)
    assert (entry_of(core).reserved["cpu"], core.used(), core.reserved()) == (1000, 4000, 0)
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 1000)


@pytest.mark.parametrize(("pinned", "phase"), [({"nodeName": "node-a"}, Phase.LOST), ({}, Phase.ACTIVE)])
def test_a_reservation_is_lost_or_placed_again_when_its_node_is_removed_with_its_owner(
    pinned: Json, phase: Phase
) -> None:
    core = Core(node("node-a", cpu="4"))
    entry = reservation(core, **pinned)
    core.run(pod("web-0", requests=TWO))
    gone = core.cache.columns.nodes[0]
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    core.event_handlers.nodes.remove(gone)
    core.step()
    assert (entry.phase, entry.occupants, core.reserved("node-b")) == (phase, {}, 0 if pinned else 2000)
    if not pinned:
        assert occupied(core)[0] == "False"
        core.add(pod("web-0", requests=TWO, uid="another"))
        assert core.place().node_name == "node-b"


def test_a_reservation_leaves_a_cordoned_node_and_its_owner_stays() -> None:
    core = Core(node("node-a", cpu="2"))
    entry = reservation(core)
    core.run(pod("web-0", requests=TWO))
    core.event_handlers.nodes.upsert(None, node("node-a", cpu="2", cordoned=True))
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    core.clock.advance(300)
    core.step()
    assert (entry.node, core.used("node-a"), core.reserved("node-b")) == ("node-b", 2000, 2000)
    core.step()
    assert occupied(core)[0] == "False"


def test_a_reservation_leaves_a_cordoned_node_for_the_node_of_another_owner() -> None:
    core = Core(node("node-a", cpu="2"))
    entry = reservation(core, owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    core.event_handlers.nodes.upsert(None, node("node-a", cpu="2", cordoned=True))
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    core.add(pod("web-0", requests=TWO, node_name="node-b", labels={"app": "web"}))
    core.clock.advance(300)
    core.step()
    assert (entry.node, core.used("node-b"), core.reserved("node-b")) == ("node-b", 2000, 0)


def test_a_quote_knows_until_when_the_capacity_is_kept_between_two_owners(core: Core) -> None:
    reserve_pod = pod("ask", requests=TWO)
    bound = core.run(pod("web-0", requests=TWO))
    taken = core.decider.quote(reserve_pod, core.clock.now())
    assert taken.blockers is not None
    assert ([each.key.name for each in taken.blockers.reservations], taken.fits_at) == ([], None)
    core.event_handlers.pods.remove(bound)
    kept = core.decider.quote(reserve_pod, core.clock.now())
    assert kept.blockers is not None
    (blocker,) = kept.blockers.reservations
    assert (blocker.key.name, blocker.taken, kept.fits_at) == ("lock", {"cpu": 2000}, NOW + 600)


@pytest.mark.parametrize("pods_first", [True, False])
def test_another_process_restores_the_same_state(core: Core, pods_first: bool) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    other, stored = (
        core.cache.named(Key("shop", "other")),
        render_reservation(entry_of(core), core.clock.now()),
    )
    assert other is not None
    successor = Core(listed=False)
    pods = (bound, other.pod)
    if pods_first:
        successor.add(*pods)
    successor.event_handlers.nodes.upsert(None, node("node-a", cpu="4"))
    entry = successor.reservation(reuse="Always", resources=TWO, ttlSeconds=600, status=stored)
    if not pods_first:
        successor.add(*pods)
    successor.list_all()
    successor.step()
    assert (entry.phase, successor.used(), successor.reserved()) == (Phase.ACTIVE, 4000, 0)
    assert render_reservation(entry, core.clock.now()) == stored
    assert [change.event for change in successor.effects.transitions] == []


def test_a_foreign_pod_in_the_unused_part_of_an_occupied_reservation_is_a_violation(core: Core) -> None:
    bound = core.run(pod("web-0", requests={"cpu": "1"}))
    core.add(pod("stranger", requests={"cpu": "1"}, node_name="node-a"))
    entry = entry_of(core)
    assert "shop/stranger took cpu 1" in entry.violation
    assert (entry.phase, core.reserved(), core.used()) == (Phase.ACTIVE, 0, 4000)
    core.event_handlers.pods.remove(bound)
    assert (core.reserved(), core.used()) == (1000, 3000)


@pytest.mark.parametrize("end", ["is gone", "fails", "was never bound"])
def test_a_foreign_pod_that_came_while_the_owner_was_inside_is_found_when_the_owner_goes(
    core: Core, end: str
) -> None:
    """Regression: the reservation was Active without capacity on its node, or its owner was named."""
    owner = pod("web-0", requests=TWO)
    core.add(owner)
    assumed = core.place()
    bound = assigned_to(owner, "node-a")
    if end != "was never bound":
        core.decider.bound(assumed, core.clock.now())
        core.event_handlers.pods.upsert(owner, bound)
    core.add(pod("stranger", requests={"cpu": "1"}, node_name="node-a", created=NOW + 1))
    entry = entry_of(core)
    assert (entry.phase, entry.violation, core.used()) == (Phase.ACTIVE, "", 5000)
    if end == "is gone":
        core.event_handlers.pods.remove(bound)
    elif end == "fails":
        core.event_handlers.pods.upsert(bound, pod("web-0", requests=TWO, node_name="node-a", phase="Failed"))
    else:
        core.decider.binding_failed(assumed, core.clock.now())
    assert entry.violation == "pod shop/stranger took cpu 1 reserved on node-a"
    assert (entry.phase, core.used(), core.reserved()) == (Phase.ACTIVE, 3000, 1000)


def test_a_reservation_that_moves_on_a_violation_leaves_its_owner_behind() -> None:
    core = Core(node("node-a", cpu="2"))
    entry = reservation(core, onViolation="Move")
    core.run(pod("web-0", requests={"cpu": "1"}))
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    core.add(pod("stranger", requests={"cpu": "1"}, node_name="node-a"))
    core.step()
    assert (entry.phase, entry.node, entry.occupants, core.reserved("node-b")) == (
        Phase.ACTIVE,
        "node-b",
        {},
        2000,
    )


@pytest.mark.parametrize(("priority", "evicted"), [(0, True), (5, False)])
def test_an_owner_in_its_reservation_is_as_safe_from_preemption_as_the_reservation(
    priority: int, evicted: bool
) -> None:
    core = Core(node("node-a", cpu="2"))
    entry = reservation(core, priority=priority)
    core.run(pod("web-0", requests=TWO))
    core.add(pod("urgent", requests=TWO, priority=3))
    core.refuse()
    (attempt,) = core.take_preemptions()
    assert [victim.meta.name for victim in attempt.victims] == (["web-0"] if evicted else [])
    assert entry.phase is (Phase.PENDING if evicted else Phase.ACTIVE)


def test_quotas_count_the_capacity_once() -> None:
    core = Core(node("node-a", cpu="8"))
    core.decider.objects.reservation_quotas.upsert(
        None,
        decode_reservation_quota(
            b'{"metadata": {"name": "quota", "namespace": "shop"},'
            b' "spec": {"hard": {"cpu": "2"}, "countAgainstResourceQuota": true}}'
        ),
    )
    reservation(core)
    used = core.ledger.quotas.used("shop")
    assert (used.reserved["cpu"], used.unused["cpu"], used.seconds["cpu"]) == (2000, 2000, 1_200_000)
    core.run(pod("web-0", requests=TWO))
    used = core.ledger.quotas.used("shop")
    assert (used.reserved["cpu"], used.unused.get("cpu"), used.seconds["cpu"]) == (2000, None, 1_200_000)
    assert reservation(core, "second", resources={"cpu": "1"}).reason == reasons.QUOTA_EXCEEDED


def test_a_reservation_that_is_not_reusable_is_consumed_as_usual(core: Core) -> None:
    core.reservation("single", resources={"cpu": "1"}, owner="web-1", nodeName="node-b")
    owner = pod("web-0", requests=TWO)
    core.reservation("elsewhere", resources={"cpu": "1"})
    core.add(owner)
    outcome = core.place()
    assert isinstance(outcome, AssumedPod)
    core.decider.bound(outcome, NOW)
    assert entry_of(core, "elsewhere").phase is Phase.CONSUMED
    assert entry_of(core).phase is Phase.ACTIVE


def test_a_reservation_fits_around_its_owner_when_another_one_that_counted_the_owner_ends(core: Core) -> None:
    """Regression: the owner used all of the other reservation, so the end of that freed no capacity."""
    core.run(pod("web-0", requests=TWO))
    second = reservation(core, "second")
    assert second.phase is Phase.PENDING
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    core.step()
    assert (second.phase, second.node, core.reserved()) == (Phase.ACTIVE, "node-a", 0)


def test_a_reservation_fits_around_its_owner_when_another_one_leaves_it_more_of_that_owner(
    core: Core,
) -> None:
    """As above, but the other reservation is made smaller."""
    core.run(pod("web-0", requests=TWO))
    second = reservation(core, "second", resources={"cpu": "1"})
    assert second.phase is Phase.PENDING
    reservation(core, resources={"cpu": "1"}, generation=2, version=9)
    assert (second.phase, second.node, core.reserved()) == (Phase.ACTIVE, "node-a", 0)


def test_a_reservation_fits_around_a_pod_that_becomes_its_owner(core: Core) -> None:
    """Regression: a new label of a pod frees nothing, so the reservation was not tried again."""
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    stranger = pod("stranger", requests=TWO, node_name="node-a")
    core.add(stranger)
    entry = reservation(core, "second", owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    assert entry.phase is Phase.PENDING
    core.event_handlers.pods.upsert(
        stranger, pod("stranger", requests=TWO, node_name="node-a", labels={"app": "web"}, version=9)
    )
    core.step()
    assert (entry.phase, entry.node, core.reserved()) == (Phase.ACTIVE, "node-a", 0)


def test_a_reservation_that_gets_other_owners_needs_capacity_of_its_own() -> None:
    """Regression: a reservation that counted the use of its owner was edited before it was stored as active.

    The use of the former owner then counted twice, and another reservation of lower priority lost its
    capacity.
    """
    core = Core(node("node-a", cpu="4"))
    core.add(pod("web-0", requests=TWO, node_name="node-a"))
    entry = reservation(core, "edited", owners=[{"pod": {"name": "web-0"}}], priority=1)
    other = core.reservation("other", resources=TWO, owners=[{"pod": {"name": "db-0"}}])
    core.step()
    assert (entry.phase, other.phase, core.reserved()) == (Phase.ACTIVE, Phase.ACTIVE, 2000)

    core.reservation(
        "edited",
        reuse="Always",
        resources=TWO,
        owners=[{"pod": {"name": "web-1"}}],
        priority=1,
        generation=2,
        version=2,
    )
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.WAITING)
    assert (other.phase, core.reserved()) == (Phase.ACTIVE, 2000)


def test_a_pod_that_stops_being_an_owner_takes_capacity_from_its_own_reservation_only() -> None:
    """Regression: a pod lost the label by which it was inside a reservation.

    It took the capacity along, and another reservation of lower priority was violated.
    """
    core = Core(node("node-a", cpu="4"))
    entry = reservation(core, owners=[{"selector": {"matchLabels": {"app": "web"}}}], priority=1)
    inside = pod("web-0", requests=TWO, labels={"app": "web"}, node_name="node-a")
    core.add(inside)
    other = core.reservation("other", resources=TWO, owners=[{"pod": {"name": "db-0"}}])
    core.step()
    assert (entry.phase, other.phase, core.reserved()) == (Phase.ACTIVE, Phase.ACTIVE, 2000)

    core.event_handlers.pods.upsert(inside, pod("web-0", requests=TWO, node_name="node-a", version=9))
    assert (entry.reason, other.reason) == (reasons.VIOLATED, reasons.ADMITTED)
    assert (other.phase, core.reserved()) == (Phase.ACTIVE, 2000)
