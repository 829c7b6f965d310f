"""The decider of a cluster that was listed once."""

from builders import NOW, encode, node_json, pod_json
from tidelock.scheduler.informers.offline import OfflineScheduler
from unit.scheduler.machinery import CONFIGURATION


def test_the_pod_that_is_left_out_is_not_on_its_node() -> None:
    pods = [encode(pod_json(name, node_name="node-a")) for name in ("web-0", "web-1")]
    objects = {"nodes": [encode(node_json("node-a"))], "pods": pods}
    picture = OfflineScheduler.of(CONFIGURATION, objects, NOW, without="uid-web-0")
    assert [each.pod.meta.name for each in picture.decider.cache.pods_on("node-a")] == ["web-1"]
