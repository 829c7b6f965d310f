from builders import node, pod
from storage import DRIVER, attachment, claim, csi_driver, csi_node, drop, put, storage_class, using, volume
from tidelock.cluster.placed import Placed
from tidelock.framework.api import Code
from tidelock.framework.pod_claims import claim_not_found
from tidelock.model.pods import Pod
from tidelock.plugins.node_volume_limits.plugin import DRIVER_MISSING, TOO_MANY_VOLUMES, NodeVolumeLimits
from unit.plugins.scene import Judgement, Scene

WANTING = pod("web-0", **using("mine"))


def world(**limits: int) -> Scene:
    """Return nodes with these limits of DRIVER, and claims that are bound to volumes of DRIVER."""
    scene = Scene(*map(node, ("node-a", "node-b", "node-c")))
    for name, limit in limits.items():
        put(scene.objects, csi_node(name.replace("_", "-"), csi_example_com=limit))
    for name in ("mine", "one", "two", "shared"):
        put(scene.objects, claim(name, volume=f"disk-{name}"), volume(f"disk-{name}", handle=f"h-{name}"))
    return scene


def user(name: str, *claims: str) -> Pod:
    return pod(name, **using(*claims))


def test_volumes_of_a_driver_are_counted_against_its_limit() -> None:
    scene = world(node_a=2, node_b=2)
    scene.cache.assume(user("p", "one", "two"), "node-a")
    scene.cache.assume(user("q", "shared"), "node-b")
    judged = scene.judge(NodeVolumeLimits, WANTING)

    assert judged.fitting == {"node-b", "node-c"}
    assert judged.reasons("node-a") == (TOO_MANY_VOLUMES,)
    plugin = judged.plugin
    assert isinstance(plugin, NodeVolumeLimits)
    assert plugin.preemption_may_help(judged.state, WANTING, judged.snapshot, 0)
    assert judged.narrowed("node-c", "node-a").mask.tolist() == [True, False]


def test_a_volume_counts_once_per_node_for_all_its_pods() -> None:
    scene = world(node_a=2)
    for name in ("p", "q", "r"):
        scene.cache.assume(user(name, "shared"), "node-a")
    assert "node-a" in scene.judge(NodeVolumeLimits, WANTING).fitting

    scene.cache.assume(user("s", "one"), "node-a")
    assert "node-a" not in scene.judge(NodeVolumeLimits, WANTING).fitting
    assert "node-a" in scene.judge(NodeVolumeLimits, user("web-0", "shared")).fitting, (
        "it is attached already"
    )
    assert "node-a" not in scene.judge(NodeVolumeLimits, user("web-0", "shared", "mine")).fitting


def test_claims_without_a_volume_count_one_by_one_by_the_driver_of_their_class() -> None:
    scene = world(node_a=1)
    put(scene.objects, storage_class("fast", provisioner=DRIVER))
    put(scene.objects, claim("new", storage_class="fast"), claim("newer", storage_class="fast"))
    scene.cache.assume(user("p", "new"), "node-a")

    assert "node-a" not in scene.judge(NodeVolumeLimits, user("web-0", "newer")).fitting
    assert "node-a" in scene.judge(NodeVolumeLimits, user("web-0", "new")).fitting


def test_a_driver_that_requires_it_must_be_installed_on_the_node() -> None:
    scene = world(node_a=1, node_b=1)
    put(scene.objects, csi_driver(required=True))
    judged = scene.judge(NodeVolumeLimits, WANTING)
    assert judged.fitting == {"node-a", "node-b"}
    assert judged.reasons("node-c") == (f"csi.example.com {DRIVER_MISSING}",)
    assert judged.preemption_may_help("node-c"), "as in kube-scheduler, whose status is Unschedulable"

    put(scene.objects, csi_node("node-c", csi_example_com=None))
    assert scene.judge(NodeVolumeLimits, WANTING).fitting == {"node-a", "node-b", "node-c"}
    put(scene.objects, csi_node("node-a"))
    assert scene.judge(NodeVolumeLimits, WANTING).fitting == {"node-b", "node-c"}


