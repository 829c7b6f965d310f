"""The admission webhook reviews every binding, and the operator reports pods that bypass it.

It needs an API server that calls the webhook for each binding, and binds only then.
"""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
import yaml

from cluster.api import RefusedError
from cluster.binder_server import (
    BY_STOCK,
    bind,
    bound_nodes,
    stock_scheduler,
)
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, wait_for

REFUSALS = 'tidelock_admission_reviews_total{verdict="refused"}'
VIOLATIONS = 'tidelock_reservation_violations_total{policy="Keep"}'


@pytest.mark.parametrize("uid", [True, False])
def test_a_binding_to_reserved_capacity_is_refused_with_the_numbers(
    reviewing: OperatorProcess, private_world: World, uid: bool
) -> None:
    node = private_world.node(cpu="4")
    private_world.active_reservation(cpu="3", node=node)
    stranger, small = (
        private_world.pod("stranger", "2", **BY_STOCK),
        private_world.pod("small", "1", **BY_STOCK),
    )
    refusal = bind(stranger, node, uid=uid)
    assert f"cpu 2 needed, 1 free, 3 reserved by {private_world.namespace}/web-0" in refusal
    assert bind(small, node, uid=uid) == ""
    assert small.until_bound() == node.name
    assert bound_nodes([stranger]) == []


def test_a_pod_that_names_its_node_is_refused_too(reviewing: OperatorProcess, private_world: World) -> None:
    node = private_world.node(cpu="4")
    private_world.active_reservation(cpu="3", node=node)
    with pytest.raises(RefusedError, match="3 reserved by"):
        private_world.bound_pod(node, "large", "2")
    assert private_world.bound_pod(node, "small", "1").until_bound() == node.name
    assert private_world.taken_cpu(node) == Decimal(4)


def test_an_owner_that_another_client_binds_consumes_its_reservation(
    reviewing: OperatorProcess, private_world: World
) -> None:
    node = private_world.node(cpu="4")
    reservation = private_world.active_reservation(cpu="4", node=node)
    owner = private_world.pod(cpu="4", **BY_STOCK)
    assert bind(owner, node) == ""
    reservation.until_gone()
    assert private_world.taken_cpu(node) == Decimal(4)


def test_bindings_and_reservations_that_race_for_a_node_never_overcommit_it(
    reviewing: OperatorProcess, private_world: World
) -> None:
    violations = reviewing.metrics().get(VIOLATIONS, 0)
    node = private_world.node(cpu="8")
    pods = [private_world.pod(f"pod-{i}", **BY_STOCK) for i in range(16)]

    def take(number: int) -> bool:
        if number % 2:
            private_world.reservation(f"lock-{number}", node=node, pendingDeadlineSeconds=3600)
            return False
        return not bind(pods[number // 2], node, uid=bool(number % 4))

    with ThreadPoolExecutor(16) as clients:
        bound = sum(clients.map(take, range(32)))
    assert bound == len(bound_nodes(pods))
    wait_for(
        lambda: private_world.taken_cpu(node),
        until=lambda taken: taken == Decimal(8),
        what="all room to be given",
    )
    assert reviewing.metrics().get(VIOLATIONS, 0) == violations


def test_kube_scheduler_without_the_extender_cannot_take_reserved_capacity(
    reviewing: OperatorProcess, private_cluster: LocalCluster, private_world: World
) -> None:
    node = private_world.node(cpu="4")
    private_world.active_reservation(cpu="3", node=node)
    before = reviewing.metrics().get(REFUSALS, 0)
    with stock_scheduler(private_cluster, {}):
        pods = [private_world.pod(f"stock-{i}", **BY_STOCK) for i in range(3)]
        wait_for(lambda: bound_nodes(pods), what="one to be bound", timeout=60)
        wait_for(
            lambda: reviewing.metrics().get(REFUSALS, 0) >= before + 3,
            what="others to be refused",
            timeout=60,
        )
        assert bound_nodes(pods) == [node.name]
        owner = private_world.pod(cpu="3", **BY_STOCK)
        assert owner.until_bound() == node.name
    assert private_world.taken_cpu(node) == Decimal(4)


def test_a_static_pod_that_takes_reserved_capacity_is_named_in_the_violated_condition(
    reviewing: OperatorProcess, private_cluster: LocalCluster, private_world: World
) -> None:
    violations = reviewing.metrics().get(VIOLATIONS, 0)
    node = private_world.node(cpu="4")
    reservation = private_world.active_reservation(cpu="3", node=node)
    container = {"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": "2"}}}
    static = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "static", "namespace": private_world.namespace},
        "spec": {"nodeName": node.name, "containers": [container]},
    }
    kubelet = ("--as=system:node:a", "--as-group=system:nodes", "--as-group=system:masters")
    private_cluster.kubectl("create", *kubelet, "-f", "-", input=yaml.safe_dump(static))

    text = f"pod {private_world.namespace}/static took cpu 1 reserved on {node.name}"
    assert reservation.until_condition("Violated", "True", "CapacityTaken")["message"] == text
    assert reservation.until_condition("Active", "False", "Violated")["message"] == text
    assert reservation.status()["resources"] == {"cpu": "2"}
    wait_for(lambda: "Violated" in private_world.event_reasons(reservation), what="the event", timeout=30)
    assert reviewing.metrics()[VIOLATIONS] == violations + 1

    private_world.api.delete(f"/api/v1/namespaces/{private_world.namespace}/pods/static")
    reservation.until_condition("Active", "True", "Restored")
    assert reservation.status()["resources"] == {"cpu": "3"}
