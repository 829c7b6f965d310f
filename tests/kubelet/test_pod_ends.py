"""The capacity that comes free when containers end or restart, and when pods are evicted."""

from cluster.live import Pod
from devcluster import wait_for
from kubelet.stage import RunningPod, Stage
from tidelock.kube.client import PODS, ApiResource

_JOBS = ApiResource("batch", "v1", "jobs", "Job")
_AN_HOUR = 3600


def test_a_restarted_container_keeps_the_capacity_of_its_pod(stage: Stage) -> None:
    node = stage.kubelet_node()
    pod = stage.running_pod(node, cpu="600m")
    pod.restart_container()
    stage.assert_free(node, "400m")


def test_a_pod_that_succeeds_frees_its_capacity_for_a_waiting_reservation(stage: Stage) -> None:
    node = stage.kubelet_node()
    pod = stage.running_pod(node, cpu="600m", restartPolicy="Never")
    reservation = stage.reservation(cpu="800m", node=node, pendingDeadlineSeconds=_AN_HOUR)
    reservation.until_condition("Active", "False", "InsufficientCapacity")
    pod.end_container()
    pod.ends("Succeeded")
    reservation.until_phase("Active")


def test_a_job_that_completes_frees_its_capacity_for_a_waiting_reservation(stage: Stage) -> None:
    node = stage.kubelet_node()
    template = {"spec": stage.pod_spec("600m") | {"restartPolicy": "OnFailure"}}
    jobs = _JOBS.collection(stage.namespace)
    stage.api.create(jobs, {"metadata": {"name": "once"}, "spec": {"template": template}})
    (found,) = wait_for(
        lambda: stage.api.get(PODS.collection(stage.namespace))["items"], what="the job to make its pod"
    )
    pod = RunningPod(stage.api, PODS, found)
    pod.runs()
    reservation = stage.reservation(cpu="800m", node=node, pendingDeadlineSeconds=_AN_HOUR)
    reservation.until_condition("Active", "False", "InsufficientCapacity")
    pod.end_container()
    reservation.until_phase("Active")
    wait_for(
        lambda: stage.api.get(_JOBS.item("once", stage.namespace))["status"],
        until=lambda status: status.get("succeeded") == 1,
        what="the job to complete",
    )


def test_the_capacity_of_an_evicted_owner_returns_to_its_reservation(stage: Stage) -> None:
    """The kubelet ends the pod. A reusable reservation keeps the capacity for the pod that replaces it."""
    node = stage.kubelet_node()
    reservation = stage.active_reservation("web-0", "600m", node, reuse="Always")
    owner = _owner(stage)
    owner.runs()
    reservation.until_condition("Occupied", "True", "Occupied")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": owner.name}}
    stage.api.post(f"{owner.path}/eviction", body)
    owner.until_gone()
    reservation.until_condition("Occupied", "False", "Vacant")
    stage.pod("stranger", "500m").until_refused("600m reserved by")
    _owner(stage).runs()


def test_a_pod_that_does_not_tolerate_a_taint_is_evicted_and_frees_its_capacity(stage: Stage) -> None:
    node = stage.kubelet_node()
    pod = stage.running_pod(node, cpu="600m")
    reservation = stage.reservation(
        cpu="800m", node=node, tolerations=[{"operator": "Exists"}], pendingDeadlineSeconds=_AN_HOUR
    )
    reservation.until_condition("Active", "False", "InsufficientCapacity")
    node.merge({"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}})
    pod.until_gone()
    reservation.until_phase("Active")


def _owner(stage: Stage) -> RunningPod:
    pod: Pod = stage.pod("web-0", "600m")
    pod.until_bound()
    return stage.find_pod(pod)
