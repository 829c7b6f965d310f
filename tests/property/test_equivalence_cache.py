"""Equal pods share cached answers: each decision equals one without the cache, after any changes."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW, level, node, pod, reservation
from cycles import pod_cycle
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.index import cached_column
from tidelock.framework.api import Handle
from tidelock.framework.profile import ProfileSettings, build_profile
from tidelock.ledger.ledger import Ledger
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.usage_annotations import NODE_LEVEL
from tidelock.plugins.registry import DEFAULT_PLUGINS, REGISTRY
from tidelock.scheduler.core import equivalence_cache
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.diagnosis import Diagnosis

NODES = st.builds(
    lambda number, cpu, cordoned, taint, zone, measured: node(
        f"node-{number}",
        cpu=str(cpu),
        cordoned=cordoned,
        taints=[f"dedicated=db:{taint}"] if taint else [],
        labels={"zone": zone},
        annotations={NODE_LEVEL: level(measured[0], at=NOW + measured[1])} if measured else {},
    ),
    st.integers(0, 9),
    st.integers(1, 8),
    st.booleans(),
    st.sampled_from(["", "NoSchedule", "PreferNoSchedule"]),
    st.sampled_from("ab"),
    st.none() | st.tuples(st.integers(0, 100), st.integers(-300, 300)),
)
LIMITED = {"WaterLevelBalance": {"overloadLimits": {"cpuPercent": 60}}}
KINDS: tuple[dict[str, Any], ...] = (
    {"requests": {"cpu": "1"}},
    {"requests": {"cpu": "2"}, "tolerations": [{"operator": "Exists"}]},
    {"requests": {"memory": "1Gi"}, "nodeSelector": {"zone": "a"}},
    {"requests": {"cpu": "1"}, "annotations": {"tidelock.dev/require-reservation": "true"}},
    {},
)


class Cluster:
    """A cluster that changes, with a scheduling cycle that has a cache, and a new cycle for each decision."""

    def __init__(self) -> None:
        self.cache = Cache(Columns(capacity=2))
        self.ledger = Ledger(self.cache.columns)
        settings = ProfileSettings("mine", DEFAULT_PLUGINS, args=LIMITED)
        self.profile = build_profile(settings, REGISTRY, Handle(self.ledger.plugin_view, self.cache))
        self.cycle = pod_cycle(self.cache, self.ledger)
        self.pods: list[Pod] = []
        self.made = 0
        self.now = NOW

    def put_node(self, value: Node) -> None:
        self.cache.put_node(value)
        self.ledger.placement.settle_node(value.name, self.now)

    def drop_node(self, number: int) -> None:
        self.cache.drop_node(f"node-{number}")
        self.ledger.placement.settle_node(f"node-{number}", self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def end_pod(self, number: int) -> None:
        if self.pods:
            self.cache.remove(self.pods.pop(number % len(self.pods)).uid)

    def reservation(self, number: int, cpu: int, ahead: int) -> None:
        """Remove a reservation, or place it where it fits, for a pod that comes soon or never."""
        owner = f"pod-{self.made + ahead}"
        value = reservation(f"lock-{number}", uid=f"lock-{number}", resources={"cpu": str(cpu)}, owner=owner)
        if value.key in self.ledger.entries:
            self.ledger.remove(value)
            return
        self.ledger.upsert(value, self.now)
        for each in self.cache.columns.nodes:
            if self.cache.columns.fits(each.name, value.requests):
                self.ledger.placement.admit(self.ledger.entries[value.key], each, self.now)
                return

    def decide(self, kind: int) -> None:
        self.made += 1
        new = pod(f"pod-{self.made}", uid=str(self.made), **KINDS[kind])
        afresh = pod_cycle(self.cache, self.ledger)
        expected = afresh.schedule(self.profile, new, self.now)
        if isinstance(expected, AssumedPod):
            afresh.undo(expected, self.now)
        found = self.cycle.schedule(self.profile, new, self.now)
        if isinstance(expected, Diagnosis):
            assert found == expected
        else:
            assert isinstance(expected, AssumedPod)
            assert isinstance(found, AssumedPod)
            assert found.node_name == expected.node_name
            self.pods.append(new)


STEPS: st.SearchStrategy[Callable[[Cluster], None]] = st.one_of(
    NODES.map(lambda value: lambda cluster: cluster.put_node(value)),
    st.integers(0, 9).map(lambda number: lambda cluster: cluster.drop_node(number)),
    st.integers(0, 99).map(lambda number: lambda cluster: cluster.end_pod(number)),
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(1, 4)).map(
        lambda made: lambda cluster: cluster.reservation(*made)
    ),
    st.integers(1, 300).map(lambda seconds: lambda cluster: cluster.wait(seconds)),
    st.sampled_from(range(len(KINDS))).map(lambda kind: lambda cluster: cluster.decide(kind)),
    st.sampled_from(range(len(KINDS))).map(lambda kind: lambda cluster: cluster.decide(kind)),
)


@pytest.mark.parametrize("few", [0, 4], ids=["many at once", "few one by one"])
@settings(max_examples=100, deadline=None)
@given(nodes=st.lists(NODES, max_size=8), steps=st.lists(STEPS, max_size=40))
def test_a_decision_is_the_same_with_and_without_the_equivalence_cache(
    few: int, nodes: list[Node], steps: list[Callable[[Cluster], None]]
) -> None:
    with patch.object(equivalence_cache, "_MOST_KINDS", 3), patch.multiple(cached_column, _FEW=few, _BLOCK=5):
        cluster = Cluster()
        for each in nodes:
            cluster.put_node(each)
        for step in steps:
            step(cluster)
