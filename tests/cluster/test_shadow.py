"""`tidelock shadow` beside the real kube-scheduler, with the rights of manifests/shadow and no others.

It needs an API server that serves a kube-scheduler's bindings to a reader without rights to write.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen
from xml.etree import ElementTree as ET

import pytest
import yaml

from cluster.api import Api
from cluster.crds import install_crds
from cluster.world import World
from devcluster import LocalCluster, start_cluster, wait_for
from devcluster.identity import MANIFESTS, token_kubeconfig
from devcluster.prometheus import PrometheusServer
from replay.exporter import Exporter
from tidelock.load.prometheus import NODE_CPU

ACCOUNT = "tidelock-shadow"
USER = f"system:serviceaccount:{ACCOUNT}:{ACCOUNT}"
STOCK: dict[str, Any] = {"schedulerName": "default-scheduler"}
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Run an API server with an audit log of all requests, and kube-scheduler."""
    directory = tmp_path_factory.mktemp("audited")
    policy = directory / "policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={directory / 'audit.log'}")
    with start_cluster(
        directory, apiserver_flags=flags, scheduler=True, controller_manager=False, kwok=False
    ) as cluster:
        install_crds(cluster)  # a world deletes objects of these kinds
        cluster.kubectl("apply", "-k", str(MANIFESTS / "shadow"))
        yield cluster


@contextmanager
def shadowing(cluster: LocalCluster, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command with more options until the end of the context, and wait until it has begun."""
    kubeconfig = token_kubeconfig(cluster, ACCOUNT, ACCOUNT, folder / "kubeconfig")
    command = Path(sys.executable).with_name("tidelock")
    options = ("--look-every=500ms", "--report-every=500ms", "--lead=1s", "--for=10m", *more)
    log = folder / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            (command, "shadow", f"--kubeconfig={kubeconfig}", f"--output={folder / 'report'}", *options),
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
        )
    try:
        until_logged(process, log, "watching the cluster")
        yield process
    finally:
        process.kill()
        process.communicate()


def until_logged(process: subprocess.Popen[str], log: Path, text: str) -> None:
    wait_for(lambda: text in log.read_text() or process.poll() is not None, what=text)
    assert process.poll() is None, log.read_text()


def decided(report: Path) -> int:
    """Return how many bindings the report has, whether or not they are compared."""
    decisions = json.loads(report.read_text())["decisions"]
    return int(sum(decisions["outcomes"].values()) + decisions["missed"])


def requests(cluster: LocalCluster) -> list[dict[str, Any]]:
    """Read the audit log, up to a line that is being written."""
    lines = (cluster.directory / "audit.log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def test_a_run_beside_kube_scheduler_reads_alone_and_reports_all(
    audited: LocalCluster, tmp_path: Path
) -> None:
    with closing(World(Api(audited.kubeconfig))) as world, shadowing(audited, tmp_path) as process:
        for name in ("a", "b"):
            world.node(name, cpu="4")
        red, blue = (world.pod(name, cpu="3", **STOCK) for name in ("red", "blue"))
        nodes = {red.until_bound(), blue.until_bound()}
        assert nodes == {world.node_name("a"), world.node_name("b")}
        loser = world.pod("loser", cpu="3", **STOCK)
        loser.until_refused("Insufficient cpu")

        audited.apiserver.stop()
        until_logged(process, tmp_path / "log", "no news of the cluster")
        audited.apiserver.start()
        until_logged(process, tmp_path / "log", "news again")
        red.delete()
        loser.until_bound()
        small = world.pod("small", cpu="500m", **STOCK)
        small.until_bound()
        report = tmp_path / "report" / "report.json"
        wait_for(lambda: decided(report) == 4, what="all bindings to be in the report", timeout=60)
        process.terminate()
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0, (tmp_path / "log").read_text()
    assert "Traceback" not in (tmp_path / "log").read_text()

    results = json.loads(report.read_text())
    decisions, run = results["decisions"], results["run"]
    assert run["finished"]
    assert run["version"].startswith("v1.")
    assert (run["failures"], run["unread"]) == (0, [])
    assert decided(report) == 4
    assert decisions["outcomes"]["same node"] >= 2  # two of them had one node left
    assert decisions["outcomes"].keys() <= {"same node", "other node, equal score", "other node, lower score"}
    assert (decisions["refusals"], decisions["refusals_fitting"]) == (1, 0)
    assert run["gap_count"] >= 1
    assert run["gap_seconds"] > 0
    assert "DECISIONS THAT DIFFER" in printed
    page = (tmp_path / "report" / "report.html").read_text().partition("\n")[2]
    assert ET.fromstring(page).findall(".//svg")  # noqa: S314 -- made by the program under test

    seen = requests(audited)
    verbs = {each["verb"] for each in seen if each["user"]["username"] == USER}
    assert verbs == {"get", "list", "watch"}
    bindings = [each for each in seen if each.get("objectRef", {}).get("subresource") == "binding"]
    assert len(bindings) == 4  # the log has writes, and those are kube-scheduler's


def test_the_levels_of_nodes_are_those_of_a_real_prometheus(
    audited: LocalCluster, exporter: Exporter, prometheus: PrometheusServer, tmp_path: Path
) -> None:
    """The default queries are asked. Both nodes request as much, and are used differently."""
    with closing(World(Api(audited.kubeconfig))) as world:
        nodes = {
            world.node(name, cpu="4").name: use for name, use in {"a": (0.7, 0.5), "b": (0.1, 0.3)}.items()
        }
        exporter.show(nodes, {})
        query = f"{prometheus.url}/api/v1/query?{urlencode({'query': NODE_CPU})}"
        wait_for(lambda: len(answered(query)) == len(nodes), what="the rates of both nodes")
        with shadowing(audited, tmp_path, f"--prometheus={prometheus.url}"):
            report = tmp_path / "report" / "report.json"
            wait_for(lambda: report.exists() and measured(report), what="measured levels in the report")
    levels = json.loads(report.read_text())["levels"]
    assert (levels["failed_readings"], levels["problem"], levels["annotated"]) == (0, "", 0)
    cpu, memory = measured(report)
    for found, (mean, deviation) in ((cpu, (40.0, 30.0)), (memory, (40.0, 10.0))):
        assert found["observed"]["mean"] == pytest.approx(mean, abs=1.0)
        assert found["observed"]["deviation"] == pytest.approx(deviation, abs=1.0)
        assert found["replayed"] == found["observed"]  # no pod has moved


def answered(query: str) -> list[Any]:
    with urlopen(query) as answer:  # noqa: S310 -- of this test's own server
        result: list[Any] = json.load(answer)["data"]["result"]
    return result


def measured(report: Path) -> list[Any]:
    """Return the evenness of measured cpu and memory in a report."""
    return [each for each in json.loads(report.read_text())["levels"]["evenness"] if each["measured"]]


def test_without_the_right_to_read_it_ends_with_one_sentence(audited: LocalCluster, tmp_path: Path) -> None:
    audited.kubectl("create", "serviceaccount", "nobody", f"--namespace={ACCOUNT}")
    kubeconfig = token_kubeconfig(audited, "nobody", ACCOUNT, tmp_path / "kubeconfig")
    command = Path(sys.executable).with_name("tidelock")
    done = subprocess.run(
        (command, "shadow", f"--kubeconfig={kubeconfig}", f"--output={tmp_path / 'report'}"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert 'pods is forbidden: User "system:serviceaccount:tidelock-shadow:nobody"' in done.stderr
    assert "Traceback" not in done.stderr
