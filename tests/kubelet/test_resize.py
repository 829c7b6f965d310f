"""Pods that are resized in place, which count in every stage as in kube-scheduler.

The fake machine has no cgroups. So a kubelet here resizes a container only at its next start, and never
resizes a pod as a whole. From 1.37 on it reports the actual resources of each pod as a whole, too, by the
pod's cgroup: those of its start.
"""

from cluster.api import Manifest
from cluster.live import condition
from kubelet.stage import KubeletNode, RunningPod, Stage


def of_container(status: Manifest) -> Manifest:
    found: Manifest = status["containerStatuses"][0]
    return found


def pending(status: Manifest, reason: str) -> bool:
    return condition(status, "PodResizePending").get("reason") == reason


def ask_while_frozen(node: KubeletNode, pod: RunningPod, cpu: str) -> None:
    """Freeze the kubelet, and request a resize, which stays proposed."""
    node.kubelet.freeze()
    pod.ask_for(cpu)


def test_a_container_counts_with_the_largest_of_spec_allocation_and_actual_size(stage: Stage) -> None:
    node = stage.kubelet_node()
    pod = stage.running_pod(node, cpu="300m")
    stage.assert_free(node, "700m")

    ask_while_frozen(node, pod, "500m")
    stage.assert_free(node, "500m")
    node.kubelet.thaw()
    pod.until_resize(lambda s: of_container(s)["allocatedResources"] == {"cpu": "500m"}, "be allocated 500m")
    stage.assert_free(node, "500m")

    ask_while_frozen(node, pod, "200m")
    stage.assert_free(node, "500m")
    node.kubelet.thaw()
    pod.until_resize(lambda s: of_container(s)["allocatedResources"] == {"cpu": "200m"}, "be allocated 200m")
    stage.assert_free(node, "700m")

    pod.restart_container()
    pod.until_resize(lambda s: of_container(s)["resources"]["requests"]["cpu"] == "200m", "have 200m")
    stage.assert_free(node, "700m")


def test_a_deferred_resize_counts_and_violates_a_reservation_until_it_is_withdrawn(
    stage: Stage,
) -> None:
    node = stage.kubelet_node()
    stage.running_pod(node, "neighbour", "300m")
    pod = stage.running_pod(node, "grower", "300m")
    reservation = stage.active_reservation("web-0", "200m", node)

    pod.ask_for("900m")
    pod.until_resize(lambda s: pending(s, "Deferred"), "be deferred")
    told = reservation.until_condition("Violated", "True", "CapacityTaken")["message"]
    assert f"{pod.namespace}/grower" in told

    pod.ask_for("300m")
    reservation.until_condition("Active", "True", "Restored")
    reservation.delete()
    stage.assert_free(node, "400m")


def test_a_pod_with_an_infeasible_resize_counts_with_its_allocation(stage: Stage) -> None:
    """The test writes the status, because kubemark finds no resize infeasible.

    It has neither a static CPU manager nor swap.
    """
    node = stage.kubelet_node()
    pod = stage.running_pod(node, cpu="300m")
    ask_while_frozen(node, pod, "900m")
    stage.assert_free(node, "100m")
    told = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    conditions = stage.api.get(pod.path)["status"]["conditions"]
    pod.merge({"status": {"conditions": [*conditions, told]}}, "status")
    stage.assert_free(node, "700m")


def test_a_pod_as_a_whole_counts_with_the_largest_of_spec_allocation_and_actual_size(stage: Stage) -> None:
    """The pod counted by its spec, so others got capacity that the kubelet had not taken back yet."""
    node = stage.kubelet_node()
    main = {"name": "main", "image": "example.org/none"}
    pod = stage.running_pod(node, containers=[main], resources={"requests": {"cpu": "300m"}})
    stage.assert_free(node, "700m")

    pod.ask_for("500m", whole=True)
    pod.until_resize(lambda s: s["allocatedResources"] == {"cpu": "500m"}, "be allocated 500m")
    stage.assert_free(node, "500m")

    node.kubelet.freeze()
    pod.ask_for("200m", whole=True)
    stage.assert_free(node, "500m")
    node.kubelet.thaw()
    pod.until_resize(lambda s: s["allocatedResources"] == {"cpu": "200m"}, "be allocated 200m")
    stage.assert_free(node, "700m")
