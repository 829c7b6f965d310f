"""Wire types of ReservationSchedule: locks with a window that comes again and again."""

from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, Field

from tidelock.model.api.pod_template import TemplateMetadata
from tidelock.model.api.reservation import NO_EVICTING_HOLD, Ask, Phase, ReservationSpec
from tidelock.model.api.wire import (
    YEAR_SECONDS,
    Conditions,
    Generation,
    Refused,
    Rule,
    StatusWire,
    Subdomain,
    Timestamp,
    Wire,
    list_map,
)
from tidelock.model.cron import FIELDS, NICKNAMES, Timetable, read_expression, read_zone

MOST_AHEAD = 16
MOST_TOLD = 32
_LONGEST_NAME = 240
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


class WindowSpec(ReservationSpec):
    """What each window holds, for whom: a Reservation's spec but for its times."""

    refused = MappingProxyType(
        {
            "startAt": Refused("string", "schedule tells when windows begin"),
            "expireAt": Refused("string", "durationSeconds tells how long windows are"),
            "ttlSeconds": Refused("integer", "durationSeconds tells how long windows are"),
            "anyOf": Refused("string", "windows of one schedule are no alternatives"),
            "borrowable": Refused("boolean", "a lock with a window can't be borrowed"),
            "borrowerNamespaces": Refused("object", "a lock with a window can't be borrowed"),
            "group": Refused("object", "windows are locks of their own"),
        }
    )
    rules = (*Ask.rules, *NO_EVICTING_HOLD)


class WindowTemplate(Wire):
    """The Reservation that is made for each window."""

    metadata: TemplateMetadata | None = None
    """Labels and annotations of the Reservation."""
    spec: WindowSpec
    """What it holds, for whom: a Reservation's spec but for its times."""


class ReservationScheduleSpec(Wire):
    """When windows begin, how long they are, and what is held in them."""

    schedule: Annotated[
        str,
        Field(min_length=1, max_length=256),
        AfterValidator(_readable),
        Rule(
            f"self.matches(r'{_CRON}')",
            f"expected five fields, {FIELDS}, or one of {', '.join(NICKNAMES)}",
        ),
    ]
    """When windows begin, as CronJobs say it: minute, hour, day of month, month and day of week."""
    time_zone: Annotated[
        str,
        Field(min_length=1, max_length=64),
        AfterValidator(_known),
        # Asked for an hour, as the API server then looks the zone up.
        Rule(
            f"self.matches(r'{_ZONE}') && self != 'Local'"
            " && timestamp('2030-01-01T00:00:00Z').getHours(self) >= 0",
            "expected a time zone of the IANA database, such as Europe/Berlin",
        ),
    ] = "Etc/UTC"
    """Whose clocks the schedule is read by: a name of the IANA database, such as Europe/Berlin."""
    duration_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)]
    """How long a window is: for so long its room waits for a pod."""
    ahead: Annotated[int, Field(ge=1, le=MOST_AHEAD)] = 1
    """How many windows to come are planned at any time."""
    starting_deadline_seconds: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] | None = None
    """How late a window that was missed may still be made; absent: as long as it is not over."""
    suspend: bool = False
    """True: no windows are planned, and those that have not begun are removed; others stay."""
    template: WindowTemplate
    """The Reservation that is made for each window."""

    @property
    def timetable(self) -> Timetable:
        """The instants at which windows begin."""
        return Timetable(read_expression(self.schedule), read_zone(self.time_zone))


class ScheduleWindow(StatusWire):
    """A window that is to come or has begun, and is not over."""

    name: Subdomain
    """Name of its Reservation."""
    start_at: Timestamp
    """When it begins."""
    phase: Phase | None = None
    """Phase of its Reservation."""


_Count = Annotated[int, Field(ge=0, le=MOST_TOLD)]


class ReservationScheduleStatus(StatusWire):
    """Which windows there are."""

    observed_generation: Generation | None = None
    """Generation of the spec that the status is about; -1 before the operator has seen it."""
    next_start: Timestamp | None = None
    """When the next window begins."""
    last_start: Timestamp | None = None
    """When the last window began; no earlier one is made any more."""
    planned: _Count | None = None
    """How many windows are to come and have their Reservations."""
    active: _Count | None = None
    """How many windows have begun and hold their room."""
    windows: Annotated[
        list[ScheduleWindow], Field(max_length=MOST_TOLD, json_schema_extra=list_map("name"))
    ] = Field(default_factory=list)
    """Windows that are to come, or have begun and are not over, by their start: at most 32."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, Reconciling and Stalled."""


SCHEDULE_RULES = (
    Rule(
        f"size(self.metadata.name) <= {_LONGEST_NAME}",
        f"metadata.name: the name of a schedule has at most {_LONGEST_NAME} characters:"
        " its windows are named after it",
    ),
)
