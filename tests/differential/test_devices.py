"""Tidelock allocates the devices that kube-scheduler allocates, on the nodes where kube-scheduler finds some.

TIDELOCK_SEEDS selects the scenarios to play: `0-31` by default, or a single one such as `17`.
"""

import asyncio
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from builders import NOW, encode
from devcluster import LocalCluster
from differential.device_scenarios import ADMIN_ACCESS, DeviceScenario, make_device_scenario
from differential.scenario import Json
from tidelock.framework.api import Code
from tidelock.kube.client import NODES, PODS, ApiResource, KubeClient
from tidelock.kube.config import load_connection
from tidelock.model.nodes import decode_node
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.quantities import parse_nanos
from tidelock.plugins.dynamic_resources.plugin import DynamicResources
from tidelock.scheduler.informers.informers import OTHERS
from unit.plugins.scene import Scene

_DEFAULT_SEEDS = "0-31"
_PODS = 4
_AT_ONCE = 16
_POLL_SECONDS = 0.05
_DECISION_SECONDS = 100.0
_KINDS = ("resource_claims", "resource_slices", "device_classes", "device_taint_rules")
_ERRORS = re.compile("currently (being updated|invalid)|running Filter|cannot add device")
_NAMESPACES = OTHERS["namespaces"][0]


class World:
    """All scenarios on the API server of a kube-scheduler, and the same objects in the plugin."""

    def __init__(self, client: KubeClient, scenarios: Sequence[DeviceScenario]) -> None:
        self.client = client
        self.scenarios = scenarios
        self.slots = asyncio.Semaphore(_AT_ONCE)
        self.scene = Scene()
        self.plugin = DynamicResources(self.scene.handle, {})

    async def build(self) -> None:
        """Create everything but claims and pods."""
        namespaces = [
            {"metadata": {"name": each.name, "labels": {ADMIN_ACCESS: "true"}}} for each in self.scenarios
        ]
        await self.create(_NAMESPACES, namespaces)
        for kind, of in (
            ("device_classes", "classes"),
            ("resource_slices", "slices"),
            ("device_taint_rules", "rules"),
        ):
            await self.create(
                OTHERS[kind][0], [made for each in self.scenarios for made in getattr(each, of)]
            )
        nodes = [node for each in self.scenarios for node in each.nodes]
        await self.create(NODES, nodes)
        for node in nodes:
            path = NODES.item(node["metadata"]["name"])
            await self.client.patch(path, {"spec": {"taints": None}})  # which admission has added

    async def create(self, resource: ApiResource, objects: Iterable[Json]) -> None:
        async def one(made: Json) -> None:
            async with self.slots:
                await self.client.create(resource.collection(made["metadata"].get("namespace")), made)

        await asyncio.gather(*map(one, objects))

    async def read(self, resource: ApiResource) -> list[bytes]:
        answer = await self.client.get(resource.collection())
        return [bytes(each) for each in msgspec.json.decode(answer, type=_List).items]

    async def learn(self) -> None:
        """Show the plugin all objects as they are."""
        for raw in await self.read(NODES):
            self.scene.cache.put_node(decode_node(raw))
        for kind in _KINDS:
            resource, decode = OTHERS[kind]
            lister: Any = getattr(self.scene.objects, kind)
            for raw in await self.read(resource):
                decoded = decode(raw)
                assert not decoded.meta.unreadable
                lister.upsert(None, decoded)

    async def decided(self, keys: set[tuple[str, str]]) -> dict[tuple[str, str], Json]:
        """Return pods once kube-scheduler has bound or refused them."""
        found: dict[tuple[str, str], Json] = {}
        async with asyncio.timeout(_DECISION_SECONDS):
            while len(found) < len(keys):
                await asyncio.sleep(_POLL_SECONDS)
                for raw in await self.read(PODS):
                    each = json.loads(raw)
                    key = (each["metadata"]["namespace"], each["metadata"]["name"])
                    if key in keys and (each["spec"].get("nodeName") or _refusal(each)):
                        found[key] = each
        return found

    async def clear(self) -> None:
        """Delete all objects that are not in a namespace, and all pods."""
        for each in self.scenarios:
            await self.client.request("DELETE", f"{PODS.collection(each.name)}?gracePeriodSeconds=0")
        for resource in (NODES, *(OTHERS[kind][0] for kind in _KINDS[1:])):
            await self.client.request("DELETE", resource.collection())


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


