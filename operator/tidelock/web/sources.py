"""The state that the pages of the web view read."""

from collections.abc import Mapping

from tidelock.cluster.usage.levels import MEASURED_RESOURCES, WINDOWS, NodeLevels
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.meta import Key
from tidelock.model.reservation_group import ReservationGroup
from tidelock.model.reservation_schedule import ReservationSchedule
from tidelock.plugins.water_level_balance.usage_policies import UNLIMITED, UsagePolicies, UsagePolicy
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.views.recent_decisions import RecentDecisions

# Of nodes that no WaterLevel selects, only stale measurements are left out.
_REST = UsagePolicy(
    windows=(1.0,) * len(WINDOWS),
    percent=None,
    min_weight=0.0,
    limits=(UNLIMITED,) * len(MEASURED_RESOURCES),
    staleness=WaterLevelSpec.model_fields["staleness_seconds"].default,
    defaults=(0.0,) * len(MEASURED_RESOURCES),
)


class Sources:
    """The nodes, reservations and decisions of the scheduler, and the other objects by their keys.

    The levels of nodes are followed from the construction on.
    """

    def __init__(
        self,
        decider: Decider,
        recent: RecentDecisions,
        groups: Mapping[Key, ReservationGroup],
        schedules: Mapping[Key, ReservationSchedule],
    ) -> None:
        self.cache, self.ledger = decider.cache, decider.ledger
        self.quotas = decider.objects.reservation_quotas
        self.recent, self.groups, self.schedules = recent, groups, schedules
        self.levels = NodeLevels()
        self.cache.add_observer(self.levels)
        self.policies = UsagePolicies(decider.objects.water_levels, _REST)
