"""Members of a group are activated together, as many as it needs, and each pod takes one."""

import pytest

from builders import NAMESPACE, NOW, Json, encode, node, pod
from tidelock.framework.own_reservations import ClaimedReservations
from tidelock.framework.profile import Profile
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.queue.waiting import REFUSAL_RENEWAL
from tidelock.ledger.sets.groups import Group
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import BORROWS, CLAIMED_RESERVATIONS, Pod, assigned_to
from tidelock.model.quotas import decode_reservation_quota
from tidelock.model.reservation import decode_reservation
from tidelock.plugins.inter_pod_affinity import InterPodAffinity
from tidelock.plugins.node_name import NodeName
from tidelock.scheduler.core import gang as gang_module
from unit.scheduler.gang import Gang, worker
from unit.scheduler.machinery import Core

PENDING, ACTIVE, BOUND = Phase.PENDING, Phase.ACTIVE, Phase.BOUND
CONSUMED, EXPIRED, LOST, REJECTED = Phase.CONSUMED, Phase.EXPIRED, Phase.LOST, Phase.REJECTED


def cluster(*cpus: str) -> Core:
    return Core(*(node(f"node-{name}", cpu=cpu) for name, cpu in zip("abcd", cpus, strict=False)))


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
        assert "needs capacity for 3 reservations at once, and 2 fit; train-2" in gang[number].message
        assert "cpu 1 needed, 0 free" in gang[number].message
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
    assert gang.told == ["Pending"] * 3
    gang.store(0, 1)
    gang.settle()
    assert gang.told == ["Pending"] * 3
    assert gang.objects["train-0"]["status"]["nodeName"] == "node-a"
    gang.store(2)
    gang.settle()
    assert gang.told == ["Active"] * 3


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
    assert gang.told == ["Active" if held else "Pending"] * 3
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
    assert gang.told == ["Pending"] * 2
    core.clock.advance(10)
    core.event_handlers.nodes.upsert(None, node("node-d"))
    gang.settle()
    assert gang.phases == [ACTIVE] * 2
    assert gang.told == ["Pending"] * 2, "their nodes are not stored yet"
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
    assert gang.told == ["Pending", "Active"]


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
    assert gang.told == ["Pending"] * 2
    core = cluster("4")
    core.clock.advance(later)
    successor = gang.succeed(core)
    successor.settle()
    assert successor.told == [phase] * 2
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
    assert successor.told == [ACTIVE] * 2


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


# Quotas.


def limit(core: Core, cpu: str, version: int = 1) -> None:
    metadata = {"name": "team", "namespace": NAMESPACE, "uid": "uid-team", "resourceVersion": str(version)}
    quota = decode_reservation_quota(encode({"metadata": metadata, "spec": {"hard": {"cpu": cpu}}}))
    core.decider.objects.reservation_quotas.upsert(None, quota)


def test_a_quota_counts_all_members_and_they_wait_for_it_together() -> None:
    core = cluster("4")
    limit(core, "2")
    gang = Gang(core, 3).come()
    gang.settle()
    assert gang.phases == [PENDING] * 3
    assert {gang[number].reason for number in range(3)} == {reasons.QUOTA_EXCEEDED}
    assert "used: cpu=2,limited: cpu=2".replace(",", ", ") in gang[0].message
    alone = core.reservation("alone", owner="nobody")
    gang.settle()
    assert alone.phase is ACTIVE, "the larger group does not block it"
    limit(core, "4", version=2)
    gang.settle()
    assert gang.phases == [ACTIVE] * 3


def test_a_member_over_quota_beyond_the_minimum_is_placed_when_the_quota_allows_it() -> None:
    core = cluster("4")
    limit(core, "2")
    gang = Gang(core, 3, least=2).come()
    gang.settle()
    assert gang.phases == [ACTIVE, ACTIVE, PENDING]
    assert gang[2].reason == reasons.QUOTA_EXCEEDED
    limit(core, "4", version=2)
    gang.settle()
    assert gang.phases == [ACTIVE] * 3


