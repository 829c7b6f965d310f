"""A stock kube-scheduler with Tidelock as its extender honours reservations, and owners use them.

It needs an API server that leads a kube-scheduler to the extender by a Service, and binds its pods once.
"""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from cluster.api import Api, Manifest, RefusedError
from cluster.binder_server import ADDRESS, BY_STOCK, authority, bound_nodes, operating, stock_scheduler
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.binders import scheduler_configuration, scheduler_keys
from devcluster.identity import SYSTEM_NAMESPACE
from devcluster.keys import Keys
from devcluster.loopback import free_ports
from tidelock.binders.endpoint import SERVICE, SLICES


class Extender(NamedTuple):
    """The operator's port, the authority that a scheduler must trust, and the scheduler's own keys."""

    port: int
    authority: Path
    keys: Keys


@pytest.fixture(scope="module")
def extender(private_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    """Run the operator as an extender for other schedulers, without the webhook that reviews bindings."""
    (port,) = free_ports(1)
    folder = tmp_path_factory.mktemp("extending")
    api = Api(private_cluster.kubeconfig)
    with operating(private_cluster, folder, "--extender", port=port):
        yield Extender(port, authority(api, folder, port), scheduler_keys(private_cluster))


def test_the_leader_is_the_endpoint_of_the_service(extender: Extender, private_cluster: LocalCluster) -> None:
    api = Api(private_cluster.kubeconfig)
    path = SLICES.item(SERVICE, SYSTEM_NAMESPACE)

    def current() -> Manifest:  # the slice of an earlier operator can still exist
        found = _found(api, path)
        return found if found and [port["port"] for port in found["ports"]] == [extender.port] else {}

    slice_ = wait_for(current, what="the EndpointSlice of this operator", timeout=60)
    assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == SERVICE
    assert [each["addresses"] for each in slice_["endpoints"]] == [[ADDRESS]]


def _found(api: Api, path: str) -> Manifest:
    """Read an object, or return an empty one if it does not exist yet."""
    try:
        return api.get(path)
    except RefusedError:
        return {}


@pytest.mark.parametrize("capable", [True, False])
def test_kube_scheduler_with_the_extender_honours_reservations(
    extender: Extender, private_cluster: LocalCluster, private_world: World, capable: bool
) -> None:
    reserved, other = private_world.node("a", cpu="4"), private_world.node("b", cpu="8")
    reservation = private_world.active_reservation(cpu="3", node=reserved)
    settings = scheduler_configuration(*extender, nodeCacheCapable=capable, ignorable=False)
    with stock_scheduler(private_cluster, settings):
        pods = [private_world.pod(f"stock-{i}", **BY_STOCK) for i in range(12)]
        bound = wait_for(
            lambda: bound_nodes(pods), until=lambda nodes: len(nodes) == 9, what="nine to run", timeout=60
        )
        assert (bound.count(reserved.name), bound.count(other.name)) == (1, 8)
        waiting = next(pod for pod in pods if not bound_nodes([pod]))
        waiting.until_refused("Insufficient cpu beside reservations")
        assert reservation.status()["phase"] == "Active"

        owner = private_world.pod(cpu="3", **BY_STOCK)
        assert owner.until_bound() == reserved.name
        reservation.until_gone()
    assert private_world.taken_cpu(reserved) == Decimal(4)
    assert private_world.taken_cpu(other) == Decimal(8)


def test_kube_scheduler_sends_owners_to_their_reservations(
    extender: Extender, private_cluster: LocalCluster, private_world: World
) -> None:
    small, *_ = (private_world.node(name, cpu=cpu) for name, cpu in (("a", "2"), ("b", "64"), ("c", "64")))
    reservation = private_world.active_reservation(cpu="1", node=small)
    with stock_scheduler(private_cluster, scheduler_configuration(*extender)):
        assert private_world.pod(cpu="1", **BY_STOCK).until_bound() == small.name
        reservation.until_gone()