def test_ephemeral_claims_count() -> None:
    scene = world(node_a=0)
    put(scene.objects, storage_class("fast", provisioner=DRIVER))
    put(scene.objects, claim("web-0-scratch", storage_class="fast", owner="web-0"))
    wanting = pod("web-0", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
    assert scene.judge(NodeVolumeLimits, wanting).fitting == {"node-b", "node-c"}


def test_other_volumes_and_drivers_without_limits_are_skipped() -> None:
    scene = world()
    put(scene.objects, csi_node("node-a", other_example_com=0, csi_example_com=None))
    put(scene.objects, claim("local", volume="local"), volume("local"))
    put(scene.objects, claim("unknown", storage_class="unheard-of"))

    for wanting in (WANTING, user("web-0", "local"), user("web-0", "unknown"), pod("plain")):
        assert scene.judge(NodeVolumeLimits, wanting).status.code is Code.SKIP


def test_a_missing_claim_rules_out_all_nodes() -> None:
    scene = world(node_a=1)
    judged = scene.judge(NodeVolumeLimits, user("web-0", "lost"))

    assert judged.fitting == set()
    missing = f"looking up PVC shop/lost: {claim_not_found('lost')}"
    assert judged.reasons("node-b") == (missing,)
    plugin = judged.plugin
    assert isinstance(plugin, NodeVolumeLimits)
    assert not plugin.preemption_may_help(judged.state, judged.pod, judged.snapshot, 0)


def test_attached_volumes_count_in_addition_to_those_of_pods() -> None:
    scene = world(node_a=2)
    plugin = NodeVolumeLimits(scene.handle, {})
    put(scene.objects, attachment("va-1", "disk-one", "node-a"))
    scene.cache.assume(user("p", "one"), "node-a")
    assert "node-a" in scene.judging(plugin, WANTING).fitting, "attached for its pod: one volume"

    put(scene.objects, attachment("va-2", "disk-two", "node-a"))
    assert "node-a" not in scene.judging(plugin, WANTING).fitting
    drop(scene.objects, attachment("va-2", "disk-two", "node-a"))
    assert "node-a" in scene.judging(plugin, WANTING).fitting

    put(scene.objects, attachment("va-3", "disk-late", "node-a"))
    assert "node-a" in scene.judging(plugin, WANTING).fitting
    put(scene.objects, volume("disk-late", handle="h-late"))
    assert "node-a" not in scene.judging(plugin, WANTING).fitting


def test_counts_follow_pods_claims_volumes_classes_limits_and_nodes() -> None:
    scene = world(node_a=1)
    plugin = NodeVolumeLimits(scene.handle, {})

    def fits() -> bool:
        return "node-a" in scene.judging(plugin, WANTING).fitting

    other = user("p", "late")
    scene.cache.assume(other, "node-a")
    assert fits(), "the claim of the pod is unknown"
    put(scene.objects, claim("late", storage_class="fast"))
    assert fits(), "the class of the claim is unknown"
    put(scene.objects, storage_class("fast", provisioner=DRIVER))
    assert not fits()
    put(scene.objects, claim("late", volume="disk-late"), volume("disk-late"))
    assert fits(), "the volume is no CSI volume"
    put(scene.objects, volume("disk-late", handle="h-late"))
    assert not fits()
    put(scene.objects, csi_node("node-a", csi_example_com=2))
    assert fits()
    put(scene.objects, csi_node("node-a", csi_example_com=1))
    scene.cache.drop_node("node-a")
    scene.cache.put_node(node("node-a"))
    assert not fits(), "the pods of the new node count"
    scene.cache.forget(other.uid)
    assert fits()
    assert not plugin._attachments._named


def test_removed_and_added_pods_change_the_counts_of_a_copied_state() -> None:
    scene = world(node_a=1, node_b=1)
    first, second = user("p", "shared"), user("q", "shared")
    scene.cache.assume(first, "node-a")
    scene.cache.assume(second, "node-a")
    judged = scene.judge(NodeVolumeLimits, WANTING)
    assert judged.fitting == {"node-b", "node-c"}

    copy = judged.copied()
    move(copy, first, "node-a", came=False)
    assert "node-a" not in copy.fitting, "another pod uses the volume"
    move(copy, second, "node-a", came=False)
    assert "node-a" in copy.fitting
    move(copy, user("r", "one"), "node-b", came=True)
    assert copy.fitting == {"node-a", "node-c"}
    assert judged.fitting == {"node-b", "node-c"}, "a trial on a copy leaves the original state alone"


def test_a_volume_without_its_last_pod_counts_for_the_new_pod_again() -> None:
    scene = world(node_a=0)
    other = user("p", "mine")
    scene.cache.assume(other, "node-a")
    judged = scene.judge(NodeVolumeLimits, WANTING)
    assert "node-a" in judged.fitting

    move(judged, other, "node-a", came=False)
    assert "node-a" not in judged.fitting


def move(judged: Judgement, other: Pod, node_name: str, *, came: bool) -> None:
    plugin = judged.plugin
    assert isinstance(plugin, NodeVolumeLimits)
    change = plugin.add_pod if came else plugin.remove_pod
    change(judged.state, judged.pod, Placed(other, node_name, assumed=True), judged.snapshot)


def test_added_and_removed_pods_do_not_change_the_state_of_a_skipped_pod() -> None:
    scene = world()
    judged, other = scene.judge(NodeVolumeLimits, pod("plain")), pod("other", **using("one"))
    plugin = judged.plugin
    assert isinstance(plugin, NodeVolumeLimits)
    before = judged.state.clone()._values
    for change in (plugin.add_pod, plugin.remove_pod):
        change(judged.state, judged.pod, Placed(other, "node-a", assumed=True), judged.snapshot)
    assert judged.state.clone()._values == before
