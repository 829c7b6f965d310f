"""The controllers of Tidelock's own kinds, except WaterLevels."""

from collections.abc import Iterator
from dataclasses import dataclass

from tidelock.kube.client import RESERVATIONGROUPS, RESERVATIONQUOTES, RESERVATIONSCHEDULES
from tidelock.kube.errors import NotFound
from tidelock.model.reservation_group import decode_group
from tidelock.model.reservation_quote import decode_quote
from tidelock.model.reservation_schedule import decode_schedule
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.controllers.groups import GroupController
from tidelock.scheduler.controllers.quotas import QuotaController
from tidelock.scheduler.controllers.quotes import QuoteController
from tidelock.scheduler.controllers.schedules import ScheduleController
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.parts import PartContext, ProcessPart

_ABSENT = {"absent_if": (NotFound,)}  # an older version of the CRDs lacks the kind


@dataclass(frozen=True, slots=True)
class Controllers:
    """A controller for each kind."""

    quotas: QuotaController
    quotes: QuoteController
    groups: GroupController
    schedules: ScheduleController

    @classmethod
    def of(cls, context: WriterContext, decider: Decider) -> "Controllers":
        """Make all controllers."""
        return cls(
            QuotaController(context, decider.ledger.quotas),
            QuoteController(context, decider),
            GroupController(context, decider.ledger),
            ScheduleController(context, decider.ledger),
        )

    def parts(self, context: PartContext) -> Iterator[ProcessPart]:
        """Yield the part of each. The event handlers read quotas, too, and have their watch."""
        quotes = context.reflector(RESERVATIONQUOTES, decode_quote, self.quotes, **_ABSENT)
        groups = context.reflector(RESERVATIONGROUPS, decode_group, self.groups, **_ABSENT)
        schedules = context.reflector(RESERVATIONSCHEDULES, decode_schedule, self.schedules, **_ABSENT)
        yield ProcessPart("quotas", self.quotas.run)
        yield ProcessPart("quotes", self.quotes.run, (quotes,))
        yield ProcessPart("groups", self.groups.run, (groups,))
        yield ProcessPart("schedules", self.schedules.run, (schedules,))
