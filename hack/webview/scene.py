"""A small simulated cluster, in the state after a few minutes of work."""

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from msgspec.structs import replace as replace_meta

from tidelock.framework.config import default_configuration
from tidelock.ledger.output.status import render_reservation
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.nodes import decode_node
from tidelock.model.pods import decode_pod
from tidelock.model.quotas import decode_reservation_quota
from tidelock.model.reservation import decode_reservation
from tidelock.model.reservation_group import decode_group
from tidelock.model.reservation_schedule import decode_schedule
from tidelock.model.usage_annotations import NODE_LEVEL, Measured, NodeLevel, Stat, encode_node_level
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.scheduler_core import assemble_core
from tidelock.settings import DEFAULT_SCHEDULER_NAME
from webview.stage import Stage

Json = dict[str, Any]

_START = 1_796_000_000.0  # 2026-11-29
_GPU = "nvidia.com/gpu"
_LARGE = {"cpu": "64", "memory": "512Gi", "pods": "110", _GPU: "8"}
_SMALL = {"cpu": "16", "memory": "64Gi", "pods": "110"}


class FakeClock:
    """A clock that stands still until `advance` is called."""

    def __init__(self, time: float) -> None:
        self._time = time

    def now(self) -> float:
        """Return the time of this clock."""
        return self._time

    def monotonic(self) -> float:
        """Return the time of this clock."""
        return self._time

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._time += seconds


