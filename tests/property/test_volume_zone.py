"""VolumeZone over all nodes at once against its rules for one node."""

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import Json, pod
from property import disks
from property.disks import BETA_ZONE, REGION, World
from property.oracles import volume_zone as oracle
from storage import ZONE, claim, storage_class, using, volume
from tidelock.framework.api import Code
from tidelock.model.pods import Pod
from tidelock.plugins.volume_zone import VolumeZone

LABELS = st.sampled_from(
    [
        {ZONE: "a"},
        {ZONE: "b", REGION: "east"},
        {ZONE: "a__b"},
        {ZONE: "b__c", REGION: "east__west"},
        {REGION: "west"},
        {BETA_ZONE: "a"},
        {BETA_ZONE: "b", ZONE: "a"},
        {ZONE: "a__", "disk": "ssd"},
        {},
    ]
)
CLAIMS: st.SearchStrategy[Json] = st.sampled_from(
    [
        *({"volume": f"disk-{number}"} for number in range(1, 6)),
        {"storage_class": "local"},
        {"volume": "gone"},
        {"storage_class": "slow"},
        {"storage_class": "unheard-of"},
        {"storage_class": None},
    ]
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    classes = [storage_class("local"), storage_class("slow", mode="Immediate")]
    volumes = [volume(name, labels=draw(LABELS)) for name in disks.VOLUMES]
    claims = [claim(name, **draw(CLAIMS)) for name in disks.CLAIMS]
    return World(draw(disks.nodes()), [], [*classes, *volumes, *claims])


WANTING = st.lists(st.sampled_from([*disks.CLAIMS] * 3 + disks.GONE), min_size=1, max_size=2)


@given(worlds(), WANTING.map(lambda names: pod("web-0", **using(*names))))
@settings(deadline=None)
def test_all_nodes_are_filtered_as_one_node_at_a_time(world: World, wanting: Pod) -> None:
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
