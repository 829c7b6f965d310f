"""Answers each ReservationQuote once, and deletes it when its time is over.

At most one answer is computed in a turn of the event loop, so decisions go on between them. An answer is as
of the moment in which it is sent.
"""

import asyncio
from typing import NoReturn

from tidelock.kube.client import RESERVATIONQUOTES
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.model import reasons
from tidelock.model.meta import Key
from tidelock.model.reservation_quote import Quote, decode_quote
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.object_writer import ObjectWriter
from tidelock.scheduler.actions.tasks import until_woken
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.dry_run import DryRunResult, render_dry_run

# All quotes are one tenant, beside the namespaces, so few of their requests are under way at once.
_TENANT = "/quotes"


class QuoteController(ObjectWriter):
    """Takes quotes in, as the event handler of their watch, and answers them."""

    def __init__(self, context: WriterContext, decider: Decider) -> None:
        super().__init__(context, RESERVATIONQUOTES, "quote", tenant=_TENANT)
        self._decider = decider
        self._quotes: dict[Key, Quote] = {}
        self._waiting: dict[Key, None] = {}
        self._ends: Timers[Key] = Timers()
        self._answering = asyncio.Lock()
        self._wakeup = asyncio.Event()

    def upsert(self, old: Quote | None, new: Quote) -> None:
        """Take over a quote's newest version."""
        del old
        if new.meta.deletion_timestamp is not None:
            self._drop(new.key)
            return
        known = self._quotes.get(new.key)
        if known is not None and known.meta.uid == new.meta.uid and known.meta.version > new.meta.version:
            return  # older than our own answer
        self._quotes[new.key] = new
        self._compare_later(new.key)

    def remove(self, last: Quote) -> None:
        """Forget a quote, unless another one has its name."""
        known = self._quotes.get(last.key)
        if known is None or known.meta.uid == last.meta.uid:
            self._drop(last.key)

    def _drop(self, key: Key) -> None:
        self._quotes.pop(key, None)
        self._waiting.pop(key, None)
        self._forget(key)
        self._ends.set(key, None)

    def synced(self) -> None:
        """Take note that all quotes are known, which changes nothing."""

    async def run(self, started: asyncio.Event) -> NoReturn:
        """Answer for ever, from the moment at which the cluster is known."""
        await started.wait()
        while True:
            await until_woken(self._wakeup, self._ends.next(), self._clock)
            self._waiting |= dict.fromkeys(self._ends.pop_due(self._clock.now()))
            while self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                self.reconcile(key)
                await asyncio.sleep(0)

    def _stored(self, key: Key) -> Quote | None:
        return self._quotes.get(key)

    def _differs(self, key: Key) -> bool:
        """Return whether a quote must be answered or deleted."""
        quote = self._quotes.get(key)
        return quote is not None and (quote.removable_at is None or quote.removable_at <= self._clock.now())

    def _settled(self, key: Key) -> None:
        if (quote := self._quotes.get(key)) is not None:
            self._ends.set(key, quote.removable_at)

    def _compare_later(self, key: Key) -> None:
        if key in self._quotes:
            self._waiting[key] = None
            self._wakeup.set()

    def _acknowledge(self, written: bytes) -> None:
        answer = decode_quote(written)
        known = self._quotes.get(answer.key)
        if known is not None and known.meta.uid == answer.meta.uid:
            self._quotes[answer.key] = answer

    async def _write_difference(self, key: Key) -> None:
        async with self.turn(self._quotes[key].meta):
            if (quote := self._quotes.get(key)) is None or not self._differs(key):
                return
            if quote.removable_at is None:
                await self._answer(quote)
                return
            await self._delete(quote.meta)
            if self._quotes.get(key) is quote:
                self.remove(quote)

    async def _answer(self, quote: Quote) -> None:
        async with self._answering:
            now = self._clock.now()
            status = render_dry_run(quote, self._judge(quote, now), now)
            await asyncio.sleep(0)
        await self._replace_status(quote.meta, status)

    def _judge(self, quote: Quote, now: float) -> DryRunResult:
        if quote.pod is None:
            return DryRunResult(None, reasons.INVALID_SPEC, quote.problem)
        return self._decider.quote(quote.pod, now)