def _refusal(pod: Json) -> str:
    conditions = pod.get("status", {}).get("conditions", [])
    found = (each.get("message", "") for each in conditions if each["type"] == "PodScheduled")
    return next(found, "")


def _scenarios() -> list[DeviceScenario]:
    first, _, last = os.environ.get("TIDELOCK_SEEDS", _DEFAULT_SEEDS).partition("-")
    return [make_device_scenario(seed, _PODS) for seed in range(int(first), int(last or first) + 1)]


def exact(allocation: object) -> Json:
    """Return an allocation as JSON that is equal for equal allocations."""
    plain: Json = json.loads(json.dumps(msgspec.to_builtins(allocation)))
    plain.pop("allocationTimestamp", None)
    for each in plain["devices"]["results"]:
        assert ("shareID" in each) == ("consumedCapacity" in each)
        each.pop("shareID", None)
        for name, amount in each.get("consumedCapacity", {}).items():
            each["consumedCapacity"][name] = parse_nanos(amount)
        for toleration in each.get("tolerations", []):
            for key in [key for key, value in toleration.items() if value in ("", None)]:
                del toleration[key]
    for term in (plain.get("nodeSelector") or {}).get("nodeSelectorTerms", []):
        for key in [key for key, value in term.items() if not value]:
            del term[key]
    return plain


def _differences(world: World, pod: Pod, decision: Json, claims: Mapping[str, Json]) -> Iterable[str]:
    judged = world.scene.judging(world.plugin, pod)
    mine = {name for name in judged.fitting if name.startswith(f"{pod.meta.namespace}-")}
    node_name = decision["spec"].get("nodeName", "")
    if not node_name:
        # An error about one node ends the attempt there, and rules out only that node here.
        if judged.status.code is Code.SUCCESS and mine and not _ERRORS.search(_refusal(decision)):
            yield f"refused ({_refusal(decision)}), and fits {sorted(mine)}"
        return
    if node_name not in mine:
        yield f"bound to {node_name}, and fits {sorted(mine)}: {judged.reasons(node_name)}"
        return
    assert world.plugin.reserve(judged.state, pod, node_name, NOW).ok
    for key, allocation in world.scene.objects.resource_claims.in_flight.items():
        theirs, ours = exact(claims[key.name]["status"]["allocation"]), exact(allocation)
        if theirs != ours:
            yield f"{key} on {node_name}: {json.dumps(theirs)}\n  here: {json.dumps(ours)}"
    world.plugin.unreserve(judged.state, pod, node_name, NOW)


@pytest.mark.timeout(600)
async def test_the_same_devices_are_allocated_as_by_kube_scheduler(scheduled_cluster: LocalCluster) -> None:
    found: list[str] = []
    bound = refused = devices = 0
    client = KubeClient(load_connection(scheduled_cluster.kubeconfig), user_agent="differential")
    async with client:
        world = World(client, _scenarios())
        await world.build()
        try:
            for number in range(_PODS):
                await world.create(
                    OTHERS["resource_claims"][0],
                    [claim for each in world.scenarios for claim in each.pods[number][1]],
                )
                await world.learn()
                pods = {each.name: each.pods[number][0] for each in world.scenarios}
                await world.create(PODS, pods.values())
                decisions = await world.decided({(name, f"pod-{number}") for name in pods})
                claims: dict[str, dict[str, Json]] = {}
                for raw in await world.read(OTHERS["resource_claims"][0]):
                    each = json.loads(raw)
                    claims.setdefault(each["metadata"]["namespace"], {})[each["metadata"]["name"]] = each
                for scenario in world.scenarios:
                    decision = decisions[scenario.name, f"pod-{number}"]
                    bound += bool(decision["spec"].get("nodeName"))
                    refused += not decision["spec"].get("nodeName")
                    pod = decode_pod(encode(scenario.pods[number][0] | _identity(decision)))
                    where = f"TIDELOCK_SEEDS={scenario.seed}, pod {number}"
                    found += [
                        f"{where}: {each}"
                        for each in _differences(world, pod, decision, claims[scenario.name])
                    ]
                devices = sum(
                    len(claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()))
                    for of in claims.values()
                    for claim in of.values()
                )
        finally:
            await world.clear()
    assert not found, f"{len(found)} differences\n" + "\n\n".join(found[:10])
    print(f"{bound} bound with {devices} devices, {refused} refused")  # noqa: T201 -- shown with -s
    assert min(bound, refused) > 0 or len(world.scenarios) < _AT_ONCE


def _identity(decision: Json) -> Json:
    return {"metadata": decision["metadata"]}
