"""Claims: owners consume their reservations, and other pods do not get the reserved capacity.

It needs an API server that stores annotations of a binding on its pod.
"""

from decimal import Decimal
from typing import Any

import pytest

from cluster.live import condition
from cluster.world import World
from devcluster import wait_for


def test_the_owner_gets_the_reserved_capacity_and_the_reservation_is_deleted(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node)
    assert world.pod(cpu="2").until_bound() == node.name
    reservation.until_gone()
    assert reservation.phases() == ["Active"]
    assert world.taken_cpu(node) == Decimal(2)


def test_a_retained_reservation_stays_as_consumed_and_names_its_pod(world: World) -> None:
    reservation = world.active_reservation(node=world.node(), retention="Retain")
    pod = world.pod()
    status = reservation.until_phase("Consumed")
    assert status["boundPod"] == {"name": pod.name, "uid": pod.uid}
    assert "finishedAt" in status
    assert condition(status, "Active")["reason"] == "Consumed"
    assert not condition(status, "Stalled")


def test_an_owner_prefers_the_node_of_its_reservation(world: World) -> None:
    crowded = world.node("crowded", cpu="4")
    world.node("empty", cpu="64")
    world.bound_pod(crowded, cpu="2")
    world.active_reservation(cpu="1", node=crowded)
    assert world.pod(cpu="1").until_bound() == crowded.name


def test_an_owner_on_another_node_releases_its_reservation_too(world: World) -> None:
    reserved = world.node("locked", labels={"place": "locked"})
    other = world.node("other", labels={"place": "other"})
    reservation = world.active_reservation(cpu="4", node=reserved)
    assert world.pod(nodeSelector={"place": "other", **world.selector}).until_bound() == other.name
    reservation.until_gone()
    world.active_reservation("next", "4", reserved)


def test_a_pod_that_is_no_owner_does_not_get_reserved_capacity(world: World) -> None:
    node = world.node(cpu="4")
    reservation = world.active_reservation(cpu="3", node=node)
    stranger = world.pod("stranger", cpu="2")
    message = stranger.until_refused("1 Insufficient cpu beside reservations")
    assert f"cpu 2 needed, 1 free, 3 reserved by {world.namespace}/web-0" in message

    reservation.delete()
    assert stranger.until_bound() == node.name


def test_a_pod_of_the_owners_name_in_another_namespace_is_no_owner(world: World, other_world: World) -> None:
    node = world.node(cpu="1")
    world.active_reservation(cpu="1", node=node)
    namesake = other_world.pod(nodeSelector=world.selector)
    namesake.until_refused("Insufficient cpu beside reservations")
    assert world.pod().until_bound() == node.name


def test_a_pod_that_requires_its_reservation_runs_only_there(world: World) -> None:
    world.node("free", cpu="64")
    reserved = world.node("locked", cpu="2")
    pod = world.pod(metadata={"annotations": {"tidelock.dev/require-reservation": "true"}})
    world.pod("other", cpu="64").until_bound()
    assert "nodeName" not in (pod.read() or {})["spec"]

    world.reservation(node=reserved)
    assert pod.until_bound() == reserved.name


def test_an_owner_that_is_already_bound_consumes_its_reservation_at_once(world: World) -> None:
    node = world.node(cpu="2")
    resident = world.bound_pod(node, "web-0", cpu="2")
    reservation = world.reservation(cpu="2", node=node, retention="Retain")
    assert reservation.until_phase("Consumed")["boundPod"]["uid"] == resident.uid
    assert reservation.phases() == ["Consumed"]


def test_both_reservations_for_a_pod_are_released_when_it_is_bound(world: World) -> None:
    nodes = [world.node(name, cpu="2") for name in ("a", "b")]
    reservations = [
        world.active_reservation(
            node.name, "2", node, owners=[{"pod": {"name": "web-0"}}], retention="Retain"
        )
        for node in nodes
    ]
    pod = world.pod(cpu="2")
    taken = pod.until_bound()
    assert taken in {node.name for node in nodes}
    for reservation in reservations:
        assert reservation.until_phase("Consumed")["boundPod"]["uid"] == pod.uid
    (left,) = (node for node in nodes if node.name != taken)
    world.active_reservation("next", "2", left)


