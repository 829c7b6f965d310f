"""What becomes free, and when, as containers end, are started again, or are evicted."""

from cluster.live import Pod
from devcluster import wait_for
from kubelet.stage import RunningPod, Stage
from tidelock.kube.client import PODS, ApiResource

_JOBS = ApiResource("batch", "v1", "jobs", "Job")
_AN_HOUR = 3600


def test_a_container_that_is_started_again_keeps_the_room_of_its_pod(stage: Stage) -> None:
    node = stage.kubelet_node()
    pod = stage.running_pod(node, cpu="600m")
    pod.restart_container()
    stage.assert_free(node, "400m")


def test_a_pod_that_runs_to_its_end_makes_room_for_a_lock_that_waits(stage: Stage) -> None:
    node = stage.kubelet_node()
    pod = stage.running_pod(node, cpu="600m", restartPolicy="Never")
    reservation = stage.reservation(cpu="800m", node=node, pendingDeadlineSeconds=_AN_HOUR)
    reservation.until_condition("Active", "False", "InsufficientCapacity")
    pod.end_container()
    pod.ends("Succeeded")
    reservation.until_phase("Active")


def test_a_job_that_completes_makes_room_for_a_lock_that_waits(stage: Stage) -> None:
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


def test_the_room_of_an_evicted_owner_is_its_locks_again(stage: Stage) -> None:
    """The kubelet ends the pod; a lock for reuse keeps the room for the pod that comes in its place."""
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


def test_pods_that_do_not_tolerate_a_taint_are_evicted_and_leave_their_room(stage: Stage) -> None:
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
