"""The soak, played for a moment: it ends well beside a sound operator, and not beside one that forgets."""

import asyncio

from devcluster import LocalCluster
from soak.__main__ import growth, play
from soak.lives import KINDS
from soak.run import Plan


def test_half_a_minute_of_churn_loses_nothing_and_leaves_nothing(private_cluster: LocalCluster) -> None:
    plan = Plan(minutes=0.4, rate=10, nodes=8, shaky_nodes=3, patience=120, seed=1)
    outcome = asyncio.run(play(private_cluster, plan))
    assert outcome.faults == []
    assert outcome.lives.keys() == KINDS.keys()
    assert "too short to tell" in growth(outcome.samples)
