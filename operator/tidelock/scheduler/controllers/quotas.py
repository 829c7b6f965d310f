"""ReservationQuotas' side of the API: their status tells what is used of them.

It is written by level, a while after something changed: in a busy namespace it is one write for many locks.
"""

import asyncio
import logging
from typing import Any, NoReturn

from tidelock.kube.client import RESERVATIONQUOTAS
from tidelock.kube.errors import ApiError, Conflict, NotFound
from tidelock.ledger import reasons
from tidelock.ledger.output.status import render_quota
from tidelock.ledger.queue.quotas import Quotas
from tidelock.model.conditions import failed
from tidelock.model.failures import failure_note
from tidelock.model.meta import Key
from tidelock.model.quotas import ReservationQuota
from tidelock.scheduler.actions.context import WriterContext

logger = logging.getLogger(__name__)

# Seconds between two looks at what has changed.
_PAUSE = 1.0


class QuotaController:
    """Writes the status of quotas, one after the other."""

    def __init__(self, context: WriterContext, quotas: Quotas) -> None:
        self._client = context.client
        self._clock = context.clock
        self._turn = context.tasks.turn
        self._quotas = quotas
        self._isolation = context.isolation
        self._backoffs = context.tasks.backoffs()
        self._resting: dict[Key, float] = {}  # by the monotonic clock

    async def run(self, started: asyncio.Event) -> NoReturn:
        """Write for ever, from the moment that all locks and quotas are known."""
        await started.wait()
        while True:
            await asyncio.sleep(_PAUSE)
            await self.flush()

    async def flush(self) -> None:
        """Write the status of each quota for which it is news."""
        namespaces, self._quotas.changed = self._quotas.changed, {}
        there = {quota.meta.key: quota for namespace in namespaces for quota in self._quotas.of(namespace)}
        for key in self._resting.keys() - there.keys():
            del self._resting[key]
            self._backoffs.reset(key)
        for quota in there.values():
            await self._see_to(quota)
        self._quotas.changed |= dict.fromkeys(key.namespace for key in self._resting)

    async def _see_to(self, quota: ReservationQuota) -> None:
        """Write one status, unless that failed a moment ago."""
        key, now = quota.meta.key, self._clock.monotonic()
        if now < self._resting.get(key, now):
            return
        self._resting.pop(key, None)
        with self._isolation.attempt("status", RESERVATIONQUOTAS, quota.meta) as attempt:
            if await self._report(quota):
                self._backoffs.reset(key)
            else:
                self._resting[key] = now + self._backoffs.next(key)
        if attempt.error is not None:
            self._resting[key] = now + attempt.pause
            note, generation = failure_note(attempt.error), quota.meta.generation
            told = failed(quota.status, generation, reasons.INTERNAL_ERROR, note, self._clock.now())
            await self._put(quota, told)

    async def _report(self, quota: ReservationQuota) -> bool:
        """Write a status if it is news; return False if that failed and may succeed later."""
        wanted = render_quota(quota, self._quotas.used(quota.meta.namespace), self._clock.now())
        return await self._put(quota, wanted)

    async def _put(self, quota: ReservationQuota, wanted: dict[str, Any]) -> bool:
        if wanted == quota.status:
            return True
        meta = quota.meta
        try:
            async with self._turn.of(meta.namespace, meta.uid):
                await self._client.replace_status(RESERVATIONQUOTAS, meta, wanted)
        except (Conflict, NotFound):
            return True  # the watch will tell, or has told
        except ApiError as error:
            logger.warning(
                "a quota's status was not written", extra={"quota": str(meta.key), "error": str(error)}
            )
            return False
        return True
