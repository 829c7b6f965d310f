"""A control plane of real programs on this machine's loopback interface."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from devcluster import programs
from devcluster.binaries import find_binaries
from devcluster.cluster import Cluster
from devcluster.component import Component
from devcluster.errors import DevClusterError
from devcluster.keys import make_keys
from devcluster.kubeconfig import write_kubeconfig
from devcluster.kubelets import Kubelet, describe_kubelet, remove_leftovers
from devcluster.nodes import wait_until_ready
from devcluster.processes import stop_recorded
from devcluster.reaper import ProcessReaper


class LocalCluster(Cluster):
    """A cluster with components that can be stopped, frozen and killed one by one.

    Attributes:
        directory: the folder of keys, data, logs and process records, which outlives the cluster.
        components: components by program name. kube-controller-manager, kube-scheduler and kwok are optional,
            and kubelets are not among them.

    """

    def __init__(
        self,
        directory: Path,
        kubeconfig: Path,
        kubectl: Path,
        components: Mapping[str, Component],
        reaper: ProcessReaper | None,
    ) -> None:
        super().__init__(kubeconfig, [str(kubectl), f"--cache-dir={directory / 'kubectl-cache'}"])
        self.directory = directory
        self.components = components
        self._reaper = reaper

    @property
    def etcd(self) -> Component:
        """The etcd server."""
        return self.components["etcd"]

    @property
    def apiserver(self) -> Component:
        """The API server."""
        return self.components["kube-apiserver"]

    def add_kubelet(self, node_name: str, *flags: str) -> Kubelet:
        """Start a real kubelet and wait until its node is Ready and takes pods.

        `flags` are for kubemark. To change them, stop the node's kubelet and add it again.

        Raises:
            DevClusterError: the kubelet did not start, or the cluster has kwok.
            WaitTimeoutError: its node did not become Ready, or kept the taint that a new node gets.

        """
        if "kwok" in self.components:
            raise DevClusterError("kwok plays the kubelets of this cluster: start it without.")
        self.kubectl("set", "subject", "clusterrolebinding", "system:node", "--group=system:nodes")
        kubelet = describe_kubelet(self.directory, self.kubeconfig, node_name, *flags)
        kubelet.start()
        wait_until_ready(self, node_name)
        return kubelet

    def stop(self) -> None:
        """End all components and kubelets that run."""
        stop_recorded(self.directory)
        remove_leftovers(self.directory)
        if self._reaper is not None:
            self._reaper.close()
            self._reaper = None


def start_cluster(
    directory: Path,
    *,
    apiserver_flags: Sequence[str] = (),
    scheduler: bool = False,
    scheduler_settings: Mapping[str, Any] = MappingProxyType({}),
    scheduler_flags: Sequence[str] = (),
    controller_manager: bool = True,
    controller_manager_flags: Sequence[str] = (),
    kwok: bool = True,
    fsync: bool = False,
    outlive: bool = False,
) -> LocalCluster:
    """Start a control plane in a folder and wait until it is ready.

    The control plane ends with `stop`, or when this process ends for any reason, unless `outlive` is set.
    `scheduler_settings` are more fields of the KubeSchedulerConfiguration.

    Raises:
        DevClusterError: programs are not available, or one did not start. The message has the end of its log.

    """
    binaries = find_binaries()
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    site = programs.Site(directory, binaries, make_keys(directory / "keys"), programs.Ports.choose())
    write_kubeconfig(site.kubeconfig, site.url, site.keys)
    components = [programs.etcd(site, fsync=fsync), programs.apiserver(site, apiserver_flags)]
    if controller_manager:
        components.append(programs.controller_manager(site, controller_manager_flags))
    if scheduler:
        components.append(programs.scheduler(site, scheduler_settings, scheduler_flags))
    if kwok:
        components.append(programs.kwok(site))

    cluster = LocalCluster(
        directory,
        site.kubeconfig,
        binaries.programs["kubectl"],
        {component.name: component for component in components},
        None if outlive else ProcessReaper(directory),
    )
    try:
        _launch(components)
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _launch(components: Sequence[Component]) -> None:
    """Start all components in the order of their dependencies, and wait until they are healthy.

    As many as is safe start at once.
    """
    etcd, apiserver, *others = components
    etcd.launch()
    apiserver.launch()  # it retries until etcd answers. The others would give up after 10 s without it
    etcd.wait_healthy()
    apiserver.wait_healthy()
    for component in others:
        component.launch()
    for component in others:
        component.wait_healthy()
