"""Karmada's own estimator client asks the operator, as docs/karmada.md describes it."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cluster import karmada
from cluster.api import Api
from cluster.crds import install_crds
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, start_cluster, wait_for
from devcluster.identity import operator_kubeconfig
from devcluster.karmada import CLUSTER, tls_folder
from devcluster.keys import Keys
from devcluster.loopback import HOST, free_ports
from devcluster.tools import find_program

Json = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a bare API server with Tidelock's CRDs."""
    folder = tmp_path_factory.mktemp("karmada")
    with start_cluster(folder, controller_manager=False, kwok=False) as made:
        install_crds(made)
        yield made


@pytest.fixture(scope="module")
def port(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run the operator as an estimator, and yield its port."""
    (port,) = free_ports(1)
    folder = tmp_path_factory.mktemp("operator")
    tls = tls_folder(folder / "tls", Keys.under(cluster.directory / "keys"))
    options = (f"--karmada-cluster={CLUSTER}", f"--karmada-port={port}", f"--karmada-tls={tls}")
    kubeconfig = operator_kubeconfig(cluster, folder, "components/karmada")
    with OperatorProcess(kubeconfig, folder, *options) as process:
        yield port
        assert process.stop() == 0
    assert "Traceback" not in process.log


@pytest.fixture
def world(cluster: LocalCluster) -> Iterator[World]:
    """Yield a world for nodes, pods and reservations of this test."""
    with closing(World(Api(cluster.kubeconfig))) as made:
        yield made


class KarmadaClient:
    """The client of Karmada's scheduler, in a process for each list of questions."""

    def __init__(self, port: int, keys: Path) -> None:
        self._command = [str(find_program("karmada")), f"-address={HOST}:{port}", f"-keys={keys}"]

    def ask(self, *questions: Json, cluster: str = CLUSTER) -> list[Json]:
        """Return the answer to each question: a number, or an error."""
        done = subprocess.run(
            [*self._command, f"-cluster={cluster}"],
            input=json.dumps(questions),
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        answers: list[Json] = json.loads(done.stdout)
        return answers


@pytest.fixture
def client(cluster: LocalCluster, port: int) -> KarmadaClient:
    return KarmadaClient(port, cluster.directory / "keys")


def replica(cpu: str, selector: Json, **more: Any) -> Json:
    return {"resourceRequest": {"cpu": cpu}, "nodeClaim": {"nodeSelector": selector} | more}


def component(name: str, cpu: str, selector: Json) -> Json:
    return {"name": name, "replicas": 1, "replicaRequirements": replica(cpu, selector)}


def questions(selector: Json) -> Json:
    """Return each question of the page in the JSON of Karmada's API, about some nodes."""
    in_flight = {"namespace": "shop", "components": [component("api", "500m", selector)]}
    return {
        karmada.REPLICAS: {"replicaRequirements": replica("1", selector)},
        karmada.ASSUMED: {"replicaRequirements": replica("1", selector), "assumedWorkloads": [in_flight]},
        karmada.SETS: {
            "components": [component("whole", "1", selector), component("half", "500m", selector)]
        },
        karmada.ELSEWHERE: {"replicaRequirements": replica("1", {"zone": "elsewhere"})},
    }


def test_the_example_of_the_page(client: KarmadaClient, world: World) -> None:
    node = world.node(cpu="4")
    asked = questions(world.selector)

    def number(question: str) -> int:
        (answer,) = client.ask(asked[question])
        assert "error" not in answer, answer
        found: int = answer["number"]
        return found

    wait_for(lambda: number(karmada.REPLICAS), what="the operator to know the node")
    karmada.ask_all(number, 0)
    world.active_reservation("web-0", karmada.reserved_cpu(), node)
    karmada.ask_all(number, 1)


def test_constraints_on_nodes_are_understood(client: KarmadaClient, world: World) -> None:
    world.node("a", cpu="4", labels={"zone": "a"})
    tainted = world.node("b", cpu="2", labels={"zone": "b"})
    tainted.merge({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}})
    tolerations = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    zones = [{"key": "zone", "operator": "In", "values": ["b", "c"]}]
    names = [{"key": "metadata.name", "operator": "In", "values": [world.node_name("a")]}]
    here = world.selector

    def terms(**term: Any) -> Json:
        return {"nodeSelectorTerms": [term]}

    asked = [
        replica("1", here),
        replica("1", here, tolerations=tolerations),
        replica("1", here, tolerations=tolerations, hardNodeAffinity=terms(matchExpressions=zones)),
        replica("1", here, tolerations=tolerations, hardNodeAffinity=terms(matchFields=names)),
    ]

    def numbers() -> list[int]:
        return [each["number"] for each in client.ask(*({"replicaRequirements": each} for each in asked))]

    wait_for(numbers, until=lambda found: found == [4, 6, 2, 4], what="all nodes to count")


def test_unschedulable_replicas_and_errors_arrive(client: KarmadaClient, world: World) -> None:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": world.namespace, "name": "web"}
    (unknown,) = client.ask({"resource": resource})
    assert f"NotFound desc = Deployment {world.namespace}/web is not known" in unknown["error"]
    (other,) = client.ask({"replicaRequirements": replica("1", {})}, cluster="other")
    assert f"FailedPrecondition desc = cluster: this is {CLUSTER}, not other" in other["error"]
