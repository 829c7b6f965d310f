"""Members of a group are activated together, as many as it needs, and end together."""

import pytest

from builders import NOW, encode, node, pod
from tidelock.framework.profile import Profile
from tidelock.framework.rejections import shortage_text
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.queue.waiting import REFUSAL_RENEWAL
from tidelock.ledger.sets.groups import Group
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.reservation import decode_reservation
from tidelock.plugins.node_name import NodeName
from tidelock.scheduler.core.gang import too_few_text
from unit.scheduler.gang import (
    ACTIVE,
    CONSUMED,
    EXPIRED,
    LOST,
    PENDING,
    REJECTED,
    Gang,
    cluster,
    worker,
)
from unit.scheduler.machinery import Core


def test_no_member_is_tried_before_all_members_exist() -> None:
    gang = Gang(cluster("4"), 3).come(2, pendingDeadlineSeconds=0)
    gang.settle()
    assert [gang[number].phase for number in (0, 1)] == [PENDING, PENDING]
    gang.member(2, pendingDeadlineSeconds=0)
    gang.settle()
    assert gang.phases == [ACTIVE] * 3


def test_a_member_of_a_group_that_became_incomplete_counts_as_untried_at_its_deadline() -> None:
    gang = Gang(cluster("1"), 2).come(pendingDeadlineSeconds=60)
    gang.settle()
    assert deadlines.next_due(gang[1]) is not None
    gang.drop(0)
    gang.settle()
    gang.core.clock.advance(60)
    gang.settle()
    assert gang[1].phase is PENDING

    gang.member(0, pendingDeadlineSeconds=60)
    gang.settle()
    assert gang[1].phase is REJECTED


def test_if_one_member_does_not_fit_none_is_placed_and_all_messages_have_the_numbers() -> None:
    core = cluster("1", "1")
    gang = Gang(core, 3).come()
    gang.settle()
    assert gang.phases == [PENDING] * 3
    assert core.reserved("node-a") == core.reserved("node-b") == 0
    for number in range(3):
        assert gang[number].reason == reasons.INSUFFICIENT_CAPACITY
        assert f"{too_few_text(3, 2)}; train-2" in gang[number].message
        assert shortage_text("cpu", "1", "0") in gang[number].message
    assert core.decider.next_due() != 0, "a search frees no capacity"


def test_two_groups_never_hold_half_of_the_capacity_each() -> None:
    core = cluster("2", "2")
    one, two = Gang(core, 3, name="one").come(), Gang(core, 3, name="two").come()
    one.settle()
    assert (one.phases, two.phases) == ([ACTIVE] * 3, [PENDING] * 3)
    for number in range(3):
        one.drop(number)
    two.settle()
    assert two.phases == [ACTIVE] * 3


def test_a_group_is_tried_once_and_not_once_for_each_member(monkeypatch: pytest.MonkeyPatch) -> None:
    core = cluster("2")
    asked: list[str] = []
    find = core.decider.reservation_scheduler._gangs.place

    def noting(profile: Profile, group: Group, now: float) -> None:
        asked.append("asked")
        find(profile, group, now)

    monkeypatch.setattr(core.decider.reservation_scheduler._gangs, "place", noting)
    Gang(core, 3).come().settle()
    assert len(asked) == 1


def test_members_report_active_once_all_are_stored() -> None:
    gang = Gang(cluster("4"), 3).come()
    gang.settle()
    assert gang.reported_phases == ["Pending"] * 3
    gang.store(0, 1)
    gang.settle()
    assert gang.reported_phases == ["Pending"] * 3
    assert gang.objects["train-0"]["status"]["nodeName"] == "node-a"
    gang.store(2)
    gang.settle()
    assert gang.reported_phases == ["Active"] * 3


