"""Tidelock finds devices on the nodes where kube-scheduler finds some, and allocates the same ones.

TIDELOCK_SEEDS selects the scenarios to run: `0-15` by default, `0-31` in `make test-all`, or a single
one such as `17`.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from builders import NOW
from devcluster import LocalCluster
from differential.device_scenarios import ADMIN_ACCESS, DeviceScenario, make_device_scenario
from differential.scenario import Json, batches, name_of
from differential.upstream import Decision, Upstream, upstream
from tidelock.framework.api import Code
from tidelock.kube.client import NODES, PODS
from tidelock.model.nodes import decode_node
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.quantities import parse_nanos
from tidelock.plugins.dynamic_resources.plugin import DynamicResources
from tidelock.scheduler.informers.informers import OTHERS
from unit.plugins.scene import Judgement, Scene

_PART, _WHOLE = 16, 32
_SCENARIOS_AT_ONCE = 16
_PODS = 4
_WEIGHT = 2  # of the plugin in kube-scheduler's default profile
_KINDS = ("resource_claims", "resource_slices", "device_classes", "device_taint_rules")
_ERRORS = re.compile("currently (being updated|invalid)|running Filter|cannot add device")
_NAMESPACES = OTHERS["namespaces"][0]
CLAIMS = OTHERS["resource_claims"][0]
"""The resource of claims."""


class World:
    """Some scenarios on the API server of a kube-scheduler, and the same objects in the plugin."""

    def __init__(self, kube_scheduler: Upstream, scenarios: Sequence[DeviceScenario]) -> None:
        self.kube_scheduler = kube_scheduler
        self.scenarios = scenarios
        self.scene = Scene()
        self.plugin = DynamicResources(self.scene.handle, {})

    async def build(self) -> None:
        """Create everything but claims and pods, and wait until kube-scheduler knows it."""
        namespaces = [
            {"metadata": {"name": each.name, "labels": {ADMIN_ACCESS: "true"}}} for each in self.scenarios
        ]
        await self.kube_scheduler.create(_NAMESPACES, namespaces)
        for kind, of in (
            ("device_classes", "classes"),
            ("resource_slices", "slices"),
            ("device_taint_rules", "rules"),
        ):
            made = [made for each in self.scenarios for made in getattr(each, of)]
            await self.kube_scheduler.create(OTHERS[kind][0], made)
        nodes = [node for each in self.scenarios for node in each.nodes]
        await self.kube_scheduler.create_nodes(nodes, self.scenarios[0].name)

    async def decide(self, number: int) -> dict[str, Decision]:
        """Let kube-scheduler decide a pod of each scenario, and return the decisions by scenario.

        The plugin has all other objects as they were before. A refused pod that fits here is decided again:
        kube-scheduler may not have known all slices yet, or an attempt of it may have failed at a write.
        """
        claims = [claim for each in self.scenarios for claim in each.pods[number][1]]
        await self.kube_scheduler.create(CLAIMS, claims)
        await self._learn()
        decisions = await self._decide(number, [each.name for each in self.scenarios])
        again = [
            name for name, each in decisions.items() if not each.node_name and self.judge(unbound(each))[1]
        ]
        return decisions | await self._decide(number, again)

    async def _decide(self, number: int, names: Collection[str]) -> dict[str, Decision]:
        pods = [each.pods[number][0] for each in self.scenarios if each.name in names]
        decided = await self.kube_scheduler.decide(pods)
        return {key.partition("/")[0]: decision for key, decision in decided.items()}

    async def _learn(self) -> None:
        for raw in await self.kube_scheduler.list(NODES):
            self.scene.cache.put_node(decode_node(raw))
        for kind in _KINDS:
            resource, decode = OTHERS[kind]
            lister: Any = getattr(self.scene.objects, kind)
            for raw in await self.kube_scheduler.list(resource):
                decoded = decode(raw)
                assert not decoded.meta.unreadable
                lister.upsert(None, decoded)

    async def claims(self) -> dict[str, dict[str, Json]]:
        """Return the claims of each scenario by name."""
        found: dict[str, dict[str, Json]] = {each.name: {} for each in self.scenarios}
        for raw in await self.kube_scheduler.list(CLAIMS):
            claim = json.loads(raw)
            if (namespace := claim["metadata"]["namespace"]) in found:
                found[namespace][claim["metadata"]["name"]] = claim
        return found

    def judge(self, pod: Pod) -> tuple[Judgement, set[str]]:
        """Return the plugin's judgement about a pod, and the nodes of its scenario that fit."""
        judged = self.scene.judging(self.plugin, pod)
        if judged.status.code not in (Code.SUCCESS, Code.SKIP):
            return judged, set()
        return judged, {name for name in judged.fitting if _is_of(name, pod)}

    async def clear(self) -> None:
        """Delete all objects that are not in a namespace, and all pods."""
        for each in self.scenarios:
            await self.kube_scheduler.delete_all(f"{PODS.collection(each.name)}?gracePeriodSeconds=0")
        for resource in (NODES, *(OTHERS[kind][0] for kind in _KINDS[1:])):
            await self.kube_scheduler.delete_all(resource.collection())


