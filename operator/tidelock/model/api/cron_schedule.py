"""Wire types of recurring instants: a cron expression and the time zone of its clocks."""

from typing import Annotated

from pydantic import AfterValidator, Field

from tidelock.model.api.wire import Rule
from tidelock.model.cron import FIELDS, NICKNAMES, read_expression, read_zone

_NICKNAMES = "|".join(name.removeprefix("@") for name in NICKNAMES)
_DAY_NAMES = "[0-9A-Za-z*?,/#-]+"
_CRON = rf"^(@({_NICKNAMES})|[0-9*?,/-]+ +[0-9*?,/-]+ +[0-9LW*?,/-]+ +[0-9A-Za-z*?,/-]+ +{_DAY_NAMES})$"
_ZONE = "^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"


def _readable(schedule: str) -> str:
    read_expression(schedule)
    return schedule


def _known(time_zone: str) -> str:
    read_zone(time_zone)
    return time_zone


CronSchedule = Annotated[
    str,
    Field(min_length=1, max_length=256),
    AfterValidator(_readable),
    Rule(
        f"self.matches(r'{_CRON}')",
        f"expected five fields, {FIELDS}, or one of {', '.join(NICKNAMES)}",
    ),
]
"""Instants in the format of CronJobs."""

TimeZone = Annotated[
    str,
    Field(min_length=1, max_length=64),
    AfterValidator(_known),
    # The rule asks for an hour, because the API server then looks up the time zone.
    Rule(
        f"self.matches(r'{_ZONE}') && self != 'Local'"
        " && timestamp('2030-01-01T00:00:00Z').getHours(self) >= 0",
        "expected a time zone of the IANA database, such as Europe/Berlin",
    ),
]
"""A name of the IANA database."""
