"""A Kubernetes control plane for development, tests and benchmarks."""

from devcluster.cluster import Cluster, attach, attached
from devcluster.component import Component
from devcluster.containers import end_container
from devcluster.errors import DevClusterError
from devcluster.kubelets import Kubelet
from devcluster.local import LocalCluster, start_cluster
from devcluster.nodes import add_kwok_node
from devcluster.polling import WaitTimeoutError, wait_for

__all__ = [
    "Cluster",
    "Component",
    "DevClusterError",
    "Kubelet",
    "LocalCluster",
    "WaitTimeoutError",
    "add_kwok_node",
    "attach",
    "attached",
    "end_container",
    "start_cluster",
    "wait_for",
]