def _is_of(node_name: str, pod: Pod) -> bool:
    """Return whether a node belongs to the scenario of a pod."""
    return node_name.startswith(f"{pod.meta.namespace}-")


def unbound(decision: Decision) -> Pod:
    """Return the pod of a decision as it was before."""
    pod = decode_pod(decision.raw)
    return replace(pod, spec=replace(pod.spec, node_name=""))


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


def _differences(
    world: World, pod: Pod, decision: Decision, claims: Mapping[str, Json], counts: Counter[str]
) -> Iterable[str]:
    judged, mine = world.judge(pod)
    if _ERRORS.search(decision.message):
        # An error about one node ends the attempt there, and rules out only that node here.
        counts["errors"] += 1
        nodes = (node.name for node in judged.snapshot.nodes)
        unfit = (name for name in nodes if _is_of(name, pod) and name not in mine)
        texts = {text for name in unfit for text in judged.reasons(name)}
        if not any(text in decision.message for text in texts):
            yield f"failed ({decision.message}), and here {texts}, fits {sorted(mine)}"
        return
    counts["fit on two nodes"] += len(mine) > 1
    if mine != decision.feasible:
        text, why = decision.message or f"bound to {decision.node_name}", judged.status.reasons
        if judged.status.code is Code.SUCCESS:
            why = tuple(f"{name}: {judged.reasons(name)}" for name in decision.feasible - mine)
        yield f"fits {sorted(decision.feasible)} ({text}), and here {sorted(mine)} {why}"
        return
    yield from _of_scores(judged, mine, decision)
    if decision.node_name:
        yield from _of_devices(world, judged, decision.node_name, claims, counts)


def _of_scores(judged: Judgement, fitting: set[str], decision: Decision) -> Iterable[str]:
    """Yield the difference of the scores. kube-scheduler logs none if it skips the plugin."""
    if len(fitting) > 1:
        points = judged.scores_among(*sorted(fitting))
        ours = {name: _WEIGHT * points for name, points in points.items()}
        theirs = decision.scores.get(DynamicResources.name, dict.fromkeys(ours, 0))
        if theirs != ours:
            yield f"scores {theirs}, and here {ours}"


def _of_devices(
    world: World, judged: Judgement, node_name: str, claims: Mapping[str, Json], counts: Counter[str]
) -> Iterable[str]:
    """Yield the differences of the devices that the pod gets on the node that kube-scheduler has chosen."""
    assert world.plugin.reserve(judged.state, judged.pod, node_name, NOW).ok
    for key, allocation in world.scene.objects.resource_claims.in_flight.items():
        theirs, ours = exact(claims[key.name]["status"]["allocation"]), exact(allocation)
        counts["devices"] += len(theirs["devices"]["results"])
        if theirs != ours:
            yield f"{key} on {node_name}: {json.dumps(theirs)}\n  here: {json.dumps(ours)}"
    world.plugin.unreserve(judged.state, judged.pod, node_name, NOW)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", batches(_PART, _WHOLE, _SCENARIOS_AT_ONCE), ids=name_of)
async def test_the_same_devices_are_allocated_as_by_kube_scheduler(
    scheduled_cluster: LocalCluster, seeds: Sequence[int]
) -> None:
    found: list[str] = []
    counts: Counter[str] = Counter()
    async with upstream(scheduled_cluster) as kube_scheduler:
        world = World(kube_scheduler, [make_device_scenario(seed, _PODS) for seed in seeds])
        try:
            await world.build()
            for number in range(_PODS):
                decisions = await world.decide(number)
                claims = await world.claims()
                for scenario in world.scenarios:
                    decision, made = decisions[scenario.name], claims[scenario.name]
                    counts["bound" if decision.node_name else "refused"] += 1
                    where = f"TIDELOCK_SEEDS={scenario.seed}, pod {number}"
                    differences = _differences(world, unbound(decision), decision, made, counts)
                    found += [f"{where}: {each}" for each in differences]
        finally:
            await world.clear()
    assert not found, f"{len(found)} differences\n" + "\n\n".join(found[:10])
    print(dict(counts))  # noqa: T201 -- shown with -s
    drawn = min(counts["bound"], counts["refused"], counts["fit on two nodes"])
    assert drawn > 0 or len(seeds) < _SCENARIOS_AT_ONCE
