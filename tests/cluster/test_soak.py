"""The soak, played for a moment."""

import asyncio
from collections.abc import Iterator

import pytest

from cluster.api import Api
from devcluster import LocalCluster
from devcluster.identity import SYSTEM_NAMESPACE
from soak.__main__ import growth, play
from soak.lives import KINDS
from soak.run import Plan
from tidelock.kube.lease import LEASES


@pytest.fixture
def cluster(private_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The private cluster; its Lease goes with the test, as it refuses whoever has not been elected."""
    yield private_cluster
    Api(private_cluster.kubeconfig).delete(LEASES.item("tidelock", SYSTEM_NAMESPACE))


def test_half_a_minute_of_churn_loses_nothing_and_leaves_nothing(cluster: LocalCluster) -> None:
    plan = Plan(minutes=0.3, rate=10, nodes=8, shaky_nodes=3, patience=120, seed=1)
    outcome = asyncio.run(play(cluster, plan))
    assert outcome.faults == []
    assert outcome.lives.keys() == KINDS.keys()
    assert "too short to tell" in growth(outcome.samples)
