"""Admission by the kubelet, which refuses bound pods that its node has no capacity for."""

from cluster.live import condition
from devcluster import wait_for
from kubelet.stage import Stage


def test_a_pod_that_the_kubelet_refuses_no_longer_violates_a_reservation(stage: Stage) -> None:
    """A reservation that both pods violate gets back the amount that the refused pod took."""
    node = stage.kubelet_node()
    reservation = stage.active_reservation("web-0", "300m", node)
    node.kubelet.freeze()
    pods = [stage.pod(name, "700m", nodeName=node.name) for name in ("one", "other")]
    violation = reservation.until_condition("Violated", "True", "CapacityTaken")["message"]
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


def test_capacity_of_a_pod_that_the_kubelet_refuses_is_free_as_in_kube_scheduler(stage: Stage) -> None:
    node = stage.kubelet_node()
    stage.running_pod(node, cpu="600m")
    late = stage.find_pod(stage.pod("late", "600m", nodeName=node.name))
    assert late.ends("Failed")["reason"] == "OutOfcpu"
    stage.assert_free(node, "400m")
