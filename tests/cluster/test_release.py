"""A release works on a real API server: its chart is accepted, and the operator of its wheel serves.

It needs an API server that accepts the objects of the released chart.
"""

import os
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from cluster.api import Api
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import Cluster, wait_for
from devcluster.identity import SERVICE_ACCOUNT, SYSTEM_NAMESPACE, token_kubeconfig
from installation.released import install
from installation.rendering import EVERYTHING, FOREIGN, Charted, Manifest
from release import NAME
from tidelock.binders.endpoint import WEB_SERVICE

# A Deployment would start a pod in the shared cluster, with an image that is not published.
NOT_APPLIED = {*FOREIGN, "Deployment"}


ADDRESS = "10.1.2.3"
WEB = ("--web-view", f"--web-address={ADDRESS}")


def endpoints(cluster: Cluster) -> str:
    """Return the addresses to which the Service of the web view leads."""
    query = (
        "-o",
        "jsonpath={.items[*].endpoints[*].addresses}",
        "-l",
        f"kubernetes.io/service-name={WEB_SERVICE}",
    )
    return cluster.kubectl("get", "endpointslices", "-n", SYSTEM_NAMESPACE, *query)


def apply(cluster: Cluster, objects: list[Manifest], *flags: str) -> int:
    """Apply objects on the server, and return how many it accepted."""
    text = yaml.safe_dump_all(objects)
    options = ("--server-side", "--force-conflicts", *flags)
    return cluster.kubectl("apply", *options, "-f", "-", input=text).count("serverside-applied")


def test_the_chart_and_the_wheel_of_a_release_work_together(
    controlplane: Cluster, charted: Charted, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator runs with only the rights that the chart grants."""
    package = release / f"{NAME}.tgz"
    known = [each for each in charted.objects(EVERYTHING, chart=package) if each["kind"] not in FOREIGN]
    values = {"webView": {"enabled": True}}
    base = [each for each in charted.objects(values, chart=package) if each["kind"] not in NOT_APPLIED]
    namespace: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
    apply(controlplane, [namespace])
    assert apply(controlplane, base) == len(base)
    assert apply(controlplane, known, "--dry-run=server", "--warnings-as-errors") == len(known)

    programs = install(release, tmp_path / "venv")
    kubeconfig = token_kubeconfig(controlplane, SERVICE_ACCOUNT, SYSTEM_NAMESPACE, tmp_path / "kubeconfig")
    for name in programs.environment.keys() - os.environ.keys() | {"PYTHONPATH"}:
        monkeypatch.setenv(name, programs.environment[name])
    with (
        OperatorProcess(kubeconfig, tmp_path, *WEB, command=programs.path("tidelock")) as running,
        closing(World(Api(controlplane.kubeconfig))) as world,
    ):
        node = world.node(cpu="4")
        world.active_reservation("web-0", "1", node)
        wait_for(lambda: endpoints(controlplane), lambda told: ADDRESS in told, what="the leader's endpoint")
        assert running.stop() == 0
    assert "Traceback" not in running.log
