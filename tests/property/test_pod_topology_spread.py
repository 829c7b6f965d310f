"""PodTopologySpread over all nodes at once against the same rules for one node, domain and pod."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import node, pod
from property import neighbours
from property.neighbours import HOSTNAME, KEYS, SELECTORS, TOLERATIONS, ZONE, Json, World, without_none
from property.oracles import pod_topology_spread as oracle
from tidelock.cluster.cache import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod, SpreadConstraint
from tidelock.model.selectors import LabelSelector
from tidelock.model.workloads import Service
from tidelock.plugins.pod_topology_spread import PodTopologySpread

POLICIES = st.sampled_from([None, "Honor", "Ignore"])


@st.composite
def constraints(draw: st.DrawFn, action: str) -> Json:
    return without_none(
        {
            "maxSkew": draw(st.integers(1, 3)),
            "topologyKey": draw(KEYS),
            "whenUnsatisfiable": action,
            "labelSelector": draw(SELECTORS),
            "minDomains": draw(st.sampled_from([None, None, 1, 2, 4])),
            "nodeAffinityPolicy": draw(POLICIES),
            "nodeTaintsPolicy": draw(POLICIES),
            "matchLabelKeys": draw(st.sampled_from([None, None, ["tier"], ["absent"]])),
        }
    )


@st.composite
def spreading_pods(draw: st.DrawFn) -> Pod:
    hard = draw(st.lists(constraints("DoNotSchedule"), max_size=2))
    soft = draw(st.lists(constraints("ScheduleAnyway"), max_size=2))
    spec: dict[str, Any] = {
        "nodeSelector": draw(st.sampled_from([{}, {}, {ZONE: "a"}])),
        "tolerations": draw(TOLERATIONS),
    }
    return draw(neighbours.pods("web-0", topologySpreadConstraints=hard + soft, **spec))


@given(neighbours.worlds(), spreading_pods())
@settings(deadline=None)
def test_all_nodes_are_judged_as_each_would_be(world: World, wanting: Pod) -> None:
    judgement = world.scene().judge(PodTopologySpread, wanting)
    expected = oracle.verdicts(world, wanting)

    assert judgement.fitting == {name for name, why in expected.items() if why == oracle.MATCHES}
    for name, why in expected.items():
        if why:
            assert judgement.reasons(name) == (why,)
            assert judgement.resolvable(name) == (why == oracle.TOO_MANY)
    if judgement.status.code is Code.SKIP:
        assert set(expected.values()) == {oracle.MATCHES}


@given(neighbours.worlds(), spreading_pods(), st.data())
@settings(deadline=None)
def test_scores_are_those_of_the_formula(world: World, wanting: Pod, data: st.DataObject) -> None:
    feasible = data.draw(st.lists(st.sampled_from(world.nodes), min_size=1, unique_by=lambda each: each.name))
    judgement = world.scene().judge(PodTopologySpread, wanting)
    soft = oracle.constraints_of(wanting, "ScheduleAnyway")

    scores = judgement.scores_among(*(each.name for each in feasible))

    if soft:
        assert scores == oracle.scores(world, wanting, feasible, soft)
    else:
        assert set(scores.values()) == {0}


@given(neighbours.worlds(), neighbours.pods("web-0"), st.booleans())
@settings(deadline=None)
def test_default_constraints_are_for_the_pods_of_the_services(
    world: World, wanting: Pod, by_system: bool
) -> None:
    """Those of the system score nodes without a zone by their names alone; a list's don't."""
    scene = world.scene()
    selector = wanting.meta.labels
    metadata = {"name": "web", "namespace": wanting.meta.namespace}
    service = msgspec.convert({"metadata": metadata, "spec": {"selector": selector}}, Service)
    scene.objects.services.upsert(None, service)
    defaults = [(3, HOSTNAME), (5, ZONE)]
    plain = [
        {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"} for skew, key in defaults
    ]
    args: Json = {} if by_system else {"defaultingType": "List", "defaultConstraints": plain}
    read = [
        SpreadConstraint(skew, key, "ScheduleAnyway", LabelSelector(match_labels=selector))
        for skew, key in defaults
    ]

    judgement = scene.judge(PodTopologySpread, wanting, **args)

    assert judgement.status.code is Code.SKIP
    expected = oracle.scores(world, wanting, world.nodes, read, require_keys=not by_system)
    assert judgement.scores == (expected if selector else dict.fromkeys(expected, 0))


@given(neighbours.worlds(), spreading_pods(), st.data())
@settings(deadline=None)
def test_what_would_be_is_as_if_it_were(world: World, wanting: Pod, data: st.DataObject) -> None:
    """Pods that are added and removed count as if they had been there, or had not; on a few nodes too."""
    gone = (
        data.draw(st.lists(st.sampled_from(world.placed), unique_by=id, max_size=2)) if world.placed else []
    )
    homes = st.sampled_from([each.name for each in world.nodes])
    come = [(data.draw(neighbours.pods(f"new-{index}")), data.draw(homes)) for index in range(2)]
    scene = world.scene()
    snapshot, state = Snapshot.of(scene.columns), CycleState()
    plugin = PodTopologySpread(scene.handle, {})
    if plugin.pre_filter(state, wanting, snapshot).code is Code.SKIP:
        return
    before = plugin.filter(state, wanting, snapshot)
    rows = np.array(data.draw(st.lists(st.sampled_from(range(len(world.nodes))), min_size=1)), np.intp)
    narrow, tried = snapshot.take(rows), state.clone()

    for other, home in gone:
        plugin.remove_pod(tried, wanting, Placed(other, home, assumed=False), narrow)
    for other, home in come:
        plugin.add_pod(tried, wanting, Placed(other, home, assumed=False), narrow)

    changed = oracle.verdicts(world.without(*gone).with_pods(*come), wanting)
    expected = [changed[each.name] == oracle.MATCHES for each in narrow.nodes]
    assert plugin.filter(tried, wanting, narrow).tolist() == expected
    for place, each in enumerate(narrow.nodes):
        if changed[each.name]:
            assert plugin.reasons(tried, wanting, narrow, place) == (changed[each.name],)
    assert np.array_equal(plugin.filter(state, wanting, snapshot), before), "what is, is left alone"


def test_the_formula_rates_emptier_domains_higher() -> None:
    """The reference itself, by hand: zones of 2, 1 and 0 pods, ln 5 each, rounded to 3, 2 and 0."""
    placed = [(pod(f"o-{i}", labels={"app": "web"}), name) for i, name in enumerate("aab")]
    there = [node(name, labels={ZONE: name}) for name in "abc"]
    soft = SpreadConstraint(1, ZONE, "ScheduleAnyway", LabelSelector(match_labels={"app": "web"}))

    scores = oracle.scores(World(there, placed, {}), pod(), there, [soft])

    assert scores == pytest.approx({"a": 0, "b": 33, "c": 100})
