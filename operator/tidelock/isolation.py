"""Faults of the program cost only the object that they concern, and never the process.

A fault is an unexpected exception. controller-runtime recovers each reconcile and puts its object back into a
rate-limited queue. In the same way, each step for one object passes its faults to an `Isolation`. The
isolation counts the fault, and reports it in an event of the object and in the log. It returns for how long
to leave the object alone: a second at first, twice as long after each further fault, five minutes at most.

One traceback is logged for each place in the code that fails. Later failures at that place are a line with a
count.
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
"""Shortest and longest time in seconds for which an object is left alone after a fault."""
# Seconds without a fault, beyond the last pause, after which the next fault counts as the first.
_CALM = 60.0
# Chained causes that are followed.
_MOST_CAUSES = 8
# Remembered objects and places in the code.
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
    """The number of faults of an object in a step, the pause, and its end."""

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
        """Take a fault of a step for an object, and return the seconds for which to leave it alone.

        Args:
            step: the failed step, such as `decision`: a label of the metric.
            about: the object's resource, or its kind; an empty kind for a step without an object.
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
        """Take a fault of a step without an object, and return the seconds for which to pause the step."""
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
        """Return a context for a step for an object, which only errors of a `fatal` type leave."""
        return Attempt(lambda error: self.failed(step, about, meta, error), fatal=fatal)

    def part(self, step: str, *, fatal: tuple[type[Exception], ...] = ()) -> Attempt:
        """Return a context for a step without an object, which only errors of a `fatal` type leave."""
        return Attempt(lambda error: self.part_failed(step, error), fatal=fatal)

    async def supervise(
        self,
        step: str,
        work: Callable[[], Awaitable[object]],
        *,
        fatal: tuple[type[Exception], ...] = (),
    ) -> NoReturn:
        """Run endless work, again after each fault. Only errors of a `fatal` type are raised."""
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
    """Return the line of code that raised an error, or its first cause, as plugins' errors are wrapped."""
    for _ in range(_MOST_CAUSES):
        error = error.__cause__ or error
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return "", 0
    frame, line = frames[-1]
    return frame.f_code.co_filename, line
