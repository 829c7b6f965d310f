"""Nodes with real kubelets, beside the pods and locks of one test."""

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
    """A node of 1 CPU with a kubelet of its own."""

    def __init__(self, api: Api, manifest: Manifest, kubelet: Kubelet) -> None:
        super().__init__(api, NODES, manifest)
        self.kubelet = kubelet


class RunningPod(Live):
    """A pod on a node with a kubelet."""

    def runs(self) -> Manifest:
        """Wait until the kubelet runs it; returns it."""
        return self.until(lambda pod: pod["status"].get("phase") == "Running", "run")

    def ends(self, phase: str) -> Manifest:
        """Wait until it has ended in this phase; returns its status."""
        ended = self.until(lambda pod: pod["status"].get("phase") == phase, f"be {phase}")
        status: Manifest = ended["status"]
        return status

    def end_container(self) -> None:
        """End its first container, as if the process had ended without an error."""
        end_container(self.runs()["status"]["containerStatuses"][0]["containerID"])

    def restart_container(self) -> None:
        """End its first container, and wait until the kubelet has started it again."""
        before = _restarts(self.runs())
        self.end_container()
        self.until(lambda pod: _restarts(pod) > before, "be restarted")

    def ask_for(self, cpu: str, *, whole: bool = False) -> None:
        """Ask for another size in place: of the first container, or of the pod as a whole."""
        requests = {"resources": {"requests": {"cpu": cpu}}}
        if whole:
            self.merge({"spec": requests}, "resize")
            return
        (container, *others) = self.api.get(self.path)["spec"]["containers"]
        self.merge({"spec": {"containers": [container | requests, *others]}}, "resize")

    def until_resize(self, accept: Callable[[Manifest], object], what: str) -> None:
        """Wait until the kubelet has reported this of the resize in the status."""
        self.until(lambda pod: accept(pod["status"]), what)


class Stage(World):
    """Makes nodes with kubelets for one test, and clears them away with all else that it made."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(Api(cluster.kubeconfig))
        self._cluster = cluster
        self._kubelets: dict[str, Kubelet] = {}

    def close(self) -> None:
        """Take away all that was made, and stop the kubelets."""
        super().close()
        for kubelet in self._kubelets.values():
            kubelet.stop()

    def kubelet_node(self, name: str = "a", *flags: str) -> KubeletNode:
        """Start a kubelet, or start it again with other flags, and wait until its node takes pods."""
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
        """Look at a pod of the operator's scheduler as one that a kubelet runs."""
        return RunningPod(self.api, PODS, self.api.get(pod.path))

    def free_cpu(self, node: Node) -> str:
        """Ask the operator how much cpu no pod has of a node, by a lock that does not fit."""
        probe = self.reservation("probe", _TOO_MUCH, node, pendingDeadlineSeconds=600)
        told = probe.until_condition("Active", "False", "InsufficientCapacity")["message"]
        probe.delete()
        probe.until_gone()
        found = _FREE.search(told)
        assert found is not None, told
        return found[1]

    def assert_free(self, node: Node, cpu: str) -> None:
        """Check that pods leave just this much of a node, for the operator and for kube-scheduler.

        There must be no locks, as kube-scheduler does not know them.
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
        """Wait until the operator says that this much cpu is free on a node."""
        reservation = self.active_reservation("fits", cpu, node, pendingDeadlineSeconds=600)
        reservation.delete()
        reservation.until_gone()

    def _stock_pod(self, name: str, cpu: str) -> Pod:
        return self.pod(name, cpu, schedulerName=_STOCK)


def _restarts(pod: Manifest) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))
