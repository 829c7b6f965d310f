"""A kubelet refuses what its node has no room for, which the API server binds for anybody."""

from cluster.live import condition
from devcluster import wait_for
from kubelet.stage import Stage


def test_of_two_bindings_that_race_the_one_that_the_kubelet_refuses_counts_no_longer(stage: Stage) -> None:
    """A lock that both have violated is given back what the refused one took."""
    node = stage.kubelet_node()
    reservation = stage.active_reservation("web-0", "300m", node)
    node.kubelet.freeze()
    pods = [stage.pod(name, "700m", nodeName=node.name) for name in ("one", "other")]
    violation = reservation.until_condition("Violated", "True", "RoomTaken")["message"]
    assert any(f"{pod.namespace}/{pod.name}" in violation for pod in pods)
    reservation.until_condition("Active", "False", "Violated")

    node.kubelet.thaw()
    settled = {"Running", "Failed"}
    phases = wait_for(
        lambda: {stage.api.get(pod.path)["status"]["phase"]: pod for pod in pods},
        until=lambda found: found.keys() == settled,
        what="the kubelet to take one pod and to refuse the other",
    )
    assert stage.api.get(phases["Failed"].path)["status"]["reason"] == "OutOfcpu"
    reservation.until_condition("Active", "True", "Restored")
    status = reservation.status()
    assert status["resources"] == {"cpu": "300m"}
    assert not condition(status, "Violated")
    reservation.delete()
    stage.assert_free(node, "300m")


def test_what_the_kubelet_refuses_is_free_for_others_as_in_kube_scheduler(stage: Stage) -> None:
    node = stage.kubelet_node()
    stage.running_pod(node, cpu="600m")
    late = stage.find_pod(stage.pod("late", "600m", nodeName=node.name))
    assert late.ends("Failed")["reason"] == "OutOfcpu"
    stage.assert_free(node, "400m")
