"""Nodes with real kubelets, and the pods and reservations of one test."""

import re
from collections.abc import Callable

from cluster.api import Api, Manifest
from cluster.live import Live, Node, Pod, condition
from cluster.world import World
from devcluster import Kubelet, LocalCluster, end_container
from tidelock.kube.client import NODES, PODS
from tidelock.model.quantities import CPU, format_quantity, parse_quantity

_STOCK = "default-scheduler"
_TOO_MUCH = "64"
_FREE = re.compile(rf"cpu {_TOO_MUCH} needed, (\S+) free")


class KubeletNode(Node):
    """A node of 1 CPU with its own kubelet."""

    def __init__(self, api: Api, manifest: Manifest, kubelet: Kubelet) -> None:
        super().__init__(api, NODES, manifest)
        self.kubelet = kubelet


class RunningPod(Live):
    """A pod on a node with a kubelet."""

    def runs(self) -> Manifest:
        """Wait until the kubelet runs the pod, and return it."""
        return self.until(lambda pod: pod["status"].get("phase") == "Running", "run")

    def ends(self, phase: str) -> Manifest:
        """Wait until the pod has ended in this phase, and return its status."""
        ended = self.until(lambda pod: pod["status"].get("phase") == phase, f"be {phase}")
        status: Manifest = ended["status"]
        return status

    def end_container(self) -> None:
        """End the first container of the pod, as if its process had ended without an error."""
        end_container(self.runs()["status"]["containerStatuses"][0]["containerID"])

    def restart_container(self) -> None:
        """End the first container of the pod, and wait until the kubelet has started it again."""
        before = _restarts(self.runs())
        self.end_container()
        self.until(lambda pod: _restarts(pod) > before, "be restarted")

    def ask_for(self, cpu: str, *, whole: bool = False) -> None:
        """Request a resize in place, of the first container or of the pod as a whole."""
        requests = {"resources": {"requests": {"cpu": cpu}}}
        if whole:
            self.merge({"spec": requests}, "resize")
            return
        (container, *others) = self.api.get(self.path)["spec"]["containers"]
        self.merge({"spec": {"containers": [container | requests, *others]}}, "resize")

    def until_resize(self, accept: Callable[[Manifest], object], what: str) -> None:
        """Wait until the kubelet has reported a state of the resize in the pod's status."""
        self.until(lambda pod: accept(pod["status"]), what)


class Stage(World):
    """A world with kubelets: it also makes nodes with kubelets for one test, and removes them."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(Api(cluster.kubeconfig))
        self._cluster = cluster
        self._kubelets: dict[str, Kubelet] = {}

    def close(self) -> None:
        """Delete all objects of the test, and stop the kubelets."""
        super().close()
        for kubelet in self._kubelets.values():
            kubelet.stop()

    def kubelet_node(self, name: str = "a", *flags: str) -> KubeletNode:
        """Start a kubelet, or restart it with other flags, and wait until its node is schedulable."""
        if name in self._kubelets:
            self._kubelets[name].stop()
        ((key, value),) = self.selector.items()
        node_name = self.node_name(name)
        kubelet = self._cluster.add_kubelet(node_name, f"--node-labels={key}={value}", *flags)
        self._kubelets[name] = kubelet
        return KubeletNode(self.api, self.api.get(NODES.item(node_name)), kubelet)

    def running_pod(self, node: Node, name: str = "resident", cpu: str = "1", **spec: object) -> RunningPod:
        """Bind a pod directly, as other schedulers do, and wait until it runs and the operator knows it."""
        pod = self.bound_pod(node, name, cpu, **spec)
        running = RunningPod(self.api, PODS, self.api.get(pod.path))
        running.runs()
        return running

    def find_pod(self, pod: Pod) -> RunningPod:
        """Return a pod of the operator's scheduler as a pod on a node with a kubelet."""
        return RunningPod(self.api, PODS, self.api.get(pod.path))

    def free_cpu(self, node: Node) -> str:
        """Return the free CPU of a node, by the operator's message about a reservation that does not fit."""
        probe = self.reservation("probe", _TOO_MUCH, node, pendingDeadlineSeconds=600)
        told = probe.until_condition("Active", "False", "InsufficientCapacity")["message"]
        probe.delete()
        probe.until_gone()
        found = _FREE.search(told)
        assert found is not None, told
        return found[1]

    def assert_free(self, node: Node, cpu: str) -> None:
        """Check that exactly this much CPU of a node is free, for the operator and for kube-scheduler.

        The node must have no reservations, because kube-scheduler does not know them.
        """
        told = self.free_cpu(node)
        assert told == cpu, told
        units = max(parse_quantity(CPU, cpu), 0)
        more = self._stock_pod("more", format_quantity(CPU, units + 1))
        more.until(
            lambda pod: condition(pod["status"], "PodScheduled").get("reason") == "Unschedulable",
            f"be refused by kube-scheduler, as {cpu} are free",
        )
        more.delete()
        if units:
            fitting = self._stock_pod("fitting", cpu)
            fitting.until(
                lambda pod: pod["spec"].get("nodeName"), f"be bound by kube-scheduler, as {cpu} are free"
            )
            fitting.delete()
            fitting.until_gone()
            self.until_free(node, cpu)

    def until_free(self, node: Node, cpu: str) -> None:
        """Wait until the operator finds this much CPU free on a node."""
        reservation = self.active_reservation("fits", cpu, node, pendingDeadlineSeconds=600)
        reservation.delete()
        reservation.until_gone()

    def _stock_pod(self, name: str, cpu: str) -> Pod:
        return self.pod(name, cpu, schedulerName=_STOCK)


def _restarts(pod: Manifest) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))
