"""The operator as an estimator for Karmada, on a real API server with the rights of its component.

It needs an API server that authorizes the rights of the component, and leads to it by a Service.
"""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from cluster import karmada
from cluster.api import Api
from cluster.binder_server import ADDRESS
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import SYSTEM_NAMESPACE, operator_kubeconfig
from devcluster.karmada import CLUSTER, EstimatorClient, assumed, component, entries, replica, tls_folder
from devcluster.keys import Keys
from devcluster.loopback import free_ports
from tidelock.binders.endpoint import SLICES
from tidelock.integrations.karmada.server import ENDPOINT
from tidelock.kube.client import ApiResource

REPLICA_SETS = ApiResource("apps", "v1", "replicasets", "ReplicaSet")
CORE = {"cpu": "1"}


class Estimator(NamedTuple):
    """The operator's port, and the keys of the callers that it answers."""

    port: int
    keys: Keys


@pytest.fixture(scope="module")
def estimator(private_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Estimator]:
    """Run the operator with the options and the rights of the component for Karmada."""
    (port,) = free_ports(1)
    folder = tmp_path_factory.mktemp("estimating")
    keys = Keys.under(private_cluster.directory / "keys")
    options = (
        f"--karmada-cluster={CLUSTER}",
        f"--karmada-port={port}",
        f"--karmada-tls={tls_folder(folder / 'tls', keys)}",
        f"--karmada-address={ADDRESS}",
    )
    kubeconfig = operator_kubeconfig(private_cluster, folder, "components/karmada")
    with OperatorProcess(kubeconfig, folder, *options) as process:
        yield Estimator(port, keys)
        assert process.stop() == 0
    assert "Traceback" not in process.log


def ask(estimator: Estimator, world: World, question: str) -> int:
    """Ask a question of the page about the nodes of a test."""
    here = entries(2, world.selector)
    replicas = replica(CORE, here)

    async def answer() -> int:
        async with EstimatorClient(estimator.port, estimator.keys) as client:
            match question:
                case karmada.REPLICAS:
                    return await client.replicas(replicas)
                case karmada.ASSUMED:
                    return await client.replicas(
                        replicas, assumed(component("api", 1, {"cpu": "500m"}, here))
                    )
                case karmada.SETS:
                    half = component("half", 1, {"cpu": "500m"}, here)
                    return await client.sets(component("whole", 1, CORE, here), half)
                case karmada.ELSEWHERE:
                    return await client.replicas(replica(CORE, entries(2, {"zone": "elsewhere"})))
        raise AssertionError(question)

    return asyncio.run(answer())


def test_the_example_of_the_page(estimator: Estimator, private_world: World) -> None:
    node = private_world.node(cpu="4")
    wait_for(lambda: ask(estimator, private_world, karmada.REPLICAS), what="the operator to know the node")
    karmada.ask_all(lambda question: ask(estimator, private_world, question), 0)
    private_world.active_reservation("web-0", karmada.reserved_cpu(), node)
    karmada.ask_all(lambda question: ask(estimator, private_world, question), 1)


def test_pods_that_their_scheduler_calls_unschedulable_are_counted(
    estimator: Estimator, private_world: World
) -> None:
    labels = {"app": "web"}
    made = private_world.api.create(
        REPLICA_SETS.collection(private_world.namespace),
        {
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": private_world.pod_spec("64")},
            },
        },
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": made["metadata"]["uid"]}
    metadata = {"labels": labels, "ownerReferences": [owner | {"controller": True}]}
    private_world.node(cpu="4")
    for name in ("web-0", "web-1"):
        pod = private_world.pod(name, "64", metadata={"name": name, **metadata})
        pod.until_refused("Insufficient cpu")

    async def count(seconds: float) -> int:
        async with EstimatorClient(estimator.port, estimator.keys) as client:
            return await client.unschedulable("ReplicaSet", private_world.namespace, "web", seconds)

    # The condition has whole seconds, and a pod counts once its second is over.
    wait_for(lambda: asyncio.run(count(0)), until=lambda found: found == 2, what="both pods to count")
    assert asyncio.run(count(3600)) == 0


def test_the_leader_is_the_endpoint_of_the_service(
    estimator: Estimator, private_cluster: LocalCluster
) -> None:
    found = Api(private_cluster.kubeconfig).get(SLICES.item(ENDPOINT, SYSTEM_NAMESPACE))
    assert [each["addresses"] for each in found["endpoints"]] == [[ADDRESS]]
    assert [(each["name"], each["port"]) for each in found["ports"]] == [("grpc", estimator.port)]


def test_a_malformed_request_is_refused_with_its_field(estimator: Estimator) -> None:
    async def send() -> None:
        async with EstimatorClient(estimator.port, estimator.keys) as client:
            await client.replicas(replica({"cpu": "a lot"}))

    with pytest.raises(GRPCError) as caught:
        asyncio.run(send())
    assert caught.value.status is Status.INVALID_ARGUMENT
    assert "replicaRequirements.resourceRequest: cpu: 'a lot' is not a quantity" in str(caught.value.message)
