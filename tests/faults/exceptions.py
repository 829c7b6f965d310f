"""Exceptions of the program itself, which cost the object or the part that they hit, for a while.

A step raises at certain calls, as the plan says. The isolation then leaves the object alone, the watch
delivers it again, or the part is tried again. The run must keep the same promises, and come to the same rest.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from inspect import iscoroutinefunction
from random import Random
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from faults.plan import Plan
from tidelock.cluster.cache import Cache
from tidelock.ledger.capacity.placement import Placement
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle.endings import Endings
from tidelock.ledger.owners.claims import Claims
from tidelock.ledger.records import Records
from tidelock.scheduler.actions.binding import Binder
from tidelock.scheduler.actions.status_writer import StatusWriter
from tidelock.scheduler.controllers.groups import GroupController
from tidelock.scheduler.controllers.quotas import QuotaController
from tidelock.scheduler.controllers.quotes import QuoteController
from tidelock.scheduler.controllers.schedules import ScheduleController
from tidelock.scheduler.core.pod_queue import SchedulingQueue

PLACES: Mapping[str, tuple[type, str]] = MappingProxyType(
    {
        "pod": (Cache, "upsert"),
        "waiting pod": (SchedulingQueue, "upsert"),
        "node": (Cache, "put_node"),
        "reservation": (Ledger, "upsert"),
        "removal": (Ledger, "remove"),
        "end": (Endings, "_expire"),
        "settlement": (Placement, "settle_node"),
        "claim": (Claims, "claim"),
        "binding": (Claims, "owner_bound"),
        "commit": (Records, "commit"),
        "group": (GroupController, "_desired_state"),
        "schedule": (ScheduleController, "_desired_state"),
        "quote": (QuoteController, "_judge"),
        "quota": (QuotaController, "_wanted"),
        "status": (StatusWriter, "_write_difference"),
        "look-up": (Binder, "_look_up"),
        "condition": (Binder, "_write_unschedulable"),
    }
)
"""The methods that can raise, by the name of their step in a plan."""

PLANTED = "planted in a run with exceptions"
_MOST = 4
_LATEST = 12


class PlantedError(Exception):
    """An exception that the plan wants."""


def with_exceptions(plan: Plan) -> Plan:
    """Return a plan with exceptions that are drawn from its seed: the step, and the number of its call.

    A step raises once. A record that is rebuilt goes through the same step a moment later, and a second
    exception there may cost the reservation its capacity.
    """
    rng = Random(f"{plan.seed}/exceptions")  # noqa: S311 -- to be repeated
    places = rng.sample([*PLACES], rng.randint(1, _MOST))
    return replace(plan, exceptions=frozenset((place, rng.randint(1, _LATEST)) for place in places))


class Exceptions:
    """The exceptions of a run.

    Attributes:
        raised: those that were raised so far, for people.

    """

    def __init__(self, plan: Plan) -> None:
        self._wanted = set(plan.exceptions)
        self._counts: Counter[str] = Counter()
        self.raised: list[str] = []

    def calm(self) -> None:
        """Raise no more."""
        self._wanted.clear()

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Let the steps raise while the context lasts."""
        with ExitStack() as patched:
            for place in {place for place, _ in self._wanted}:
                owner, method = PLACES[place]
                original: Callable[..., Any] = getattr(owner, method)
                patched.enter_context(patch.object(owner, method, self._raising(place, original)))
            yield

    def _raising(self, place: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            self._count(place)
            return original(*arguments, **options)

        async def called_later(*arguments: Any, **options: Any) -> Any:
            return await called(*arguments, **options)

        return called_later if iscoroutinefunction(original) else called

    def _count(self, place: str) -> None:
        self._counts[place] += 1
        call = place, self._counts[place]
        if call in self._wanted:
            self.raised.append(f"{place} {call[1]}")
            raise PlantedError(PLANTED)


def is_planted(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, is of the plan."""
    while error is not None and not isinstance(error, PlantedError):
        error = error.__cause__ or error.__context__
    return error is not None