def test_a_wait_for_capacity_and_a_wait_for_quota_do_not_wake_each_other_for_ever() -> None:
    """Regression: both were tried in turn without end, as the group still counted as over quota."""
    core = cluster("2")
    limit(core, "2")
    gang = Gang(core, 3, least=2).come()
    gang.settle()
    limit(core, "3", version=2)
    alone = core.reservation("alone", owner="nobody", resources={"cpu": "2"})
    gang.settle()
    assert gang.phases == [ACTIVE, ACTIVE, PENDING]
    assert (gang[2].reason, alone.reason) == (reasons.INSUFFICIENT_CAPACITY, reasons.QUOTA_EXCEEDED)


def test_a_reservation_over_quota_is_tried_if_its_equal_member_is_refused_with_its_group() -> None:
    """A member beyond the minimum and another reservation waited for quota. The member was tried for both.

    Regression: its group became incomplete in the same step and was refused as a whole. The quota was not
    checked, so the other reservation waited on, within its quota and beside free capacity.
    """
    core = Core(node("node-a", cpu="2"), node("node-b", cpu="1"))
    gang = Gang(core, 3, least=2).come(nodeName="node-a", pendingDeadlineSeconds=600)
    gang.give()
    core.run(worker())
    limit(core, "1")
    core.event_handlers.nodes.upsert(
        node("node-a", cpu="2"), node("node-a", cpu="2", labels={"any": "thing"})
    )
    gang.settle()
    alone = core.reservation("alone", owner="nobody", created=NOW + 1, pendingDeadlineSeconds=600)
    gang.settle()
    assert (gang[2].reason, alone.reason) == (reasons.QUOTA_EXCEEDED, reasons.QUOTA_EXCEEDED)
    core.event_handlers.nodes.upsert(node("node-a", cpu="2"), node("node-a", cpu="1"))
    gang.settle()
    assert ACTIVE not in gang.phases
    assert alone.phase is ACTIVE


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


# Domains of nodes.

ZONE = "topology.kubernetes.io/zone"


def zones(**cpus: str) -> Core:
    """Build nodes named after their zone and a number, such as x1, with so much CPU."""
    return Core(*(node(name, cpu=cpu, labels={ZONE: name[0]}) for name, cpu in cpus.items()))


def places(gang: Gang) -> list[str]:
    return sorted(gang[number].node for number in range(gang.size))


def test_a_packed_group_is_placed_in_one_domain_or_not_at_all() -> None:
    core = zones(x1="2", y1="1", y2="2", z1="9")
    core.event_handlers.nodes.upsert(None, node("nowhere", cpu="9"))
    core.event_handlers.nodes.remove(core.decider.columns.nodes[core.decider.columns.row_of["z1"]])
    gang = Gang(core, 3, topology={"mode": "Pack", "key": ZONE}).come()
    gang.give()
    assert places(gang) == ["y1", "y2", "y2"]
    large = Gang(core, 3, name="large", topology={"mode": "Pack", "key": ZONE}).come()
    large.settle()
    assert large.phases == [PENDING] * 3
    assert "needs capacity for 3 reservations at once, and 2 fit" in large[0].message


def test_a_late_member_of_a_packed_group_is_placed_in_its_domain() -> None:
    core = zones(x1="2", y1="9")
    core.add(pod("there", node_name="y1", requests={"cpu": "9"}))
    gang = Gang(core, 3, least=2, topology={"mode": "Pack", "key": ZONE}).come(pendingDeadlineSeconds=600)
    gang.give()
    assert gang.phases == [ACTIVE, ACTIVE, PENDING]
    core.event_handlers.nodes.upsert(None, node("y2", labels={ZONE: "y"}))
    gang.settle()
    assert gang.phases == [ACTIVE, ACTIVE, PENDING]
    core.event_handlers.nodes.upsert(None, node("x2", labels={ZONE: "x"}))
    gang.settle()
    assert places(gang) == ["x1", "x1", "x2"]


APART: Json = {
    "resources": None,
    "template": {
        "metadata": {"labels": {"job": "train"}},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1m"}}}],
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {"matchLabels": {"job": "train"}}, "topologyKey": ZONE}
                    ]
                }
            },
        },
    },
}
"""Two of these fit in no zone, which only a search can find out."""


