"""Nodes with the real kubelets of kubemark, for which only the machine and the containers are fake."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

from devcluster.binaries import find_binaries
from devcluster.component import Component
from devcluster.containers import remove_dead_runtimes
from devcluster.errors import DevClusterError
from devcluster.loopback import Health, free_ports

NAME_PREFIX = "kubelet-"
"""The prefix of the names of kubelets among recorded processes."""

# kubemark has no flag for the folder that other kubelets have at /var/lib/kubelet. Its log names the folder.
_FOLDER = re.compile(r"Using (/tmp/hollow-kubelet\.\d+) as root dir")
_REQUESTS_PER_SECOND = 100  # kubemark's own limit is for thousands of kubelets on one API server


@dataclass(frozen=True)
class Kubelet(Component):
    """The kubelet of one node, of 1 CPU, 3840Mi and, by default, 110 pods.

    It loses its state in a restart, and then admits its pods and starts their containers again. It listens on
    all interfaces, as kubemark has no flag for this.
    """

    node_name: str

    @property
    def static_pods(self) -> Path:
        """The folder of manifests of static pods, which is a new one after each start."""
        folders = _folders(self.log)
        if not folders:
            raise DevClusterError(f"{self.name} has not been started.")
        (found,) = folders[-1].glob("static-pods*")
        return found


def describe_kubelet(directory: Path, kubeconfig: Path, node_name: str, *flags: str) -> Kubelet:
    """Return the kubelet of a node in a cluster's folder. `flags` are more flags of kubemark."""
    port, health_port = free_ports(2)
    name = f"{NAME_PREFIX}{node_name}"
    return Kubelet(
        name=name,
        command=(
            str(find_binaries().programs["kubemark"]),
            "--morph=kubelet",
            f"--name={node_name}",
            f"--kubeconfig={_identity(kubeconfig, directory / f'{name}.kubeconfig', node_name)}",
            f"--kubelet-port={port}",
            f"--kubelet-read-only-port={health_port}",
            f"--kube-api-qps={_REQUESTS_PER_SECOND}",
            f"--kube-api-burst={_REQUESTS_PER_SECOND}",
            "--use-host-image-service=false",
            *flags,
        ),
        health=Health(health_port, "/healthz", None),
        directory=directory,
        node_name=node_name,
    )


def remove_leftovers(directory: Path) -> None:
    """Delete the files of a cluster's kubelets in /tmp. None of the kubelets may run."""
    for log in directory.glob(f"{NAME_PREFIX}*.log"):
        for folder in _folders(log):
            shutil.rmtree(folder, ignore_errors=True)
    remove_dead_runtimes()


def _folders(log: Path) -> list[Path]:
    return [Path(found) for found in _FOLDER.findall(log.read_text())] if log.exists() else []


def _identity(admin: Path, kubeconfig: Path, node_name: str) -> Path:
    """Write a kubeconfig with which the admin acts as the node."""
    content = yaml.safe_load(admin.read_text())
    for user in content["users"]:
        user["user"] |= {"as": f"system:node:{node_name}", "as-groups": ["system:nodes"]}
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(yaml.safe_dump(content, sort_keys=False))
    return kubeconfig
