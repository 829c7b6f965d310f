"""A short run of the soak.

It needs an API server that serves thousands of changes to a disturbed operator.
"""

import asyncio
from collections.abc import Iterator

import pytest

from cluster.api import Api
from devcluster import LocalCluster
from devcluster.identity import SYSTEM_NAMESPACE
from soak.__main__ import growth, run_plan
from soak.lives import KINDS
from soak.run import Plan
from tidelock.kube.lease import LEASES


@pytest.fixture
def cluster(private_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """Yield the private cluster, and delete its Lease after the test.

    With the Lease the fence would refuse operators that other tests start without an election.
    """
    yield private_cluster
    Api(private_cluster.kubeconfig).delete(LEASES.item("tidelock", SYSTEM_NAMESPACE))


@pytest.mark.nightly
def test_half_a_minute_of_churn_loses_nothing_and_leaves_nothing(cluster: LocalCluster) -> None:
    plan = Plan(minutes=0.3, rate=10, nodes=8, changing_nodes=3, patience=120, seed=1)
    outcome = asyncio.run(run_plan(cluster, plan))
    assert outcome.faults == []
    assert outcome.lives.keys() == KINDS.keys()
    assert "too short to tell" in growth(outcome.samples)
