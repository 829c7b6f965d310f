"""When a lock is given, when it waits, and what the wait tells."""

from decimal import Decimal

from cluster.live import Lock, condition
from cluster.world import World
from devcluster import wait_for
from tidelock.model.instants import parse_instant


def created_at(reservation: Lock) -> float:
    """Give the instant at which an object was created, in whole seconds."""
    return parse_instant(reservation.api.get(reservation.path)["metadata"]["creationTimestamp"])


def test_a_lock_that_fits_is_active_and_says_all_that_a_manager_needs(world: World) -> None:
    node = world.node()
    reservation = world.reservation(cpu="1500m", node=node)
    status = reservation.until_phase("Active")
    assert (status["nodeName"], status["nodeUID"]) == (node.name, node.uid)
    assert status["observedGeneration"] == 1
    assert status["resources"] == {"cpu": "1500m"}
    assert status["owner"] == "pod/web-0"
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "Active": "True",
        "Ready": "True",
    }
    assert "boundPod" not in status


def test_a_lock_for_any_node_is_told_its_node(world: World) -> None:
    world.node("small", cpu="1")
    large = world.node("large", cpu="8")
    assert world.reservation(cpu="2").until_phase("Active")["nodeName"] == large.name


def test_no_room_now_is_pending_with_the_numbers_and_active_when_a_pod_goes(world: World) -> None:
    node = world.node(cpu="4")
    resident = world.bound_pod(node, cpu="3")
    reservation = world.reservation(cpu="2", node=node)
    reservation.until_condition("Active", "False", "InsufficientCapacity")
    status = reservation.status()
    assert status["phase"] == "Pending"
    assert f"{node.name}: cpu 2 needed, 1 free" in condition(status, "Active")["message"]
    assert condition(status, "Ready")["status"] == "False"
    assert condition(status, "Reconciling")["status"] == "True"

    resident.delete()
    reservation.until_phase("Active")
    assert not condition(reservation.status(), "Reconciling")


def test_room_that_is_locked_is_no_room_for_another_lock_which_is_told_who_has_it(world: World) -> None:
    node = world.node(cpu="4")
    first = world.active_reservation("first", "3", node)
    second = world.reservation("second", "2", node)
    message = second.until_condition("Active", "False", "InsufficientCapacity")["message"]
    assert f"cpu 2 needed, 1 free, 3 reserved by {world.namespace}/first" in message

    first.delete()
    second.until_phase("Active")


def test_a_lock_is_rejected_at_its_deadline(world: World) -> None:
    node = world.node(cpu="1")
    reservation = world.reservation(cpu="2", node=node, pendingDeadlineSeconds=1)
    status = reservation.until_phase("Rejected")
    assert parse_instant(status["finishedAt"]) >= created_at(reservation) + 1
    active = condition(status, "Active")
    assert active["reason"] == "DeadlineExceeded"
    assert "pendingDeadlineSeconds (1)" in active["message"]
    assert "cpu 2 needed, 1 free" in active["message"]
    assert condition(status, "Stalled")["status"] == "True"
    assert "Active" not in reservation.phases()


def test_a_lock_with_a_deadline_of_zero_is_taken_now_or_rejected_at_once(world: World) -> None:
    node = world.node(cpu="4")
    world.active_reservation("now", "3", node)  # the operator knows the node from here on
    world.reservation("fits", "1", node, pendingDeadlineSeconds=0).until_phase("Active")
    never = world.reservation("never", "1", node, pendingDeadlineSeconds=0)
    never.until_phase("Rejected")
    assert "Active" not in never.phases()


def test_a_rejected_lock_holds_nothing_when_room_comes(world: World) -> None:
    node = world.node(cpu="2")
    resident = world.bound_pod(node, cpu="2")
    rejected = world.reservation(cpu="2", node=node, pendingDeadlineSeconds=0)
    rejected.until_phase("Rejected")
    resident.delete()
    world.active_reservation("other", "2", node)
    assert rejected.status()["phase"] == "Rejected"


def test_a_missing_node_is_waited_for(world: World) -> None:
    reservation = world.reservation(node=world.node_name("late"))
    message = reservation.until_condition("Active", "False", "NodeNotFound")["message"]
    assert f"There is no node {world.node_name('late')}." in message
    assert reservation.status()["phase"] == "Pending"

    node = world.node("late")
    assert reservation.until_phase("Active")["nodeUID"] == node.uid


