"""Pods and the members of a group: each pod takes one."""

from builders import node, pod
from tidelock.framework.own_reservations import ClaimedReservations
from tidelock.model.pods import BORROWS, CLAIMED_RESERVATIONS, assigned_to
from tidelock.model.quantities import CPU
from tidelock.plugins.reservation.plugin import insufficient_beside
from unit.scheduler.gang import ACTIVE, BOUND, CONSUMED, PENDING, Gang, cluster, worker
from unit.scheduler.machinery import Core

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
    assert f"1 {insufficient_beside(CPU)}" in core.refuse().diagnosis.message
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
    assert gang.reported_phases == ["Active"] * 2


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
