"""ImageLocality and its index, after any history, against a scan of all nodes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import node, pod
from property.oracles import image_locality as oracle
from tidelock.framework.api import SKIP
from tidelock.framework.cyclestate import CycleState
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.plugins.image_locality import ImageLocality
from unit.plugins.scene import Scene

MIB = 1024 * 1024
NAMES = ["node-a", "node-b", "node-c", "node-d"]
SIZES = {
    "small:latest": 20 * MIB,
    "middle:latest": 24 * MIB + 7,
    "host:5000/large:v1": 700 * MIB + 1,
    "huge:latest": 5000 * MIB,
    "host:5000/none:latest": 0,
}
REFERENCES = st.sampled_from(["small", "middle", "huge:latest", "host:5000/large:v1", "host:5000/none", "x"])
IMAGES = st.lists(st.sampled_from(sorted(SIZES)), unique=True).map(
    lambda names: {name: SIZES[name] for name in names}
)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    def containers(least: int) -> list[dict[str, str]]:
        images = draw(st.lists(REFERENCES, min_size=least, max_size=2))
        return [{"name": f"c-{index}", "image": image} for index, image in enumerate(images)]

    volumes = [{"name": "v", "image": {"reference": draw(REFERENCES)}}] if draw(st.booleans()) else []
    return pod("web-0", containers=containers(1), initContainers=containers(0), volumes=volumes)


@given(st.lists(st.tuples(st.sampled_from(NAMES), IMAGES | st.none()), max_size=12), pods())
@settings(deadline=None)
def test_scores_match_the_formula(history: list[tuple[str, dict[str, int] | None]], wanting: Pod) -> None:
    scene, nodes = Scene(), dict[str, Node]()
    for name, images in history:
        if images is None:
            scene.cache.drop_node(name)
            nodes.pop(name, None)
        else:
            nodes[name] = node(name, images=images)
            scene.cache.put_node(nodes[name])

    judgement = scene.judge(ImageLocality, wanting)

    expected = {name: oracle.score(wanting, each, [*nodes.values()]) for name, each in nodes.items()}
    assert judgement.scores == expected
    assert isinstance(judgement.plugin, ImageLocality)
    all_rows = judgement.snapshot.traits.name_rank
    if judgement.plugin.pre_score(CycleState(), wanting, judgement.snapshot, all_rows) is SKIP:
        assert not any(expected.values())
