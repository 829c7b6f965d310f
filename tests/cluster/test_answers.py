"""Reservations that are answered in the response to their own creation, by the real webhook."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from cluster.api import Api, Manifest
from cluster.door import creation_webhook, operating
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.loopback import free_ports
from tidelock.kube.client import RESERVATIONS
from tidelock.model.answer import ANSWER


def wanted(world: World, name: str = "web-0", cpu: str = "1", **spec: object) -> Manifest:
    """Return a reservation that asks for an answer."""
    metadata = {"generateName": name} if name.endswith("-") else {"name": name}
    owners = [{"pod": {"name": "web-0"}}]
    return {
        "apiVersion": "tidelock.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": metadata,
        "spec": {
            "answer": "Immediate",
            "nodeSelector": world.selector,
            "owners": owners,
            "resources": {"cpu": cpu},
            "ttlSeconds": 600,
            **spec,
        },
    }


def create(world: World, body: Manifest, query: str = "") -> Manifest:
    """Create a reservation and return the API server's response."""
    return world.api.create(f"{RESERVATIONS.collection(world.namespace)}{query}", body)


def answer_of(created: Manifest) -> Manifest:
    """Return the status in the answer."""
    answer: Manifest = json.loads(created["metadata"]["annotations"][ANSWER])["status"]
    return answer


@pytest.fixture(scope="module")
def answering(
    private_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Run the operator with the webhook that answers creations."""
    (port,) = free_ports(1)
    api = Api(private_cluster.kubeconfig)
    folder = tmp_path_factory.mktemp("answering")
    with (
        operating(private_cluster, folder, "--answers", port=port) as process,
        creation_webhook(private_cluster, api, port),
        closing(World(api)) as trial,
    ):
        wait_for(
            lambda: create(trial, wanted(trial), "?dryRun=All")["metadata"].get("annotations"),
            what="an answer",
            timeout=60,
        )
        yield process


def test_the_response_to_a_creation_has_the_node_and_the_end(
    answering: OperatorProcess, private_world: World
) -> None:
    node = private_world.node(cpu="4")
    created = create(private_world, wanted(private_world))
    answer = answer_of(created)
    assert (answer["phase"], answer["nodeName"], answer["resources"]) == ("Active", node.name, {"cpu": "1"})
    lock = private_world.member("web-0")
    status = lock.until_phase("Active")
    assert {name: status[name] for name in answer} == answer
    assert lock.until_condition("Active", "True", "Admitted")
