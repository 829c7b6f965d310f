import numpy as np

from builders import node, pod
from tidelock.framework.api import SKIP, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod
from tidelock.plugins.image_locality import ImageLocality
from unit.plugins.scene import Scene

MIB = 1024 * 1024


def using(*images: str) -> Pod:
    return pod(containers=[{"name": f"c-{index}", "image": image} for index, image in enumerate(images)])


def pre_score(scene: Scene, wanting: Pod) -> Status:
    judgement = scene.judge(ImageLocality, wanting)
    assert isinstance(judgement.plugin, ImageLocality)
    return judgement.plugin.pre_score(CycleState(), wanting, judgement.snapshot, np.arange(1))


def test_an_image_counts_by_its_size_and_by_the_share_of_nodes_that_have_it() -> None:
    """(500 * 1/2 - 23) / (1000 - 23) is 23 %."""
    scene = Scene(node("node-a", images={"web:v1": 500 * MIB}), node("node-b"))
    assert scene.judge(ImageLocality, using("web:v1")).scores == {"node-a": 23, "node-b": 0}


def test_an_image_name_without_a_tag_means_latest() -> None:
    scene = Scene(node("node-a", images={"host:5000/web:latest": 2000 * MIB}))
    assert scene.judge(ImageLocality, using("host:5000/web")).scores == {"node-a": 100}


def test_each_container_widens_the_scale() -> None:
    """(1000 - 23) / (2000 - 23) is 49 %."""
    scene = Scene(node("node-a", images={"web:v1": 1000 * MIB}))
    assert scene.judge(ImageLocality, using("web:v1", "db:v1")).scores == {"node-a": 49}


def test_a_pod_with_images_that_no_node_has_is_skipped() -> None:
    scene = Scene(node("node-a", images={"web:v1": MIB}))
    assert pre_score(scene, using("web:v2")) is SKIP
    assert pre_score(scene, using("web:v2", "web:v1")).ok
    scene.cache.put_node(node("node-a"))
    assert pre_score(scene, using("web:v1")) is SKIP


def test_nodes_with_the_same_images_share_them() -> None:
    images = {f"registry.example.com/team/app-{index}:v1": index for index in range(9)}
    first, second = node("node-a", images=images), node("node-b", images=images)
    assert all(one is other for one, other in zip(first.images, second.images, strict=True))
