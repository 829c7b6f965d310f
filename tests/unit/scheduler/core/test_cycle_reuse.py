"""Locks with `reuse: Always`: an owner comes, goes, and its replacement finds the room."""

from typing import Any

import pytest

from builders import NOW, Json, node, pod
from tidelock.ledger import reasons
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.audit import record
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.pods import assigned_to
from tidelock.model.quotas import decode_reservation_quota
from tidelock.scheduler.core import reservation_cycle, reservation_scheduler
from tidelock.scheduler.core.cycle import AssumedPod
from unit.scheduler.machinery import Core

TWO = {"cpu": "2"}


@pytest.fixture
def core() -> Core:
    """Two nodes of 4 cpu; there is a lock of 2 on the first, and somebody else has the rest."""
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="4", cordoned=True))
    core.add(pod("other", requests=TWO, node_name="node-a"))
    assert reservation(core).node == "node-a"
    return core


def reservation(core: Core, name: str = "lock", **fields: Any) -> ReservationInfo:
    """Have a lock for reuse be decided."""
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


def test_the_lock_stays_active_with_its_owner_in_it_and_its_room_counts_once(core: Core) -> None:
    assert occupied(core) == ("False", reasons.VACANT, "no owner uses it")
    core.run(pod("web-0", requests=TWO))

    entry = entry_of(core)
    assert (entry.phase, entry.reserved["cpu"], core.reserved(), core.used()) == (Phase.ACTIVE, 2000, 0, 4000)
    assert occupied(core) == ("True", reasons.OCCUPIED, "pod shop/web-0 uses it")
    status = render_reservation(entry, core.clock.now())
    assert (status["boundPod"]["name"], status["resources"], status["used"]) == ("web-0", TWO, TWO)


def test_a_lock_is_given_beside_an_owner_only_once_that_is_bound() -> None:
    """It was given room that was another lock's again when the binding failed."""
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


def test_the_room_is_the_locks_again_in_the_step_in_which_the_owner_goes(core: Core) -> None:
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


