"""Wire types of ReservationSchedule: reservations with a recurring window."""

from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from tidelock.model.api.cron_schedule import CronSchedule, TimeZone
from tidelock.model.api.pod_template import TemplateMetadata
from tidelock.model.api.reservation import (
    NO_EVICTING_HOLD,
    NO_LATER_DEVICES,
    Ask,
    Phase,
    ReservationSpec,
)
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
from tidelock.model.cron import Timetable, read_expression, read_zone

MOST_AHEAD = 16
MOST_SHOWN = 32
_LONGEST_NAME = 240


class WindowSpec(ReservationSpec):
    """Capacity and owners of each window: the spec of a Reservation without its times."""

    refused = MappingProxyType(
        {
            "startAt": Refused("string", "schedule sets when windows begin"),
            "expireAt": Refused("string", "durationSeconds sets how long windows are"),
            "ttlSeconds": Refused("integer", "durationSeconds sets how long windows are"),
            "anyOf": Refused("string", "windows of one schedule are no alternatives"),
            "borrowable": Refused("boolean", "a reservation with a window can't be borrowed"),
            "borrowerNamespaces": Refused("object", "a reservation with a window can't be borrowed"),
            "group": Refused("object", "each window is a separate reservation"),
            "answer": Refused("string", "the operator creates the windows"),
        }
    )
    rules = (*Ask.rules, *NO_EVICTING_HOLD, NO_LATER_DEVICES)


class WindowTemplate(Wire):
    """Template of the Reservation that is created for each window."""

    metadata: TemplateMetadata | None = None
    """Labels and annotations of the Reservation."""
    spec: WindowSpec
    """Capacity and owners of each window: the spec of a Reservation without its times."""


class ReservationScheduleSpec(Wire):
    """Start times and length of the windows, and the capacity to reserve in them."""

    schedule: CronSchedule
    """Start times of the windows, in the format of CronJobs: minute, hour, day of month, month and day of
    week."""
    time_zone: TimeZone = "Etc/UTC"
    """Time zone of the schedule: a name of the IANA database, such as Europe/Berlin."""
    duration_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)]
    """Length of a window in seconds, during which the reserved capacity waits for a pod."""
    ahead: Annotated[int, Field(ge=1, le=MOST_AHEAD)] = 1
    """Number of future windows that are planned at any time."""
    starting_deadline_seconds: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] | None = None
    """Latest delay in seconds with which a missed window is still created. Absent: until the window is
    over."""
    suspend: bool = False
    """True: no windows are planned, and windows that have not begun are removed. Windows that have begun
    stay."""
    template: WindowTemplate
    """Template of the Reservation that is created for each window."""

    @property
    def timetable(self) -> Timetable:
        """The instants at which windows begin."""
        return Timetable(read_expression(self.schedule), read_zone(self.time_zone))


class ScheduleWindow(StatusWire):
    """A window that is not over yet."""

    name: Subdomain
    """Name of the window's Reservation."""
    start_at: Timestamp
    """Time at which the window begins."""
    phase: Phase | None = None
    """Phase of the window's Reservation."""


_Count = Annotated[int, Field(ge=0, le=MOST_SHOWN)]


class ReservationScheduleStatus(StatusWire):
    """Observed state of the schedule, with its windows."""

    observed_generation: Generation | None = None
    """Generation of the spec that the status describes, or -1 before the operator has seen it."""
    next_start: Timestamp | None = None
    """Time at which the next window begins."""
    last_start: Timestamp | None = None
    """Time at which the last window began. No window with an earlier start is created any more."""
    planned: _Count | None = None
    """Number of future windows that have a Reservation."""
    active: _Count | None = None
    """Number of windows that have begun and hold their capacity."""
    windows: Annotated[
        list[ScheduleWindow], Field(max_length=MOST_SHOWN, json_schema_extra=list_map("name"))
    ] = Field(default_factory=list)
    """Windows that are not over yet, ordered by their start: at most 32."""
    conditions: Conditions = Field(default_factory=list)
    """Conditions of the schedule: Ready, Reconciling and Stalled."""


SCHEDULE_RULES = (
    Rule(
        f"size(self.metadata.name) <= {_LONGEST_NAME}",
        f"metadata.name: the name of a schedule has at most {_LONGEST_NAME} characters:"
        " its windows are named after it",
    ),
)
