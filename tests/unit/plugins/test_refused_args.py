"""The args that kube-scheduler 1.37 refuses are refused, and those that it accepts are accepted.

The rules are those of its apis/config/validation and of its strict decoding. The cases are ours.
"""

from typing import Any

import pytest

from tidelock.framework.api import Plugin
from tidelock.plugins.default_preemption.plugin import DefaultPreemption
from tidelock.plugins.dynamic_resources.plugin import DynamicResources
from tidelock.plugins.inter_pod_affinity import InterPodAffinity
from tidelock.plugins.node_affinity import NodeAffinityPlugin
from tidelock.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.pod_topology_spread.plugin import PodTopologySpread
from tidelock.plugins.reservation.plugin import ReservationPlugin
from tidelock.plugins.volume_binding.plugin import VolumeBinding
from unit.plugins.scene import Scene

Args = dict[str, Any]
LONG = 64 * "x"  # one character more than a name can have
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def strategy(name: str, **fields: Any) -> Args:
    return {"scoringStrategy": {"type": name, **fields}}


def weights(*amounts: int) -> list[Args]:
    return [{"name": f"a.io/r{index}", "weight": weight} for index, weight in enumerate(amounts)]


def ratio(*points: tuple[int, int]) -> Args:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return strategy("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})


def spread(*changes: Args, by: str = "List") -> Args:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {"defaultingType": by, "defaultConstraints": [constraint | change for change in changes]}


def needs(*requirements: Args, kind: str = "matchExpressions") -> Args:
    return {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [{kind: list(requirements)}]}}}


def prefers(weight: int, *requirements: Args, kind: str = "matchExpressions") -> Args:
    return {"addedAffinity": {PREFERRED: [{"weight": weight, "preference": {kind: list(requirements)}}]}}


def requirement(key: str = "disk", operator: str = "In", *values: str) -> Args:
    return {"key": key, "operator": operator, "values": list(values)}


NAMED = {"key": "metadata.name", "operator": "In", "values": ["node-a"]}
FLAWED = requirement("a/b/c", "In", "ssd")

