"""A reservation for which the program fails costs no other object anything."""

from typing import Any

import pytest

from builders import node, pod
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.scheduler.core.outcomes import Unschedulable
from unit.scheduler.failing import BAD, Fed, planted

# The functions that are called during a change, by the part of the ledger and its method.
PARTS = (
    *("ownership.update", "ownership.remove", "groups.update", "groups.remove", "schedules.update"),
    *("schedules.remove", "quotas.update", "quotas.remove", "waiting_reservations.update"),
    *("waiting_reservations.renew", "holdings.update", "holdings.sharing.update", "holdings._set_held"),
    *("_alternatives.update", "nominations.update", "records.due.update", "records.commit"),
    *("records.note", "records.step", "records.end", "placement._place", "placement.displace"),
    *("_edits.apply", "_choices.decide"),
)


@pytest.mark.parametrize("times", [1, 3, 10**6])
@pytest.mark.parametrize("path", PARTS)
def test_a_fault_in_a_part_of_the_ledger_for_one_reservation_affects_no_other(path: str, times: int) -> None:
    core = Fed(node("node-a", cpu="8"), node("node-b", cpu="8"))
    core.deliver("a", owner="a")
    with planted(core.ledger, path, times=times):
        core.deliver("bad", owner="b")
        core.deliver("c", owner="c")
        core.steps()
        core.deliver("bad", owner="b", resources={"cpu": "2"}, generation=2, version=2)
        core.deliver("c", owner="c", resources={"cpu": "2"}, generation=2, version=2)
        core.steps()
        core.clock.advance(400)
        core.steps()
        assert core.phases()["a"] is core.phases()["c"] is Phase.ACTIVE
        core.clock.advance(300)
        core.steps()
        assert core.phases()["a"] is core.phases()["c"] is Phase.EXPIRED
    core.clock.advance(1000)
    core.deliver("bad", owner="b", resources={"cpu": "2"}, ttlSeconds=9999, generation=3, version=3)
    core.steps()
    core.deliver("d", owner="d", created=core.clock.now())
    core.steps()
    assert core.phases()["d"] is Phase.ACTIVE


def test_a_rebuilt_reservation_holds_the_amounts_of_its_status() -> None:
    core = Fed(node("node-a", cpu="2"))
    core.deliver("bad")
    core.steps()
    core.store("bad")
    with planted(core.ledger, "ownership.update", times=1) as failed:
        core.deliver("bad", version=9, status=core.ledger.entries[BAD].reservation.status)
    assert failed
    core.steps()
    assert core.phases() == {"bad": Phase.ACTIVE}
    assert core.reserved() == 1000
    core.add(pod("stranger", requests={"cpu": "2"}))
    assert isinstance(core.step(), Unschedulable)


def test_a_rebuilt_reservation_takes_no_capacity_that_others_were_granted() -> None:
    core = Fed(node("node-a", cpu="1"))
    core.deliver("bad", owner="b")
    core.steps()
    core.store("bad")
    stored = core.ledger.entries[BAD].reservation
    core.ledger.placement.preempt(core.ledger.entries[BAD], "a pod", core.clock.now())
    core.ledger.recovery.checkpoint()
    core.deliver("other", owner="o", priority=-5)
    core.ledger.waiting_reservations.leave_out(core.ledger.entries[BAD])
    core.steps()
    core.store("other")
    assert core.phases()["other"] is Phase.ACTIVE

    with planted(core.ledger, "ownership.update", times=1):
        core.deliver("bad", owner="b", version=9, status=stored.status)
    core.steps()
    assert core.phases() == {"other": Phase.ACTIVE, "bad": Phase.PENDING}
    assert core.reserved() == 1000


def test_a_reservation_whose_removal_fails_midway_holds_nothing() -> None:
    core = Fed(node("node-a", cpu="2"))
    core.deliver("bad")
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
        core.deliver("bad")
        core.steps()
    entry = core.ledger.entries.get(BAD)
    assert entry is None or (entry.phase is Phase.PENDING and entry.reason == "InternalError")
    assert "event shop/bad: planted in quotas.update" in core.isolation.faults


def test_a_reservation_reports_a_failing_due_change(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Fed(node("node-a", cpu="2"))
    core.deliver("bad", ttlSeconds=60)
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
        core.deliver(name, owner=name, pendingDeadlineSeconds=3600)
    core.steps()
    assert core.phases() == {"a": Phase.ACTIVE, "bad": Phase.PENDING, "c": Phase.ACTIVE}
    assert core.ledger.entries[BAD].reason == "PluginFailed"
    for _ in range(60):
        core.deliver("d", owner="d")
        core.steps(2)
        core.clock.advance(0.1)
    assert 2 <= len(tries) <= 4
    monkeypatch.undo()
    core.clock.advance(60)
    core.steps()
    assert core.phases()["bad"] is Phase.ACTIVE