def search(zone_count: int = 100, *waiting: Pod) -> Gang:
    """Begin to search many zones for a group that fits in none of them. Pods may wait besides."""
    names = [f"z{number:03}" for number in range(zone_count)]
    core = Core(*(node(name, cpu="9", labels={ZONE: name}) for name in names))
    core.add(*waiting)
    gang = Gang(core, topology={"mode": "Pack", "key": ZONE}).come(**APART, pendingDeadlineSeconds=600)
    core.step()
    assert core.decider.reservation_scheduler._gangs.searching
    assert gang.phases == [PENDING] * 2
    return gang


def test_many_domains_are_tried_a_few_at_a_time_and_pods_have_their_turns() -> None:
    gang = search()
    core, placed = gang.core, 0
    core.add(*(pod(f"web-{number}", requests={"cpu": "1m"}) for number in range(200)))
    while core.decider.reservation_scheduler._gangs.searching:
        tries = core.decider.reservation_scheduler._gangs.tries
        placed += core.step() is not None
        assert core.decider.reservation_scheduler._gangs.tries - tries <= 64 + 2
    assert core.decider.reservation_scheduler._gangs.tries >= 200
    assert 100 <= placed <= 200, "as many pods as tried members"
    gang.settle()
    assert "needs capacity for 2 reservations at once, and 1 fit" in gang[1].message


def test_no_pod_delays_the_second_part_of_a_search_that_has_just_begun() -> None:
    gangs = search(100, pod("web-0")).core.decider.reservation_scheduler._gangs
    assert gangs.tries > 64 + 2


def test_a_search_goes_on_without_a_pause_if_nothing_else_waits() -> None:
    gang = search()
    assert gang.core.decider.next_due() == 0
    gang.settle()
    assert not gang.core.decider.reservation_scheduler._gangs.searching
    assert gang.core.decider.next_due() != 0


def test_each_step_of_a_search_tries_a_domain_even_if_its_limit_is_one_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gang_module, "_TRIES_A_STEP", 1)
    gang = search(zone_count=4)
    for _ in range(6):
        gang.core.step()
    assert "and 1 fit" in gang[1].message


def test_members_that_are_edited_to_fit_during_a_search_are_placed() -> None:
    gang = search()
    for number in range(2):
        gang.member(number, template=None)
    gang.settle()
    assert gang.phases == [ACTIVE] * 2
    assert len(set(places(gang))) == 1


def test_capacity_that_comes_free_during_a_search_starts_it_again() -> None:
    gang = search()
    gang.core.event_handlers.nodes.upsert(None, node("late", cpu="9", labels={ZONE: "a"}))
    gang.settle()
    assert gang.phases == [PENDING] * 2
    assert gang.core.decider.reservation_scheduler._gangs.tries > 400


def test_a_search_ends_with_its_group() -> None:
    gang = search()
    for number in range(2):
        gang.drop(number)
    gang.settle()
    assert not gang.core.decider.reservation_scheduler._gangs.searching


def test_the_fault_of_a_plugin_ends_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = search()
    with monkeypatch.context() as patched:
        patched.setattr(InterPodAffinity, "filter", lambda *_: 1 / 0)
        gang.settle()
    assert [gang[number].reason for number in range(2)] == [reasons.PLUGIN_FAILED] * 2
    gang.core.event_handlers.nodes.upsert(None, node("late", cpu="9", labels={ZONE: "a"}))
    gang.settle()
    assert "and 1 fit" in gang[1].message


def test_a_spread_group_is_distributed_as_evenly_as_the_capacity_allows() -> None:
    core = zones(x1="9", y1="9", z1="1")
    gang = Gang(core, 5, topology={"mode": "Spread", "key": ZONE}).come()
    gang.give()
    assert places(gang) == ["x1", "x1", "y1", "y1", "z1"]
    small = Gang(core, 15, name="small", topology={"mode": "Spread", "key": ZONE}).come()
    small.settle()
    assert "and 14 fit" in small[0].message


@pytest.mark.parametrize("mode", ["Pack", "Spread"])
def test_without_any_domain_no_member_is_placed(mode: str) -> None:
    gang = Gang(cluster("9"), topology={"mode": mode, "key": ZONE}).come()
    gang.settle()
    assert gang.phases == [PENDING] * 2


# Pods.


def bind(core: Core, name: str = "node-a", number: int = 0) -> None:
    """Place a pod of the gang and bind it."""
    core.add(worker(number))
    assumed = core.place()
    assert assumed.node_name == name
    core.decider.bound(assumed, core.clock.now())


