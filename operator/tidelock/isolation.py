"""A fault of the program costs its object a pause, and never the process.

A fault is an exception that no code expects. controller-runtime recovers from a fault of each reconcile, and
puts the object back into a rate-limited queue. In the same way each step that is about one object hands its
faults to an `Isolation`. That counts the fault, records an event of the object, writes it to the log, and
returns for how long to leave the object alone. The pause is a second at first, doubles with each further
fault, and is five minutes at most.

One traceback is logged for each place in the code that fails. A later fault of the same place is a line with
a count.
"""

import asyncio
import logging
import traceback
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from tidelock.kube.client import (
    NODES,
    PODS,
    RESERVATIONGROUPS,
    RESERVATIONQUOTAS,
    RESERVATIONQUOTES,
    RESERVATIONS,
    RESERVATIONSCHEDULES,
    WATERLEVELS,
    ApiResource,
)
from tidelock.kube.events import EventType, ObjectReference
from tidelock.model.failures import Attempt, failure_text
from tidelock.model.meta import ObjectMeta

logger = logging.getLogger(__name__)

SHORTEST = 1.0
LONGEST = 300.0
"""Seconds for which an object is left alone after its first fault, and at most."""
# Seconds without a fault, beyond the last pause, after which the next one is the first again.
_CALM = 60.0
# Causes of causes that are followed.
_MOST_CAUSES = 8
# Objects, and places in the code, that are kept in mind.
_MOST = 4096

_KINDS: Mapping[str, ApiResource] = MappingProxyType(
    {
        resource.kind: resource
        for resource in (
            *(NODES, PODS, RESERVATIONGROUPS, RESERVATIONQUOTAS, RESERVATIONQUOTES, RESERVATIONS),
            *(RESERVATIONSCHEDULES, WATERLEVELS),
        )
    }
)


class _Failing(NamedTuple):
    """The number of faults of a step for an object, and the length and the beginning of the pause."""

    tries: int
    pause: float
    since: float


class Isolation:
    """Handles the faults of all parts of the process."""

    def __init__(
        self,
        count: Callable[[str, str], None],
        record: Callable[[ObjectReference, EventType, str, str, str], None],
        monotonic: Callable[[], float],
    ) -> None:
        """Prepare.

        Args:
            count: counts a fault by its step and the resource of its object.
            record: records an event.
            monotonic: a clock in seconds.

        """
        self._count = count
        self._record = record
        self._monotonic = monotonic
        self._failing: OrderedDict[object, _Failing] = OrderedDict()
        self._places: OrderedDict[object, int] = OrderedDict()

    def failed(self, step: str, about: ApiResource | str, meta: ObjectMeta, error: BaseException) -> float:
        """Handle a fault of a step for an object. Return the seconds for which to leave the object alone.

        Args:
            step: the name of the step, such as `decision`, which is a label of the metric.
            about: the object's resource, or its kind; no kind for a step that is about no object.
            meta: the object.
            error: the fault.

        """
        if about == "":
            return self.part_failed(step, error)
        resource = _KINDS[about] if isinstance(about, str) else about
        failing = self._note((step, resource.kind, meta.key, meta.uid))
        self._count(step, resource.plural)
        self._log(step, error, failing, {"object": f"{resource.plural} {meta.key}"})
        note = f"The operator failed in the step {step}, and tries again later: {failure_text(error)}"
        regarding = ObjectReference(resource.api_version, resource.kind, meta.name, meta.namespace, meta.uid)
        self._record(regarding, "Warning", "InternalError", "Isolating", note)
        return failing.pause

    def part_failed(self, step: str, error: BaseException) -> float:
        """Handle a fault of a step that is about no object. Return the seconds until it should run again."""
        failing = self._note(step)
        self._count(step, "")
        self._log(step, error, failing, {})
        return failing.pause

    def attempt(
        self,
        step: str,
        about: ApiResource | str,
        meta: ObjectMeta,
        *,
        fatal: tuple[type[Exception], ...] = (),
    ) -> Attempt:
        """Return a context for a step that is about an object. It lets errors of a `fatal` type pass."""
        return Attempt(lambda error: self.failed(step, about, meta, error), fatal=fatal)

    def part(self, step: str, *, fatal: tuple[type[Exception], ...] = ()) -> Attempt:
        """Return a context for a step that is about no object. It lets errors of a `fatal` type pass."""
        return Attempt(lambda error: self.part_failed(step, error), fatal=fatal)

    async def supervise(
        self,
        step: str,
        work: Callable[[], Awaitable[object]],
        *,
        fatal: tuple[type[Exception], ...] = (),
    ) -> NoReturn:
        """Do endless work, and begin it again after each fault. Errors of a `fatal` type are raised."""
        while True:
            with self.part(step, fatal=fatal) as attempt:
                await work()
            await asyncio.sleep(attempt.pause or SHORTEST)

    def _note(self, key: object) -> _Failing:
        now, before = self._monotonic(), self._failing.pop(key, None)
        if before is None or now > before.since + before.pause + _CALM:
            failing = _Failing(1, SHORTEST, now)
        else:
            failing = _Failing(before.tries + 1, min(2 * before.pause, LONGEST), now)
        self._failing[key] = failing
        if len(self._failing) > _MOST:
            self._failing.popitem(last=False)
        return failing

    def _log(self, step: str, error: BaseException, failing: _Failing, fields: dict[str, str]) -> None:
        place = (step, type(error), _where(error))
        faults = self._places.pop(place, 0) + 1
        self._places[place] = faults
        if len(self._places) > _MOST:
            self._places.popitem(last=False)
        logger.error(
            "a step failed",
            extra={
                "step": step,
                **fields,
                "error": failure_text(error),
                "tries": failing.tries,
                "faults": faults,
                "again_in": failing.pause,
            },
            exc_info=error if faults == 1 else None,
        )


def _where(error: BaseException) -> tuple[str, int]:
    """Return the line of code that raised an error, or its first cause, as a plugin's error is wrapped."""
    for _ in range(_MOST_CAUSES):
        error = error.__cause__ or error
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return "", 0
    frame, line = frames[-1]
    return frame.f_code.co_filename, line