def test_the_amount_that_an_owner_needs_beyond_its_reservation_must_be_free(world: World) -> None:
    node = world.node(cpu="4")
    world.active_reservation(cpu="2", node=node)
    rest = world.active_reservation("rest", "2", node)
    owner = world.pod(cpu="3")
    message = owner.until_refused("1 Insufficient cpu beside reservations")
    assert f"cpu 3 needed, 2 free, 2 reserved by {world.namespace}/rest" in message

    rest.delete()
    assert owner.until_bound() == node.name


def test_an_owner_smaller_than_its_reservation_leaves_the_rest_free(world: World) -> None:
    node = world.node(cpu="4")
    reservation = world.active_reservation(cpu="4", node=node)
    world.pod(cpu="1").until_bound()
    reservation.until_gone()
    assert world.pod("next", cpu="3").until_bound() == node.name


def test_one_of_two_matching_pods_consumes_the_reservation_and_the_other_is_ordinary(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(
        cpu="2", node=node, owners=[{"selector": {"matchLabels": {"app": "web"}}}], retention="Retain"
    )
    pods = [world.pod(name, cpu="2", metadata={"labels": {"app": "web"}}) for name in ("one", "two")]
    status = reservation.until_phase("Consumed")
    (winner,) = (pod for pod in pods if pod.uid == status["boundPod"]["uid"])
    (other,) = (pod for pod in pods if pod is not winner)
    assert winner.until_bound() == node.name
    other.until_refused("1 Insufficient cpu")
    assert reservation.status() == status
    winner.delete()
    assert other.until_bound() == node.name
    assert reservation.status() == status


@pytest.mark.parametrize("bound_by_others", [False, True])
def test_a_pod_consumes_the_best_fit_of_the_matching_reservations_and_records_it(
    world: World, bound_by_others: bool
) -> None:
    """All matching reservations ended when the pod was bound."""
    node = world.node(cpu="8")
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    large, fitting, small = (
        world.active_reservation(f"lock-{cpu}", cpu, node, owners=owners, retention="Retain")
        for cpu in ("4", "2", "1")
    )
    labelled = {"labels": {"app": "web"}}
    bound: dict[str, Any] = {"nodeName": node.name} if bound_by_others else {}
    pod = world.pod("web-0", cpu="2", metadata=labelled, **bound)
    assert fitting.until_phase("Consumed")["boundPod"]["uid"] == pod.uid
    said = pod.until(lambda pod: pod["spec"].get("nodeName"), what="the pod to be bound")
    assert said["metadata"]["annotations"]["tidelock.dev/claimed-locks"] == fitting.uid
    world.until_known(pod)
    assert (large.status()["phase"], small.status()["phase"]) == ("Active", "Active")


def test_pods_of_a_deployment_are_owners(world: World) -> None:
    node = world.node(cpu="2")
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    reservation = world.active_reservation(
        cpu="2", node=node, owners=[{"controller": owner}], retention="Retain"
    )
    world.pod("stranger", cpu="2").until_refused("Insufficient cpu beside reservations")
    world.deployment("web", cpu="2")
    assert reservation.until_phase("Consumed")["boundPod"]["name"].startswith("web-")


def test_a_waiting_reservation_is_consumed_when_its_owner_is_bound(world: World) -> None:
    node = world.node(cpu="2")
    world.bound_pod(node, cpu="1")
    reservation = world.reservation(cpu="2", node=node, retention="Retain")
    reservation.until_condition("Active", "False", "InsufficientCapacity")
    assert world.pod(cpu="1").until_bound() == node.name
    reservation.until_phase("Consumed")
    assert "Active" not in reservation.phases()


def test_a_pod_and_its_reservation_get_events(world: World) -> None:
    world.node()
    reservation = world.active_reservation()
    pod = world.pod()
    pod.until_bound()
    wait_for(
        lambda: (
            {"Scheduled"} <= world.event_reasons(pod) and {"Consumed"} <= world.event_reasons(reservation)
        ),
        what="the events",
    )
