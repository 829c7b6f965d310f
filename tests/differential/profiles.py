"""The profiles that both schedulers run, in the one format that both read."""

from typing import Any

import yaml

from differential.scenario import UPSTREAM

# Devices have a test and a profile of their own. kube-scheduler's plugin reports on every pod.
DISABLED = ("DynamicResources",)
DEVICES = "devices"
"""The schedulerName of a profile with all plugins. Its scores count the resources of `provided`."""

_WEIGHTS = [
    {"name": "cpu", "weight": 3},
    {"name": "memory", "weight": 1},
    {"name": "example.com/gpu", "weight": 5},
    {"name": "ephemeral-storage", "weight": 2},
]
_SHAPE = [{"utilization": 0, "score": 2}, {"utilization": 37, "score": 10}, {"utilization": 100, "score": 0}]

_ARGS: dict[str, dict[str, Any]] = {
    UPSTREAM: {},
    "packer": {
        "NodeResourcesFit": {
            "scoringStrategy": {"type": "MostAllocated", "resources": _WEIGHTS},
            "ignoredResources": ["example.com/gpu"],
        },
        "NodeResourcesBalancedAllocation": {"resources": [{"name": each["name"]} for each in _WEIGHTS]},
    },
    "shaper": {
        "NodeResourcesFit": {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": _WEIGHTS,
                "requestedToCapacityRatio": {"shape": _SHAPE},
            },
        },
    },
}

# Args can't name a resource by a pattern.
_SEEDS_WITH_SCORES = 64


def provided(seed: int, kind: str) -> str:
    """Return the extended resource that devices of a kind provide in the scenario of a seed."""
    return f"extended-{seed}.example.com/{kind}"


def device_args() -> dict[str, dict[str, Any]]:
    """Return the args of the plugins in the profile for devices.

    NodeResourcesBalancedAllocation of kube-scheduler 1.37.2 ends the process over a class with selectors.
    """
    weights = {"gpu": 3, "nic": 2}
    resources = [{"name": "cpu", "weight": 1}] + [
        {"name": provided(seed, kind), "weight": weight}
        for seed in range(_SEEDS_WITH_SCORES)
        for kind, weight in weights.items()
    ]
    return {"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated", "resources": resources}}}


NAMES = tuple(_ARGS)
"""The schedulerNames of the profiles. The first one is the default profile."""


def profiles() -> list[dict[str, Any]]:
    """Return the `profiles` of a KubeSchedulerConfiguration for kube-scheduler."""
    disabled = [{"name": name} for name in DISABLED]
    return [
        {
            "schedulerName": name,
            "plugins": {"multiPoint": {"disabled": disabled}},
            "pluginConfig": _plugin_config(configured),
        }
        for name, configured in _ARGS.items()
    ] + [{"schedulerName": DEVICES, "pluginConfig": _plugin_config(device_args())}]


def _plugin_config(configured: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": plugin, "args": args} for plugin, args in configured.items()]


def configuration() -> str:
    """Return the KubeSchedulerConfiguration for Tidelock."""
    mine = [{key: value for key, value in each.items() if key != "plugins"} for each in profiles()]
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return yaml.safe_dump({**kind, "profiles": mine})
