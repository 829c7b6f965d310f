"""The programs under test, each in its own process, with the command that a user would run."""

import os
import ssl
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml

from devcluster import Component, LocalCluster
from devcluster.binaries import find_binaries
from devcluster.keys import Keys
from devcluster.loopback import HOST, Health, free_ports

_SCRIPTS = Path(sys.executable).parent
_KIBI = 1024
_SCRAPE_TIMEOUT = 10.0  # seconds


def tidelock(
    cluster: LocalCluster, kubeconfig: Path, profile: Path | None = None, options: Sequence[str] = ()
) -> Component:
    """Return the operator, which ends with the cluster. A profile of each run can be written to a file.

    Its modules are compiled before, as they are in the image: it would take longer than the rest of a start.
    """
    subprocess.run(
        (sys.executable, "-c", "import kopf, tidelock.kube.kubeconfig, tidelock.process, tidelock.serving"),
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        check=True,
    )
    (port,) = free_ports(1)
    profiled = (sys.executable, "-m", "cProfile", "-o", str(profile), "-m", "tidelock.main")
    command = profiled if profile else (str(_SCRIPTS / "tidelock"),)
    return Component(
        name="tidelock",
        command=(*command, "run", f"--kubeconfig={kubeconfig}", f"--port={port}", *options),
        health=Health(port, "/readyz", None),
        directory=cluster.directory,
    )


def bare_kopf(cluster: LocalCluster, kubeconfig: Path) -> Component:
    """Return the bare Kopf handler, which ends with the cluster."""
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


def floor(cluster: LocalCluster, kubeconfig: Path) -> Component:
    """Return the writer that decides nothing, which ends with the cluster."""
    (port,) = free_ports(1)
    return Component(
        name="floor",
        command=(sys.executable, "-m", "bench.floor", str(kubeconfig), str(port)),
        health=Health(port, "/healthz", None),
        directory=cluster.directory,
    )


def fixed_answer(cluster: LocalCluster, port: int, annotations: Path) -> Component:
    """Return the webhook that answers creations with the annotations in a file, without any decision."""
    keys = cluster.directory / "keys"
    return Component(
        name="fixed-answer",
        command=(sys.executable, "-m", "bench.fixed_answer", str(port), str(keys), str(annotations)),
        health=Health(port, "/", ssl.create_default_context(cafile=Keys.under(keys).authority)),
        directory=cluster.directory,
    )


def kube_scheduler(
    cluster: LocalCluster, kubeconfig: Path, scheduler_name: str, settings: Mapping[str, Any] | None = None
) -> Component:
    """Return the stock scheduler with its default profile and unlimited requests.

    It ends with the cluster. `settings` are more fields of its configuration. Any client may read its health
    and metrics.
    """
    (port,) = free_ports(1)
    keys = cluster.directory / "keys"
    configuration = cluster.directory / "bench-kube-scheduler.yaml"
    configuration.write_text(
        yaml.safe_dump(
            {
                **(settings or {}),
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(kubeconfig), "qps": -1, "burst": 1},
                "leaderElection": {"leaderElect": False},
                "profiles": [{"schedulerName": scheduler_name}],
            }
        )
    )
    return Component(
        name="kube-scheduler",
        command=(
            str(find_binaries().programs["kube-scheduler"]),
            f"--config={configuration}",
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            f"--tls-cert-file={keys / 'server.crt'}",
            f"--tls-private-key-file={keys / 'server.key'}",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
        ),
        health=Health(port, "/readyz", ssl.create_default_context(cafile=keys / "ca.crt")),
        directory=cluster.directory,
    )


def scrape(program: Component) -> str:
    """Read a program's metrics, from the port of its health check."""
    health = program.health
    scheme = "https" if health.tls else "http"
    url = f"{scheme}://{HOST}:{health.port}/metrics"
    with urlopen(url, timeout=_SCRAPE_TIMEOUT, context=health.tls) as answer:  # noqa: S310 -- loopback
        return str(answer.read(), "utf-8")


def resident_bytes(program: Component) -> int:
    """Return the resident memory of a running program."""
    status = Path(f"/proc/{pid(program)}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * _KIBI


def cpu_seconds(program: Component) -> float:
    """Return the processor time of a running program since its start, in all its threads."""
    stat = Path(f"/proc/{pid(program)}/stat").read_text()
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def server_seconds(cluster: LocalCluster) -> float:
    """Return the processor seconds so far of a cluster's API server and etcd."""
    return cpu_seconds(cluster.apiserver) + cpu_seconds(cluster.etcd)


def pid(program: Component) -> int:
    """Return the process ID of a program that was started."""
    if program.process is None:
        raise ValueError(f"{program.name} was never started")
    return program.process.pid
