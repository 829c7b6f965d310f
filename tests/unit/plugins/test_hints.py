"""The events that wake pods which the plugins for other pods, ports and volumes refused."""

from collections.abc import Callable
from typing import Any

import pytest

from builders import node, pod
from tidelock.framework.api import EnqueueExtensions, Plugin
from tidelock.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Action,
    ClusterEvent,
    Resource,
)
from tidelock.plugins.inter_pod_affinity import InterPodAffinity
from tidelock.plugins.node_ports import NodePorts
from tidelock.plugins.pod_topology_spread.plugin import PodTopologySpread
from tidelock.plugins.volume_binding.plugin import VolumeBinding
from unit.plugins.scene import Scene

WEB = {"matchLabels": {"app": "web"}}
NEAR = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": WEB, "topologyKey": "zone"}]
    }
}
FAR = {"podAntiAffinity": NEAR["podAffinity"]}
SPREAD = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}]
RELABELLED = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)
CLAIMED = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)


def port(number: int) -> dict[str, Any]:
    return {"containers": [{"name": "main", "ports": [{"containerPort": number, "hostPort": number}]}]}


def wakes(kind: type[Plugin], refused: Any, event: ClusterEvent, old: Any, new: Any) -> bool:
    plugin = kind(Scene().handle, {})
    assert isinstance(plugin, EnqueueExtensions)
    hints = [each.hint for each in plugin.events_to_register() if each.event.covers(event)]
    return any(hint is None or hint(refused, old, new) for hint in hints)


def web(**fields: Any) -> Any:
    return pod("other", labels={"app": "web"}, node_name="node-a", **fields)


def db(**fields: Any) -> Any:
    return pod("other", labels={"app": "db"}, node_name="node-a", **fields)


@pytest.mark.parametrize(
    ("kind", "wants", "event", "old", "new", "woken"),
    [
        (NodePorts, port(80), ASSIGNED_POD_DELETE, lambda: web(**port(80)), None, True),
        (NodePorts, port(80), ASSIGNED_POD_DELETE, lambda: web(**port(81)), None, False),
        (NodePorts, port(80), ASSIGNED_POD_ADD, None, web, False),
        (NodePorts, port(80), NODE_ADD, None, node, True),
        (PodTopologySpread, {"topologySpreadConstraints": SPREAD}, ASSIGNED_POD_ADD, None, web, True),
        (PodTopologySpread, {"topologySpreadConstraints": SPREAD}, ASSIGNED_POD_ADD, None, db, False),
        (PodTopologySpread, {"topologySpreadConstraints": SPREAD}, RELABELLED, web, db, True),
        (
            PodTopologySpread,
            {"topologySpreadConstraints": SPREAD},
            ASSIGNED_POD_DELETE,
            lambda: web(namespace="elsewhere"),
            None,
            False,
        ),
        (InterPodAffinity, {"affinity": NEAR}, ASSIGNED_POD_ADD, None, web, True),
        (InterPodAffinity, {"affinity": NEAR}, ASSIGNED_POD_ADD, None, db, False),
        (InterPodAffinity, {"affinity": NEAR}, RELABELLED, db, web, True),
        (InterPodAffinity, {"affinity": FAR}, ASSIGNED_POD_DELETE, web, None, True),
        (InterPodAffinity, {"affinity": FAR}, ASSIGNED_POD_DELETE, db, None, False),
        (InterPodAffinity, {}, ASSIGNED_POD_DELETE, lambda: db(affinity=FAR), None, True),
        (VolumeBinding, {}, CLAIMED, None, None, True),
        (VolumeBinding, {}, ASSIGNED_POD_ADD, None, web, False),
    ],
)
def test_an_event_wakes_only_the_pods_that_it_may_help(
    kind: type[Plugin],
    wants: dict[str, Any],
    event: ClusterEvent,
    old: Callable[[], Any] | None,
    new: Callable[[], Any] | None,
    woken: bool,
) -> None:
    refused = pod("web-0", **wants)
    assert wakes(kind, refused, event, old and old(), new and new()) is woken
