"""Finished or terminating pods that match the owner of a reservation, on a cluster without kubelets.

It needs an API server that keeps pods that are being deleted until their grace period ends.
"""

import pytest

from cluster.live import Pod
from cluster.operator_process import Launch
from cluster.world import World


@pytest.fixture
def former(private_world: World) -> Pod:
    """Create a bound pod that stays until its finalizer is removed."""
    node = private_world.node(cpu="4")
    return private_world.pod(nodeName=node.name, metadata={"finalizers": ["test.tidelock.dev/stay"]})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_consumes_no_reservation(
    launch: Launch, private_world: World, former: Pod, phase: str
) -> None:
    former.merge({"status": {"phase": phase}}, "status")
    launch()
    reservation = private_world.active_reservation(cpu="4")  # the capacity of a finished pod is free
    former.merge({"metadata": {"finalizers": None}})
    former.delete()
    assert reservation.status()["phase"] == "Active"
    private_world.pod(cpu="4").until_bound()
    reservation.until_gone()


def test_a_terminating_pod_consumes_no_reservation_and_keeps_its_capacity(
    launch: Launch, private_world: World, former: Pod
) -> None:
    former.delete()
    launch()
    reservation = private_world.active_reservation(cpu="3")
    stranger = private_world.pod("stranger")
    stranger.until_refused("reserved by")
    stranger.delete()  # otherwise it would get the capacity of the former pod
    former.merge({"metadata": {"finalizers": None}})
    former.until_gone()
    assert reservation.status()["phase"] == "Active"
    private_world.pod(cpu="4").until_bound()
    reservation.until_gone()
