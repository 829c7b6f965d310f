"""VolumeRestrictions over all nodes at once against its rules for one node."""

from hypothesis import given, settings
from hypothesis import strategies as st

from property import disks
from property.disks import World
from property.oracles import volume_restrictions as oracle
from tidelock.framework.api import Code
from tidelock.model.pods import Pod
from tidelock.plugins.volume_restrictions import VolumeRestrictions

WORLDS = disks.worlds(flavour=disks.OF_ONE_POD)


@given(WORLDS, disks.pods("web-0"))
@settings(deadline=None)
def test_all_nodes_are_filtered_as_one_node_at_a_time(world: World, wanting: Pod) -> None:
    judged = world.scene().judge(VolumeRestrictions, wanting)
    refusal = oracle.refusal(world, wanting)
    assert judged.status.reasons == ((refusal,) if refusal else ())
    if not refusal:
        disks.assert_filtered(judged, world, oracle.reasons)


@given(WORLDS, disks.pods("web-0"), st.data())
@settings(deadline=None)
def test_add_pod_and_remove_pod_give_the_same_answer_as_a_changed_cluster(
    world: World, wanting: Pod, data: st.DataObject
) -> None:
    """Check pods that are removed and added in the cycle state only."""
    judged = world.scene().judge(VolumeRestrictions, wanting)
    if judged.status.code is not Code.SUCCESS:
        return
    disks.assert_filtered(judged, disks.moved(data, judged, world), oracle.reasons)
