"""Every plugin by its name, the default profile, and the configuration with these."""

from functools import partial
from pathlib import Path

from tidelock.framework.api import Plugin
from tidelock.framework.config import (
    Builtins,
    Configuration,
    default_configuration,
    read_configuration,
)
from tidelock.framework.config_file import ConfigurationError
from tidelock.framework.profile import Enabled, PluginFactory
from tidelock.plugins.default_binder import DefaultBinder
from tidelock.plugins.default_preemption.plugin import DefaultPreemption
from tidelock.plugins.dynamic_load import DynamicLoad
from tidelock.plugins.dynamic_resources.plugin import DynamicResources
from tidelock.plugins.gang_scheduling import GangScheduling
from tidelock.plugins.image_locality import ImageLocality
from tidelock.plugins.inter_pod_affinity import InterPodAffinity
from tidelock.plugins.load_aware import LoadAware
from tidelock.plugins.load_variation_risk_balancing import LoadVariationRiskBalancing
from tidelock.plugins.low_risk_over_commitment.plugin import LowRiskOverCommitment
from tidelock.plugins.node_affinity import NodeAffinityPlugin
from tidelock.plugins.node_declared_features import NodeDeclaredFeatures
from tidelock.plugins.node_name import NodeName
from tidelock.plugins.node_ports import NodePorts
from tidelock.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.node_unschedulable import NodeUnschedulable
from tidelock.plugins.node_volume_limits.plugin import NodeVolumeLimits
from tidelock.plugins.pod_topology_spread.plugin import PodTopologySpread
from tidelock.plugins.priority_sort import PrioritySort
from tidelock.plugins.reservation.plugin import ReservationPlugin
from tidelock.plugins.scheduling_gates import SchedulingGates
from tidelock.plugins.taint_toleration import TaintToleration
from tidelock.plugins.target_load_packing import TargetLoadPacking
from tidelock.plugins.unreadable_objects import UnreadableObjects
from tidelock.plugins.volume_binding.plugin import VolumeBinding
from tidelock.plugins.volume_restrictions import VolumeRestrictions
from tidelock.plugins.volume_zone import VolumeZone
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from tidelock.plugins.workload_topology_spread.plugin import WorkloadTopologySpread

_PLUGINS: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    DynamicResources,
    UnreadableObjects,
    NodeName,
    NodeUnschedulable,
    TaintToleration,
    NodeAffinityPlugin,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    ReservationPlugin,
    DefaultPreemption,
    WaterLevelBalance,
    TargetLoadPacking,
    LoadVariationRiskBalancing,
    LowRiskOverCommitment,
    DynamicLoad,
    LoadAware,
    WorkloadTopologySpread,
    GangScheduling,
)

REGISTRY: dict[str, PluginFactory] = {plugin.name: plugin for plugin in _PLUGINS}

# In this order permanent rejections come first. The weights are those of kube-scheduler. Reservation's weight
# exceeds the sum of all others, so an owner goes to the node of its reservation.
DEFAULT_PLUGINS: tuple[Enabled, ...] = (
    Enabled(SchedulingGates.name),
    Enabled(PrioritySort.name),
    Enabled(UnreadableObjects.name),
    Enabled(NodeName.name),
    Enabled(NodeUnschedulable.name),
    Enabled(TaintToleration.name, 3),
    Enabled(NodeAffinityPlugin.name, 2),
    Enabled(NodePorts.name),
    Enabled(NodeResourcesFit.name),
    Enabled(VolumeRestrictions.name),
    Enabled(NodeVolumeLimits.name),
    Enabled(VolumeBinding.name),
    Enabled(VolumeZone.name),
    Enabled(PodTopologySpread.name, 2),
    Enabled(InterPodAffinity.name, 2),
    Enabled(NodeResourcesBalancedAllocation.name),
    Enabled(ImageLocality.name),
    # It has no effect without measured use, which counts more than requests.
    Enabled(WaterLevelBalance.name, 20),
    Enabled(DefaultBinder.name),
    Enabled(NodeDeclaredFeatures.name),
    Enabled(DynamicResources.name, 2),
    Enabled(ReservationPlugin.name, 5000),
    Enabled(DefaultPreemption.name),
)

BUILTINS = Builtins(
    registry=REGISTRY,
    defaults=DEFAULT_PLUGINS,
    kept=frozenset({UnreadableObjects.name, ReservationPlugin.name}),
    needed={ReservationPlugin.name: ("preFilter", "filter", "reserve")},
    counting=(NodeResourcesFit.name, ReservationPlugin.name),
)


def read_configuration_file(file: str, scheduler_name: str) -> Configuration:
    """Read a configuration file. Without one, return the default profile for pods of a schedulerName.

    Raises:
        ConfigurationError: the file can't be read, or is invalid.

    """
    if not file:
        return default_configuration(scheduler_name, BUILTINS)
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"is not UTF-8: {error}") from error
    from tidelock.framework.installed import load_plugins  # noqa: PLC0415 -- the default profile needs none

    return read_configuration(text, BUILTINS, partial(load_plugins, builtin=BUILTINS.registry))
