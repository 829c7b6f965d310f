"""VolumeZone over all nodes at once against its rules for one node."""

from hypothesis import given, settings

from property import disks
from property.disks import World
from property.oracles import volume_zone as oracle
from tidelock.framework.api import Code
from tidelock.model.pods import Pod
from tidelock.plugins.volume_zone import VolumeZone


@given(disks.worlds(disks.CLAIM_SOURCES, disks.IN_ZONES), disks.pods("web-0", disks.CLAIM_SOURCES))
@settings(deadline=None)
def test_nodes_are_ruled_out_as_one_by_one(world: World, wanting: Pod) -> None:
    judged = world.scene().judge(VolumeZone, wanting)
    refusal = oracle.refusal(world, wanting)
    assert judged.status.reasons == ((refusal,) if refusal else ())
    if refusal:
        return
    expected = {each.name: oracle.reasons(world, wanting, each) for each in world.nodes}
    if judged.status.code is Code.SKIP:
        assert not any(expected.values())
        return
    assert judged.fitting == {name for name, why in expected.items() if not why}
    for name, why in expected.items():
        assert not why or judged.reasons(name) == why