ACCEPTED: list[tuple[type[Plugin], Args]] = [
    (DefaultPreemption, {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}),
    (DefaultPreemption, {"minCandidateNodesPercentage": 100, "minCandidateNodesAbsolute": 0}),
    (InterPodAffinity, {"hardPodAffinityWeight": 0}),
    (InterPodAffinity, {"hardPodAffinityWeight": 100, "ignorePreferredTermsOfExistingPods": True}),
    (PodTopologySpread, {"defaultingType": "System"}),
    (PodTopologySpread, {"defaultingType": "List"}),
    (PodTopologySpread, spread({}, {"whenUnsatisfiable": "ScheduleAnyway"}, {"topologyKey": "a.io/rack"})),
    (NodeResourcesBalancedAllocation, {"resources": weights(1, 0)}),
    (NodeResourcesFit, {"ignoredResources": ["a.io", "a.io/b_c"], "ignoredResourceGroups": ["a.io"]}),
    (NodeResourcesFit, strategy("LeastAllocated", resources=weights(0, 1, 100))),
    (NodeResourcesFit, strategy("MostAllocated", resources=[])),
    (NodeResourcesFit, ratio((0, 0), (100, 10))),
    (NodeResourcesFit, ratio((30, 3))),
    (VolumeBinding, {"bindTimeoutSeconds": 0, "shape": []}),
    (VolumeBinding, {"shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]}),
    (NodeAffinityPlugin, {"addedAffinity": {}}),
    (NodeAffinityPlugin, needs(requirement("a.io/disk", "In", "ssd", ""), requirement("gpu", "Exists"))),
    (NodeAffinityPlugin, needs(requirement("cores", "Gt", "8"), requirement("old", "NotIn", "yes"))),
    (NodeAffinityPlugin, needs(NAMED, kind="matchFields")),
    (NodeAffinityPlugin, needs()),
    (NodeAffinityPlugin, prefers(1, NAMED, kind="matchFields")),
    (NodeAffinityPlugin, prefers(0, FLAWED)),
    (DynamicResources, {"filterTimeout": "0s", "bindingTimeout": "1s"}),
]

REFUSED: list[tuple[type[Plugin], Args, str]] = [
    (DefaultPreemption, {"minCandidateNodesPercentage": -1}, "minCandidateNodesPercentage"),
    (DefaultPreemption, {"minCandidateNodesPercentage": 101}, "minCandidateNodesPercentage"),
    (DefaultPreemption, {"minCandidateNodesAbsolute": -1}, "minCandidateNodesAbsolute"),
    (DefaultPreemption, {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}, "both 0"),
    (InterPodAffinity, {"hardPodAffinityWeight": -1}, "hardPodAffinityWeight"),
    (InterPodAffinity, {"hardPodAffinityWeight": 101}, "hardPodAffinityWeight"),
    (PodTopologySpread, {"defaultingType": "Any"}, "defaultingType"),
    (PodTopologySpread, spread({}, by="System"), "defaultingType"),
    (PodTopologySpread, spread({"maxSkew": 0}), "defaultConstraints[0].maxSkew"),
    (PodTopologySpread, spread({"topologyKey": ""}), "defaultConstraints[0].topologyKey"),
    (PodTopologySpread, spread({"topologyKey": "a/b/c"}), "defaultConstraints[0].topologyKey"),
    (PodTopologySpread, spread({"topologyKey": "-zone"}), "defaultConstraints[0].topologyKey"),
    (PodTopologySpread, spread({"whenUnsatisfiable": ""}), "defaultConstraints[0].whenUnsatisfiable"),
    (PodTopologySpread, spread({"whenUnsatisfiable": "Never"}), "defaultConstraints[0].whenUnsatisfiable"),
    (PodTopologySpread, spread({"labelSelector": {}}), "defaultConstraints[0].labelSelector"),
    (PodTopologySpread, spread({}, {"maxSkew": 2}), "defaultConstraints[1]"),
    (PodTopologySpread, spread({"maxSkw": 2}), "defaultConstraints[0].maxSkw"),
    (NodeResourcesBalancedAllocation, {"resources": weights(2)}, "weight 1"),
    (NodeResourcesBalancedAllocation, {"resources": [*weights(1), *weights(1)]}, "must differ"),
    (NodeResourcesFit, {"ignoredResources": [LONG]}, "ignoredResources"),
    (NodeResourcesFit, {"ignoredResources": ["a.io/"]}, "ignoredResources"),
    (NodeResourcesFit, {"ignoredResources": ["a.io/b/c"]}, "ignoredResources"),
    (NodeResourcesFit, {"ignoredResources": [f"{4 * LONG}.io/b"]}, "ignoredResources"),
    (NodeResourcesFit, {"ignoredResourceGroups": [LONG]}, "ignoredResourceGroups"),
    (NodeResourcesFit, {"ignoredResourceGroups": ["a.io/"]}, "ignoredResourceGroups"),
    (NodeResourcesFit, {"ignoredResourceGroups": ["a.io/b"]}, "ignoredResourceGroups"),
    (NodeResourcesFit, strategy("Random"), "scoringStrategy.type"),
    (NodeResourcesFit, {"scoringStrategy": {"resources": weights(1)}}, "scoringStrategy"),
    (NodeResourcesFit, strategy("LeastAllocated", resources=weights(-1)), "scoringStrategy.resources"),
    (NodeResourcesFit, strategy("MostAllocated", resources=weights(1, 101)), "scoringStrategy.resources"),
    (NodeResourcesFit, strategy("LeastAllocated", resource=[]), "scoringStrategy.resource"),
    (NodeResourcesFit, strategy("RequestedToCapacityRatio"), "requestedToCapacityRatio"),
    (NodeResourcesFit, ratio((0, 1)) | strategy("MostAllocated", requestedToCapacityRatio={}), "Ratio"),
    (NodeResourcesFit, ratio(), "shape"),
    (NodeResourcesFit, ratio((10, 1), (10, 2)), "increasing utilization"),
    (NodeResourcesFit, ratio((-1, 1)), "utilization"),
    (NodeResourcesFit, ratio((101, 1)), "utilization"),
    (NodeResourcesFit, ratio((0, -1)), "score"),
    (NodeResourcesFit, ratio((0, 11)), "score"),
    (ReservationPlugin, {"ignoredResources": ["a.io/"]}, "ignoredResources"),
    (VolumeBinding, {"bindTimeoutSeconds": -1}, "bindTimeoutSeconds"),
    (VolumeBinding, {"bindTimeoutSeconds": 1.5}, "bindTimeoutSeconds"),
    (VolumeBinding, {"shape": [{"utilization": 101, "score": 0}]}, "shape"),
    (NodeAffinityPlugin, needs(FLAWED), f"{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"),
    (NodeAffinityPlugin, needs(requirement("disk", "In", "a b")), "matchExpressions[0]"),
    (NodeAffinityPlugin, needs(requirement("disk", "In", LONG)), "matchExpressions[0]"),
    (NodeAffinityPlugin, needs(requirement("disk", "In")), "matchExpressions[0]"),
    (NodeAffinityPlugin, needs(requirement("disk", "Exists", "ssd")), "matchExpressions[0]"),
    (NodeAffinityPlugin, needs(requirement("disk", "Gt", "many")), "matchExpressions[0]"),
    (NodeAffinityPlugin, needs(requirement("disk", "Is", "ssd")), "matchExpressions[0]"),
    (NodeAffinityPlugin, needs(NAMED | {"operator": "Exists"}, kind="matchFields"), "matchFields[0]"),
    (NodeAffinityPlugin, needs(NAMED | {"values": ["a", "b"]}, kind="matchFields"), "matchFields[0]"),
    (NodeAffinityPlugin, prefers(1, requirement("gpu", "Exists"), FLAWED), f"{PREFERRED}[0].preference"),
    (NodeAffinityPlugin, needs(requirement() | {"value": "ssd"}), "matchExpressions[0].value"),
    (DynamicResources, {"filterTimeout": "-1s"}, "filterTimeout"),
    (DynamicResources, {"bindingTimeout": "999ms"}, "bindingTimeout"),
    (DynamicResources, {"bindingTimeout": 10}, "bindingTimeout"),
]


@pytest.mark.parametrize(("kind", "args"), ACCEPTED)
def test_valid_args_are_accepted(kind: type[Plugin], args: Args) -> None:
    assert kind(Scene().handle, args).name == kind.name


@pytest.mark.parametrize(("kind", "args", "field"), REFUSED)
def test_invalid_args_are_refused_by_the_name_of_the_field(
    kind: type[Plugin], args: Args, field: str
) -> None:
    with pytest.raises(ValueError, match=f"^pluginConfig of {kind.name}: ") as refused:
        kind(Scene().handle, args)
    assert field in str(refused.value)


def test_all_problems_are_reported_at_once() -> None:
    args = {"ignoredResources": ["a.io/"], **ratio((101, 11))}
    with pytest.raises(ValueError, match=r"ignoredResources: .*; .*a utilization is .*; .*a score is "):
        NodeResourcesFit(Scene().handle, args)