@pytest.mark.parametrize(("stored", "held"), [((0, 1), False), ((0, 1, 2), True)])
def test_a_successor_activates_a_fully_stored_group_and_places_any_other_again(
    stored: tuple[int, ...], held: bool
) -> None:
    gang = Gang(cluster("3"), 3).come()
    gang.settle()
    gang.store(*stored)
    successor = Core(node("node-a", cpu="3" if held else "2"), listed=False)
    gang = gang.succeed(successor)
    successor.list_all()
    gang.settle()
    assert gang.phases == [ACTIVE if held else PENDING] * 3
    assert gang.reported_phases == ["Active" if held else "Pending"] * 3
    assert successor.reserved() == (3000 if held else 0)


def test_all_members_end_together_including_those_that_are_placed_later() -> None:
    core = cluster("2")
    gang = Gang(core, 3, least=2).come(ttlSeconds=60, pendingDeadlineSeconds=600)
    gang.give()
    assert sorted(gang.phases) == [ACTIVE, ACTIVE, PENDING]
    core.clock.advance(20)
    core.event_handlers.nodes.upsert(None, node("node-b"))
    gang.settle()
    assert gang.phases == [ACTIVE] * 3
    assert len({gang[number].expires_at for number in range(3)}) == 1
    core.clock.advance(40)
    gang.settle()
    assert gang.phases == [EXPIRED] * 3


def test_a_member_that_arrives_after_the_end_of_its_group_never_holds_capacity() -> None:
    gang = Gang(cluster("4"), 2, 1).come(1, ttlSeconds=30)
    gang.settle()
    gang.core.clock.advance(31)
    gang.member(1, ttlSeconds=30)
    gang.core.step()

    assert gang.phases == [EXPIRED, EXPIRED]
    assert gang.core.reserved() == 0


def test_a_member_beyond_the_minimum_that_never_fits_ends_with_the_others() -> None:
    core = cluster("2")
    gang = Gang(core, 3, least=2).come(ttlSeconds=60, pendingDeadlineSeconds=600)
    gang.give()
    core.clock.advance(60)
    gang.settle()
    assert gang.phases == [EXPIRED] * 3


def test_if_one_member_loses_its_capacity_all_wait_again_and_keep_their_end() -> None:
    core = cluster("1", "1")
    gang = Gang(core).come(pendingDeadlineSeconds=600)
    gang.give()
    ends = gang[0].expires_at
    core.event_handlers.nodes.remove(core.decider.columns.nodes[core.decider.columns.row_of[gang[0].node]])
    gang.settle()
    assert gang.phases == [PENDING] * 2
    assert gang.reported_phases == ["Pending"] * 2
    core.clock.advance(10)
    core.event_handlers.nodes.upsert(None, node("node-d"))
    gang.settle()
    assert gang.phases == [ACTIVE] * 2
    assert gang.reported_phases == ["Pending"] * 2, "their nodes are not stored yet"
    assert {gang[0].expires_at, gang[1].expires_at} == {ends}


def test_if_one_member_is_lost_for_good_the_others_are_rejected() -> None:
    core = cluster("1", "1")
    gang = Gang(core)
    gang.member(0, nodeName="node-a")
    gang.member(1)
    gang.give()
    core.event_handlers.nodes.remove(core.decider.columns.nodes[core.decider.columns.row_of["node-a"]])
    gang.settle()
    assert gang.phases == [LOST, REJECTED]
    assert gang[1].reason == reasons.GROUP_FAILED


def test_a_group_that_needs_fewer_members_keeps_the_remaining_ones() -> None:
    core = cluster("1", "1")
    gang = Gang(core, 2, least=1).come()
    gang.give()
    core.event_handlers.nodes.remove(core.decider.columns.nodes[core.decider.columns.row_of[gang[0].node]])
    gang.settle()
    assert gang.phases == [PENDING, ACTIVE]
    assert gang.reported_phases == ["Pending", "Active"]


def test_a_violated_member_makes_its_group_wait_again() -> None:
    core = cluster("2")
    gang = Gang(core).come()
    gang.give()
    core.add(pod("stranger", node_name="node-a"))
    gang.settle()
    assert gang.phases == [PENDING] * 2
    assert core.reserved() == 0


