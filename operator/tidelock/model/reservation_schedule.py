"""A ReservationSchedule, decoded once: the starts of its windows, and their Reservations."""

from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any

import msgspec
import pydantic

from tidelock.model.api.reservation_schedule import ReservationScheduleSpec, ReservationScheduleStatus
from tidelock.model.api.wire import legible, spec_problems
from tidelock.model.cron import Timetable
from tidelock.model.instants import format_instant, stored_instant
from tidelock.model.lenient import Reader
from tidelock.model.meta import Key, ObjectMeta, StoredObject, controlled_by

TEMPLATE_ANNOTATION = "tidelock.dev/schedule-template"
"""Annotation of a window with the digest of the template that it was created from."""

SCHEDULE_KIND = "ReservationSchedule"
_API_VERSION = "tidelock.dev/v1alpha1"
_MINUTE = 60


@dataclass(frozen=True, slots=True)
class ReservationSchedule:
    """One version of a ReservationSchedule.

    For an unreadable spec there is only the `problem`. `template` and `status` are the stored ones, as plain
    JSON values. `digest` identifies the template together with the length of windows.
    """

    meta: ObjectMeta
    spec: ReservationScheduleSpec | None = None
    timetable: Timetable | None = None
    problem: str = ""
    template: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.meta.key

    def name_of(self, start: float) -> str:
        """Return the name of the Reservation of the window that begins then, as CronJobs name their Jobs."""
        return f"{self.meta.name}-{int(start) // _MINUTE}"

    def start_of(self, name: str) -> float:
        """Return when the window of a name begins."""
        return float(name.removeprefix(f"{self.meta.name}-")) * _MINUTE

    def to_come(self, now: float) -> list[float]:
        """Return the starts of the windows to plan."""
        if self.spec is None or self.timetable is None or self.spec.suspend:
            return []
        return list(islice(self.timetable.after(now), self.spec.ahead))

    def missed(self, now: float, last: float) -> float | None:
        """Return the start of the latest window that has begun after `last`, if it may still be created.

        Only the latest is created, as a CronJob that was missed several times gets one Job.
        """
        if self.spec is None or self.timetable is None or self.spec.suspend:
            return None
        late = self.spec.duration_seconds
        if self.spec.starting_deadline_seconds is not None:
            late = min(late, self.spec.starting_deadline_seconds)
        return self.timetable.latest(now, max(last, self.meta.created, now - late))

    def last_start(self, now: float) -> float:
        """Return the start of the last window that has begun, as far as the status shows, or 0 if none has.

        It can be later than now, if the clock was set back since.
        """
        planned = (stored_instant(each.get("startAt")) or 0.0 for each in self.status.get("windows", ()))
        begun = (start for start in planned if start <= now)
        return max((stored_instant(self.status.get("lastStart")) or 0.0, *begun))

    def manifest(self, start: float) -> dict[str, Any]:
        """Return the Reservation of a window, which is deleted with its schedule."""
        metadata = self.template.get("metadata", {})
        annotations = metadata.get("annotations", {}) | {TEMPLATE_ANNOTATION: self.digest}
        end = start + (self.spec.duration_seconds if self.spec is not None else 0)
        return {
            "apiVersion": _API_VERSION,
            "kind": "Reservation",
            "metadata": {
                "name": self.name_of(start),
                "namespace": self.meta.namespace,
                "labels": metadata.get("labels", {}),
                "annotations": annotations,
                "ownerReferences": [controlled_by(self.meta, _API_VERSION, SCHEDULE_KIND)],
            },
            "spec": self.template["spec"]
            | {"startAt": format_instant(start), "expireAt": format_instant(end)},
        }


_READ = Reader(StoredObject)


def decode_schedule(raw: bytes | msgspec.Raw) -> ReservationSchedule:
    """Decode a ReservationSchedule from its JSON; a bad spec becomes the result's `problem`."""
    stored = _READ(raw)
    status = legible(ReservationScheduleStatus, stored.status)
    try:
        spec = ReservationScheduleSpec.model_validate(stored.spec)
    except pydantic.ValidationError as error:
        return ReservationSchedule(stored.metadata, problem=spec_problems(error), status=status)
    if stored.problem:
        return ReservationSchedule(stored.metadata, problem=stored.problem, status=status)
    template = stored.spec["template"]
    made_of = msgspec.json.encode([spec.duration_seconds, template], order="deterministic")
    digest = sha256(made_of).hexdigest()[:16]
    return ReservationSchedule(stored.metadata, spec, spec.timetable, "", template, digest, status)
