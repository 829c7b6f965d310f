"""Borrowable locks: pods that declare themselves evictable use their room until an owner comes."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from builders import NOW, Json, budget, node, pod
from tidelock.ledger import reasons
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.pods import BORROWS, REQUIRE_RESERVATION, Pod, assigned_to
from tidelock.scheduler.core.preemption import PreemptionAttempt
from unit.scheduler.machinery import Core

ONE, TWO = {"cpu": "1"}, {"cpu": "2"}


@pytest.fixture
def core() -> Core:
    """A node of 4 cpu with a borrowable lock of 2; somebody else has the rest."""
    core = Core(node("node-a", cpu="4"))
    core.add(pod("other", requests=TWO, node_name="node-a"))
    assert reservation(core).node == "node-a"
    return core


def reservation(core: Core, name: str = "lock", **fields: Any) -> ReservationInfo:
    """Have a borrowable lock be decided."""
    entry = core.reservation(name, **{"borrowable": True, "resources": TWO, "ttlSeconds": 600} | fields)
    core.step()
    return entry


def borrower(name: str = "batch-0", **fields: Any) -> Pod:
    return pod(name, **{"requests": TWO, "annotations": {BORROWS: "true"}} | fields)


def attempted(core: Core) -> PreemptionAttempt:
    (attempt,) = core.take_preemptions()
    return attempt


def victims(core: Core) -> list[str]:
    return [victim.meta.name for victim in attempted(core).victims]


def leave(core: Core, *names: str) -> None:
    """Have the victims be gone, and the backoff of those who wait be over."""
    for name in names:
        placed = core.cache.get(f"uid-{name}")
        assert placed is not None
        core.event_handlers.pods.remove(placed.pod)
    core.clock.advance(10)


def status_of(core: Core, name: str = "lock") -> Json:
    return render_reservation(core.ledger.entries[Key("shop", name)], core.clock.now())


def lent(core: Core, name: str = "lock") -> tuple[str, str, str]:
    told = {each["type"]: each for each in status_of(core, name)["conditions"]}["Lent"]
    return told["status"], told["reason"], told["message"]


def test_a_borrower_uses_the_room_and_an_ordinary_pod_never_gets_in(core: Core) -> None:
    core.add(pod("stranger", requests=ONE))
    assert "Insufficient cpu beside reservations" in core.refuse().diagnosis.message
    core.run(borrower())
    assert (core.used(), core.reserved()) == (4000, 0)
    assert status_of(core)["phase"] == "Active"


def test_its_status_and_events_tell_what_is_lent_and_by_how_many_pods(core: Core) -> None:
    assert lent(core) == ("False", reasons.NOT_LENT, "no pod borrows from it")
    first = core.run(borrower(requests={"cpu": "500m"}))
    second = core.run(borrower("batch-1", requests=ONE))
    status = status_of(core)
    assert (status["lent"], status["borrowers"], status["resources"]["cpu"]) == ({"cpu": "1500m"}, 2, "2")
    assert lent(core) == ("True", reasons.LENT, "pod shop/batch-0 borrows from it, and 1 more")
    for each in (first, second):
        core.event_handlers.pods.remove(each)
    core.step()
    assert lent(core)[0] == "False"
    assert "lent" not in status_of(core)
    assert [change.event for change in core.effects.transitions] == [
        Event.ADMIT,
        Event.LEND,
        Event.REPAY,
    ]


def test_when_a_borrower_goes_its_room_is_the_locks_in_the_same_step(core: Core) -> None:
    bound = core.run(borrower())
    core.add(pod("stranger", requests=ONE))
    core.refuse()
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 2000)
    core.wake()
    core.refuse()


def test_what_is_free_beside_the_lock_stays_so_for_others_and_for_locks() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core)
    core.run(borrower())
    assert (core.used(), core.reserved()) == (2000, 0)
    assert reservation(core, "second", borrowable=None).phase is Phase.ACTIVE


def test_a_borrower_larger_than_what_is_lent_takes_the_rest_of_what_is_free() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core)
    core.run(borrower(requests={"cpu": "3"}))
    assert (core.used(), core.reserved(), status_of(core)["lent"]) == (3000, 0, {"cpu": "2"})
    core.add(borrower("batch-1"))
    assert "cpu 2 needed, 1 free" in core.refuse().diagnosis.message


def test_a_borrower_gets_nothing_of_a_lock_that_is_not_borrowable() -> None:
    core = Core(node("node-a", cpu="2"))
    reservation(core, borrowable=None)
    core.add(borrower())
    assert "2 reserved by shop/lock" in core.refuse().diagnosis.message


def test_the_owner_has_the_borrower_evicted_waits_for_it_and_consumes_its_lock(core: Core) -> None:
    core.run(borrower(priority=5))
    owner = pod("web-0", requests=TWO, preemptionPolicy="Never")
    core.add(owner)
    core.refuse()
    attempt = attempted(core)
    assert ([each.meta.name for each in attempt.victims], attempt.borrowers) == (["batch-0"], True)
    assert core.cache.nominator.node_of(owner.uid) == "node-a"
    assert core.ledger.entries[Key("shop", "lock")].phase is Phase.ACTIVE

    leave(core, "batch-0")
    assert core.reserved() == 2000
    core.add(borrower("batch-1", priority=9, preemptionPolicy="Never"))
    assert core.refuse().waiting.pod.meta.name == "batch-1"
    assert core.place().pod.meta.name == "web-0"
    assert (core.used(), core.reserved()) == (4000, 0)
    assert core.ledger.entries[Key("shop", "lock")].phase is Phase.BOUND


def test_an_owner_tried_again_meanwhile_evicts_nobody_else(core: Core) -> None:
    core.run(borrower())
    core.add(pod("web-0", requests=TWO))
    core.refuse()
    assert victims(core) == ["batch-0"]
    core.clock.advance(10)
    core.queue.activate("uid-web-0", core.clock.now())
    core.refuse()
    assert victims(core) == []
    assert core.cache.nominator.node_of("uid-web-0") == "node-a"


def test_an_owner_whose_lock_has_ended_waits_no_longer_for_its_room(core: Core) -> None:
    """Its nomination kept others away, and nobody would have taken it from a pod that may not preempt."""
    core.run(borrower())
    core.add(pod("web-0", requests=TWO, preemptionPolicy="Never"))
    core.refuse()
    core.clock.advance(600)
    core.step()
    core.queue.activate("uid-web-0", core.clock.now())
    core.refuse()
    assert core.cache.nominator.node_of("uid-web-0") == ""
    assert (core.used(), core.reserved()) == (4000, 0)


def test_an_owner_that_fits_elsewhere_evicts_nobody(core: Core) -> None:
    core.run(borrower())
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    core.add(pod("web-0", requests=TWO))
    assert core.place().node_name == "node-b"
    assert core.take_preemptions() == []


def test_an_owner_that_requires_its_lock_evicts_whoever_is_in_it(core: Core) -> None:
    core.run(borrower())
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    core.add(pod("web-0", requests=TWO, annotations={"tidelock.dev/require-reservation": "true"}))
    core.refuse()
    assert victims(core) == ["batch-0"]


@pytest.mark.parametrize(
    ("asked", "gone"),
    [("500m", []), ("1", ["low"]), ("1500m", ["high", "low"]), ("2", ["guarded", "high", "low"])],
)
def test_the_fewest_and_least_important_go_and_those_that_a_budget_guards_last(
    asked: str, gone: list[str]
) -> None:
    core = Core(node("node-a", cpu="2"))
    core.decider.objects.pod_disruption_budgets.upsert(None, budget(labels={"app": "guarded"}))
    reservation(core)
    core.run(borrower("low", requests={"cpu": "500m"}))
    core.run(borrower("high", requests={"cpu": "500m"}, priority=5))
    core.run(borrower("guarded", requests={"cpu": "500m"}, labels={"app": "guarded"}))
    core.add(pod("web-0", requests={"cpu": asked}))
    if not gone:
        assert core.place().node_name == "node-a"
        return
    core.refuse()
    assert sorted(victims(core)) == gone


def test_an_owner_larger_than_its_lock_evicts_nobody_in_vain(core: Core) -> None:
    core.run(borrower())
    core.add(pod("web-0", requests={"cpu": "3"}))
    core.refuse()
    assert victims(core) == []
    assert core.cache.get("uid-batch-0") is not None


def test_a_borrower_moves_up_to_another_lock_rather_than_be_evicted() -> None:
    core = Core(node("node-a", cpu="4"))
    for name, owner in (("a", "web-0"), ("b", "web-1")):
        reservation(core, name, owner=owner)
    core.run(borrower())
    assert (status_of(core, "a").get("borrowers"), status_of(core, "b").get("borrowers")) == (1, None)
    core.add(pod("web-0", requests=TWO))
    assert core.place().node_name == "node-a"
    assert (core.used(), core.reserved()) == (4000, 0)
    assert status_of(core, "b")["lent"] == {"cpu": "2"}


def test_two_owners_of_one_node_do_not_wait_for_each_other() -> None:
    """Each was kept away by the other, as it counted twice: with its pod, and with what its lock holds."""
    core = Core(node("node-a", cpu="4"))
    for name, owner in (("a", "web-0"), ("b", "web-1")):
        reservation(core, name, owner=owner)
    for name in ("batch-0", "batch-1"):
        core.run(borrower(name))
    core.add(pod("web-0", requests=TWO), pod("web-1", requests=TWO))
    core.refuse()
    core.refuse()
    gone = [victim.meta.name for each in core.take_preemptions() for victim in each.victims]
    assert sorted(gone) == ["batch-0", "batch-1"]
    leave(core, *gone)
    assert {core.place().pod.meta.name, core.place().pod.meta.name} == {"web-0", "web-1"}


@pytest.mark.parametrize("end", ["expires", "is deleted"])
def test_when_the_lock_ends_borrowers_stay(core: Core, end: str) -> None:
    core.run(borrower())
    if end == "expires":
        core.clock.advance(600)
        core.step()
    else:
        core.event_handlers.reservations.remove(core.ledger.entries[Key("shop", "lock")].reservation)
    assert (core.used(), core.reserved()) == (4000, 0)
    assert core.take_preemptions() == []
    core.event_handlers.pods.remove(assigned_to(borrower(), "node-a"))
    assert (core.used(), core.reserved()) == (2000, 0)


def test_a_binding_of_the_owner_that_fails_gives_the_lock_back_beside_its_borrowers() -> None:
    core = Core(node("node-a", cpu="4"))
    entry = reservation(core, resources={"cpu": "4"})
    core.run(borrower())
    core.add(pod("web-0", requests=TWO))
    assumed = core.place()
    assert entry.phase is Phase.BOUND
    core.decider.binding_failed(assumed, core.clock.now())
    assert (entry.phase, entry.reserved["cpu"], core.reserved(), core.used()) == (
        Phase.ACTIVE,
        4000,
        2000,
        2000,
    )


@pytest.mark.parametrize(("priority", "evicted"), [(0, True), (5, False)])
def test_a_borrower_is_as_safe_from_preemption_as_the_lock(core: Core, priority: int, evicted: bool) -> None:
    core.event_handlers.reservations.remove(core.ledger.entries[Key("shop", "lock")].reservation)
    entry = reservation(core, "ranked", priority=priority)
    core.run(borrower(priority=-1))
    core.event_handlers.pods.upsert(
        None, pod("other", requests=TWO, node_name="node-a", priority=9, version=2)
    )
    core.add(pod("urgent", requests=TWO, priority=3))
    core.refuse()
    assert victims(core) == (["batch-0"] if evicted else [])
    assert entry.phase is (Phase.PENDING if evicted else Phase.ACTIVE)


def test_a_borrower_preempts_another_in_a_lock_and_leaves_the_lock_alone(core: Core) -> None:
    core.run(borrower(priority=-1))
    core.add(borrower("batch-1", priority=1))
    core.event_handlers.pods.upsert(
        None, pod("other", requests=TWO, node_name="node-a", priority=9, version=2)
    )
    core.refuse()
    assert victims(core) == ["batch-0"]
    leave(core, "batch-0")
    assert core.place().pod.meta.name == "batch-1"
    assert core.ledger.entries[Key("shop", "lock")].phase is Phase.ACTIVE


def test_who_borrows_no_more_has_taken_the_room(core: Core) -> None:
    bound = core.run(borrower())
    core.event_handlers.pods.upsert(bound, pod("batch-0", requests=TWO, node_name="node-a", version=2))
    entry = core.ledger.entries[Key("shop", "lock")]
    assert entry.violation == "pod shop/batch-0 took cpu 2 reserved on node-a"
    assert (core.used(), core.reserved()) == (4000, 0)


def test_a_stranger_in_lent_room_is_a_violation_though_nothing_is_held(core: Core) -> None:
    """The lock would have been Active for room that its owner could not get."""
    core.run(borrower())
    core.add(pod("stranger", requests=ONE, node_name="node-a"))
    entry = core.ledger.entries[Key("shop", "lock")]
    assert entry.violation == "pod shop/stranger took cpu 1 reserved on node-a"
    assert entry.reserved["cpu"] == 1000


def test_a_node_that_shrinks_takes_no_more_locks_than_it_must() -> None:
    core = Core(node("node-a", cpu="8"))
    core.add(pod("other", requests={"cpu": "4"}, node_name="node-a"))
    for name in ("a", "b"):
        reservation(core, name)
    core.run(borrower(requests={"cpu": "4"}))
    core.event_handlers.nodes.upsert(None, node("node-a", cpu="6"))
    phases = [core.ledger.entries[Key("shop", name)].phase for name in ("a", "b")]
    assert phases == [Phase.ACTIVE, Phase.PENDING]


@pytest.mark.parametrize("pods_first", [True, False])
def test_a_next_process_finds_the_same(core: Core, pods_first: bool) -> None:
    bound = core.run(borrower())
    other, stored = core.cache.named(Key("shop", "other")), status_of(core)
    assert other is not None
    successor = Core(listed=False)
    pods = (bound, other.pod)
    if pods_first:
        successor.add(*pods)
    successor.event_handlers.nodes.upsert(None, node("node-a", cpu="4"))
    successor.reservation(borrowable=True, resources=TWO, ttlSeconds=600, status=stored)
    if not pods_first:
        successor.add(*pods)
    successor.list_all()
    successor.step()
    assert (successor.used(), successor.reserved()) == (4000, 0)
    assert status_of(successor) == stored
    assert [change.event for change in successor.effects.transitions] == []
    assert core.clock.now() == NOW


def test_an_owner_is_tried_again_when_a_lock_beside_its_lent_room_goes() -> None:
    """It waited for minutes: pods alone were in its way, so no lock that went was taken for help."""
    core = Core(node("node-a", cpu="5"))
    core.add(pod("other", requests=ONE, node_name="node-a"))
    reservation(core)
    reservation(core, "beside", owner="nobody", borrowable=False)
    core.run(borrower())
    core.add(pod("web-0", requests={"cpu": "3"}))
    assert "1 Insufficient cpu." in core.refuse().diagnosis.message
    assert victims(core) == []

    core.event_handlers.reservations.remove(core.ledger.entries[Key("shop", "beside")].reservation)
    core.clock.advance(10)
    core.step()
    core.step()
    assert victims(core) == ["batch-0"]


def ending(core: Core, bound: Pod, at: float) -> None:
    """Have a borrower be asked to end, with a grace period until this instant."""
    metadata = replace(bound.metadata, deletion_timestamp=datetime.fromtimestamp(at, UTC))
    core.event_handlers.pods.upsert(bound, replace(bound, metadata=metadata))


def test_a_lock_whose_borrowers_are_ending_is_not_ready_until_they_are_gone(core: Core) -> None:
    """It said Ready=True while a borrower with a huge grace period, or a finalizer, kept its room."""
    bound = core.run(borrower())
    ending(core, bound, NOW + 3600)
    (told,) = [each for each in status_of(core)["conditions"] if each["type"] == "Ready"]
    assert (told["status"], told["reason"]) == ("False", reasons.BORROWERS_ENDING)
    assert told["message"] == (
        "cpu 2 on node-a is still occupied by pods that are ending: shop/batch-0, whose grace period ends at"
        " 2027-01-15T09:00:00Z"
    )
    ending(core, bound, NOW + 30)  # it was cut
    assert "ends at 2027-01-15T08:00:30Z" in str(status_of(core)["conditions"])
    core.event_handlers.pods.remove(bound)
    assert ("Ready", "True") in {(each["type"], each["status"]) for each in status_of(core)["conditions"]}


def test_a_borrower_that_takes_its_time_to_end_is_evicted_all_the_same(core: Core) -> None:
    """One that had deleted itself with a grace period of hours was waited for."""
    ending(core, core.run(borrower()), NOW + 3600)
    core.add(pod(requests=TWO))
    core.refuse()
    assert victims(core) == ["batch-0"]


def test_only_pods_of_the_namespaces_that_the_lender_names_borrow() -> None:
    core = Core(node("node-a", cpu="4"))
    core.add(pod("other", requests=TWO, node_name="node-a"))
    reservation(core, borrowerNamespaces=["batch", "builds"])
    core.add(borrower())
    assert "Insufficient cpu beside reservations" in core.refuse().diagnosis.message
    core.run(borrower("batch-1", namespace="batch"))
    assert status_of(core)["borrowers"] == 1


def test_an_owner_evicts_no_borrower_of_another_lock() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core, "a", borrowerNamespaces=["batch"])
    reservation(core, "b", owner="web-1", borrowerNamespaces=["builds"])
    core.run(borrower("builds-0", namespace="builds", priority=-9))
    core.run(borrower("batch-0", namespace="batch"))
    core.add(pod(requests=TWO))
    core.refuse()
    assert victims(core) == ["batch-0"]


def test_a_gated_owner_hears_of_its_lock_all_of_whose_room_is_lent_from_the_start() -> None:
    """It waited until the lock expired: what the lock kept free was announced, and that was nothing."""
    core = Core(node("node-a", cpu="4"))
    core.run(borrower())
    late = {"owner": "web-9", "pendingDeadlineSeconds": 600}
    assert reservation(core, "late", resources={"cpu": "3"}, **late).phase is Phase.PENDING
    core.add(pod("web-9", requests=TWO, annotations={REQUIRE_RESERVATION: "true"}))
    assert core.step() is None
    entry = core.reservation("late", borrowable=True, resources=TWO, ttlSeconds=600, generation=2, **late)
    assert core.place().pod.meta.name == "web-9"
    assert entry.phase is Phase.BOUND


def test_a_new_owner_hears_of_a_lock_all_of_whose_room_is_lent() -> None:
    core = Core(node("node-a", cpu="2"))
    reservation(core)
    core.run(borrower())
    core.add(pod("web-9", requests=TWO))
    core.refuse()
    assert victims(core) == []
    core.clock.advance(10)
    core.reservation(borrowable=True, resources=TWO, ttlSeconds=600, owner="web-9", generation=2)
    core.refuse()
    assert victims(core) == ["batch-0"]
