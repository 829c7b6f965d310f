"""All members of a group, or as many as it needs, are given together; each pod takes one."""

import pytest

from builders import NAMESPACE, NOW, Json, encode, node, pod
from tidelock.framework.own_reservations import ClaimedReservations
from tidelock.framework.profile import Profile
from tidelock.ledger import reasons
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.queue.waiting import REFUSAL_RENEWAL
from tidelock.ledger.sets.groups import Group
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import CLAIMED_RESERVATIONS, assigned_to
from tidelock.model.quotas import decode_reservation_quota
from tidelock.model.reservation import decode_reservation
from tidelock.plugins.inter_pod_affinity import InterPodAffinity
from tidelock.plugins.node_name import NodeName
from unit.scheduler.gang import Gang, worker
from unit.scheduler.machinery import Core

PENDING, ACTIVE, BOUND = Phase.PENDING, Phase.ACTIVE, Phase.BOUND
CONSUMED, EXPIRED, LOST, REJECTED = Phase.CONSUMED, Phase.EXPIRED, Phase.LOST, Phase.REJECTED


def cluster(*cpus: str) -> Core:
    return Core(*(node(f"node-{name}", cpu=cpu) for name, cpu in zip("abcd", cpus, strict=False)))


def test_nothing_is_tried_before_all_members_are_there() -> None:
    gang = Gang(cluster("4"), 3).come(2, pendingDeadlineSeconds=0)
    gang.settle()
    assert [gang[number].phase for number in (0, 1)] == [PENDING, PENDING]
    gang.member(2, pendingDeadlineSeconds=0)
    gang.settle()
    assert gang.phases == [ACTIVE] * 3


def test_who_waits_for_members_is_not_given_up_whatever_was_tried_before() -> None:
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


def test_if_one_has_no_room_none_has_and_all_say_the_numbers() -> None:
    core = cluster("1", "1")
    gang = Gang(core, 3).come()
    gang.settle()
    assert gang.phases == [PENDING] * 3
    assert core.reserved("node-a") == core.reserved("node-b") == 0
    for number in range(3):
        assert gang[number].reason == reasons.INSUFFICIENT_CAPACITY
        assert "needs capacity for 3 reservations at once, and 2 fit; train-2" in gang[number].message
        assert "cpu 1 needed, 0 free" in gang[number].message
    assert core.decider.next_due() != 0, "trying is nothing that frees room"


def test_two_groups_never_hold_half_each() -> None:
    core = cluster("2", "2")
    one, two = Gang(core, 3, name="one").come(), Gang(core, 3, name="two").come()
    one.settle()
    assert (one.phases, two.phases) == ([ACTIVE] * 3, [PENDING] * 3)
    for number in range(3):
        one.drop(number)
    two.settle()
    assert two.phases == [ACTIVE] * 3


def test_a_group_is_tried_once_and_not_for_each_of_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    core = cluster("2")
    asked: list[str] = []
    find = core.decider.reservation_scheduler._gangs.place

    def noting(profile: Profile, group: Group, now: float) -> None:
        asked.append("asked")
        find(profile, group, now)

    monkeypatch.setattr(core.decider.reservation_scheduler._gangs, "place", noting)
    Gang(core, 3).come().settle()
    assert len(asked) == 1


