"""NodeVolumeLimits, which counts by deltas, against a full count for one node."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from property import disks
from property.disks import World
from property.oracles import node_volume_limits as oracle
from storage import drop, put
from tidelock.framework.api import Code
from tidelock.model.pods import Pod
from tidelock.plugins.node_volume_limits.plugin import NodeVolumeLimits

SOURCES = disks.CLAIM_SOURCES
WORLDS = disks.worlds(SOURCES, disks.OF_A_DRIVER)


@given(WORLDS, disks.pods("web-0", SOURCES))
@settings(deadline=None)
def test_all_nodes_are_filtered_as_one_node_at_a_time(world: World, wanting: Pod) -> None:
    disks.assert_filtered(world.scene().judge(NodeVolumeLimits, wanting), world, oracle.reasons)


@given(WORLDS, WORLDS, disks.pods("web-0", SOURCES), st.data())
@settings(deadline=None)
def test_counts_follow_events_in_any_order(
    earlier: World, world: World, wanting: Pod, data: st.DataObject
) -> None:
    """Check a cluster that becomes another one, event by event, with a query in between."""
    scene = earlier.scene()
    plugin = NodeVolumeLimits(scene.handle, {})
    kept = {(type(each), each.meta.name) for each in world.stored}
    steps: list[Callable[[], Any]] = [
        *(lambda each=each: put(scene.objects, each) for each in world.stored),
        *(
            lambda each=each: drop(scene.objects, each)
            for each in earlier.stored
            if (type(each), each.meta.name) not in kept
        ),
        *(lambda each=each: scene.cache.forget(each.uid) for each, _ in earlier.placed),
        *(lambda each=each: scene.cache.drop_node(each.name) for each in earlier.nodes),
        lambda: scene.judging(plugin, wanting),
    ]
    for step in data.draw(st.permutations(steps)):
        step()
    for each in world.nodes:
        scene.cache.put_node(each)
    for other, node_name in world.placed:
        scene.cache.assume(other, node_name)

    judged = scene.judging(plugin, wanting)
    disks.assert_filtered(judged, world, oracle.reasons)


@given(WORLDS, disks.pods("web-0", SOURCES), st.data())
@settings(deadline=None)
def test_add_pod_and_remove_pod_give_the_same_answer_as_a_changed_cluster(
    world: World, wanting: Pod, data: st.DataObject
) -> None:
    judged = world.scene().judge(NodeVolumeLimits, wanting)
    if judged.status.code is not Code.SUCCESS:
        return
    disks.assert_filtered(judged, disks.moved(data, judged, world, SOURCES), oracle.reasons)
