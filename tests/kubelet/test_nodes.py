"""Kubelets that freeze, register again as another node, or report other amounts."""

import pytest

from cluster.live import condition
from kubelet.stage import Stage

_GPU = "example.com/gpu"
_AN_HOUR = 3600


@pytest.mark.nightly  # cluster/test_reservation_nodes.py has a node that is not ready
def test_a_reservation_is_held_and_not_ready_while_the_kubelet_does_not_renew_its_lease(stage: Stage) -> None:
    node = stage.kubelet_node()
    reservation = stage.active_reservation(cpu="600m", node=node)
    node.kubelet.freeze()
    reservation.until_condition("Ready", "False", "NodeNotReady")
    assert condition(reservation.status(), "Active")["status"] == "True"

    node.kubelet.thaw()
    reservation.until_condition("Ready", "True", "Held")
    assert reservation.phases() == ["Active"]


def test_a_node_that_registers_again_is_another_one(stage: Stage) -> None:
    """A reservation that names the node is lost with the node's uid, and one for any node is placed again."""
    node = stage.kubelet_node()
    pinned = stage.active_reservation("pinned", "300m", node)
    roaming = stage.active_reservation("roaming", "300m", pendingDeadlineSeconds=_AN_HOUR)
    node.kubelet.kill()
    node.delete()
    pinned.until_phase("Lost")
    roaming.until_phase("Pending")

    again = stage.kubelet_node()
    assert again.uid != node.uid
    assert roaming.until_phase("Active")["nodeUID"] == again.uid
    stage.active_reservation("next", "700m", again)
    assert pinned.status()["nodeUID"] == node.uid


def test_a_node_that_registers_again_while_the_operator_sees_no_gap_is_another_one(stage: Stage) -> None:
    """Pods that the API server keeps bound to the node's name run there again, and count on the new node."""
    node = stage.kubelet_node()
    pod = stage.running_pod(node, cpu="600m")
    node.delete()
    again = stage.kubelet_node()
    assert again.uid != node.uid
    pod.runs()
    stage.assert_free(again, "400m")


def test_reservations_follow_the_extended_resources_of_a_restarted_kubelet(stage: Stage) -> None:
    node = stage.kubelet_node("a", f"--extended-resources={_GPU}=2", "--max-pods=3")
    gpus = stage.active_reservation("gpus", node=node, resources={_GPU: "2"})
    stage.kubelet_node("a", f"--extended-resources={_GPU}=1", "--max-pods=3")
    gpus.until_condition("Active", "False", "Overcommitted")
    stage.kubelet_node("a", f"--extended-resources={_GPU}=2", "--max-pods=3")
    gpus.until_phase("Active")


def test_a_reservation_loses_its_capacity_while_its_node_reports_less(stage: Stage) -> None:
    """The test writes the node's status while the kubelet is frozen. The kubelet then corrects it."""
    node = stage.kubelet_node()
    reservation = stage.active_reservation(cpu="600m", node=node)
    node.kubelet.freeze()
    node.resize(cpu="500m")
    reservation.until_condition("Active", "False", "Overcommitted")
    node.kubelet.thaw()
    reservation.until_phase("Active")


@pytest.mark.nightly  # unit and property tests read nodes with null names of images
def test_a_node_with_a_nameless_image_is_handled_like_other_nodes(stage: Stage) -> None:
    """Tidelock did not see a node with such an image. Kubelets report null names of images without a tag."""
    node = stage.kubelet_node()
    stage.running_pod(node, cpu="300m")
    named = node.until(lambda found: found["status"].get("images"), "tell its images")["status"]["images"]
    assert named[0]["names"] == ["example.org/none:latest"]

    node.kubelet.freeze()
    images = [{"names": None, "sizeBytes": 1}, *named]
    node.merge({"status": {"images": images, "allocatable": {"cpu": "900m"}}}, "status")
    reservation = stage.reservation(cpu="601m", node=node, pendingDeadlineSeconds=_AN_HOUR)
    told = reservation.until_condition("Active", "False", "InsufficientCapacity")["message"]
    assert "cpu 601m needed, 600m free" in told
