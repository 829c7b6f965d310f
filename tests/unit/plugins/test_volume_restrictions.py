from typing import Any

import numpy as np
import pytest

from builders import node, pod
from storage import claim, put, using
from tidelock.cluster.placed import Placed
from tidelock.framework.api import Code
from tidelock.framework.pod_claims import claim_not_found
from tidelock.model.pods import Pod
from tidelock.plugins.volume_restrictions import CLAIM_IN_USE, DISK_CONFLICT, VolumeRestrictions
from unit.plugins.scene import Judgement, Scene


def mounting(name: str, **source: Any) -> Pod:
    return pod(name, volumes=[{"name": "disk", **source}])


def gce(name: str = "pd", *, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def aws(name: str = "vol") -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": True}}


def iscsi(iqn: str = "iqn.2026-01.example:disk", *, read_only: bool = False) -> dict[str, Any]:
    return {"iscsi": {"iqn": iqn, "targetPortal": "10.0.0.1", "lun": 0, "readOnly": read_only}}


def rbd(*monitors: str, image: str = "web", pool: str = "rbd", read_only: bool = False) -> dict[str, Any]:
    return {"rbd": {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": read_only}}


def world() -> Scene:
    return Scene(node("node-a"), node("node-b"))


@pytest.mark.parametrize(
    ("mine", "theirs", "free"),
    [
        (gce(), gce(), False),
        (gce(), gce(read_only=True), False),
        (gce(read_only=True), gce(read_only=True), True),
        (gce(), gce("other"), True),
        (aws(), aws(), False),
        (aws(), aws("other"), True),
        (iscsi(), iscsi(), False),
        (iscsi(read_only=True), iscsi(read_only=True), True),
        (iscsi(), iscsi("iqn.2026-01.example:other"), True),
        (rbd("m1", "m2"), rbd("m2", "m3"), False),
        (rbd("m1"), rbd("m2"), True),
        (rbd("m1"), rbd("m1", pool="other"), True),
        (rbd("m1"), rbd("m1", image="other"), True),
        (rbd("m1", read_only=True), rbd("m1", read_only=True), True),
        (gce("same"), aws("same"), True),
    ],
)
def test_a_disk_is_mounted_once_per_node_unless_all_mounts_are_read_only(
    mine: dict[str, Any], theirs: dict[str, Any], free: bool
) -> None:
    scene = world()
    scene.cache.assume(mounting("other", **theirs), "node-a")
    judged = scene.judge(VolumeRestrictions, mounting("web-0", **mine))

    assert judged.fitting == ({"node-a", "node-b"} if free else {"node-b"})
    if not free:
        assert judged.reasons("node-a") == (DISK_CONFLICT,)


def test_a_read_write_once_pod_claim_in_use_rules_out_all_nodes() -> None:
    scene = world()
    put(scene.objects, claim("data", modes=["ReadWriteOncePod"]))
    scene.cache.assume(pod("other", **using("data")), "node-a")
    judged = scene.judge(VolumeRestrictions, pod("web-0", **using("data")))

    assert judged.fitting == set()
    assert judged.reasons("node-b") == (CLAIM_IN_USE,)


@pytest.mark.parametrize("modes", [["ReadWriteOnce"], ["ReadWriteMany"], ["ReadOnlyMany"]])
def test_claims_with_other_access_modes_can_be_shared(modes: list[str]) -> None:
    scene = world()
    put(scene.objects, claim("data", modes=modes))
    scene.cache.assume(pod("other", **using("data")), "node-a")
    assert scene.judge(VolumeRestrictions, pod("web-0", **using("data"))).status.code is Code.SKIP


def test_a_claim_is_in_use_only_by_pods_of_its_namespace_on_known_nodes() -> None:
    scene = world()
    put(scene.objects, claim("data", modes=["ReadWriteOncePod"]))
    plugin = VolumeRestrictions(scene.handle, {})
    other = pod("other", **using("data"))
    scene.cache.assume(other, "node-a")
    scene.cache.assume(pod("namesake", namespace="elsewhere", **using("data")), "node-a")
    scene.cache.assume(pod("lost", **using("data")), "node-that-is-gone")
    wanting = pod("web-0", **using("data"))
    assert scene.judging(plugin, wanting).fitting == set()

    scene.cache.forget(other.uid)
    assert scene.judging(plugin, wanting).status.code is Code.SKIP


def test_a_missing_claim_is_named() -> None:
    status = world().judge(VolumeRestrictions, pod("web-0", **using("data"))).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == (claim_not_found("data"),)


def test_pods_without_disks_and_claims_are_skipped() -> None:
    wanting = pod("web-0", volumes=[{"name": "tmp", "emptyDir": {}}])
    assert world().judge(VolumeRestrictions, wanting).status.code is Code.SKIP


def test_removed_and_added_pods_change_the_result_of_a_copied_state() -> None:
    scene = world()
    put(scene.objects, claim("data", modes=["ReadWriteOncePod"]))
    user = pod("user", **using("data"))
    mounter = mounting("mounter", **gce())
    scene.cache.assume(user, "node-b")
    scene.cache.assume(mounter, "node-a")
    volumes = using("data")["volumes"] + [{"name": "disk", **gce()}]
    judged = scene.judge(VolumeRestrictions, pod("web-0", volumes=volumes))
    assert judged.fitting == set()

    copy = judged.copied()
    remove(copy, user, "node-b")
    assert copy.fitting == {"node-b"}
    remove(copy, mounter, "node-a")
    assert copy.fitting == {"node-a", "node-b"}
    assert judged.fitting == set(), "a trial on a copy leaves the original state alone"

    plugin = copy.plugin
    assert isinstance(plugin, VolumeRestrictions)
    plugin.add_pod(copy.state, copy.pod, Placed(mounter, "node-b", assumed=True), copy.snapshot)
    assert copy.fitting == {"node-a"}
    plugin.add_pod(copy.state, copy.pod, Placed(user, "node-b", assumed=True), copy.snapshot)
    assert copy.fitting == set()


def remove(judged: Judgement, other: Pod, node_name: str) -> None:
    plugin = judged.plugin
    assert isinstance(plugin, VolumeRestrictions)
    plugin.remove_pod(judged.state, judged.pod, Placed(other, node_name, assumed=True), judged.snapshot)


def test_a_subset_of_rows_gets_the_same_results_as_all_rows() -> None:
    scene = world()
    scene.cache.assume(mounting("other", **gce()), "node-b")
    judged = scene.judge(VolumeRestrictions, mounting("web-0", **gce()))
    few = judged.narrowed("node-b", "node-a")
    assert few.mask.tolist() == [False, True]
    assert few.plugin is judged.plugin
    assert np.array_equal(judged.narrowed("node-a").mask, [True])


def test_added_and_removed_pods_do_not_change_the_state_of_a_skipped_pod() -> None:
    scene = world()
    judged, other = scene.judge(VolumeRestrictions, pod("plain")), pod("other", **using("one"))
    plugin = judged.plugin
    assert isinstance(plugin, VolumeRestrictions)
    before = judged.state.clone()._values
    for change in (plugin.add_pod, plugin.remove_pod):
        change(judged.state, judged.pod, Placed(other, "node-a", assumed=True), judged.snapshot)
    assert judged.state.clone()._values == before
