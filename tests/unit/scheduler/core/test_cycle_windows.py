"""Reservations with `startAt`: planned beside pods that are gone by then, and held from then on."""

from typing import Any

import pytest

from builders import NOW, node, pod
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.messages import holding_text, overcommitted_text
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.quantities import CPU
from tidelock.plugins.reservation.plugin import insufficient_beside
from unit.scheduler.machinery import Core

HOUR = 3600


@pytest.fixture
def core() -> Core:
    """Build a node of 4 CPU."""
    return Core(node("node-a", cpu="4"))


def plan(
    core: Core, name: str = "lock", begins: float = HOUR, cpu: str = "3", **fields: Any
) -> ReservationInfo:
    """Create a reservation that begins so many seconds from now, and decide on it."""
    spec = {
        "startAt": format_instant(core.clock.now() + begins),
        "resources": {"cpu": cpu},
        "ttlSeconds": 600,
    }
    entry = core.reservation(name, created=core.clock.now(), **spec | fields)
    core.step()
    return entry


def run(core: Core, name: str = "web-0", **fields: Any) -> None:
    """Place a pod and deliver it as bound."""
    core.run(pod(name, **fields), pod(name, bound_at=core.clock.now(), **fields))


def test_a_planned_reservation_has_its_node_and_its_window_in_the_status(core: Core) -> None:
    entry = plan(core)

    status = render_reservation(entry, core.clock.now())
    conditions = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    assert (status["phase"], status["nodeName"]) == ("Planned", "node-a")
    assert status["expiresAt"] == format_instant(NOW + HOUR + 600)
    assert "activatedAt" not in status
    assert conditions == {"Active": ("False", "Planned")}  # no client has to wait until it is ready
    assert entry.message == (
        f"{holding_text('cpu 3', 'node-a')} from 2027-01-15T09:00:00Z until 2027-01-15T09:10:00Z"
    )


def test_a_planned_reservation_is_active_from_its_start_on(core: Core) -> None:
    entry = plan(core)
    assert core.decider.next_due() == NOW + HOUR
    core.clock.advance(HOUR)
    core.step()

    assert (entry.phase, entry.activated_at, entry.expires_at) == (
        Phase.ACTIVE,
        NOW + HOUR,
        NOW + HOUR + 600,
    )


def test_a_pod_without_a_deadline_does_not_get_planned_capacity(core: Core) -> None:
    plan(core)
    core.add(pod("other", requests={"cpu": "2"}))

    assert f"1 {insufficient_beside(CPU)}" in core.refuse().diagnosis.message


@pytest.mark.parametrize(
    "bound",
    [{"activeDeadlineSeconds": 1800}, {"annotations": {"tidelock.dev/run-seconds": "1800"}}],
    ids=["deadline", "annotation"],
)
def test_a_pod_that_is_gone_by_the_start_uses_planned_capacity(core: Core, bound: Any) -> None:
    entry = plan(core)
    run(core, "other", requests={"cpu": "4"}, **bound)

    assert (entry.phase, core.used()) == (Phase.PLANNED, 4000)


@pytest.mark.parametrize("seconds", [3600 - 90 + 1, 7200])
def test_a_pod_that_may_be_late_does_not_get_planned_capacity(core: Core, seconds: int) -> None:
    """Check that a minute for the start and half a minute of grace count."""
    plan(core)
    core.add(pod("other", requests={"cpu": "4"}, activeDeadlineSeconds=seconds))

    core.refuse()


def test_pods_that_are_gone_by_the_start_do_not_count_against_a_window(core: Core) -> None:
    run(core, "other", requests={"cpu": "4"}, activeDeadlineSeconds=1800)

    assert plan(core, begins=HOUR).phase is Phase.PLANNED
    late = plan(core, "late", begins=600)
    assert (late.phase, late.reason) == (Phase.PENDING, reasons.INSUFFICIENT_CAPACITY)


def test_windows_share_capacity_if_the_pods_of_the_earlier_one_are_gone_by_the_later_one(core: Core) -> None:
    first = plan(core, "first", begins=HOUR, runSeconds=600)
    then = plan(core, "then", begins=2 * HOUR)
    between = plan(core, "between", begins=HOUR + 900)

    assert (first.phase, then.phase, between.phase) == (Phase.PLANNED, Phase.PLANNED, Phase.PENDING)
    assert core.reserved() == 3000


def test_windows_with_pods_that_may_stay_do_not_share_capacity(core: Core) -> None:
    plan(core, "first", begins=HOUR)

    assert plan(core, "then", begins=2 * HOUR).phase is Phase.PENDING


def test_an_active_reservation_precedes_a_window_if_it_and_its_pod_are_gone_by_then(core: Core) -> None:
    plan(core)
    short = core.reservation("short", resources={"cpu": "3"}, ttlSeconds=60, runSeconds=600)
    core.step()
    long = core.reservation("long", resources={"cpu": "3"}, ttlSeconds=60)
    core.step()

    assert (short.phase, long.phase) == (Phase.ACTIVE, Phase.PENDING)