def test_a_selector_that_no_node_has_is_told(world: World) -> None:
    world.node()
    reservation = world.reservation(nodeSelector={"disk": world.namespace})
    reservation.until_condition("Active", "False", "NoMatchingNode")
    node = world.node("b", labels={"disk": world.namespace})
    assert reservation.until_phase("Active")["nodeName"] == node.name


def test_a_lock_may_be_written_as_the_pod_it_is_for(world: World) -> None:
    node = world.node(cpu="4", extended={"example.org/gpu": "2"})
    resources = {"requests": {"cpu": "1"}, "limits": {"example.org/gpu": "2"}}
    template = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    first = world.reservation("first", node=node, template=template)
    assert first.until_phase("Active")["resources"] == {"cpu": "1", "example.org/gpu": "2"}

    second = world.reservation("second", node=node, template=template)
    message = second.until_condition("Active", "False", "InsufficientCapacity")["message"]
    assert f"example.org/gpu 2 needed, 0 free, 2 reserved by {world.namespace}/first" in message


def test_the_place_of_the_pod_itself_is_locked_too(world: World) -> None:
    node = world.node(extended={"pods": "1"})
    world.active_reservation(cpu="1", node=node)
    world.pod("stranger").until_refused(
        "1 Too many pods beside reservations", "pods 1 needed, 0 free, 1 reserved"
    )
    assert world.pod().until_bound() == node.name


def test_a_lock_goes_where_it_tolerates_the_taints(world: World) -> None:
    node = world.node()
    node.merge({"spec": {"taints": [{"key": "tide", "value": "low", "effect": "NoSchedule"}]}})
    shy = world.reservation("shy", node=node)
    message = shy.until_condition("Active", "False", "NoMatchingNode")["message"]
    assert "taint tide=low:NoSchedule" in message
    world.active_reservation("bold", node=node, tolerations=[{"key": "tide", "operator": "Exists"}])


def test_a_lock_that_is_replaced_by_its_namesake_leaves_nothing_behind(world: World) -> None:
    node = world.node(cpu="4")
    for _ in range(5):
        reservation = world.active_reservation(cpu="3", node=node)
        reservation.delete()
    last = world.active_reservation(cpu="2", node=node)
    assert world.pod("stranger", cpu="2").until_bound() == node.name
    assert last.status()["phase"] == "Active"


def test_of_many_locks_that_race_for_room_as_many_get_it_as_fit(world: World) -> None:
    node = world.node(cpu="3")
    reservations = [
        world.reservation(f"racer-{number}", "1", node, pendingDeadlineSeconds=0) for number in range(8)
    ]
    phases = [
        reservation.until(lambda found: found["status"].get("phase") in ("Active", "Rejected"), "be decided")[
            "status"
        ]["phase"]
        for reservation in reservations
    ]
    assert sorted(phases) == 3 * ["Active"] + 5 * ["Rejected"]
    assert world.taken_cpu(node) == Decimal(3)


def test_locks_and_pods_that_race_never_get_the_same_room(world: World) -> None:
    room = Decimal(5)
    node = world.node(cpu="5")
    for number in range(8):
        world.reservation(f"held-{number}", "1", node)
        world.pod(f"racer-{number}")
    seen: list[Decimal] = []

    def taken() -> Decimal:
        seen.append(world.taken_cpu(node))
        return seen[-1]

    wait_for(taken, until=lambda amount: amount >= room, what="the room to be given", interval=0.0)
    world.pod("late").until_refused("Insufficient cpu")
    assert taken() == max(seen) == room


def test_when_room_comes_it_goes_by_priority(world: World) -> None:
    world.quota()
    node = world.node(cpu="2")
    resident = world.bound_pod(node, cpu="2")
    ordinary = [world.reservation(name, "1", node) for name in ("a", "b")]
    urgent = world.reservation("urgent", "1", node, priority=10)
    for reservation in (*ordinary, urgent):
        reservation.until_condition("Active", "False", "InsufficientCapacity")

    resident.delete()
    urgent.until_phase("Active")
    wait_for(lambda: world.taken_cpu(node) == Decimal(2), what="the rest of the room to be given")
    assert sorted(reservation.status()["phase"] for reservation in ordinary) == ["Active", "Pending"]


def test_ttl_counts_from_active_and_the_end_is_given_back(world: World) -> None:
    node = world.node(cpu="1")
    resident = world.bound_pod(node, cpu="1")
    reservation = world.reservation(node=node, ttlSeconds=60)
    assert "expiresAt" not in reservation.until_phase("Pending")
    resident.delete()
    status = reservation.until_phase("Active")
    assert parse_instant(status["expiresAt"]) - parse_instant(status["activatedAt"]) == 60
