"""Pods that must not be scheduled yet, and the moment from which they may."""

from cluster.live import Pod, condition
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import wait_for

GATES = [{"name": "example.com/quota"}, {"name": "example.com/image"}]
REQUIRE = {"annotations": {"tidelock.dev/require-reservation": "true"}}


def until_gated(operator: OperatorProcess, count: int) -> None:
    """Wait until so many pods are gated."""
    wait_for(
        lambda: operator.metrics()['scheduler_pending_pods{queue="gated"}'],
        until=lambda gated: gated == count,
        what=f"{count} pods to be gated",
    )


def gates_of(pod: Pod, *gates: dict[str, str]) -> None:
    """Leave these gates of a pod."""
    pod.merge({"spec": {"schedulingGates": list(gates)}})


def unbound(pod: Pod) -> bool:
    stored = pod.read()
    assert stored is not None
    return "nodeName" not in stored["spec"]


def test_ten_gated_pods_wait_until_their_gates_are_taken_away(
    world: World, operator: OperatorProcess
) -> None:
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


def test_a_gated_pod_is_told_so_by_the_api_server_alone(world: World, operator: OperatorProcess) -> None:
    pod = world.pod(schedulingGates=GATES)
    until_gated(operator, 1)

    stored = pod.read()
    assert stored is not None
    assert condition(stored["status"], "PodScheduled")["reason"] == "SchedulingGated"
    gates_of(pod)
    pod.until_refused("nodes are available")


def test_a_pod_that_requires_its_reservation_is_gated_until_that_is_active(
    world: World, operator: OperatorProcess
) -> None:
    world.node("free", cpu="64")
    locked = world.node("locked", cpu="2")
    crowd = world.bound_pod(locked, cpu="2")
    pod = world.pod(metadata=REQUIRE)
    until_gated(operator, 1)

    lock = world.lock(node=locked)
    lock.until_condition("Active", "False", "InsufficientCapacity")
    assert unbound(pod)
    crowd.delete()
    assert pod.until_bound() == locked.name
    lock.until_gone()
    until_gated(operator, 0)


def test_a_gated_pod_that_is_deleted_is_forgotten(world: World, operator: OperatorProcess) -> None:
    pod = world.pod(schedulingGates=GATES)
    until_gated(operator, 1)
    pod.delete()
    until_gated(operator, 0)