def test_the_life_of_a_lock_is_told(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    core.clock.advance(60)
    core.event_handlers.pods.remove(bound)
    core.step()

    events = [change.event for change in core.effects.transitions]
    assert events == [Event.ADMIT, Event.OCCUPY, Event.VACATE]
    assert occupied(core)[0] == "False"
    assert render_reservation(entry_of(core), core.clock.now())["occupiedSeconds"] == 60
    assert "boundPod" not in render_reservation(entry_of(core), core.clock.now())


def test_a_binding_that_fails_gives_the_room_back(core: Core) -> None:
    core.add(pod("web-0", requests=TWO))
    assumed = core.place()
    assert (core.used(), core.reserved()) == (4000, 0)
    assert occupied(core)[0] == "False"  # it is not there yet
    core.decider.binding_failed(assumed, core.clock.now())
    assert (core.used(), core.reserved()) == (2000, 2000)


def test_expiry_ends_the_lock_and_leaves_its_owner_running(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    core.clock.advance(600)
    core.step()

    entry = entry_of(core)
    assert (entry.phase, core.used(), entry.occupied_seconds) == (Phase.EXPIRED, 4000, 600)
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 0)


def test_a_lease_that_is_not_renewed_ends_the_lock_and_leaves_its_owner_running() -> None:
    core = Core(node("node-a", cpu="2"))
    entry = reservation(core, lease={"durationSeconds": 20, "graceSeconds": 10}, retention="Retain")
    core.run(pod("web-0", requests=TWO))
    core.clock.advance(20)
    core.step()
    assert (entry.phase, occupied(core)[0]) == (Phase.ACTIVE, "True")
    core.clock.advance(10)
    core.step()
    assert (entry.phase, entry.reason, core.used()) == (Phase.EXPIRED, reasons.LEASE_EXPIRED, 2000)


def test_a_lock_that_is_deleted_leaves_its_owner_running(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    assert (core.used(), core.reserved()) == (4000, 0)
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 0)


def test_a_replacement_that_comes_after_the_end_is_an_ordinary_pod(core: Core) -> None:
    core.event_handlers.pods.remove(core.run(pod("web-0", requests=TWO)))
    core.clock.advance(600)
    core.step()
    core.add(pod("stranger", requests=TWO))
    assert core.place().pod.meta.name == "stranger"
    core.add(pod("web-0", requests=TWO, uid="late"))
    assert core.refuse().waiting.pod.uid == "late"


def test_of_two_candidates_one_is_in_and_the_other_comes_after_it() -> None:
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


def test_its_record_tells_how_long_it_was_used_and_idle(core: Core) -> None:
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


def test_an_owner_elsewhere_leaves_the_lock_as_it_is(core: Core) -> None:
    core.add(pod("web-0", requests=TWO, node_name="node-b"))
    core.answer()
    core.step()
    assert (entry_of(core).phase, core.reserved(), occupied(core)[0]) == (Phase.ACTIVE, 2000, "False")


def test_a_smaller_owner_leaves_the_rest_to_the_next(core: Core) -> None:
    core.run(pod("web-0", requests={"cpu": "500m"}))
    assert core.reserved() == 1500


def test_a_second_owner_shares_what_is_left() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core, resources={"cpu": "4"}, owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    for name in ("web-0", "web-1"):
        core.run(pod(name, requests=TWO, labels={"app": "web"}))
    assert (core.used(), core.reserved()) == (4000, 0)
    assert occupied(core)[2] == "pod shop/web-0 uses it, and 1 more"

    core.add(pod("web-2", requests=TWO, labels={"app": "web"}))
    assert "Insufficient cpu" in core.refuse().diagnosis.message


def test_a_replacement_that_requires_its_lock_waits_until_the_other_has_gone(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    annotations = {"tidelock.dev/require-reservation": "true"}
    leaving = pod("web-0", requests=TWO, node_name="node-a", deleted=True)
    core.event_handlers.pods.upsert(bound, leaving)
    core.add(pod("web-0", requests=TWO, uid="another", annotations=annotations))
    assert core.step() is None
    assert (core.used(), core.reserved()) == (4000, 0)
    core.event_handlers.pods.remove(leaving)
    assert core.place().node_name == "node-a"


def test_who_requires_a_lock_waits_while_others_use_what_it_needs_of_it() -> None:
    """It was bound beside the lock, as that had something left that the pod did not ask for."""
    core = Core(node("node-a", cpu="4", **{"example.com/gpu": "1"}))
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    reservation(core, resources=TWO | {"example.com/gpu": "1"}, owners=owners)
    bound = core.run(pod("web-0", requests=TWO, labels={"app": "web"}))
    annotations = {"tidelock.dev/require-reservation": "true"}
    core.add(pod("web-1", requests=TWO, labels={"app": "web"}, annotations=annotations))
    assert core.step() is None
    core.event_handlers.pods.remove(bound)
    assert core.place().node_name == "node-a"


def test_a_lock_for_an_owner_that_runs_already_needs_no_more_room() -> None:
    core = Core(node("node-a", cpu="2"), node("node-b", cpu="4"))
    core.add(pod("web-0", requests=TWO, node_name="node-a"))
    entry = reservation(core)
    assert (entry.phase, entry.node, core.reserved("node-a")) == (Phase.ACTIVE, "node-a", 0)
    core.step()
    assert occupied(core)[0] == "True"


def test_reservations_that_are_compared_with_many_pods_are_placed_in_several_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """16 with 64 expressions beside 10,000 pods, owners of each, took 9.5 s in one step."""
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


def test_a_lock_grows_around_its_owner() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core)
    core.run(pod("web-0", requests=TWO))
    reservation(core, resources={"cpu": "3"}, generation=2, version=2)
    assert (entry_of(core).reserved["cpu"], core.reserved()) == (3000, 1000)
    reservation(core, resources={"cpu": "5"}, generation=3, version=3)
    assert (entry_of(core).reserved["cpu"], core.reserved()) == (3000, 1000)


def test_a_lock_waits_no_longer_than_until_another_leaves_its_owners_use_to_it(core: Core) -> None:
    """The owner was in another lock of its own, which held nothing beside it, and which was then deleted.

    A second one on the same node needed as much room again until then, and none afterwards. But no amount had
    come free, so nobody tried it again, and it was rejected at its deadline.
    """
    core.run(pod("web-0", requests=TWO))
    second = reservation(core, "second", nodeName="node-a", pendingDeadlineSeconds=600)
    assert second.phase is Phase.PENDING
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    core.step()
    assert (second.phase, core.used(), core.reserved()) == (Phase.ACTIVE, 4000, 0)


def test_a_lock_that_asks_for_less_than_its_owner_uses_holds_nothing_beside_it(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    reservation(core, resources={"cpu": "1"}, generation=2, version=2)
    assert (entry_of(core).reserved["cpu"], core.used(), core.reserved()) == (1000, 4000, 0)
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 1000)


@pytest.mark.parametrize(("pinned", "phase"), [({"nodeName": "node-a"}, Phase.LOST), ({}, Phase.ACTIVE)])
def test_a_lock_whose_node_goes_with_its_owner(pinned: Json, phase: Phase) -> None:
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


def test_a_lock_leaves_a_cordoned_node_and_its_owner_stays() -> None:
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


def test_a_quote_tells_until_when_the_room_is_kept_between_two_owners(core: Core) -> None:
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
def test_a_next_process_finds_the_same(core: Core, pods_first: bool) -> None:
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


def test_a_stranger_in_the_room_that_an_owner_has_left_is_a_violation(core: Core) -> None:
    bound = core.run(pod("web-0", requests={"cpu": "1"}))
    core.add(pod("stranger", requests={"cpu": "1"}, node_name="node-a"))
    entry = entry_of(core)
    assert "shop/stranger took cpu 1" in entry.violation
    assert (entry.phase, core.reserved(), core.used()) == (Phase.ACTIVE, 0, 4000)
    core.event_handlers.pods.remove(bound)
    assert (core.reserved(), core.used()) == (1000, 3000)


@pytest.mark.parametrize("end", ["is gone", "fails", "was never bound"])
def test_a_stranger_that_came_while_the_owner_was_in_is_found_when_it_goes(core: Core, end: str) -> None:
    """The lock was Active for room that its node did not have; or the owner itself was named."""
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


def test_a_lock_that_moves_when_violated_leaves_its_owner() -> None:
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
def test_an_owner_in_its_lock_is_as_safe_as_the_lock(priority: int, evicted: bool) -> None:
    core = Core(node("node-a", cpu="2"))
    entry = reservation(core, priority=priority)
    core.run(pod("web-0", requests=TWO))
    core.add(pod("urgent", requests=TWO, priority=3))
    core.refuse()
    (attempt,) = core.take_preemptions()
    assert [victim.meta.name for victim in attempt.victims] == (["web-0"] if evicted else [])
    assert entry.phase is (Phase.PENDING if evicted else Phase.ACTIVE)


def test_quotas_count_the_room_once() -> None:
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


def test_a_lock_that_is_not_for_reuse_ends_as_ever(core: Core) -> None:
    core.reservation("single", resources={"cpu": "1"}, owner="web-1", nodeName="node-b")
    owner = pod("web-0", requests=TWO)
    core.reservation("elsewhere", resources={"cpu": "1"})
    core.add(owner)
    outcome = core.place()
    assert isinstance(outcome, AssumedPod)
    core.decider.bound(outcome, NOW)
    assert entry_of(core, "elsewhere").phase is Phase.CONSUMED
    assert entry_of(core).phase is Phase.ACTIVE


def test_a_lock_fits_around_its_owner_when_another_lock_that_counted_that_owner_ends(core: Core) -> None:
    """The other lock held nothing, as its owner used all of it: so its end freed nothing that was seen."""
    core.run(pod("web-0", requests=TWO))
    second = reservation(core, "second")
    assert second.phase is Phase.PENDING
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    core.step()
    assert (second.phase, second.node, core.reserved()) == (Phase.ACTIVE, "node-a", 0)


def test_a_lock_fits_around_its_owner_when_another_lock_leaves_more_of_that_owner_to_it(core: Core) -> None:
    """As above, but the other lock is made smaller."""
    core.run(pod("web-0", requests=TWO))
    second = reservation(core, "second", resources={"cpu": "1"})
    assert second.phase is Phase.PENDING
    reservation(core, resources={"cpu": "1"}, generation=2, version=9)
    assert (second.phase, second.node, core.reserved()) == (Phase.ACTIVE, "node-a", 0)


def test_a_lock_fits_around_a_pod_that_becomes_its_owner(core: Core) -> None:
    """A label that was put on a pod frees nothing, so the lock was not tried."""
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


def test_a_lock_that_gets_other_owners_pays_for_their_room_itself() -> None:
    """A lock that counted on the room of its owner was edited before anybody was told that it is active.

    What the former owner used counted twice then, and another lock, of a lower priority, lost its room.
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


def test_a_lock_whose_owner_is_its_owner_no_more_loses_the_room_and_no_other_lock() -> None:
    """A pod that lost the label by which it was in a lock took its room with it, and another lock, of a lower
    priority, was violated.
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
