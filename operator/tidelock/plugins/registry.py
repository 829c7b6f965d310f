"""Every plugin by its name, and the default profile."""

from tidelock.framework.api import Plugin
from tidelock.framework.profile import Enabled, PluginFactory
from tidelock.plugins.node_affinity import NodeAffinity
from tidelock.plugins.node_name import NodeName
from tidelock.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.node_unschedulable import NodeUnschedulable
from tidelock.plugins.node_volume_limits import NodeVolumeLimits
from tidelock.plugins.priority_sort import PrioritySort
from tidelock.plugins.reservation import Reservation
from tidelock.plugins.scheduling_gates import SchedulingGates
from tidelock.plugins.taint_toleration import TaintToleration
from tidelock.plugins.unknown_demands import UnknownDemands
from tidelock.plugins.volume_binding import VolumeBinding
from tidelock.plugins.volume_restrictions import VolumeRestrictions
from tidelock.plugins.volume_zone import VolumeZone

_PLUGINS: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    UnknownDemands,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    NodeResourcesBalancedAllocation,
    Reservation,
)

REGISTRY: dict[str, PluginFactory] = {plugin.name: plugin for plugin in _PLUGINS}

# In this order: what rules out a node for good comes before what may change. The weights are those of
# kube-scheduler; Reservation's outweighs all others together, so that an owner goes to its lock's node.
DEFAULT_PLUGINS: tuple[Enabled, ...] = (
    Enabled(SchedulingGates.name),
    Enabled(PrioritySort.name),
    Enabled(UnknownDemands.name),
    Enabled(NodeUnschedulable.name),
    Enabled(NodeName.name),
    Enabled(TaintToleration.name, 3),
    Enabled(NodeAffinity.name, 2),
    Enabled(NodeResourcesFit.name),
    Enabled(VolumeRestrictions.name),
    Enabled(NodeVolumeLimits.name),
    Enabled(VolumeBinding.name),
    Enabled(VolumeZone.name),
    Enabled(NodeResourcesBalancedAllocation.name),
    Enabled(Reservation.name, 5000),
)
