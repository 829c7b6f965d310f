"""InterPodAffinity over all nodes at once against the same rules for one node and pod."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from property import neighbours
from property.neighbours import World
from property.oracles import inter_pod_affinity as oracle
from tidelock.cluster.cache import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod
from tidelock.plugins.inter_pod_affinity import InterPodAffinity

WORLDS = neighbours.worlds(affinity=True)
PODS = neighbours.pods("web-0", affinity=True)


@given(WORLDS, PODS)
@settings(deadline=None)
def test_all_nodes_are_judged_as_each_would_be(world: World, wanting: Pod) -> None:
    judgement = world.scene().judge(InterPodAffinity, wanting)
    expected = oracle.verdicts(world, wanting)

    assert judgement.fitting == {name for name, why in expected.items() if why == oracle.MATCHES}
    for name, why in expected.items():
        if why:
            assert judgement.reasons(name) == (why,)
            assert judgement.resolvable(name) == (why != oracle.AFFINITY)
    if judgement.status.code is Code.SKIP:
        assert set(expected.values()) == {oracle.MATCHES}


@given(WORLDS, PODS, st.sampled_from([0, 1, 100]), st.booleans(), st.data())
@settings(deadline=None)
def test_scores_are_those_of_the_formula(
    world: World, wanting: Pod, hard: int, ignore: bool, data: st.DataObject
) -> None:
    feasible = data.draw(st.lists(st.sampled_from(world.nodes), min_size=1, unique_by=lambda each: each.name))
    judgement = world.scene().judge(
        InterPodAffinity, wanting, hardPodAffinityWeight=hard, ignorePreferredTermsOfExistingPods=ignore
    )

    scores = judgement.scores_among(*(each.name for each in feasible))

    assert scores == oracle.scores(world, wanting, feasible, hard=hard, ignore=ignore)


@given(WORLDS, PODS, st.data())
@settings(deadline=None)
def test_what_would_be_is_as_if_it_were(world: World, wanting: Pod, data: st.DataObject) -> None:
    """Pods that are added and removed count as if they had been there, or had not; on a few nodes too."""
    gone = (
        data.draw(st.lists(st.sampled_from(world.placed), unique_by=id, max_size=2)) if world.placed else []
    )
    homes = st.sampled_from([each.name for each in world.nodes])
    new = neighbours.pods
    come = [(data.draw(new(f"new-{index}", affinity=True)), data.draw(homes)) for index in range(2)]
    scene = world.scene()
    snapshot, state = Snapshot.of(scene.columns), CycleState()
    plugin = InterPodAffinity(scene.handle, {})
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
