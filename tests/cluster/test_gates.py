"""Pods that must not be scheduled yet, because of scheduling gates or a missing reservation.

It needs an API server that lets scheduling gates only be removed, and stores conditions of pods.
"""

from cluster.api import Manifest
from cluster.live import Pod, condition, in_seconds
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import wait_for
from tidelock.kube.client import EVENTS

GATES = [{"name": "example.com/quota"}, {"name": "example.com/image"}]
REQUIRE = {"annotations": {"tidelock.dev/require-reservation": "true"}}


def until_gated(operator: OperatorProcess, count: int) -> None:
    """Wait until this number of pods is gated."""
    wait_for(
        lambda: operator.metrics()['scheduler_pending_pods{queue="gated"}'],
        until=lambda gated: gated == count,
        what=f"{count} pods to be gated",
    )


def gates_of(pod: Pod, *gates: dict[str, str]) -> None:
    """Remove all scheduling gates of a pod except these."""
    pod.merge({"spec": {"schedulingGates": list(gates)}})


def unbound(pod: Pod) -> bool:
    stored = pod.read()
    assert stored is not None
    return "nodeName" not in stored["spec"]


def test_ten_gated_pods_wait_until_their_gates_are_removed(world: World, operator: OperatorProcess) -> None:
    node = world.node(cpu="10")
    pods = [world.pod(f"web-{number}", schedulingGates=GATES) for number in range(10)]
    until_gated(operator, 10)

    for pod in pods:
        gates_of(pod, GATES[0])
    ungated = world.pod("ungated", cpu="1")
    assert ungated.until_bound() == node.name
    ungated.delete()
    assert all(unbound(pod) for pod in pods)

    for pod in pods[:5]:
        gates_of(pod)
    assert {pod.until_bound() for pod in pods[:5]} == {node.name}
    until_gated(operator, 5)
    assert all(unbound(pod) for pod in pods[5:])

    for pod in pods[5:]:
        gates_of(pod)
    assert {pod.until_bound() for pod in pods[5:]} == {node.name}
    until_gated(operator, 0)


def test_only_the_api_server_writes_the_condition_of_a_pod_with_gates(
    world: World, operator: OperatorProcess
) -> None:
    world.node(cpu="500m")  # too small for the pod
    pod = world.pod(schedulingGates=GATES)
    until_gated(operator, 1)

    stored = pod.read()
    assert stored is not None
    assert condition(stored["status"], "PodScheduled")["reason"] == "SchedulingGated"
    gates_of(pod)
    pod.until_refused("Insufficient cpu")


def test_a_pod_that_requires_its_reservation_is_gated_until_that_is_active(
    world: World, operator: OperatorProcess
) -> None:
    world.node("free", cpu="64")
    reserved = world.node("locked", cpu="2")
    crowd = world.bound_pod(reserved, cpu="2")
    pod = world.pod(metadata=REQUIRE)
    until_gated(operator, 1)

    reservation = world.reservation(node=reserved)
    reservation.until_condition("Active", "False", "InsufficientCapacity")
    assert unbound(pod)
    crowd.delete()
    assert pod.until_bound() == reserved.name
    reservation.until_gone()
    until_gated(operator, 0)


def until_message(pod: Pod, *words: str) -> str:
    """Wait until the condition of a gated pod contains these words, and return its message."""

    def pod_scheduled(stored: Manifest) -> Manifest:
        return condition(stored["status"], "PodScheduled")

    found = pod.until(
        lambda stored: all(word in pod_scheduled(stored).get("message", "") for word in words),
        f"have a message with {words}",
    )
    assert (pod_scheduled(found)["status"], pod_scheduled(found)["reason"]) == ("False", "SchedulingGated")
    return str(pod_scheduled(found)["message"])


def notes(world: World, pod: Pod) -> list[str]:
    """Return the notes of a pod's events of reason FailedScheduling."""
    events = world.api.get(EVENTS.collection(world.namespace))["items"]
    mine = (each for each in events if each["regarding"].get("uid") == pod.uid)
    return [str(each["note"]) for each in mine if each["reason"] == "FailedScheduling"]


def test_the_condition_of_a_gated_pod_names_its_reservation_and_the_reason(
    world: World, operator: OperatorProcess
) -> None:
    """A gated pod had no condition and no event, whether its reservation was missing, pending or expired."""
    node = world.node(cpu="1")
    pod = world.pod(metadata=REQUIRE)
    missing = until_message(pod, "none names this pod")

    reservation = world.reservation(cpu="2", node=node, expireAt=in_seconds(600), retention="Retain")
    pending = until_message(pod, f"{reservation.name}, which is Pending: InsufficientCapacity")

    reservation.edit(expireAt=in_seconds(0.5))
    expired = until_message(pod, f"{reservation.name} is Expired since ", "spec.expireAt has passed")
    reservation.delete()
    reservation.until_gone()
    wait_for(
        lambda: notes(world, pod), until={missing, pending, expired}.issubset, what="an event of each reason"
    )
    assert sorted(notes(world, pod)) == sorted((missing, pending, expired))
    assert until_message(pod, "is Expired since") == expired

    world.reservation(cpu="1", node=node)
    assert pod.until_bound() == node.name


def test_the_condition_mentions_the_reservation_once_the_gates_are_removed(
    world: World, operator: OperatorProcess
) -> None:
    """The condition still named the scheduling gates after they had been removed."""
    pod = world.pod(metadata=REQUIRE, schedulingGates=GATES)
    until_gated(operator, 1)
    until_message(pod, "non-empty scheduling gates")
    gates_of(pod)
    until_message(pod, "none names this pod")


def test_a_gated_pod_that_is_deleted_is_forgotten(world: World, operator: OperatorProcess) -> None:
    pod = world.pod(schedulingGates=GATES)
    until_gated(operator, 1)
    pod.delete()
    until_gated(operator, 0)