class Scene:
    """A cluster with objects that are added by hand."""

    def __init__(self) -> None:
        self.clock = FakeClock(_START)
        core = assemble_core(default_configuration(DEFAULT_SCHEDULER_NAME, BUILTINS), self.clock)
        self.stage = Stage(core.decider, self.clock)
        self._event_handlers = core.event_handlers
        core.all_listed()

    def node(self, name: str, amounts: Mapping[str, str], water: str | None = None, **spec: Any) -> None:
        """Add a node, with the annotation of its measured use if it is given."""
        plain = self._object(name, spec, annotations={NODE_LEVEL: water} if water else {})
        self._event_handlers.nodes.upsert(
            None, decode_node(_encode(plain | {"status": {"allocatable": amounts}}))
        )

    def pod(
        self,
        name: str,
        requests: Mapping[str, str],
        node_name: str = "",
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Add a pod that waits, or that runs on a node."""
        containers = [{"name": "main", "resources": {"requests": requests}}]
        wanted = {
            "schedulerName": DEFAULT_SCHEDULER_NAME,
            "nodeName": node_name,
            "containers": containers,
            **spec,
        }
        plain = self._object(name, wanted, "shop", annotations=dict(annotations or {}))
        self._event_handlers.pods.upsert(None, decode_pod(_encode(plain)))

    def reservation(
        self, name: str, resources: Mapping[str, str], meta: Json | None = None, **spec: Any
    ) -> None:
        """Add a Reservation for the pod of its name, or replace it by a version with other metadata."""
        wanted = {"resources": resources, "owners": [{"pod": {"name": name}}], "ttlSeconds": 600, **spec}
        wanted = {field: value for field, value in wanted.items() if value is not None}
        common: Json = {"creationTimestamp": format_instant(self.clock.now()), "generation": 1}
        plain = self._object(name, wanted, "shop", **(common | (meta or {})))
        self._event_handlers.reservations.upsert(None, decode_reservation(_encode(plain)))

    def store(self, name: str) -> None:
        """Store the status of a Reservation, as the operator would."""
        ledger = self.stage.decider.ledger
        entry = ledger.entries[Key("shop", name)]
        known = entry.reservation
        meta = replace_meta(known.meta, resource_version=str(known.meta.version + 1))
        status = render_reservation(entry, self.clock.now())
        ledger.acknowledge(replace(known, meta=meta, status=status))

    def group(self, name: str, spec: Json, status: Json) -> None:
        """Add a ReservationGroup with its stored status."""
        group = decode_group(_encode(self._stored(name, spec, status)))
        self.stage.groups[group.key] = group

    def schedule(self, name: str, spec: Json, status: Json) -> None:
        """Add a ReservationSchedule with its stored status."""
        schedule = decode_schedule(_encode(self._stored(name, spec, status)))
        self.stage.schedules[schedule.key] = schedule

    def quota(self, name: str, spec: Json, namespace: str = "shop") -> None:
        """Add a ReservationQuota."""
        plain = self._object(name, spec, namespace)
        self.stage.decider.objects.reservation_quotas.upsert(None, decode_reservation_quota(_encode(plain)))

    def _stored(self, name: str, spec: Json, status: Json) -> Json:
        created = format_instant(self.clock.now())
        return self._object(name, spec, "shop", creationTimestamp=created) | {"status": status}

    def level(self, cpu: float, memory: float, age: float = 20.0) -> str:
        """Return the annotation of a node that was measured some seconds ago."""
        window: dict[Measured, Stat] = {"cpu": Stat(*[cpu] * 3), "memory": Stat(*[memory] * 3)}
        return encode_node_level(NodeLevel(self.clock.now() - age, {"15m": window}))

    def _object(self, name: str, spec: Json, namespace: str = "", **meta: Any) -> Json:
        identity = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"}
        return {"metadata": identity | meta, "spec": spec}


def _encode(plain: Json) -> bytes:
    return json.dumps(plain).encode()


def ordinary() -> Scene:
    """Simulate ten minutes, with running pods, and reservations that wait, get capacity, lose it and end."""
    scene, rng = Scene(), Random(5)  # noqa: S311 -- a picture, not a secret
    ahead = -580.0  # measured close to the end of the simulation
    for number, gpus in enumerate((1, 3, 5, 7), start=1):
        scene.node(f"gpu-{number}", _LARGE, scene.level(rng.uniform(35, 80), rng.uniform(30, 70), ahead))
        scene.pod(f"train-{number}", {"cpu": "24", "memory": "200Gi", _GPU: str(gpus)}, f"gpu-{number}")
    ages = dict.fromkeys((f"web-{number}" for number in range(1, 8)), ahead) | {"web-6": 200.0}
    for name in (*ages, "web-8"):
        water = scene.level(rng.uniform(15, 90), rng.uniform(25, 75), ages[name]) if name in ages else None
        scene.node(name, _SMALL, water, unschedulable=name == "web-7")
        for replica in range(rng.randrange(2, 5)):
            scene.pod(f"shop-{name}-{replica}", {"cpu": "3", "memory": "11Gi"}, name)
    scene.reservation(
        "batch-1", {"cpu": "4", "memory": "8Gi"}, nodeName="web-8", ttlSeconds=240, retention="Retain"
    )
    scene.reservation("cart-0", {"cpu": "6", "memory": "20Gi"}, nodeName="web-2", ttlSeconds=1800)
    scene.stage.settle()
    scene.clock.advance(250)
    scene.stage.settle()
    trained = {"cpu": "16", "memory": "128Gi", _GPU: "3"}
    scene.reservation("train-5", trained, nodeName="gpu-3", ttlSeconds=900)
    scene.reservation("search-0", {"cpu": "4", "memory": "16Gi"}, ttlSeconds=3600)
    scene.reservation("search-1", {"cpu": "4", "memory": "16Gi"}, ttlSeconds=3600)
    scene.stage.settle()
    scene.clock.advance(170)
    scene.pod("search-0", {"cpu": "4", "memory": "16Gi"})
    scene.pod("report-77", {"cpu": "2", "memory": "4Gi"})
    scene.stage.settle()
    scene.clock.advance(150)
    scene.pod("intruder", {"cpu": "5"}, "web-2", schedulerName="another-scheduler")
    scene.reservation("train-6", {"cpu": "16", "memory": "128Gi", _GPU: "8"}, pendingDeadlineSeconds=120)
    scene.stage.settle()
    scene.clock.advance(30)
    scene.pod("huge-0", {"cpu": "60", "memory": "400Gi"})
    scene.stage.settle()
    return scene


def large(nodes: int) -> Scene:
    """Return a cluster of many nodes that are all measured."""
    scene, rng = Scene(), Random(7)  # noqa: S311 -- as above
    for number in range(nodes):
        scene.node(f"node-{number:05}", _SMALL, scene.level(rng.uniform(0, 100), rng.uniform(0, 100)))
    return scene
