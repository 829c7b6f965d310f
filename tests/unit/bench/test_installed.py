"""The benchmark of balance simulates the profile that users get."""

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import yaml

from bench.balance import installed
from bench.installed import (
    ROOT,
    NotSimulatedError,
    base_configuration,
    chart_configuration,
    installed_policy,
)
from tidelock.framework.config import Configuration, read_configuration
from tidelock.framework.profile import PluginFactory
from tidelock.plugins.registry import BUILTINS
from tidelock.simulation.cluster import SCHEDULER, SimulatedCluster
from tidelock.simulation.engine import Simulation
from tidelock.simulation.measuring import DEFAULT_METRICS
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.results import figures
from tidelock.simulation.worlds import Setting, synthetic_load, world_of
from unit.simulation.small import world

_MOST_OF_DEFAULT = 0.85
_SEEDS = range(4)


@pytest.mark.parametrize("read", [base_configuration, chart_configuration])
def test_the_simulated_policy_decides_as_the_installed_profile_with_all_its_plugins(
    read: Callable[[], Configuration],
) -> None:
    of, configuration = world(2, steps=16), read()
    profile = replace(configuration.profiles[0], scheduler_name=SCHEDULER)
    users = SimulatedCluster(of, replace(configuration, profiles=(profile,)), {})

    theirs = Simulation(of, POLICIES["shipped"], timing=DEFAULT_METRICS, scheduler=users).run()
    simulated = Simulation(of, installed(), timing=DEFAULT_METRICS).run()

    assert np.array_equal(simulated.node, theirs.node)
    assert installed() == POLICIES["shipped"]


def test_the_installed_profile_leaves_less_deviation_than_the_default() -> None:
    ratios = []
    for seed in _SEEDS:
        load = synthetic_load(200, 144, seed)
        cores = (8, 16, 32) if seed % 2 else (16,)
        of = world_of(
            "half a day", load, Setting(nodes=20, cores=cores, workloads=40, noise=0.5, steps=144), seed
        )
        ours, default = (
            figures(Simulation(of, policy, seed, timing=DEFAULT_METRICS).run()).spread
            for policy in (installed(), POLICIES["default"])
        )
        ratios.append(ours / default)

    assert fmean(ratios) <= _MOST_OF_DEFAULT


def _no_plugins(_: Collection[str]) -> dict[str, PluginFactory]:
    return {}


def test_weight_args_and_scores_of_requests_are_read() -> None:
    text = """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
          - plugins:
              multiPoint:
                disabled: [{name: WaterLevelBalance}]
                enabled: [{name: WaterLevelBalance, weight: 7}]
              score:
                disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
            pluginConfig:
              - {name: WaterLevelBalance, args: {mode: NodeWindows}}
    """
    found = installed_policy(read_configuration(text, BUILTINS, _no_plugins))

    assert (found.weight, found.args, found.by_requests) == (7, {"mode": "NodeWindows"}, False)


def test_a_profile_that_the_simulator_does_not_support_is_refused(tmp_path: Path) -> None:
    text = """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
          - plugins:
              multiPoint: {disabled: [{name: WaterLevelBalance}]}
    """
    with pytest.raises(NotSimulatedError, match="the simulator does not support its scores"):
        installed_policy(read_configuration(text, BUILTINS, _no_plugins))

    base = tmp_path / "manifests/base"
    base.mkdir(parents=True)
    deployment = yaml.safe_load((ROOT / "manifests/base/deployment.yaml").read_text())
    deployment["spec"]["template"]["spec"]["containers"][0]["args"] += ["--config", "/etc/tidelock/x.yaml"]
    (base / "deployment.yaml").write_text(yaml.safe_dump(deployment))
    with pytest.raises(NotSimulatedError, match="--config"):
        base_configuration(tmp_path)
