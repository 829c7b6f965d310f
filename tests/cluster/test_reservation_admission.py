"""The admission of reservations: activation, waiting with its reasons, and rejection.

It needs an API server that gives each reservation a generation and a version.
"""

from decimal import Decimal

from cluster.live import Lock, condition
from cluster.world import World
from devcluster import wait_for
from tidelock.model.instants import parse_instant


def created_at(reservation: Lock) -> float:
    """Return the instant at which an object was created, in whole seconds."""
    return parse_instant(reservation.api.get(reservation.path)["metadata"]["creationTimestamp"])


def test_a_reservation_that_fits_becomes_active_with_a_complete_status(world: World) -> None:
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


def test_the_status_of_a_reservation_for_any_node_names_its_node(world: World) -> None:
    world.node("small", cpu="1")
    large = world.node("large", cpu="8")
    assert world.reservation(cpu="2").until_phase("Active")["nodeName"] == large.name


def test_a_reservation_waits_with_the_numbers_until_a_pod_frees_capacity(world: World) -> None:
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


def test_a_reservation_waits_for_the_capacity_of_another_one_and_names_it(world: World) -> None:
    node = world.node(cpu="4")
    first = world.active_reservation("first", "3", node)
    second = world.reservation("second", "2", node)
    message = second.until_condition("Active", "False", "InsufficientCapacity")["message"]
    assert f"cpu 2 needed, 1 free, 3 reserved by {world.namespace}/first" in message

    first.delete()
    second.until_phase("Active")


def test_a_reservation_is_rejected_at_its_deadline(world: World) -> None:
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


def test_a_reservation_with_a_deadline_of_zero_is_admitted_or_rejected_at_once(world: World) -> None:
    node = world.node(cpu="4")
    world.active_reservation("now", "3", node)  # now the operator knows the node
    world.reservation("fits", "1", node, pendingDeadlineSeconds=0).until_phase("Active")
    never = world.reservation("never", "1", node, pendingDeadlineSeconds=0)
    never.until_phase("Rejected")
    assert "Active" not in never.phases()


def test_a_rejected_reservation_stays_rejected_when_capacity_comes_free(world: World) -> None:
    node = world.node(cpu="2")
    resident = world.bound_pod(node, cpu="2")
    rejected = world.reservation(cpu="2", node=node, pendingDeadlineSeconds=0)
    rejected.until_phase("Rejected")
    resident.delete()
    world.active_reservation("other", "2", node)
    assert rejected.status()["phase"] == "Rejected"


def test_a_reservation_waits_for_a_missing_node(world: World) -> None:
    reservation = world.reservation(node=world.node_name("late"))
    message = reservation.until_condition("Active", "False", "NodeNotFound")["message"]
    assert f"There is no node {world.node_name('late')}." in message
    assert reservation.status()["phase"] == "Pending"

    node = world.node("late")
    assert reservation.until_phase("Active")["nodeUID"] == node.uid


def test_a_selector_that_matches_no_node_is_reported(world: World) -> None:
    world.node()
    reservation = world.reservation(nodeSelector={"disk": world.namespace})
    reservation.until_condition("Active", "False", "NoMatchingNode")
    node = world.node("b", labels={"disk": world.namespace})
    assert reservation.until_phase("Active")["nodeName"] == node.name


def test_a_reservation_can_be_written_as_a_pod_template(world: World) -> None:
    node = world.node(cpu="4", extended={"example.org/gpu": "2"})
    resources = {"requests": {"cpu": "1"}, "limits": {"example.org/gpu": "2"}}
    template = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    first = world.reservation("first", node=node, template=template)
    assert first.until_phase("Active")["resources"] == {"cpu": "1", "example.org/gpu": "2"}

    second = world.reservation("second", node=node, template=template)
    message = second.until_condition("Active", "False", "InsufficientCapacity")["message"]
    assert f"example.org/gpu 2 needed, 0 free, 2 reserved by {world.namespace}/first" in message


def test_a_reservation_also_counts_as_one_pod(world: World) -> None:
    node = world.node(extended={"pods": "1"})
    world.active_reservation(cpu="1", node=node)
    world.pod("stranger").until_refused(
        "1 Too many pods beside reservations", "pods 1 needed, 0 free, 1 reserved"
    )
    assert world.pod().until_bound() == node.name


def test_a_reservation_must_tolerate_the_taints_of_its_node(world: World) -> None:
    node = world.node()
    node.merge({"spec": {"taints": [{"key": "tide", "value": "low", "effect": "NoSchedule"}]}})
    shy = world.reservation("shy", node=node)
    message = shy.until_condition("Active", "False", "NoMatchingNode")["message"]
    assert "taint tide=low:NoSchedule" in message
    world.active_reservation("bold", node=node, tolerations=[{"key": "tide", "operator": "Exists"}])


def test_a_reservation_that_is_replaced_by_its_namesake_holds_nothing_any_more(world: World) -> None:
    node = world.node(cpu="4")
    for _ in range(5):
        reservation = world.active_reservation(cpu="3", node=node)
        reservation.delete()
    last = world.active_reservation(cpu="2", node=node)
    assert world.pod("stranger", cpu="2").until_bound() == node.name
    assert last.status()["phase"] == "Active"


def test_exactly_as_many_racing_reservations_as_fit_become_active(world: World) -> None:
    node = world.known_node(cpu="3")
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


def test_racing_reservations_and_pods_never_get_the_same_capacity(world: World) -> None:
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


def test_capacity_that_comes_free_goes_by_priority(world: World) -> None:
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


def test_the_ttl_counts_from_the_activation_and_the_status_has_the_end(world: World) -> None:
    node = world.node(cpu="1")
    resident = world.bound_pod(node, cpu="1")
    reservation = world.reservation(node=node, ttlSeconds=60)
    assert "expiresAt" not in reservation.until_phase("Pending")
    resident.delete()
    status = reservation.until_phase("Active")
    assert parse_instant(status["expiresAt"]) - parse_instant(status["activatedAt"]) == 60
