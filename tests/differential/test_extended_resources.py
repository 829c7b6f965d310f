"""Tidelock turns extended resources into the claims into which kube-scheduler turns them.

TIDELOCK_SEEDS selects the scenarios to play: `0-15` by default, or a single one such as `7`.
"""

import json
import os
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

import pytest

from builders import NOW, encode
from devcluster import LocalCluster
from differential.device_scenarios import DeviceScenario
from differential.profiles import DEVICES
from differential.scenario import SCENARIO, Json
from differential.test_devices import World, exact
from tidelock.framework.api import Code
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.config import load_connection
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.resource_claims import FOR_EXTENDED_RESOURCES, ResourceClaim
from tidelock.plugins.dynamic_resources.claim_writer import ReservedClaims
from tidelock.scheduler.informers.informers import OTHERS

_DEFAULT_SEEDS = "0-15"
_PODS = 3
_CLAIMS = OTHERS["resource_claims"][0]


class ExtendedScenario(DeviceScenario):
    """A scenario without claims for most pods."""

    @property
    def name(self) -> str:
        """The namespace, and the label of all nodes."""
        return f"extended-{self.seed}"


def make_scenario(seed: int) -> DeviceScenario:
    """Generate two nodes with devices, of which one may have a resource itself, and pods for them."""
    rng = Random(f"{seed} extended resources")  # noqa: S311 -- to be repeatable
    made = ExtendedScenario(seed)
    classes = {kind: f"{made.driver}/{kind}" for kind in ("gpu", "nic")}
    for letter in "ab":
        name = f"{made.name}-{letter}"
        size = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        if letter == "b" and rng.random() < 0.5:
            size[classes["nic"]] = "100"
        made.nodes.append(
            {
                "metadata": {"name": name, "labels": {SCENARIO: made.name}},
                "spec": {"taints": []},
                "status": {
                    "capacity": size,
                    "allocatable": size,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
        kinds = [rng.choice(["gpu", "gpu", "nic"]) for _ in range(rng.randint(2, 8))]
        devices = [
            {"name": f"d{number}", "attributes": {"kind": {"string": kind}}}
            for number, kind in enumerate(kinds)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": made.driver, "nodeName": name, "pool": pool, "devices": devices}
        made.slices.append({"metadata": {"name": name}, "spec": spec})
    for kind, resource in classes.items():
        selects = f"device.driver == '{made.driver}' && device.attributes['{made.driver}'].kind == '{kind}'"
        config = [{"opaque": {"driver": made.driver, "parameters": {"kind": kind}}}]
        spec = {"selectors": [{"cel": {"expression": selects}}], "config": config}
        spec["extendedResourceName"] = resource
        made.classes.append({"metadata": {"name": f"{made.name}-{kind}"}, "spec": spec})
    for number in range(_PODS):
        made.pods.append(_pod(made, rng, number, [*classes.values()]))
    return made


def _pod(made: DeviceScenario, rng: Random, number: int, resources: list[str]) -> tuple[Json, list[Json]]:
    resources = [*resources, f"deviceclass.resource.kubernetes.io/{made.name}-gpu"]

    def container(name: str, chance: float) -> Json:
        wanted = {each: str(rng.randint(1, 2)) for each in resources if rng.random() < chance}
        requests = {"cpu": "100m", **wanted}
        return {"name": name, "image": "none", "resources": {"requests": requests, "limits": wanted}}

    init = [container(f"init-{index}", 0.4) for index in range(rng.choice([0, 1, 2, 3]))]
    for each in init:
        if rng.random() < 0.3:
            each["restartPolicy"] = "Always"
    claims = []
    spec: Json = {
        "schedulerName": DEVICES,
        "nodeSelector": {SCENARIO: made.name},
        "initContainers": init,
        "containers": [container("main", 0.5), *([container("more", 0.3)] if rng.random() < 0.4 else [])],
    }
    if rng.random() < 0.3:
        name = f"claim-{number}"
        exactly = {"deviceClassName": f"{made.name}-gpu", "allocationMode": "ExactCount", "count": 1}
        devices = {"requests": [{"name": "r", "exactly": exactly}]}
        claims.append({"metadata": {"name": name, "namespace": made.name}, "spec": {"devices": devices}})
        spec["resourceClaims"] = [{"name": name, "resourceClaimName": name}]
    return {"metadata": {"name": f"pod-{number}", "namespace": made.name}, "spec": spec}, claims


def _differences(world: World, pod: Pod, decision: Json, made: Mapping[str, Json]) -> Iterable[str]:
    judged = world.scene.judging(world.plugin, pod)
    mine = {name for name in judged.fitting if name.startswith(f"{pod.meta.namespace}-")}
    node_name = decision["spec"].get("nodeName", "")
    if not node_name or node_name not in mine:
        if mine or node_name:
            yield f"bound to {node_name or 'no node'}, and fits {sorted(mine)}"
        return
    if judged.status.code is Code.SKIP:
        return
    assert world.plugin.reserve(judged.state, pod, node_name, NOW).ok
    reserved = judged.state.read(ReservedClaims)
    own = None if reserved is None else reserved.own
    theirs = decision["status"].get("extendedResourceClaimStatus")
    if reserved is None or own is None or theirs is None:
        if own is not None or theirs is not None:
            yield f"on {node_name}: {theirs}, here: {own}"
    else:
        claim = made[theirs["resourceClaimName"]]
        ours = [
            {
                "containerName": m.container_name,
                "resourceName": m.resource_name,
                "requestName": m.request_name,
            }
            for m in own.mappings
        ]
        pairs: list[tuple[Any, Any]] = [
            (theirs["requestMappings"], ours),
            (claim["spec"]["devices"]["requests"], _requests(own.claim)),
            (exact(claim["status"]["allocation"]), exact(reserved.allocations[own.claim.key])),
        ]
        yield from (f"{json.dumps(one)}\n  here: {json.dumps(other)}" for one, other in pairs if one != other)
    world.plugin.unreserve(judged.state, pod, node_name, NOW)


def _requests(claim: ResourceClaim) -> list[Json]:
    return [
        {
            "name": each.name,
            "exactly": {
                "deviceClassName": each.exactly.device_class_name,
                "allocationMode": each.exactly.allocation_mode,
                "count": each.exactly.count,
            },
        }
        for each in claim.spec.devices.requests
        if each.exactly is not None
    ]


@pytest.mark.timeout(300)
async def test_extended_resources_become_the_same_claims(scheduled_cluster: LocalCluster) -> None:
    first, _, last = os.environ.get("TIDELOCK_SEEDS", _DEFAULT_SEEDS).partition("-")
    found: list[str] = []
    bound = refused = backed = 0
    client = KubeClient(load_connection(scheduled_cluster.kubeconfig), user_agent="differential")
    async with client:
        world = World(client, [make_scenario(seed) for seed in range(int(first), int(last or first) + 1)])
        await world.build()
        try:
            for number in range(_PODS):
                await world.create(
                    _CLAIMS, [claim for each in world.scenarios for claim in each.pods[number][1]]
                )
                await world.learn()
                await world.create(PODS, [each.pods[number][0] for each in world.scenarios])
                decisions = await world.decided({(each.name, f"pod-{number}") for each in world.scenarios})
                claims = [json.loads(raw) for raw in await world.read(_CLAIMS)]
                for scenario in world.scenarios:
                    decision = decisions[scenario.name, f"pod-{number}"]
                    bound += bool(decision["spec"].get("nodeName"))
                    refused += not decision["spec"].get("nodeName")
                    backed += "extendedResourceClaimStatus" in decision["status"]
                    spec = scenario.pods[number][0] | {"metadata": decision["metadata"]}
                    made = {
                        each["metadata"]["name"]: each
                        for each in claims
                        if each["metadata"]["namespace"] == scenario.name
                        and FOR_EXTENDED_RESOURCES in each["metadata"].get("annotations", {})
                    }
                    where = f"TIDELOCK_SEEDS={scenario.seed}, pod {number}"
                    differences = _differences(world, decode_pod(encode(spec)), decision, made)
                    found += [f"{where}: {each}" for each in differences]
        finally:
            await world.clear()
    assert not found, f"{len(found)} differences\n" + "\n\n".join(found[:10])
    print(f"{bound} bound, {backed} of them with a claim of their own, {refused} refused")  # noqa: T201 -- with -s
    assert len(world.scenarios) < 10 or min(backed, refused, bound - backed) > 0