def test_members_are_told_to_be_active_once_all_are_stored() -> None:
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
def test_who_leads_next_gives_what_was_stored_whole_or_starts_anew(
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


def test_all_end_together_and_those_that_come_later_do_too() -> None:
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


def test_one_that_comes_when_the_time_of_its_group_is_over_never_holds_room() -> None:
    gang = Gang(cluster("4"), 2, 1).come(1, ttlSeconds=30)
    gang.settle()
    gang.core.clock.advance(31)
    gang.member(1, ttlSeconds=30)
    gang.core.step()

    assert gang.phases == [EXPIRED, EXPIRED]
    assert gang.core.reserved() == 0


def test_one_beyond_the_minimum_that_never_finds_room_ends_with_the_others() -> None:
    core = cluster("2")
    gang = Gang(core, 3, least=2).come(ttlSeconds=60, pendingDeadlineSeconds=600)
    gang.give()
    core.clock.advance(60)
    gang.settle()
    assert gang.phases == [EXPIRED] * 3


def test_if_one_loses_its_room_all_wait_again_and_their_time_goes_on() -> None:
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
    assert gang.told == ["Pending"] * 2, "where they are now is not stored yet"
    assert {gang[0].expires_at, gang[1].expires_at} == {ends}


def test_if_one_is_lost_for_good_the_others_are_given_up() -> None:
    core = cluster("1", "1")
    gang = Gang(core)
    gang.member(0, nodeName="node-a")
    gang.member(1)
    gang.give()
    core.event_handlers.nodes.remove(core.decider.columns.nodes[core.decider.columns.row_of["node-a"]])
    gang.settle()
    assert gang.phases == [LOST, REJECTED]
    assert gang[1].reason == reasons.GROUP_FAILED


def test_a_group_that_needs_fewer_keeps_those_that_are_left() -> None:
    core = cluster("1", "1")
    gang = Gang(core, 2, least=1).come()
    gang.give()
    core.event_handlers.nodes.remove(core.decider.columns.nodes[core.decider.columns.row_of[gang[0].node]])
    gang.settle()
    assert gang.phases == [PENDING, ACTIVE]
    assert gang.told == ["Pending", "Active"]


def test_a_member_that_others_took_room_of_is_none_any_more() -> None:
    core = cluster("2")
    gang = Gang(core).come()
    gang.give()
    core.add(pod("stranger", node_name="node-a"))
    gang.settle()
    assert gang.phases == [PENDING] * 2
    assert core.reserved() == 0


def test_a_deleted_member_leaves_the_rest_waiting_until_there_is_another() -> None:
    gang = Gang(cluster("2")).come()
    gang.give()
    gang.drop(0)
    gang.settle()
    assert gang[1].phase is PENDING
    gang.member(0, uid="another")
    gang.settle()
    assert gang.phases == [ACTIVE] * 2


def test_a_deadline_that_has_passed_for_one_has_passed_for_all() -> None:
    core = cluster("1")
    gang = Gang(core).come(pendingDeadlineSeconds=5)
    gang.settle()
    core.clock.advance(5)
    gang.settle()
    assert gang.phases == [REJECTED] * 2
    assert not core.ledger.groups.unsettled


def test_a_group_that_is_first_seen_after_its_deadline_holds_nothing() -> None:
    """It became active whenever the operator started, though its manager had gone elsewhere."""
    core = cluster("4")
    core.clock.advance(58)
    gang = Gang(core).come(pendingDeadlineSeconds=5)
    gang.settle()
    assert gang.phases == [REJECTED] * 2
    assert core.reserved() == 0


@pytest.mark.parametrize(("later", "phase"), [(5, ACTIVE), (58, REJECTED)])
def test_a_group_that_was_stored_and_not_given_before_a_crash_is_given_by_its_deadline_alone(
    later: float, phase: Phase
) -> None:
    """The next process told all members to be active, however long it had been away."""
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


def test_a_group_of_which_one_member_was_told_to_be_active_is_given_whoever_comes_later() -> None:
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
    """Those that were there waited for the others for ever."""
    core = cluster("4")
    gang = Gang(core, 3).come(2, pendingDeadlineSeconds=5)
    gang.settle()
    core.clock.advance(6)
    gang.settle()
    assert [gang[number].phase for number in range(2)] == [REJECTED] * 2


def test_nobody_is_a_member_beyond_those_that_the_group_is_to_have() -> None:
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


def test_a_member_that_is_too_much_stays_refused_when_it_is_edited_and_after_a_restart() -> None:
    """An edit had it wait with the group. If it was listed first after a restart, another was no member."""
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


def test_nobody_is_a_member_who_says_something_else_of_the_group() -> None:
    gang = Gang(cluster("9"), 3).come(2)
    gang.membership = gang.membership | {"members": 256}
    other = gang.member(2)
    gang.settle()
    assert (other.phase, other.reason) == (REJECTED, reasons.INVALID_SPEC)
    assert "spec.group: members, minMembers and topology differ" in other.message
    assert [gang[number].phase for number in (0, 1)] == [PENDING] * 2


def test_take_it_now_or_be_rejected() -> None:
    gang = Gang(cluster("1")).come(pendingDeadlineSeconds=0)
    gang.settle()
    assert gang.phases == [REJECTED] * 2


def test_a_plugin_that_fails_is_told_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_quota_counts_all_members_and_they_wait_for_it_together() -> None:
    core = cluster("4")
    limit(core, "2")
    gang = Gang(core, 3).come()
    gang.settle()
    assert gang.phases == [PENDING] * 3
    assert {gang[number].reason for number in range(3)} == {reasons.QUOTA_EXCEEDED}
    assert "used: cpu=2,limited: cpu=2".replace(",", ", ") in gang[0].message
    alone = core.reservation("alone", owner="nobody")
    gang.settle()
    assert alone.phase is ACTIVE, "a group that asks for more is not in its way"
    limit(core, "4", version=2)
    gang.settle()
    assert gang.phases == [ACTIVE] * 3


def test_one_that_is_over_quota_beyond_the_minimum_follows_when_it_may() -> None:
    core = cluster("4")
    limit(core, "2")
    gang = Gang(core, 3, least=2).come()
    gang.settle()
    assert gang.phases == [ACTIVE, ACTIVE, PENDING]
    assert gang[2].reason == reasons.QUOTA_EXCEEDED
    limit(core, "4", version=2)
    gang.settle()
    assert gang.phases == [ACTIVE] * 3


def test_one_that_waits_for_room_and_one_for_quota_do_not_wake_each_other_for_ever() -> None:
    """They were tried in turn without an end: the group counted as over quota, which had been so once."""
    core = cluster("2")
    limit(core, "2")
    gang = Gang(core, 3, least=2).come()
    gang.settle()
    limit(core, "3", version=2)
    alone = core.reservation("alone", owner="nobody", resources={"cpu": "2"})
    gang.settle()
    assert gang.phases == [ACTIVE, ACTIVE, PENDING]
    assert (gang[2].reason, alone.reason) == (reasons.INSUFFICIENT_CAPACITY, reasons.QUOTA_EXCEEDED)


def test_a_lock_follows_one_alike_that_its_group_has_taken_out_of_the_wait_for_quota() -> None:
    """A member beyond its group's minimum and another lock waited for quota, and the member was to be tried
    for both. Its group became short in the same step and was refused as a whole. So nothing was found out
    about the quota, and the other lock waited on, within its quota and beside free amounts.
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


def test_who_waits_for_members_leaves_the_line_to_others() -> None:
    """A member that had been refused was in line no more when another one was deleted, which a pod had taken.
    The lock behind it went on to be told that it was the second of two.
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
    """Make nodes named after their zone and a number, such as x1, with so much cpu."""
    return Core(*(node(name, cpu=cpu, labels={ZONE: name[0]}) for name, cpu in cpus.items()))


def places(gang: Gang) -> list[str]:
    return sorted(gang[number].node for number in range(gang.size))


def test_a_packed_group_is_in_one_domain_or_nowhere() -> None:
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


def test_who_follows_a_packed_group_goes_where_that_is() -> None:
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
"""No zone takes two of these, which only trying tells."""


def search(zone_count: int = 100) -> Gang:
    """Begin to try many zones for a group that none of them takes."""
    names = [f"z{number:03}" for number in range(zone_count)]
    core = Core(*(node(name, cpu="9", labels={ZONE: name}) for name in names))
    gang = Gang(core, topology={"mode": "Pack", "key": ZONE}).come(**APART, pendingDeadlineSeconds=600)
    core.step()
    assert core.decider.reservation_scheduler._gangs.searching
    assert gang.phases == [PENDING] * 2
    return gang


def test_many_domains_are_tried_a_few_in_a_step_and_pods_have_their_turns() -> None:
    gang = search()
    core, placed = gang.core, 0
    core.add(*(pod(f"web-{number}", requests={"cpu": "1m"}) for number in range(200)))
    while core.decider.reservation_scheduler._gangs.searching:
        tries = core.decider.reservation_scheduler._gangs.tries
        placed += core.step() is not None
        assert core.decider.reservation_scheduler._gangs.tries - tries <= 64 + 2
    assert core.decider.reservation_scheduler._gangs.tries >= 200
    assert 100 <= placed <= 200, "as many pods as members that are tried"
    gang.settle()
    assert "needs capacity for 2 reservations at once, and 1 fit" in gang[1].message


def test_a_search_that_nothing_else_waits_for_does_not_sleep() -> None:
    gang = search()
    assert gang.core.decider.next_due() == 0
    gang.settle()
    assert not gang.core.decider.reservation_scheduler._gangs.searching
    assert gang.core.decider.next_due() != 0


def test_members_that_come_to_fit_during_a_search_are_placed() -> None:
    gang = search()
    for number in range(2):
        gang.member(number, template=None)
    gang.settle()
    assert gang.phases == [ACTIVE] * 2
    assert len(set(places(gang))) == 1


def test_room_that_comes_free_during_a_search_has_all_be_tried_again() -> None:
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


def test_a_plugin_that_fails_during_a_search_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = search()
    with monkeypatch.context() as patched:
        patched.setattr(InterPodAffinity, "filter", lambda *_: 1 / 0)
        gang.settle()
    assert [gang[number].reason for number in range(2)] == [reasons.PLUGIN_FAILED] * 2
    gang.core.event_handlers.nodes.upsert(None, node("late", cpu="9", labels={ZONE: "a"}))
    gang.settle()
    assert "and 1 fit" in gang[1].message


def test_a_spread_group_is_in_each_domain_as_evenly_as_there_is_room() -> None:
    core = zones(x1="9", y1="9", z1="1")
    gang = Gang(core, 5, topology={"mode": "Spread", "key": ZONE}).come()
    gang.give()
    assert places(gang) == ["x1", "x1", "y1", "y1", "z1"]
    small = Gang(core, 15, name="small", topology={"mode": "Spread", "key": ZONE}).come()
    small.settle()
    assert "and 14 fit" in small[0].message


@pytest.mark.parametrize("mode", ["Pack", "Spread"])
def test_without_any_domain_no_member_has_room(mode: str) -> None:
    gang = Gang(cluster("9"), topology={"mode": mode, "key": ZONE}).come()
    gang.settle()
    assert gang.phases == [PENDING] * 2


# Pods.


def bind(core: Core, name: str = "node-a", number: int = 0) -> None:
    """Have a gang's pod be placed and bound."""
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


def test_a_pod_counts_with_the_room_of_one_member_and_not_of_all_on_the_node() -> None:
    core = cluster("2")
    gang = Gang(core).come()
    gang.give()
    core.add(worker(requests={"cpu": "2"}))
    assert "1 Insufficient cpu beside reservations" in core.refuse().diagnosis.message
    assert gang.phases == [ACTIVE] * 2


def test_it_takes_one_that_is_large_enough_where_it_is_placed() -> None:
    core = cluster("4", "1")
    gang = Gang(core, 3)
    gang.member(0, resources={"cpu": "1"}, nodeName="node-a")
    gang.member(1, resources={"cpu": "3"}, nodeName="node-a")
    gang.member(2, resources={"cpu": "1"}, nodeName="node-b")
    gang.give()
    core.add(worker(requests={"cpu": "3"}))
    assert core.place().node_name == "node-a"
    assert gang.phases == [ACTIVE, BOUND, ACTIVE]


def test_who_goes_elsewhere_takes_one_that_waits_rather_than_one_that_is_held() -> None:
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


def test_a_failed_binding_gives_the_member_back_to_its_group() -> None:
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


def test_one_that_was_bound_before_takes_one_member_however_often_it_is_seen() -> None:
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


def test_all_that_were_bound_before_take_one_each() -> None:
    core = cluster("4")
    core.add(*(assigned_to(worker(number), "node-a") for number in range(3)))
    gang = Gang(core).come()
    core.answer()
    assert gang.phases == [CONSUMED] * 2


def test_after_a_start_each_bound_pod_has_the_member_that_its_binding_names() -> None:
    """And no other, though somebody has deleted it meanwhile."""
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


def test_a_pod_that_is_listed_between_two_members_keeps_the_one_that_it_has() -> None:
    """Lists come side by side: a pod that was bound before its group came, so that its binding does not name
    the member that it took, took another one when it was seen before that one at the next start.
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


def test_the_pods_of_a_former_group_take_a_new_one_of_its_name() -> None:
    core = cluster("4")
    old = "uid-of-the-former,uid-of-its-member"
    core.add(assigned_to(worker(annotations={CLAIMED_RESERVATIONS: old}), "node-a"))
    gang = Gang(core).come()
    core.answer()
    assert sorted(gang.phases) == [CONSUMED, PENDING]


def test_members_that_pods_took_elsewhere_need_no_room_any_more() -> None:
    core = cluster("1")
    gang = Gang(core).come()
    gang.settle()
    assert gang.phases == [PENDING] * 2
    core.add(assigned_to(worker(), "node-b"))
    core.answer()
    gang.settle()
    assert sorted(gang.phases) == [ACTIVE, CONSUMED]


def test_when_the_last_is_taken_the_group_is_over() -> None:
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
