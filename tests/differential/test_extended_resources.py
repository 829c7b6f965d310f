"""Tidelock turns extended resources into the claims into which kube-scheduler turns them.

Both score nodes alike by the devices that provide these resources.

TIDELOCK_SEEDS selects the scenarios to run: `0-7` by default, `0-15` in `make test-all`, or a single
one such as `7`.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from builders import NOW
from devcluster import LocalCluster
from differential.device_scenarios import DeviceScenario
from differential.profiles import DEVICES, device_args, provided
from differential.scenario import SCENARIO, Json, batches, name_of
from differential.test_devices import World, exact, unbound
from differential.upstream import Decision, upstream
from tidelock.framework.api import Code
from tidelock.model.pods import Pod
from tidelock.model.resource_claims import FOR_EXTENDED_RESOURCES, ResourceClaim
from tidelock.plugins.dynamic_resources.claim_writer import ReservedClaims
from tidelock.plugins.node_resources_fit import NodeResourcesFit

_PART, _WHOLE = 8, 16
_SCENARIOS_AT_ONCE = 8
_PODS = 3
_NO_REQUESTS = "nil or empty request mappings"


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
    classes = {kind: provided(seed, kind) for kind in ("gpu", "nic")}
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
        kinds = [rng.choice(["gpu", "gpu", "nic"]) for _ in range(rng.randint(4, 16))]
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


def _differences(world: World, pod: Pod, decision: Decision, made: Mapping[str, Json]) -> Iterable[str]:
    if _NO_REQUESTS in decision.message:  # for a pod with claims, on a node with the resource itself
        return
    judged, mine = world.judge(pod)
    node_name = decision.node_name
    if not node_name or node_name not in mine:
        if mine or node_name:
            outcome = f"bound to {node_name}" if node_name else f"refused ({decision.message})"
            yield f"{outcome}, and fits {sorted(mine)}"
        return
    if judged.status.code is Code.SKIP:
        return
    assert world.plugin.reserve(judged.state, pod, node_name, NOW).ok
    reserved = judged.state.read(ReservedClaims)
    own = None if reserved is None else reserved.own
    theirs = _claim_status(decision)
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


def _score_differences(
    world: World, fit: NodeResourcesFit, pod: Pod, decision: Decision, counts: Counter[str]
) -> Iterable[str]:
    """Yield the difference of the scores by resources. kube-scheduler logs none for a single node."""
    if len(decision.feasible) > 1:
        ours = world.scene.judging(fit, pod).scores_among(*sorted(decision.feasible))
        counts["scores differ"] += len(set(ours.values())) > 1
        if (theirs := decision.scores[fit.name]) != ours:
            yield f"scores {theirs}, and here {ours}"


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


def _claim_status(decision: Decision) -> Json | None:
    """Return the part of a pod's status that names the claim for its extended resources."""
    found: Json | None = json.loads(decision.raw)["status"].get("extendedResourceClaimStatus")
    return found


def _for_resources(claims: Mapping[str, Json]) -> dict[str, Json]:
    """Return the claims that were made for extended resources."""
    return {
        name: claim
        for name, claim in claims.items()
        if FOR_EXTENDED_RESOURCES in claim["metadata"].get("annotations", {})
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeds", batches(_PART, _WHOLE, _SCENARIOS_AT_ONCE), ids=name_of)
async def test_extended_resources_become_the_same_claims(
    scheduled_cluster: LocalCluster, seeds: Sequence[int]
) -> None:
    found: list[str] = []
    counts: Counter[str] = Counter()
    async with upstream(scheduled_cluster) as kube_scheduler:
        world = World(kube_scheduler, [make_scenario(seed) for seed in seeds])
        fit = NodeResourcesFit(world.scene.handle, device_args()[NodeResourcesFit.name])
        try:
            await world.build()
            for number in range(_PODS):
                decisions, claims = await world.decide(number), await world.claims()
                for scenario in world.scenarios:
                    decision, made = decisions[scenario.name], _for_resources(claims[scenario.name])
                    backed = _claim_status(decision) is not None
                    counts["backed" if backed else "bound" if decision.node_name else "refused"] += 1
                    where = f"TIDELOCK_SEEDS={scenario.seed}, pod {number}"
                    pod = unbound(decision)
                    differences = [
                        *_score_differences(world, fit, pod, decision, counts),
                        *_differences(world, pod, decision, made),
                    ]
                    found += [f"{where}: {each}" for each in differences]
                    if decision.node_name:
                        world.scene.cache.assume(pod, decision.node_name)
        finally:
            await world.clear()
    assert not found, f"{len(found)} differences\n" + "\n\n".join(found[:10])
    print(dict(counts))  # noqa: T201 -- shown with -s
    drawn = min(counts[each] for each in ("backed", "refused", "scores differ"))
    assert drawn > 0 or len(seeds) < _SCENARIOS_AT_ONCE
