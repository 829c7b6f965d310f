"""VolumeBinding over all nodes at once, with its assumed bindings, against its rules for one node."""

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW
from property import disks
from property.disks import World
from property.oracles import volume_binding as oracle
from tidelock.framework.api import Code
from tidelock.model.pods import Pod
from tidelock.plugins.volume_binding import unbound_volumes
from tidelock.plugins.volume_binding.plugin import VolumeBinding
from unit.plugins.scene import Judgement

PODS = disks.pods("web-0", disks.CLAIM_SOURCES)


@given(disks.worlds(disks.CLAIM_SOURCES), PODS, st.sampled_from([0, 1, 16]))
@settings(deadline=None)
def test_all_nodes_are_filtered_as_one_node_at_a_time(world: World, wanting: Pod, narrow: int) -> None:
    """Check both ways to match volumes: the one for volumes that few nodes reach, and the other one."""
    with patch.object(unbound_volumes, "_NARROW", narrow):
        assert_like(world.scene().judge(VolumeBinding, wanting), world)


@given(disks.worlds(disks.CLAIM_SOURCES), st.sampled_from([0, 1, 16]), st.data())
@settings(deadline=None)
def test_assumed_bindings_count_until_they_are_undone(world: World, narrow: int, data: st.DataObject) -> None:
    """Check that later pods see assumed bindings like written ones, and that none is left once undone."""
    scene = world.scene()
    plugin = VolumeBinding(scene.handle, {})
    wanting = [data.draw(disks.pods(f"web-{index}", disks.CLAIM_SOURCES)) for index in range(3)]
    seen = world
    decided: list[tuple[Judgement, str]] = []
    with patch.object(unbound_volumes, "_NARROW", narrow):
        for each in wanting:
            judged = scene.judging(plugin, each)
            assert_like(judged, seen)
            if judged.status.code is Code.SUCCESS and judged.fitting:
                name = data.draw(st.sampled_from(sorted(judged.fitting)))
                plugin.reserve(judged.state, each, name, NOW)
                decided.append((judged, name))
                (on,) = [node for node in world.nodes if node.name == name]
                seen = oracle.assume(seen, each, on)
        for judged, name in data.draw(st.permutations(decided)):
            plugin.unreserve(judged.state, judged.pod, name, NOW)
        for each in wanting:
            assert_like(scene.judging(plugin, each), world)


def assert_like(judged: Judgement, world: World) -> None:
    refusal = oracle.refusal(world, judged.pod)
    assert judged.status.reasons == ((refusal,) if refusal else ())
    if refusal:
        return
    disks.assert_filtered(judged, world, lambda *case: oracle.plan(*case).reasons)
    if judged.status.code is Code.SKIP:
        return
    by_name = {each.name: each for each in world.nodes}
    fitting = sorted(judged.fitting)
    assert judged.scores_among(*fitting) == {
        name: oracle.score(world, judged.pod, by_name[name]) for name in fitting
    }
