"""Tidelock decides as kube-scheduler does: the same nodes fit, for the same reasons, with the same scores.

TIDELOCK_SEEDS selects the scenarios to run: `0-127` by default, `0-511` in `make test-all`, or a single
one such as `17`.
"""

import json
from collections.abc import Sequence

import pytest

from devcluster import LocalCluster
from differential.comparison import differences
from differential.profiles import configuration
from differential.scenario import batches, name_of
from differential.scenarios import make_scenario
from differential.tidelock_side import TidelockSide
from differential.upstream import upstream
from tidelock.kube.client import NODES, PODS
from tidelock.plugins.registry import REGISTRY
from tidelock.scheduler.informers.informers import OTHERS

_PART, _WHOLE = 128, 512
_SCENARIOS_AT_ONCE = 64
_PODS_A_SCENARIO = 3
_SHOWN = 20


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seeds", batches(_PART, _WHOLE, _SCENARIOS_AT_ONCE), ids=name_of)
async def test_every_decision_agrees_with_kube_scheduler(
    scheduled_cluster: LocalCluster, seeds: Sequence[int]
) -> None:
    scenarios = [make_scenario(seed, frozenset(REGISTRY), _PODS_A_SCENARIO) for seed in seeds]
    found: list[str] = []
    bound = refused = 0
    async with upstream(scheduled_cluster) as kube_scheduler:
        try:
            await kube_scheduler.build(scenarios)
            others = {name: await kube_scheduler.list(resource) for name, (resource, _) in OTHERS.items()}
            tidelock = TidelockSide(
                configuration(), others, await kube_scheduler.list(NODES), await kube_scheduler.list(PODS)
            )
            for number in range(_PODS_A_SCENARIO):
                pods = {scenario.seed: scenario.wanting[number] for scenario in scenarios}
                decisions = await kube_scheduler.decide(pods.values())
                for seed, pod in pods.items():
                    decision = decisions[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"]
                    judgement = tidelock.decide(decision.raw, decision.node_name)
                    bound, refused = bound + bool(decision.node_name), refused + (not decision.node_name)
                    where = f"TIDELOCK_SEEDS={seed}, pod {number}"
                    spec = json.dumps(pod["spec"])
                    found += [f"{where}: {each}\n{spec}" for each in differences(decision, judgement)]
        finally:
            await kube_scheduler.clear(scenarios)
    assert not found, f"{len(found)} differences\n" + "\n\n".join(found[:_SHOWN])
    assert min(bound, refused) > 0 or len(seeds) < _SCENARIOS_AT_ONCE, (
        "all pods of the scenarios have the same outcome"
    )
