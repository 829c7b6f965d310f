"""The simulator's policies in a cluster, as a scheduler's configuration and WaterLevels."""

from collections.abc import Mapping
from typing import Any

import yaml

from replay.exporter import NODE_CPU, POD_CPU
from tidelock.kube.client import WATERLEVELS
from tidelock.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from tidelock.simulation.policies import SimulatedPolicy

Manifest = dict[str, Any]

REFRESH = 5
"""Seconds between two readings of a WaterLevel."""

_STALENESS = 60  # seconds


def configuration(policies: Mapping[str, SimulatedPolicy]) -> str:
    """Return a KubeSchedulerConfiguration with a profile for each scheduler name.

    Raises:
        ValueError: a policy is neither the default profile nor WaterLevelBalance.

    """
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [_profile(name, policy) for name, policy in policies.items()],
    }
    return yaml.safe_dump(document)


def water_level_manifest(name: str, selector: Mapping[str, str], url: str, **spec: object) -> Manifest:
    """Return a WaterLevel of the nodes with these labels, which reads a Prometheus every few seconds."""
    queries = {"nodeCPU": NODE_CPU, "podCPU": POD_CPU}
    defaults = {
        "nodeSelector": {"matchLabels": dict(selector)},
        "source": {"prometheus": {"address": url, "queries": queries}},
        "refreshSeconds": REFRESH,
        "stalenessSeconds": _STALENESS,
    }
    return {
        "apiVersion": WATERLEVELS.api_version,
        "kind": WATERLEVELS.kind,
        "metadata": {"name": name},
        "spec": defaults | spec,
    }


def _profile(name: str, policy: SimulatedPolicy) -> Manifest:
    if policy.plugin not in ("", WaterLevelBalance.name):
        raise ValueError(f"{policy.name}: expected the default profile or one with {WaterLevelBalance.name}")
    plugins: Manifest = {"multiPoint": {"disabled": [{"name": WaterLevelBalance.name}]}}
    if not policy.by_requests:
        by_requests = (NodeResourcesFit.name, NodeResourcesBalancedAllocation.name)
        plugins["score"] = {"disabled": [{"name": each} for each in by_requests]}
    if not policy.plugin:
        return {"schedulerName": name, "plugins": plugins}
    plugins["multiPoint"] = {"enabled": [{"name": policy.plugin, "weight": policy.weight}]}
    args = [{"name": policy.plugin, "args": dict(policy.args)}]
    return {"schedulerName": name, "plugins": plugins, "pluginConfig": args}