def test_each_pod_takes_one_member() -> None:
    core = cluster("3")
    gang = Gang(core, 3).come()
    gang.give()
    for number in range(3):
        bind(core, number=number)
        gang.settle()
        assert gang.phases.count(CONSUMED) == number + 1
        assert core.reserved() == 3000 - 1000 * (number + 1)
    assert {gang[number].bound_pod.name for number in range(3)} == {f"worker-{n}" for n in range(3)}  # type: ignore[union-attr]


def test_a_pod_gets_the_capacity_of_one_member_and_not_of_all_on_the_node() -> None:
    core = cluster("2")
    gang = Gang(core).come()
    gang.give()
    core.add(worker(requests={"cpu": "2"}))
    assert "1 Insufficient cpu beside reservations" in core.refuse().diagnosis.message
    assert gang.phases == [ACTIVE] * 2


def test_a_pod_takes_a_member_that_is_large_enough_on_its_node() -> None:
    core = cluster("4", "1")
    gang = Gang(core, 3)
    gang.member(0, resources={"cpu": "1"}, nodeName="node-a")
    gang.member(1, resources={"cpu": "3"}, nodeName="node-a")
    gang.member(2, resources={"cpu": "1"}, nodeName="node-b")
    gang.give()
    core.add(worker(requests={"cpu": "3"}))
    assert core.place().node_name == "node-a"
    assert gang.phases == [ACTIVE, BOUND, ACTIVE]


def test_a_small_pod_leaves_a_large_member_of_its_node_to_a_large_pod() -> None:
    """Regression: a pod took the first member by name, so the pods of two sizes could spoil each other's."""
    core = cluster("4")
    gang = Gang(core)
    gang.member(0, resources={"cpu": "3"})
    gang.member(1, resources={"cpu": "1"})
    gang.give()
    for number, cpu in ((0, "1"), (1, "3")):
        core.add(worker(number, requests={"cpu": cpu}))
        core.decider.bound(core.place(), core.clock.now())
        gang.settle()
    assert [gang[number].bound_pod.name for number in range(2)] == ["worker-1", "worker-0"]  # type: ignore[union-attr]


def test_a_small_pod_goes_to_the_node_with_a_small_member() -> None:
    core = cluster("3", "1")
    gang = Gang(core)
    gang.member(0, resources={"cpu": "3"}, nodeName="node-a")
    gang.member(1, resources={"cpu": "1"}, nodeName="node-b")
    gang.give()
    core.add(worker(0), worker(1, requests={"cpu": "3"}))
    assert [core.place().node_name for _ in range(2)] == ["node-b", "node-a"]


def test_owners_of_borrowable_members_evict_their_borrowers() -> None:
    core = cluster("2")
    gang = Gang(core).come(borrowable=True)
    gang.give()
    lent = core.run(pod("borrower", requests={"cpu": "2"}, annotations={BORROWS: "true"}))
    assert gang.phases == [ACTIVE, ACTIVE]
    assert core.reserved() == 0  # all of it is lent

    core.add(worker(0), worker(1))
    core.refuse()
    (attempt,) = core.take_preemptions()
    assert [victim.meta.name for victim in attempt.victims] == ["borrower"]
    core.event_handlers.pods.remove(lent)
    core.clock.advance(2)  # beyond the backoff of the refused pod
    for _ in range(2):
        core.decider.bound(core.place(), core.clock.now())
    gang.settle()
    assert gang.phases == [CONSUMED, CONSUMED]


def test_a_pod_on_another_node_takes_a_waiting_member_rather_than_an_active_one() -> None:
    core = cluster("2", "1")
    gang = Gang(core, 3, least=2).come(nodeName="node-a")
    gang.give()
    assert gang.phases == [ACTIVE, ACTIVE, PENDING]
    core.add(worker(nodeSelector={"kubernetes.io/hostname": "node-b"}))
    core.event_handlers.nodes.upsert(
        None, node("node-b", cpu="1", labels={"kubernetes.io/hostname": "node-b"})
    )
    gang.settle()
    assert gang.phases == [ACTIVE, ACTIVE, BOUND]


