"""Pods that come and go in a copy of the cycle state, as preemption tries them."""

from collections.abc import Callable, Sequence

import numpy as np

from property.neighbours import Dice, Placement, World
from tidelock.cluster.placed import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod
from tidelock.plugins.inter_pod_affinity import InterPodAffinity
from tidelock.plugins.pod_topology_spread.plugin import PodTopologySpread


def assert_changes_count(
    dice: Dice,
    world: World,
    make: type[InterPodAffinity | PodTopologySpread],
    wanting: Pod,
    come: Sequence[Placement],
    verdicts: Callable[[World, Pod], dict[str, str]],
) -> None:
    """Assert that a plugin judges a subset of the nodes as if pods had gone and these had come.

    `verdicts` returns the reason that rules out each node, or an empty text. The original state must be
    unchanged.
    """
    gone = dice.some(world.placed, 0, 3)
    scene = world.scene()
    snapshot, state = Snapshot.of(scene.columns), CycleState()
    plugin = make(scene.handle, {})
    if plugin.pre_filter(state, wanting, snapshot).code is Code.SKIP:
        return
    before = plugin.filter(state, wanting, snapshot)
    narrow, tried = snapshot.take(np.array(dice.some(range(len(world.nodes)), 1, 5))), state.clone()

    plugin.filter(tried, wanting, narrow)
    for other, home in gone:
        plugin.remove_pod(tried, wanting, Placed(other, home, assumed=False), narrow)
    for other, home in come:
        plugin.add_pod(tried, wanting, Placed(other, home, assumed=False), narrow)

    changed = verdicts(world.without(*gone).with_pods(*come), wanting)
    assert plugin.filter(tried, wanting, narrow).tolist() == [not changed[each.name] for each in narrow.nodes]
    for place, each in enumerate(narrow.nodes):
        if changed[each.name]:
            assert plugin.reasons(tried, wanting, narrow, place) == (changed[each.name],)
    assert np.array_equal(plugin.filter(state.clone(), wanting, snapshot), before)
