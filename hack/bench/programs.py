"""The programs under test, each as its user would run it, in a process of its own."""

import sys
from pathlib import Path

from devcluster import Component, LocalCluster
from devcluster.loopback import HOST, Health, free_ports

_SCRIPTS = Path(sys.executable).parent
_KIBI = 1024


def tidelock(cluster: LocalCluster, kubeconfig: Path) -> Component:
    """Return the operator; it ends with the cluster."""
    (port,) = free_ports(1)
    return Component(
        name="tidelock",
        command=(str(_SCRIPTS / "tidelock"), "run", f"--kubeconfig={kubeconfig}", f"--port={port}"),
        health=Health(port, "/readyz", None),
        directory=cluster.directory,
    )


def bare_kopf(cluster: LocalCluster, kubeconfig: Path) -> Component:
    """Return the peer; it ends with the cluster."""
    (port,) = free_ports(1)
    return Component(
        name="bare-kopf",
        command=(
            "/usr/bin/env",
            f"KUBECONFIG={kubeconfig}",
            str(_SCRIPTS / "kopf"),
            "run",
            "--standalone",
            "--all-namespaces",
            f"--liveness=http://{HOST}:{port}/healthz",
            str(Path(__file__).with_name("peer.py")),
        ),
        health=Health(port, "/healthz", None),
        directory=cluster.directory,
    )


def resident_bytes(program: Component) -> int:
    """Give the memory that a running program has resident."""
    if program.process is None:
        raise ValueError(f"{program.name} was never started")
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * _KIBI
