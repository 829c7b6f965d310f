"""Other pods, quotas and other processes beside a reservation with an owner in it."""

import pytest

from builders import NOW, node, pod
from tidelock.ledger.messages import taken_text
from tidelock.ledger.output.status import render_reservation
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.pods import assigned_to
from tidelock.model.quotas import decode_reservation_quota
from tidelock.scheduler.core.cycle import AssumedPod
from unit.scheduler.machinery import Core
from unit.scheduler.reuse import TWO, entry_of, reservation


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
    assert entry.violation == taken_text("pod shop/stranger", "cpu 1", "node-a")
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
