"""Borrowable reservations: pods that declare themselves evictable use the capacity until an owner comes."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from builders import NOW, Json, budget, node, pod
from tidelock.framework.rejections import shortage_text
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.messages import taken_text
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.pods import BORROWS, REQUIRE_RESERVATION, Pod, assigned_to
from tidelock.model.quantities import CPU
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.plugins.reservation.plugin import insufficient_beside
from tidelock.scheduler.core.preemption import PreemptionAttempt
from unit.scheduler.machinery import Core

ONE, TWO = {"cpu": "1"}, {"cpu": "2"}


@pytest.fixture
def core() -> Core:
    """Build a node of 4 CPU with a borrowable reservation of 2 CPU and a pod that uses the rest."""
    core = Core(node("node-a", cpu="4"))
    core.add(pod("other", requests=TWO, node_name="node-a"))
    assert reservation(core).node == "node-a"
    return core


def reservation(core: Core, name: str = "lock", **fields: Any) -> ReservationInfo:
    """Create a borrowable reservation, and decide on it."""
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
    """Remove the victims, and let the backoff of waiting pods end."""
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


def test_a_borrower_uses_reserved_capacity_and_an_ordinary_pod_does_not(core: Core) -> None:
    core.add(pod("stranger", requests=ONE))
    assert insufficient_beside(CPU) in core.refuse().diagnosis.message
    core.run(borrower())
    assert (core.used(), core.reserved()) == (4000, 0)
    assert status_of(core)["phase"] == "Active"


def test_status_and_events_show_the_lent_amount_and_the_number_of_borrowers(core: Core) -> None:
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


def test_the_capacity_of_a_borrower_returns_to_the_reservation_in_the_step_in_which_it_goes(
    core: Core,
) -> None:
    bound = core.run(borrower())
    core.add(pod("stranger", requests=ONE))
    core.refuse()
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 2000)
    core.wake()
    core.refuse()


def test_free_capacity_beside_a_lent_reservation_stays_free_for_others() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core)
    core.run(borrower())
    assert (core.used(), core.reserved()) == (2000, 0)
    assert reservation(core, "second", borrowable=None).phase is Phase.ACTIVE


def test_a_borrower_larger_than_the_lent_capacity_takes_the_rest_from_free_capacity() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core)
    core.run(borrower(requests={"cpu": "3"}))
    assert (core.used(), core.reserved(), status_of(core)["lent"]) == (3000, 0, {"cpu": "2"})
    core.add(borrower("batch-1"))
    assert shortage_text("cpu", "2", "1") in core.refuse().diagnosis.message


def test_a_borrower_does_not_use_a_reservation_that_is_not_borrowable() -> None:
    core = Core(node("node-a", cpu="2"))
    reservation(core, borrowable=None)
    core.add(borrower())
    assert "2 reserved by shop/lock" in core.refuse().diagnosis.message


def test_an_owner_evicts_the_borrower_waits_for_its_end_and_consumes_the_reservation(core: Core) -> None:
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


def test_an_owner_that_is_retried_in_the_meantime_evicts_no_other_pod(core: Core) -> None:
    core.run(borrower())
    core.add(pod("web-0", requests=TWO))
    core.refuse()
    assert victims(core) == ["batch-0"]
    core.clock.advance(10)
    core.queue.activate("uid-web-0", core.clock.now())
    core.refuse()
    assert victims(core) == []
    assert core.cache.nominator.node_of("uid-web-0") == "node-a"


def test_the_owner_of_an_ended_reservation_no_longer_waits_for_its_capacity(core: Core) -> None:
    """Regression: its nomination kept other pods away.

    For a pod that may not preempt it was never removed.
    """
    core.run(borrower())
    core.add(pod("web-0", requests=TWO, preemptionPolicy="Never"))
    core.refuse()
    core.clock.advance(600)
    core.step()
    core.queue.activate("uid-web-0", core.clock.now())
    core.refuse()
    assert core.cache.nominator.node_of("uid-web-0") == ""
    assert (core.used(), core.reserved()) == (4000, 0)


def test_an_owner_that_fits_on_another_node_evicts_no_pod(core: Core) -> None:
    core.run(borrower())
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    core.add(pod("web-0", requests=TWO))
    assert core.place().node_name == "node-b"
    assert core.take_preemptions() == []


def test_an_owner_that_requires_its_reservation_evicts_its_borrowers(core: Core) -> None:
    core.run(borrower())
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    core.add(pod("web-0", requests=TWO, annotations={"tidelock.dev/require-reservation": "true"}))
    core.refuse()
    assert victims(core) == ["batch-0"]


@pytest.mark.parametrize(
    ("asked", "gone"),
    [("500m", []), ("1", ["low"]), ("1500m", ["high", "low"]), ("2", ["guarded", "high", "low"])],
)
def test_the_fewest_and_least_important_borrowers_are_evicted_and_those_with_a_budget_last(
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


def test_an_owner_larger_than_its_reservation_evicts_no_pod_in_vain(core: Core) -> None:
    core.run(borrower())
    core.add(pod("web-0", requests={"cpu": "3"}))
    core.refuse()
    assert victims(core) == []
    assert core.cache.get("uid-batch-0") is not None


def test_a_borrower_moves_to_another_reservation_instead_of_being_evicted() -> None:
    core = Core(node("node-a", cpu="4"))
    for name, owner in (("a", "web-0"), ("b", "web-1")):
        reservation(core, name, owner=owner)
    core.run(borrower())
    assert (status_of(core, "a").get("borrowers"), status_of(core, "b").get("borrowers")) == (1, None)
    core.add(pod("web-0", requests=TWO))
    assert core.place().node_name == "node-a"
    assert (core.used(), core.reserved()) == (4000, 0)
    assert status_of(core, "b")["lent"] == {"cpu": "2"}


def test_two_owners_on_one_node_do_not_wait_for_each_other() -> None:
    """Regression: each counted twice, with its pod and its reservation, and kept the other away."""
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
def test_borrowers_stay_when_the_reservation_ends(core: Core, end: str) -> None:
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


def test_a_failed_binding_of_the_owner_restores_the_reservation_beside_its_borrowers() -> None:
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
def test_a_borrower_is_as_safe_from_preemption_as_its_reservation(
    core: Core, priority: int, evicted: bool
) -> None:
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


def test_a_borrower_preempts_another_borrower_and_leaves_the_reservation_unchanged(core: Core) -> None:
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


def test_a_pod_that_stops_borrowing_violates_the_reservation(core: Core) -> None:
    bound = core.run(borrower())
    core.event_handlers.pods.upsert(bound, pod("batch-0", requests=TWO, node_name="node-a", version=2))
    entry = core.ledger.entries[Key("shop", "lock")]
    assert entry.violation == taken_text("pod shop/batch-0", "cpu 2", "node-a")
    assert (core.used(), core.reserved()) == (4000, 0)


def test_an_ordinary_pod_in_lent_capacity_is_a_violation_although_nothing_is_held(core: Core) -> None:
    """Otherwise the reservation would be Active for capacity that its owner could not get."""
    core.run(borrower())
    core.add(pod("stranger", requests=ONE, node_name="node-a"))
    entry = core.ledger.entries[Key("shop", "lock")]
    assert entry.violation == taken_text("pod shop/stranger", "cpu 1", "node-a")
    assert entry.reserved["cpu"] == 1000


def test_a_node_that_shrinks_displaces_as_few_reservations_as_possible() -> None:
    core = Core(node("node-a", cpu="8"))
    core.add(pod("other", requests={"cpu": "4"}, node_name="node-a"))
    for name in ("a", "b"):
        reservation(core, name)
    core.run(borrower(requests={"cpu": "4"}))
    core.event_handlers.nodes.upsert(None, node("node-a", cpu="6"))
    phases = [core.ledger.entries[Key("shop", name)].phase for name in ("a", "b")]
    assert phases == [Phase.ACTIVE, Phase.PENDING]


@pytest.mark.parametrize("pods_first", [True, False])
def test_another_process_restores_the_same_state(core: Core, pods_first: bool) -> None:
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


def test_an_owner_is_retried_when_a_reservation_beside_its_lent_capacity_goes() -> None:
    """Regression: the owner waited for minutes.

    Only pods were in its way, so the end of a reservation did not count as help.
    """
    core = Core(node("node-a", cpu="5"))
    core.add(pod("other", requests=ONE, node_name="node-a"))
    reservation(core)
    reservation(core, "beside", owner="nobody", borrowable=False)
    core.run(borrower())
    core.add(pod("web-0", requests={"cpu": "3"}))
    assert f"1 {insufficient(CPU)}." in core.refuse().diagnosis.message
    assert victims(core) == []

    core.event_handlers.reservations.remove(core.ledger.entries[Key("shop", "beside")].reservation)
    core.clock.advance(10)
    core.step()
    core.step()
    assert victims(core) == ["batch-0"]


def ending(core: Core, bound: Pod, at: float) -> None:
    """Delete a borrower with a grace period until this instant."""
    metadata = replace(bound.metadata, deletion_timestamp=datetime.fromtimestamp(at, UTC))
    core.event_handlers.pods.upsert(bound, replace(bound, metadata=metadata))


def test_a_reservation_with_ending_borrowers_is_not_ready_until_they_are_gone(core: Core) -> None:
    """Regression: it had Ready=True while a borrower with a long grace period, or a finalizer, was in it."""
    bound = core.run(borrower())
    ending(core, bound, NOW + 3600)
    (told,) = [each for each in status_of(core)["conditions"] if each["type"] == "Ready"]
    assert (told["status"], told["reason"]) == ("False", reasons.BORROWERS_ENDING)
    assert told["message"] == (
        "cpu 2 on node-a is still occupied by pods that are ending: shop/batch-0, whose grace period ends at"
        " 2027-01-15T09:00:00Z"
    )
    ending(core, bound, NOW + 30)  # the grace period was shortened
    assert "ends at 2027-01-15T08:00:30Z" in str(status_of(core)["conditions"])
    core.event_handlers.pods.remove(bound)
    assert ("Ready", "True") in {(each["type"], each["status"]) for each in status_of(core)["conditions"]}


def test_a_terminating_borrower_with_a_long_grace_period_is_evicted_nevertheless(core: Core) -> None:
    """Regression: owners waited for a borrower that had been deleted with a grace period of hours."""
    ending(core, core.run(borrower()), NOW + 3600)
    core.add(pod(requests=TWO))
    core.refuse()
    assert victims(core) == ["batch-0"]


def test_only_pods_of_the_namespaces_that_the_lender_names_borrow() -> None:
    core = Core(node("node-a", cpu="4"))
    core.add(pod("other", requests=TWO, node_name="node-a"))
    reservation(core, borrowerNamespaces=["batch", "builds"])
    core.add(borrower())
    assert insufficient_beside(CPU) in core.refuse().diagnosis.message
    core.run(borrower("batch-1", namespace="batch"))
    assert status_of(core)["borrowers"] == 1


def test_an_owner_evicts_no_borrower_of_another_reservation() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core, "a", borrowerNamespaces=["batch"])
    reservation(core, "b", owner="web-1", borrowerNamespaces=["builds"])
    core.run(borrower("builds-0", namespace="builds", priority=-9))
    core.run(borrower("batch-0", namespace="batch"))
    core.add(pod(requests=TWO))
    core.refuse()
    assert victims(core) == ["batch-0"]


def test_a_gated_owner_is_woken_by_a_reservation_that_is_fully_lent_from_the_start() -> None:
    """Regression: it waited until the reservation expired.

    Only free capacity was announced, and there was none.
    """
    core = Core(node("node-a", cpu="4"))
    core.run(borrower())
    late = {"owner": "web-9", "pendingDeadlineSeconds": 600}
    assert reservation(core, "late", resources={"cpu": "3"}, **late).phase is Phase.PENDING
    core.add(pod("web-9", requests=TWO, annotations={REQUIRE_RESERVATION: "true"}))
    assert core.step() is None
    entry = core.reservation("late", borrowable=True, resources=TWO, ttlSeconds=600, generation=2, **late)
    assert core.place().pod.meta.name == "web-9"
    assert entry.phase is Phase.BOUND


def test_a_new_owner_is_woken_by_a_reservation_that_is_fully_lent() -> None:
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
