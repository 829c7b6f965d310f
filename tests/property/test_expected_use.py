"""Expected use that is kept by deltas equals the sums of a new process, after any events and queries."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW, level, node, pod, pod_use, usage
from tidelock.cluster.usage import expected_use
from tidelock.cluster.usage.levels import NEVER, NodeLevels
from tidelock.cluster.usage.measurements import at_once
from tidelock.cluster.usage.sums import Sums, UseRule, own_use, since_sample, uncovered
from tidelock.framework.measured_use import follow_expected_use
from tidelock.model.pods import Pod
from tidelock.model.usage_annotations import NODE_LEVEL, MeasuredUses, PodMeans, PodUsage, WorkloadKey
from unit.plugins.scene import Scene

WORKLOADS = ("web", "db")
RULES: dict[str, UseRule] = {"uncovered": uncovered, "since": since_sample(60), "own": own_use(900)}


def use_of(pod: Pod) -> tuple[float, float]:
    return pod.likely_use


class World:
    """A cluster that changes, with sums that follow it from the beginning."""

    def __init__(self, rule: UseRule) -> None:
        self.scene = Scene()
        self.rule = rule
        self.levels = self.followed_levels()
        self.residents = self.follower()
        self.copy: dict[str, list[float]] = {}
        self.pods: dict[str, PodMeans] = {}
        self.histories: dict[WorkloadKey, PodUsage] = {}

    def followed_levels(self) -> NodeLevels:
        levels = NodeLevels()
        self.scene.cache.add_observer(levels)
        return levels

    def follower(self) -> Sums:
        residents = follow_expected_use(self.scene.handle, estimate=use_of, measured=True)
        return residents.summed(self.rule)

    def put_node(self, number: int, age: float) -> None:
        annotations = {NODE_LEVEL: level(10, 10, at=NOW - age)} if age else {}
        self.scene.cache.put_node(node(f"node-{number}", annotations=annotations))

    def drop_node(self, number: int) -> None:
        self.scene.cache.drop_node(f"node-{number}")

    def assume(self, number: int, where: int, kind: int) -> None:
        if self.scene.cache.get(f"uid-pod-{number}") is None:
            self.scene.cache.assume(self._pod(number, kind), f"node-{where}")

    def bind(self, number: int, where: int, kind: int, age: float) -> None:
        fields = {"node_name": f"node-{where}", "bound_at": NOW - age}
        self.scene.cache.upsert(self._pod(number, kind, **fields))

    def forget(self, number: int) -> None:
        self.scene.cache.forget(f"uid-pod-{number}")

    def remove(self, number: int) -> None:
        self.scene.cache.remove(f"uid-pod-{number}")

    def measure(self, number: int, cores: float, age: float) -> None:
        self.pods[f"uid-pod-{number}"] = pod_use(cores, cores * 1e9, at=NOW - age)
        at_once(self.scene.measurements.take(MeasuredUses(dict(self.pods), dict(self.histories))))

    def remember(self, workload: int, cores: float) -> None:
        self.histories[WorkloadKey("StatefulSet", "shop", WORKLOADS[workload])] = usage(cores, cores * 1e9)
        at_once(self.scene.measurements.take(MeasuredUses(dict(self.pods), dict(self.histories))))

    def reservation(self, where: int, cores: int) -> None:
        name = f"node-{where}"
        if name in self.scene.columns.row_of and not self.scene.ledger.entries:
            self.scene.reservation("lock", name, resources={"cpu": str(cores)})

    def unlock(self) -> None:
        self.scene.ledger.advance(NOW + 99_999)

    def ask(self) -> dict[str, list[float]]:
        """Compute the sums, and copy the rows that are reported as changed."""
        found = self.sums(self.levels, self.residents)
        names = [each.name for each in self.scene.columns.nodes]
        for row in self.residents.take_changed_rows().tolist():
            if row < len(names):
                self.copy[names[row]] = found[names[row]]
        return found

    def sums(self, levels: NodeLevels, residents: Sums) -> dict[str, list[Any]]:
        at = np.where(np.isfinite(levels.at), levels.at, NEVER)
        defaults = np.full((2, len(at)), 7.0)
        found = residents.of(at, defaults)
        names = (each.name for each in self.scene.columns.nodes)
        return {name: found[:, :, row].ravel().tolist() for row, name in enumerate(names)}

    def _pod(self, number: int, kind: int, **fields: Any) -> Pod:
        requests = ({}, {"cpu": "1"}, {"memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"})[kind]
        owner = WORKLOADS[number % 3] if number % 3 < len(WORKLOADS) else ""
        controller = f"apps/v1/StatefulSet/{owner}" if owner else ""
        return pod(f"pod-{number}", requests=requests, controller=controller, **fields)


PODS, NODES, KINDS = st.integers(0, 5), st.integers(0, 3), st.integers(0, 3)
AGES = st.sampled_from([0.0, 30.0, 100.0, 1000.0, 5000.0])
CORES = st.integers(1, 8).map(float)
STEPS: st.SearchStrategy[Callable[[World], None]] = st.one_of(
    st.builds(lambda n, age: lambda world: world.put_node(n, age), NODES, AGES),
    st.builds(lambda n: lambda world: world.drop_node(n), NODES),
    st.builds(lambda p, n, k: lambda world: world.assume(p, n, k), PODS, NODES, KINDS),
    st.builds(lambda p, n, k, age: lambda world: world.bind(p, n, k, age), PODS, NODES, KINDS, AGES),
    st.builds(lambda p: lambda world: world.forget(p), PODS),
    st.builds(lambda p: lambda world: world.remove(p), PODS),
    st.builds(lambda p, cores, age: lambda world: world.measure(p, cores, age), PODS, CORES, AGES),
    st.builds(lambda w, cores: lambda world: world.remember(w, cores), st.integers(0, 1), CORES),
    st.builds(lambda n, cores: lambda world: world.reservation(n, cores), NODES, st.integers(1, 3)),
    st.just(lambda world: world.unlock()),
    st.just(lambda world: world.ask()),
)


@pytest.mark.parametrize("few", [0, 32])
@given(rule=st.sampled_from(sorted(RULES)), steps=st.lists(STEPS, max_size=40))
@settings(deadline=None)
def test_a_new_process_computes_the_same_expected_use(
    few: int, rule: str, steps: list[Callable[[World], None]]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(expected_use, "_FEW", few)  # both ways of summing
        patched.setattr(expected_use, "_SLICE", 2)
        patched.setattr(expected_use, "_NODES_A_SLICE", 2)
        world = World(RULES[rule])
        for step in steps:
            step(world)
        followed = world.ask()
        anew = world.sums(world.followed_levels(), world.follower())
    assert followed.keys() == anew.keys()
    for name, figures in followed.items():
        assert figures == pytest.approx(anew[name], rel=1e-9, abs=1e-6), name
        assert world.copy[name] == figures, name