def test_the_rest_of_a_group_waits_until_a_deleted_member_is_replaced() -> None:
    gang = Gang(cluster("2")).come()
    gang.give()
    gang.drop(0)
    gang.settle()
    assert gang[1].phase is PENDING
    gang.member(0, uid="another")
    gang.settle()
    assert gang.phases == [ACTIVE] * 2


def test_a_deadline_that_has_passed_for_one_member_has_passed_for_all() -> None:
    core = cluster("1")
    gang = Gang(core).come(pendingDeadlineSeconds=5)
    gang.settle()
    core.clock.advance(5)
    gang.settle()
    assert gang.phases == [REJECTED] * 2
    assert not core.ledger.groups.unsettled


def test_a_group_that_is_first_seen_after_its_deadline_holds_nothing() -> None:
    """Regression: it became active whenever the operator started, although its manager had moved on."""
    core = cluster("4")
    core.clock.advance(58)
    gang = Gang(core).come(pendingDeadlineSeconds=5)
    gang.settle()
    assert gang.phases == [REJECTED] * 2
    assert core.reserved() == 0


@pytest.mark.parametrize(("later", "phase"), [(5, ACTIVE), (58, REJECTED)])
def test_a_group_that_was_stored_before_a_crash_is_activated_only_until_its_deadline(
    later: float, phase: Phase
) -> None:
    """Regression: the next process activated all members, however long no process had run."""
    gang = Gang(cluster("4")).come(pendingDeadlineSeconds=5)
    gang.settle()
    gang.store()
    assert gang.reported_phases == ["Pending"] * 2
    core = cluster("4")
    core.clock.advance(later)
    successor = gang.succeed(core)
    successor.settle()
    assert successor.reported_phases == [phase] * 2
    assert core.reserved() == (2000 if phase is ACTIVE else 0)


def test_a_group_with_one_member_stored_as_active_is_activated_by_any_successor() -> None:
    gang = Gang(cluster("4")).come(pendingDeadlineSeconds=5)
    gang.settle()
    gang.store()
    gang.settle()
    gang.store(0)
    core = cluster("4")
    core.clock.advance(58)
    successor = gang.succeed(core)
    successor.settle()
    assert successor.reported_phases == [ACTIVE] * 2


def test_a_group_that_lacks_members_is_rejected_at_its_deadline() -> None:
    """Regression: the existing members waited for the others for ever."""
    core = cluster("4")
    gang = Gang(core, 3).come(2, pendingDeadlineSeconds=5)
    gang.settle()
    core.clock.advance(6)
    gang.settle()
    assert [gang[number].phase for number in range(2)] == [REJECTED] * 2


def test_a_member_beyond_the_size_of_its_group_is_rejected() -> None:
    gang = Gang(cluster("9"), 2, 1).come()
    late = gang.member(2)
    gang.give()
    assert (late.phase, late.reason) == (REJECTED, reasons.INVALID_SPEC)
    assert late.message == "spec.group.members: group train has all of its 2 members already"
    assert gang.phases == [ACTIVE] * 2
    gang.drop(2)
    gang.drop(0)
    gang.member(3)
    gang.settle()
    assert [gang[number].phase for number in (1, 3)] == [ACTIVE] * 2


def test_a_surplus_member_stays_rejected_after_an_edit_and_a_restart() -> None:
    """Regression: after an edit it waited with the group.

    If it was listed first after a restart, another member was rejected.
    """
    gang = Gang(cluster("9")).come()
    gang.give()
    late = gang.member(2)
    text = late.message
    gang.store(2)
    gang.member(2, ttlSeconds=7000, generation=2, version=9)
    gang.settle()
    assert (gang[2].phase, gang[2].reason, gang[2].message) == (REJECTED, reasons.INVALID_SPEC, text)
    assert gang.phases == [ACTIVE] * 2

    gang.store(2)
    successor = Core(node("node-a", cpu="9"))
    for number in (2, 0, 1):
        stored = decode_reservation(encode(gang.objects[f"train-{number}"]))
        successor.event_handlers.reservations.upsert(None, stored)
    after = Gang(successor)
    after.settle()
    assert after.phases == [ACTIVE] * 2
    assert (after[2].phase, after[2].message) == (REJECTED, text)


