"""Kubelets that stop, come back as another node, or find another machine."""

from cluster.live import condition
from kubelet.stage import Stage

_GPU = "example.com/gpu"
_AN_HOUR = 3600


def test_a_lock_is_held_and_not_ready_while_the_kubelet_does_not_renew_its_lease(stage: Stage) -> None:
    node = stage.kubelet_node()
    reservation = stage.active_reservation(cpu="600m", node=node)
    node.kubelet.freeze()
    reservation.until_condition("Ready", "False", "NodeNotReady")
    assert condition(reservation.status(), "Active")["status"] == "True"

    node.kubelet.thaw()
    reservation.until_condition("Ready", "True", "Held")
    assert reservation.phases() == ["Active"]


def test_a_node_that_registers_again_is_another_one(stage: Stage) -> None:
    """A lock on the node is lost with its uid, and a lock for any node is placed again."""
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
    """The pods that the API server still has on it count on the new node, as they run there again."""
    node = stage.kubelet_node()
    pod = stage.running_pod(node, cpu="600m")
    node.delete()
    again = stage.kubelet_node()
    assert again.uid != node.uid
    pod.runs()
    stage.assert_free(again, "400m")


def test_locks_follow_what_a_kubelet_says_after_a_restart(stage: Stage) -> None:
    node = stage.kubelet_node("a", f"--extended-resources={_GPU}=2", "--max-pods=3")
    gpus = stage.active_reservation("gpus", node=node, resources={_GPU: "2"})
    stage.kubelet_node("a", f"--extended-resources={_GPU}=1", "--max-pods=3")
    gpus.until_condition("Active", "False", "Overcommitted")
    stage.kubelet_node("a", f"--extended-resources={_GPU}=2", "--max-pods=3")
    gpus.until_phase("Active")


def test_a_lock_loses_its_room_while_its_node_says_that_it_is_smaller(stage: Stage) -> None:
    """The status of a node is written by hand while its kubelet stands still, which then puts it right."""
    node = stage.kubelet_node()
    reservation = stage.active_reservation(cpu="600m", node=node)
    node.kubelet.freeze()
    node.resize(cpu="500m")
    reservation.until_condition("Active", "False", "Overcommitted")
    node.kubelet.thaw()
    reservation.until_phase("Active")


def test_a_node_with_an_image_without_names_is_one_like_others(stage: Stage) -> None:
    """It was invisible: images whose names are null are what kubelets report of those without a tag."""
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
