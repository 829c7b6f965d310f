"""Earmarks: capacity that comes free is kept for a reservation that has waited for long.

It needs an API server that serves the objects of a queue again after a restart of the operator.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.api import Manifest
from cluster.live import Lock
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import wait_for
from tidelock.kube.client import EVENTS


@pytest.fixture(scope="module")
def impatient_operator(
    private_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Run the operator on the private cluster, with earmarks after one second of waiting."""
    directory = tmp_path_factory.mktemp("operator")
    with OperatorProcess(private_kubeconfig, directory, "--earmark-after-seconds=1") as running:
        yield running
    assert "Traceback" not in running.log


@pytest.fixture
def world(private_world: World, impatient_operator: OperatorProcess) -> World:
    del impatient_operator
    return private_world


def earmarked(reservation: Lock, node: str) -> None:
    """Wait until a reservation has an earmark on a node."""

    def has_earmark(found: Manifest) -> bool:
        return bool(found.get("status", {}).get("queue", {}).get("earmark") == node)

    reservation.until(has_earmark, f"have an earmark on {node}")


def notes(world: World) -> list[str]:
    """Return the notes of the events about earmarks."""
    events = world.api.get(EVENTS.collection(world.namespace))["items"]
    return [event["note"] for event in events if event["reason"] == "Earmarked"]


def test_an_earmark_survives_a_restart_and_smaller_reservations_and_pods_wait_for_it(
    world: World, impatient_operator: OperatorProcess
) -> None:
    node = world.node(cpu="4")
    one, two = (world.active_reservation(name, "2", node, ttlSeconds=600) for name in ("one", "two"))
    wait: Manifest = {"pendingDeadlineSeconds": 600, "ttlSeconds": 600}
    large = world.reservation("large", "4", **wait)
    earmarked(large, node.name)
    note = f"capacity that comes free on {node.name} is kept for it"
    wait_for(lambda: notes(world) == [note], what="an event tells of it")

    one.delete()
    small = world.reservation("small", "1", **wait)
    small.until_condition("Active", "False", "InsufficientCapacity")
    pod = world.pod("web-0", "1")
    pod.until_refused("Insufficient cpu")

    impatient_operator.kill()
    impatient_operator.start()
    impatient_operator.ready()
    two.delete()
    status = large.until_phase("Active")
    assert "queue" not in status

    large.delete()
    small.until_phase("Active")
    assert pod.until_bound() == node.name
    assert [seen["status"].get("phase") for _, seen in small.history()].count("Active") == 1
