"""Writes the use of each ReservationQuota into its status.

A status needs no speed: it is written a while after a change, so a busy namespace costs one write for many
Reservations. One quota is written at a time, beside the statuses for which clients wait.
"""

import asyncio
from typing import Any, NoReturn

from tidelock.kube.client import RESERVATIONQUOTAS
from tidelock.ledger.output.status import render_quota
from tidelock.ledger.queue.quotas import Quotas
from tidelock.model.meta import Key
from tidelock.model.quotas import ReservationQuota, decode_reservation_quota
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.object_writer import ObjectWriter

# Seconds between two looks at the namespaces that have changed.
_PAUSE = 1.0
# All quotas are one tenant, beside the namespaces.
_TENANT = "/quotas"


class QuotaController(ObjectWriter):
    """Writes the statuses of quotas."""

    def __init__(self, context: WriterContext, quotas: Quotas) -> None:
        super().__init__(context, RESERVATIONQUOTAS, "status", tenant=_TENANT)
        self._quotas = quotas
        self._one = asyncio.Lock()
        self._answers: dict[Key, ReservationQuota] = {}

    async def run(self, started: asyncio.Event) -> NoReturn:
        """Write for ever, from the moment at which all Reservations and quotas are known."""
        await started.wait()
        while True:
            await asyncio.sleep(_PAUSE)
            await self.flush()

    async def flush(self) -> None:
        """Begin to write the status of each quota that has changed."""
        for namespace in self._quotas.changed.take():
            for quota in self._quotas.of(namespace):
                self.reconcile(quota.meta.key)
                await asyncio.sleep(0)

    def _stored(self, key: Key) -> ReservationQuota | None:
        """Return a quota as the watch has brought it, or as the answer to a write that is newer."""
        quotas = self._quotas.of(key.namespace)
        seen = next((quota for quota in quotas if quota.meta.name == key.name), None)
        answer = self._answers.get(key)
        if answer is None or seen is None or seen.meta.uid != answer.meta.uid:
            self._answers.pop(key, None)
            return seen
        return max(seen, answer, key=lambda quota: quota.meta.version)

    def _acknowledge(self, written: bytes) -> None:
        answer = decode_reservation_quota(written)
        self._answers[answer.meta.key] = answer

    def _differs(self, key: Key) -> bool:
        quota = self._stored(key)
        return quota is not None and self._wanted(quota) != quota.status

    def _wanted(self, quota: ReservationQuota) -> dict[str, Any]:
        return render_quota(quota, self._quotas.used(quota.meta.namespace), self._clock.now())

    def _compare_later(self, key: Key) -> None:
        self._quotas.changed.add(key.namespace)

    async def _write_difference(self, key: Key) -> None:
        async with self._one:
            if (quota := self._stored(key)) is None:
                return
            async with self.turn(quota.meta):
                await self._replace_status(quota.meta, self._wanted(quota))
