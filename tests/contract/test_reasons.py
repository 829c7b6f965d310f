"""The reasons of every plugin in a cluster in which tenants have chosen all names as long as they can be."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from builders import NOW, Json, node, pod
from devices import DRIVER, claiming, device_class, device_slice, request, resource_claim, wanting
from devices import put as put_devices
from storage import ZONE, claim, csi_driver, storage_class, using, volume
from storage import put as put_volumes
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code, Filter, Plugin, PostFilter, PreEnqueue, PreFilter, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.profile import PluginFactory
from tidelock.framework.rejections import count_of_reasons, numbers_of, reasons_of
from tidelock.framework.whatif import WhatIf
from tidelock.model.pods import Pod
from tidelock.model.printable import LONGEST_REASON
from tidelock.plugins.registry import DEFAULT_PLUGINS, REGISTRY
from unit.plugins.scene import Scene

LONG = f"{'x' * 63}." * 3 + "x" * 61
LABEL = f"{LONG}/{'x' * 63}"
NODES = "node-b", f"a{LONG[1:]}"
DISK = {"name": "disk", "gcePersistentDisk": {"pdName": LONG}}
RESOURCES = {f"{letter}{LONG[1:]}/{'x' * 63}": "1" for letter in "abcdefghijklmnopqrst"}
OPERATOR = Path(__file__).parents[2] / "operator" / "tidelock"
# The only callers of the methods of plugins that return texts about nodes.
BORDER = OPERATOR / "framework" / "rejections.py"
# Measured use rejects, and no tenant writes it.
BY_MEASURED_USE = {"WaterLevelBalance"}


def cluster() -> Scene:
    """Build nodes that reject pods for as many reasons as possible."""
    scene = Scene(
        node(NODES[1], cpu="4", labels={ZONE: "a"}, taints=[f"{LABEL}={'x' * 63}:NoSchedule"]),
        node(NODES[0], cpu="4", labels={ZONE: "b"}, cordoned=True),
    )
    for name in NODES:
        resident = pod(f"resident-{name}"[:253], labels={"app": "x"}, volumes=[DISK], **serving(80))
        scene.cache.assume(resident, name)
        scene.reservation(f"r{name}"[:253], name, resources={"cpu": "3"}, owner=LONG)
        devices = (f"d{index}" for index in range(40))
        put_devices(scene.objects, device_slice(f"s{name}"[:253], *devices, node_name=name))
    put_devices(scene.objects, device_class())
    slow = [request(f"r{index}", wanting(count=8)) for index in range(4)]
    apart = [{"matchAttribute": f"{DRIVER}/a", "requests": ["r3"]}]
    put_devices(scene.objects, resource_claim("slow", *slow, constraints=apart))
    put_devices(scene.objects, resource_claim(LONG, request("r", wanting("device.attributes['x'].y"))))
    put_volumes(scene.objects, claim("zoned", volume=LONG), volume(LONG, labels={ZONE: "x"}, handle="h"))
    put_volumes(scene.objects, claim("unbound", storage_class=LONG), storage_class(LONG))
    put_volumes(scene.objects, claim("lost", volume=f"y{LONG[1:]}"), csi_driver(required=True))
    return scene


def serving(port: int) -> Json:
    ports = [{"containerPort": port, "hostPort": port}]
    return {"containers": [{"name": "main", "ports": ports}]}


def choosy() -> Json:
    """Build a spec that no node satisfies."""
    selector = {"matchLabels": {"app": "x"}}
    spread = {
        "maxSkew": 1,
        "topologyKey": LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    beside = {"labelSelector": {"matchLabels": {LABEL: "x"}}, "topologyKey": LABEL}
    terms = [{"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}]
    return {
        "nodeName": LONG,
        "schedulingGates": [{"name": LABEL}],
        "topologySpreadConstraints": [spread],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [beside]},
        },
        "hostNetwork": True,
        "hostUsers": False,
    }


REQUIRING = {"annotations": {"tidelock.dev/require-reservation": "true"}}
PODS: dict[str, Pod] = {
    "choosy": pod(LONG, **choosy()),
    "greedy": pod(LONG, requests={"cpu": "64"} | RESOURCES),
    "beside reservations": pod(LONG, requests={"cpu": "2"}),
    "requiring a reservation": pod(LONG, requests={"cpu": "1"}, **REQUIRING),
    "serving": pod(LONG, **serving(80)),
    "mounting": pod(LONG, volumes=[DISK]),
    "with a slow claim": pod(LONG, **claiming("slow")),
    "with a failing claim": pod(LONG, **claiming(LONG)),
    "without its claim": pod(LONG, **claiming(f"y{LONG[1:]}")),
    "with a zoned volume": pod(LONG, **using("zoned")),
    "with an unbound volume": pod(LONG, **using("unbound")),
    "with a lost volume": pod(LONG, **using("lost")),
    "without its volume": pod(LONG, **using(LONG)),
    "that can't be read": pod(LONG, nodeSelector={LABEL: 1}, tolerations=LONG),
}


def texts_of(plugin: Plugin, wanting: Pod, scene: Scene) -> Iterator[object]:
    """Yield all texts of a plugin about a pod, as the framework takes them."""
    scene.columns.vector(wanting.requests)
    snapshot, state = Snapshot.of(scene.columns), CycleState()
    state.write(DecisionTime(NOW))
    status = Status()
    if isinstance(plugin, PreEnqueue):
        yield plugin.pre_enqueue(wanting).reasons
    if isinstance(plugin, PreFilter):
        status = plugin.pre_filter(state, wanting, snapshot)
        yield status.reasons
    if isinstance(plugin, Filter) and status.code is Code.SUCCESS:
        rows = np.flatnonzero(~plugin.filter(state, wanting, snapshot))
        for row in rows.tolist():
            yield reasons_of(plugin, state, wanting, snapshot, row)
            assert len(numbers_of(plugin, state, wanting, snapshot, row)) <= 1000
        yield dict(count_of_reasons(plugin, state, wanting, snapshot, rows))
    if isinstance(plugin, PostFilter):
        nothing = WhatIf([], state, wanting, snapshot, snapshot.indexes).judge()
        yield plugin.post_filter(state, wanting, snapshot, nothing).status.reasons


@pytest.mark.parametrize("factory", REGISTRY.values(), ids=REGISTRY.keys())
@pytest.mark.parametrize("wanting", PODS.values(), ids=PODS.keys())
def test_the_texts_of_a_plugin_are_short_and_can_be_encoded(factory: PluginFactory, wanting: Pod) -> None:
    scene = cluster()
    for texts in texts_of(factory(scene.handle, {}), wanting, scene):
        encoded: Any = msgspec.json.decode(msgspec.json.encode(texts))
        assert all(0 < len(text) <= LONGEST_REASON for text in encoded)


def test_the_filters_of_the_default_profile_reject_nodes_in_this_cluster() -> None:
    """The test above needs rejections. A new plugin needs a pod here that it rejects."""
    rejecting = set()
    for enabled in DEFAULT_PLUGINS:
        factory: Callable[..., Plugin] = REGISTRY[enabled.name]
        for each in PODS.values():
            scene = cluster()
            plugin = factory(scene.handle, {})
            if not isinstance(plugin, Filter) or any(filter(None, texts_of(plugin, each, scene))):
                rejecting.add(enabled.name)
    assert {enabled.name for enabled in DEFAULT_PLUGINS} - rejecting == BY_MEASURED_USE


def test_only_one_module_asks_plugins_for_texts_about_nodes() -> None:
    """Regression: each caller took texts of any length, and instances of subclasses of str."""
    callers = {
        path
        for path in OPERATOR.rglob("*.py")
        if OPERATOR / "plugins" not in path.parents
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in {"reasons", "tally", "detail"}
        and len(call.args) == 4
    }
    assert callers == {BORDER, OPERATOR / "framework" / "api.py"}