def test_a_member_with_another_definition_of_its_group_is_rejected() -> None:
    gang = Gang(cluster("9"), 3).come(2)
    gang.membership = gang.membership | {"members": 256}
    other = gang.member(2)
    gang.settle()
    assert (other.phase, other.reason) == (REJECTED, reasons.INVALID_SPEC)
    assert "spec.group: members, minMembers and topology differ" in other.message
    assert [gang[number].phase for number in (0, 1)] == [PENDING] * 2


def test_with_a_deadline_of_zero_a_group_that_does_not_fit_is_rejected_at_once() -> None:
    gang = Gang(cluster("1")).come(pendingDeadlineSeconds=0)
    gang.settle()
    assert gang.phases == [REJECTED] * 2


def test_the_fault_of_a_plugin_is_reported_by_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    core = cluster("4")
    monkeypatch.setattr(NodeName, "filter", lambda *_: 1 / 0)
    gang = Gang(core).come(nodeName="node-a")
    gang.settle()
    assert gang.phases == [PENDING] * 2
    assert {gang[number].reason for number in (0, 1)} == {reasons.PLUGIN_FAILED}
    assert core.reserved() == 0


def test_a_member_that_waits_for_others_leaves_the_queue() -> None:
    """Regression: a reservation kept the second position of two after the member before it had left.

    That member left when another one was deleted, which a pod had consumed.
    """
    core = Core(node("node-a", cpu="2"))
    gang = Gang(core).come(pendingDeadlineSeconds=600)
    gang.give()
    taker = core.run(worker())
    core.event_handlers.nodes.upsert(node("node-a", cpu="2"), node("node-a", cpu="0"))
    core.event_handlers.pods.remove(taker)
    alone = core.reservation("alone", owner="nobody", created=NOW + 1, pendingDeadlineSeconds=600)
    gang.settle()
    core.clock.advance(REFUSAL_RENEWAL)
    gang.settle()
    assert (alone.queue_position, core.ledger.waiting_reservations.positions_changed) == ((2, 2, None), False)
    core.clock.advance(REFUSAL_RENEWAL)
    gang.drop(next(number for number in (0, 1) if gang[number].phase is CONSUMED))
    gang.settle()
    assert alone.queue_position == (1, 1, None)


def test_a_member_that_does_not_fit_beside_others_is_tried_before_them() -> None:
    gang = Gang(cluster("3", "3"))
    gang.member(0, resources={"cpu": "2"})
    gang.member(1, resources={"cpu": "2"}, nodeName="node-a")
    gang.settle()
    assert [(gang[number].phase, gang[number].node) for number in (0, 1)] == [
        (ACTIVE, "node-b"),
        (ACTIVE, "node-a"),
    ]


def test_several_members_are_tried_first_one_more_in_each_step() -> None:
    gang = Gang(cluster("3", "3", "3"), 3)
    gang.member(0, resources={"cpu": "2"})
    gang.member(1, resources={"cpu": "2"}, nodeName="node-a")
    gang.member(2, resources={"cpu": "2"}, nodeName="node-b")
    gang.settle()
    assert [gang[number].node for number in range(3)] == ["node-c", "node-a", "node-b"]


def test_a_group_that_fits_in_no_order_is_refused_after_a_few_trials() -> None:
    core = cluster("3", "3")
    gang = Gang(core, 3)
    for number, name in enumerate(("node-a", "node-a", "node-b")):
        gang.member(number, resources={"cpu": "2"}, nodeName=name)
    gang.settle()
    assert gang.phases == [PENDING] * 3
    assert {gang[number].reason for number in range(3)} == {reasons.INSUFFICIENT_CAPACITY}
    assert core.decider.next_due() != 0
