"""Many clients claim the last capacity at once, in all four ways: a short run of bench.contend.

It needs an API server that gives the writes of many clients one order.
"""

import asyncio
from contextlib import closing
from pathlib import Path

from bench.comparison import PEER
from bench.contend import Contest
from bench.world import NAMESPACE, admin
from cluster.api import Api
from cluster.binder_server import authority, operating, stock_scheduler, until_reviewed, webhooks
from cluster.world import World
from devcluster import LocalCluster
from devcluster.binders import scheduler_configuration, scheduler_keys
from devcluster.loopback import free_ports

ROUNDS = 3


def test_exactly_as_many_claimants_as_fit_get_capacity(private_cluster: LocalCluster, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    api = Api(private_cluster.kubeconfig)
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    contest = Contest(claimants=40, nodes=3, capacity=3)

    async def compete() -> None:
        async with admin(private_cluster) as client:
            await contest.run(client, ROUNDS)

    with (
        operating(private_cluster, tmp_path, "--extender", "--admission", port=port) as process,
        webhooks(private_cluster, api, port),
    ):
        with closing(World(api)) as trial:
            until_reviewed(trial)
        settings = scheduler_configuration(
            port, authority(api, tmp_path, port), scheduler_keys(private_cluster)
        )
        with stock_scheduler(private_cluster, settings | {"profiles": [{"schedulerName": PEER}]}):
            asyncio.run(compete())
        violations = process.metrics().get('tidelock_reservation_violations_total{policy="Keep"}', 0)
    assert contest.faults == []
    assert sum(contest.winners.values()) == ROUNDS * 9
    assert violations == 0
