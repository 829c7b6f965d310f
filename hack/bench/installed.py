"""The profile that a user gets from the manifests and the chart, as a policy of the simulator."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tidelock.framework.config import Configuration, read_configuration
from tidelock.framework.installed import load_plugins
from tidelock.framework.profile import ProfileSettings
from tidelock.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.pod_topology_spread.plugin import PodTopologySpread
from tidelock.plugins.registry import BUILTINS, read_configuration_file
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from tidelock.simulation.policies import POLICIES, SimulatedPolicy

ROOT = Path(__file__).parents[2]

_NAME = "tidelock-scheduler"
_FIXED = (NodeResourcesFit.name, NodeResourcesBalancedAllocation.name, PodTopologySpread.name)


class NotSimulatedError(ValueError):
    """A profile that the simulator does not support."""


def base_configuration(root: Path = ROOT) -> Configuration:
    """Return the configuration of the scheduler in manifests/base.

    Raises:
        NotSimulatedError: its Deployment names a file of configuration, which is not read here.

    """
    deployment = yaml.safe_load((root / "manifests/base/deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments: Sequence[str] = container["args"]
    if any(each.startswith("--config") for each in arguments):
        raise NotSimulatedError(f"manifests/base: {' '.join(arguments)}: read this file here too")
    return read_configuration_file("", _NAME)


def chart_configuration(root: Path = ROOT) -> Configuration:
    """Return the configuration of the scheduler by the chart's default values."""
    values = yaml.safe_load((root / "manifests/chart/values.yaml").read_text())
    if not values["configuration"]:
        return read_configuration_file("", _NAME)
    text = yaml.safe_dump(values["configuration"])
    return read_configuration(text, BUILTINS, partial(load_plugins, builtin=BUILTINS.registry))


def installed_policy(configuration: Configuration) -> SimulatedPolicy:
    """Return the first profile of a configuration, with one WaterLevel over all nodes at its defaults.

    Raises:
        NotSimulatedError: it differs from the default profile in scores that the simulator has fixed.

    """
    settings = configuration.profiles[0]
    weights = _weights(settings)
    defaults = {each.name: each.weight for each in BUILTINS.defaults}
    by_requests = weights.keys() >= set(_FIXED)
    changed = [name for name in _FIXED if name in weights and weights[name] != defaults[name]]
    args: dict[str, Any] = dict(settings.args)
    own = args.pop(WaterLevelBalance.name, {})
    if WaterLevelBalance.name not in weights or changed or args or PodTopologySpread.name not in weights:
        raise NotSimulatedError(
            f"profile {settings.scheduler_name}: the simulator does not support its scores"
        )
    return replace(
        POLICIES["shipped"], weight=weights[WaterLevelBalance.name], args=own, by_requests=by_requests
    )


def _weights(settings: ProfileSettings) -> dict[str, int]:
    """Return the weights of the plugins that score."""
    weights = {each.name: each.weight for each in settings.enabled}
    point = settings.points.get("score")
    if point is not None:
        for name in weights.keys() if "*" in point.disabled else point.disabled:
            weights = {other: weight for other, weight in weights.items() if other != name}
        weights |= {each.name: each.weight for each in point.enabled}
    return weights
