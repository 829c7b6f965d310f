"""An operator that is newer than the CRDs: the API server drops the fields of statuses that these lack.

It needs an API server that drops the fields that a schema lacks.
"""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from cluster.api import Api
from cluster.crds import install_crds
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, wait_for
from tidelock.kube.client import RESERVATIONS

NO_EFFECT = "a write had no effect"
COUNTED = 'tidelock_api_write_errors_total{reason="NoEffect",write="reservation"}'
CRD = f"{RESERVATIONS.plural}.{RESERVATIONS.group}"


@pytest.fixture
def older_crd(private_cluster: LocalCluster) -> Iterator[None]:
    """Take a field of the conditions of Reservations out of their CRD for a while."""
    status = "/spec/versions/0/schema/openAPIV3Schema/properties/status"
    path = f"{status}/properties/conditions/items/properties/observedGeneration"
    patch = json.dumps([{"op": "remove", "path": path}])
    try:
        private_cluster.kubectl("patch", "crd", CRD, "--type=json", f"--patch={patch}")
        yield
    finally:
        install_crds(private_cluster)


@pytest.fixture
def other_world(private_cluster: LocalCluster) -> Iterator[World]:
    with closing(World(Api(private_cluster.kubeconfig))) as made:
        yield made


@pytest.mark.usefixtures("older_crd")
def test_statuses_with_a_field_that_the_crd_lacks_keep_no_other_status_waiting(
    private_operator: OperatorProcess, private_world: World, other_world: World
) -> None:
    """Regression: two waiting Reservations were written for ever, and no other one got a status.

    The API server drops the field, and a write that changes nothing keeps the resource version.
    """
    for index in range(4):
        private_world.reservation(f"waiting-{index}", cpu="64")
    wait_for(lambda: private_operator.log.count(NO_EFFECT) >= 12, what="writes without an effect")
    other_world.reservation("later", cpu="64").until_phase("Pending")
    node = other_world.node(cpu="1")
    active = other_world.active_reservation(cpu="1", node=node)
    assert not any("observedGeneration" in each for each in active.status()["conditions"])
    assert private_operator.metrics()[COUNTED] >= 12