def test_a_failed_binding_returns_the_member_to_its_group() -> None:
    core = cluster("2")
    gang = Gang(core).come()
    gang.give()
    core.add(worker())
    assumed = core.place()
    core.decider.binding_failed(assumed, core.clock.now())
    gang.settle()
    assert gang.phases == [ACTIVE] * 2
    assert gang.told == ["Active"] * 2


def test_a_binding_names_the_member_that_it_took_and_its_group() -> None:
    core = cluster("2")
    gang = Gang(core).come()
    gang.give()
    core.add(worker())
    assumed = core.place()
    own = core.ledger.ownership.of(assumed.pod)
    assert [entry.bound_pod.uid for entry in own if entry.bound_pod] == [assumed.pod.uid]
    assert assumed.state.expect(ClaimedReservations).uids == (gang.uid, own[0].uid)


def test_a_pod_that_was_bound_before_its_group_takes_only_one_member() -> None:
    core = cluster("4")
    bound = assigned_to(worker(), "node-a")
    core.add(bound)
    gang = Gang(core).come()
    core.answer()
    core.event_handlers.pods.upsert(bound, bound)
    core.answer()
    assert sorted(gang.phases) == [CONSUMED, PENDING]
    gang.settle()
    assert sorted(gang.phases) == [ACTIVE, CONSUMED]


def test_pods_that_were_bound_before_their_group_take_one_member_each() -> None:
    core = cluster("4")
    core.add(*(assigned_to(worker(number), "node-a") for number in range(3)))
    gang = Gang(core).come()
    core.answer()
    assert gang.phases == [CONSUMED] * 2


def test_after_a_start_each_bound_pod_has_the_member_that_its_binding_names() -> None:
    """Check that it takes no other member, even if its own was deleted in the meantime."""
    gang = Gang(cluster("3"), 3).come()
    gang.give()
    took = f"{gang.uid},{gang[1].uid}"
    lost = f"{gang.uid},uid-of-one-that-is-gone"
    core = Core(node("node-a", cpu="5"), listed=False)
    core.add(
        assigned_to(worker(0, annotations={CLAIMED_RESERVATIONS: took}), "node-a"),
        assigned_to(worker(1, annotations={CLAIMED_RESERVATIONS: lost}), "node-a"),
    )
    gang = gang.succeed(core)
    core.list_all()
    core.answer()
    gang.settle()
    assert gang.phases == [ACTIVE, CONSUMED, ACTIVE]


def test_a_pod_that_is_listed_between_two_members_keeps_its_member() -> None:
    """Lists arrive at the same time. The binding of a pod that was bound before its group names no member.

    Regression: at the next start such a pod took another member if it was seen before its own.
    """
    core = cluster("4")
    bound = assigned_to(worker(), "node-a")
    core.add(bound)
    gang = Gang(core)
    gang.member(1)
    core.answer()
    gang.member(0)
    gang.store()
    core = Core(node("node-a", cpu="4"), listed=False)
    successor = Gang(core)
    successor.objects = gang.objects
    successor._see("train-0")
    core.add(bound)
    successor._see("train-1")
    core.list_all()
    core.answer()
    assert successor.phases == [PENDING, CONSUMED]


def test_pods_of_a_former_group_take_members_of_a_new_group_of_the_same_name() -> None:
    core = cluster("4")
    old = "uid-of-the-former,uid-of-its-member"
    core.add(assigned_to(worker(annotations={CLAIMED_RESERVATIONS: old}), "node-a"))
    gang = Gang(core).come()
    core.answer()
    assert sorted(gang.phases) == [CONSUMED, PENDING]


def test_members_that_pods_took_on_other_nodes_no_longer_need_capacity() -> None:
    core = cluster("1")
    gang = Gang(core).come()
    gang.settle()
    assert gang.phases == [PENDING] * 2
    core.add(assigned_to(worker(), "node-b"))
    core.answer()
    gang.settle()
    assert sorted(gang.phases) == [ACTIVE, CONSUMED]


def test_a_group_is_over_when_its_last_member_is_consumed() -> None:
    core = cluster("2")
    gang = Gang(core).come()
    gang.give()
    for number in range(2):
        bind(core, number=number)
    gang.settle()
    core.clock.advance(3600)
    gang.settle()
    assert gang.phases == [CONSUMED] * 2
    for number in range(2):
        gang.drop(number)
    gang.settle()
    assert len(core.ledger.groups) == 0


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
