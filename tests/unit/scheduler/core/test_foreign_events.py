"""Objects that concern no waiting pod cause no attempt, however many of them come and change."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from builders import Json, node, pod
from storage import (
    DRIVER,
    ZONE,
    attachment,
    claim,
    csi_driver,
    csi_node,
    storage_capacity,
    storage_class,
    using,
    volume,
)
from tidelock.cluster.lister import Named
from tidelock.ledger.queue.waiting import MOST_COMPARED
from tidelock.scheduler.core.outcomes import Unschedulable
from tidelock.scheduler.informers.event_handlers import ObjectEventHandler
from unit.scheduler.machinery import Core

OBJECTS = 200
BATCH = "dedicated=batch:NoSchedule"
ONE_POD = ["ReadWriteOncePod"]
WEB = {"matchLabels": {"app": "web"}}
IN_ZONE = {"topologyKey": ZONE, "labelSelector": WEB}
SPREAD: list[Json] = [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **IN_ZONE}]
NEAR: Json = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [IN_ZONE]}}

# The plugin that refuses each waiting pod. TaintToleration rejects the second node for most of them.
REFUSED = {
    "without-volume": "VolumeBinding",
    "without-claim": "VolumeRestrictions",
    "without-storage": "VolumeBinding",
    "claim-in-use": "VolumeRestrictions",
    "other-zone": "VolumeZone",
    "full-node": "NodeVolumeLimits",
    "spread": "PodTopologySpread",
    "lonely": "InterPodAffinity",
}


class Cluster:
    """A node, and pods that are refused. Attempts are counted from then on."""

    def __init__(self) -> None:
        self.core = Core(node(labels={ZONE: "a"}), node("node-b", labels={ZONE: "b"}, taints=[BATCH]))
        self.put("storage_classes", storage_class(), storage_class("fast", provisioner="fast.example.com"))
        self.put("csi_drivers", csi_driver(), csi_driver("fast.example.com"))
        self.put("csi_nodes", csi_node(csi_example_com=1), csi_node("node-b", csi_example_com=1))
        self.put("csi_storage_capacities", storage_capacity("some", "1Gi", topology={}))
        self.put(
            "persistent_volumes",
            volume("far", labels={ZONE: "c"}, claimed_by="other-zone"),
            volume("first", handle="first", claimed_by="first", phase="Bound"),
            volume("second", handle="second", claimed_by="full-node", phase="Bound"),
            volume("shared", claimed_by="claim-in-use", phase="Bound"),
        )
        self.put(
            "persistent_volume_claims",
            claim("without-volume"),
            claim("without-storage", storage_class="fast", size="9Gi"),
            claim("claim-in-use", volume="shared", modes=ONE_POD),
            claim("other-zone", volume="far"),
            claim("first", volume="first"),
            claim("full-node", volume="second"),
        )
        self.core.add(
            pod("user", node_name="node-a", **using("claim-in-use")),
            pod("neighbour", node_name="node-a", labels={"app": "web"}, **using("first")),
            pod("spread", labels={"app": "web"}, topologySpreadConstraints=SPREAD),
            pod("lonely", affinity=NEAR, namespace="elsewhere"),
            *(pod(name, **using(name)) for name in REFUSED if name not in ("spread", "lonely")),
        )
        self.refused = self.attempted()

    def put(self, resource: str, *objects: Named) -> None:
        """Deliver objects by the watch, new or in a newer version."""
        lister = getattr(self.core.decider.objects, resource)
        handler = ObjectEventHandler(self.core.event_handlers, resource, lister)
        for each in objects:
            handler.upsert(lister.get(each.meta.name, each.meta.namespace), each)

    def attempted(self) -> dict[str, set[str]]:
        """Run the decisions that are due. Return the plugins that have refused each pod that was tried."""
        outcomes = self.core.decide()
        assert all(isinstance(each, Unschedulable) for each in outcomes), outcomes
        return {
            each.waiting.pod.meta.name: set(each.diagnosis.plugins)
            for each in outcomes
            if isinstance(each, Unschedulable)
        }

    def attempts(self, changes: Iterable[Callable[["Cluster"], None]]) -> int:
        """Return the number of attempts after these changes, each of which is followed by all decisions."""
        attempts = 0
        for change in changes:
            change(self)
            attempts += len(self.attempted())
        return attempts


def versions(resource: str, *objects: Named) -> list[Callable[[Cluster], None]]:
    return [lambda cluster, each=each: cluster.put(resource, each) for each in objects]  # type: ignore[misc]


def claims(index: int) -> list[Callable[[Cluster], None]]:
    name = f"foreign-{index}"
    elsewhere = claim("without-claim", namespace=f"tenant-{index}")
    return versions("persistent_volume_claims", claim(name), claim(name, volume=name), elsewhere)


def volumes(index: int) -> list[Callable[[Cluster], None]]:
    name = f"foreign-{index}"
    taken: dict[str, Any] = {"claimed_by": name, "phase": "Bound"}
    other = volume(name, storage_class="other")
    return versions(
        "persistent_volumes", other, volume(name, **taken), volume(name, labels={ZONE: "a"}, **taken)
    )


def classes(index: int) -> list[Callable[[Cluster], None]]:
    name = f"foreign-{index}"
    narrowed = storage_class(name, provisioner=DRIVER, topologies=[{ZONE: ["a"]}])
    return versions("storage_classes", storage_class(name, provisioner=DRIVER), narrowed)


def csi_nodes(index: int) -> list[Callable[[Cluster], None]]:
    name = f"foreign-{index}"
    return versions("csi_nodes", csi_node(name, other_example_com=1), csi_node(name, other_example_com=2))


def drivers(index: int) -> list[Callable[[Cluster], None]]:
    name = f"foreign-{index}.example.com"
    return versions("csi_drivers", csi_driver(name), csi_driver(name, storage_capacity=False))


def capacities(index: int) -> list[Callable[[Cluster], None]]:
    name = f"foreign-{index}"
    sizes = (storage_capacity(name, size, storage_class=name, topology={}) for size in ("1Gi", "99Gi"))
    return versions("csi_storage_capacities", *sizes)


def pods(index: int) -> list[Callable[[Cluster], None]]:
    name = f"foreign-{index}"
    there = pod(name, node_name="node-a", labels={"app": "db"}, requests={}, **using(name))
    relabelled = pod(name, node_name="node-a", labels={"app": "cache"}, requests={}, **using(name))
    return [
        *versions("persistent_volume_claims", claim(name, volume=name)),
        *versions("persistent_volumes", volume(name, claimed_by=name, phase="Bound")),
        lambda cluster: cluster.core.add(there),
        lambda cluster: cluster.core.event_handlers.pods.upsert(there, relabelled),
        lambda cluster: cluster.core.event_handlers.pods.remove(relabelled),
    ]


def attachments(index: int) -> list[Callable[[Cluster], None]]:
    made = attachment(f"foreign-{index}", f"foreign-{index}", "node-a", driver="other.example.com")

    def detach(cluster: Cluster) -> None:
        lister = cluster.core.decider.objects.volume_attachments
        ObjectEventHandler(cluster.core.event_handlers, "volume_attachments", lister).remove(made)

    return [*versions("volume_attachments", made), detach]


def test_each_pod_is_refused_by_the_plugin_that_its_name_stands_for() -> None:
    refused = Cluster().refused

    assert refused.keys() == REFUSED.keys()
    assert all(plugin in refused[name] for name, plugin in REFUSED.items()), refused


@pytest.mark.parametrize(
    "kind", [claims, volumes, classes, csi_nodes, drivers, capacities, pods, attachments]
)
def test_no_pod_is_tried_for_foreign_objects(kind: Callable[[int], list[Callable[[Cluster], None]]]) -> None:
    cluster = Cluster()

    assert cluster.attempts(change for index in range(OBJECTS) for change in kind(index)) == 0


TEMPLATE = {"spec": {"containers": [{"name": "main"}], **using("without-volume")}}


def test_a_reservation_is_tried_only_for_objects_of_its_own_claims() -> None:
    cluster = Cluster()
    cluster.core.reservation(resources=None, template=TEMPLATE)
    cluster.core.decide()
    freed = cluster.core.cache.columns.freed
    for change in (*claims(0), *volumes(0), *classes(0), *csi_nodes(0), *drivers(0), *capacities(0)):
        change(cluster)
    assert cluster.core.cache.columns.freed == freed

    cluster.put("persistent_volumes", volume("disk"))
    assert cluster.core.cache.columns.freed == freed + 1


def test_many_refused_reservations_are_tried_at_each_event_for_which_their_plugin_is_registered() -> None:
    cluster = Cluster()
    for index in range(MOST_COMPARED + 2):
        template = {"spec": {"containers": [{"name": "main"}], **using(f"missing-{index}")}}
        cluster.core.reservation(f"lock-{index}", resources=None, template=template)
    cluster.core.decide()
    freed = cluster.core.cache.columns.freed
    assert len(cluster.core.ledger.waiting_reservations.refused_by["VolumeRestrictions"]) == MOST_COMPARED + 1
    cluster.put("persistent_volume_claims", claim("foreign"))

    assert cluster.core.cache.columns.freed == freed + 1