def test_an_owner_that_comes_before_its_window_is_an_ordinary_pod(core: Core) -> None:
    entry = plan(core, cpu="1")
    run(core, requests={"cpu": "1"})
    before = entry.phase
    core.clock.advance(HOUR)
    core.step()
    assert (before, entry.phase) == (Phase.PLANNED, Phase.ACTIVE)


def test_an_owner_that_waits_for_the_window_consumes_the_reservation(core: Core) -> None:
    entry = plan(core)
    core.add(pod(requests={"cpu": "3"}, annotations={"tidelock.dev/require-reservation": "true"}))
    assert core.step() is None
    core.clock.advance(HOUR)
    assumed = core.place()
    core.decider.bound(assumed, core.clock.now())

    assert entry.phase is Phase.CONSUMED


def test_a_window_that_loses_its_capacity_to_a_pod_that_overstays_is_overcommitted(core: Core) -> None:
    entry = plan(core)
    core.store()
    run(core, "other", requests={"cpu": "4"}, activeDeadlineSeconds=1800)
    core.clock.advance(HOUR)
    core.step()

    assert entry.phase is Phase.PENDING
    assert entry.message == overcommitted_text("node-a", "cpu 3")


def test_a_pod_that_is_already_overdue_is_not_expected_to_leave(core: Core) -> None:
    run(core, "other", requests={"cpu": "4"}, activeDeadlineSeconds=60)
    core.clock.advance(HOUR)

    assert plan(core).phase is Phase.PENDING


def test_a_more_important_pod_preempts_a_window_only_if_no_other_one_shares_its_capacity(core: Core) -> None:
    first = plan(core, "first", begins=HOUR, runSeconds=600)
    then = plan(core, "then", begins=2 * HOUR)
    core.add(pod("urgent", requests={"cpu": "3"}, priority=5))
    core.refuse()
    assert (first.phase, then.phase) == (Phase.PLANNED, Phase.PLANNED)

    core.event_handlers.reservations.remove(first.reservation)
    core.wake()
    core.refuse()
    assert then.phase is Phase.PENDING


def test_when_a_node_shrinks_only_windows_at_its_worst_instant_lose_their_capacity(core: Core) -> None:
    first = plan(core, "first", cpu="2", runSeconds=60)
    then = plan(core, "then", cpu="4", begins=2 * HOUR)
    core.event_handlers.nodes.upsert(node("node-a", cpu="4"), node("node-a", cpu="3", version=2))

    assert (first.phase, then.phase) == (Phase.PLANNED, Phase.PENDING)


def test_an_edit_plans_the_window_again(core: Core) -> None:
    entry = plan(core)
    core.reservation(
        startAt=format_instant(NOW + HOUR), resources={"cpu": "4"}, ttlSeconds=60, generation=2, version=2
    )
    core.step()

    assert (entry.phase, entry.reserved["cpu"], lifetime.ends_at(entry)) == (
        Phase.PLANNED,
        4000,
        NOW + HOUR + 60,
    )


def test_a_window_without_capacity_is_rejected_at_its_deadline(core: Core) -> None:
    entry = plan(core, cpu="5", pendingDeadlineSeconds=30)
    core.clock.advance(30)
    core.step()

    assert (entry.phase, entry.reason) == (Phase.REJECTED, reasons.DEADLINE_EXCEEDED)


def test_a_window_that_still_waits_at_its_start_is_tried_like_any_other_reservation(core: Core) -> None:
    entry = plan(core, cpu="4", begins=20)
    entry_of_other = plan(core, "other", cpu="4", begins=20, ttlSeconds=60, owner="db-0")
    assert entry_of_other.phase is Phase.PENDING
    core.event_handlers.reservations.remove(entry.reservation)
    core.clock.advance(20)
    core.step()

    assert (entry_of_other.phase, entry_of_other.activated_at) == (Phase.ACTIVE, NOW + 20)


def test_another_process_restores_the_plan(core: Core) -> None:
    entry = plan(core)
    status = render_reservation(entry, core.clock.now())
    after = Core(node("node-a", cpu="4"))
    again = after.reservation(
        startAt=format_instant(NOW + HOUR), resources={"cpu": "3"}, ttlSeconds=600, status=status
    )
    after.step()

    assert (again.phase, again.held, lifetime.span(again)) == (
        Phase.PLANNED,
        entry.held,
        lifetime.span(entry),
    )
    assert render_reservation(again, NOW) == status


def test_a_reservation_behind_a_grace_period_of_centuries_gets_the_last_instant_as_its_start(
    core: Core,
) -> None:
    """Regression: the status of a reservation that waited for a pod could not be written. The operator ended.

    The end of a pod with activeDeadlineSeconds and the largest grace period is after the year 9999.
    """
    run(
        core,
        "other",
        requests={"cpu": "4"},
        activeDeadlineSeconds=100,
        terminationGracePeriodSeconds=2**63 - 1,
    )
    entry = core.reservation("lock", resources={"cpu": "3"})
    core.step()
    core.clock.advance(1)
    core.step()

    assert (
        render_reservation(entry, core.clock.now())["queue"]["estimatedStart"] == "9999-12-31T23:59:59.999Z"
    )
