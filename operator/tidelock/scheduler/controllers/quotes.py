"""ReservationQuotes' side of the API: each is answered once, and removed when its time is over.

One is answered in a turn of the event loop, and a few answers are written at once: decisions go on between
them, however many wait, and an answer is of the moment in which it is sent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

from tidelock.kube.client import RESERVATIONQUOTES
from tidelock.kube.errors import ApiError, Conflict, NotFound
from tidelock.ledger import reasons
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.model.conditions import failed
from tidelock.model.failures import failure_note
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.reservation_quote import Quote, decode_quote
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.tasks import About, until_news
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.dry_run import DryRunResult, render_dry_run

logger = logging.getLogger(__name__)

# Requests of quotes under way at once.
_WRITES = 8
# Their turn among the namespaces: all quotes together are one, beside the locks' statuses.
_TENANT = "/quotes"


class QuoteController:
    """Takes quotes in, as the sink of their watch, and answers them."""

    def __init__(self, context: WriterContext, decider: Decider) -> None:
        self._client = context.client
        self._clock = context.clock
        self._tasks = context.tasks
        self._isolation = context.isolation
        self._decider = decider
        self._quotes: dict[Key, Quote] = {}
        self._waiting: dict[Key, None] = {}
        self._ends: Timers[Key] = Timers()
        self._busy: set[Key] = set()
        self._backoffs = context.tasks.backoffs()
        self._slots = asyncio.Semaphore(_WRITES)
        self._news = asyncio.Event()

    def upsert(self, old: Quote | None, new: Quote) -> None:
        """Take over a quote's newest version."""
        del old
        if new.meta.deletion_timestamp is not None:
            self.remove(new)
            return
        known = self._quotes.get(new.key)
        if known is not None and known.meta.uid == new.meta.uid and known.meta.version > new.meta.version:
            return  # older than our own answer
        self._quotes[new.key] = new
        if new.key not in self._busy:
            self._look_at(new)

    def remove(self, last: Quote) -> None:
        """Forget a quote."""
        self._quotes.pop(last.key, None)
        self._waiting.pop(last.key, None)
        self._backoffs.reset(last.key)
        self._ends.set(last.key, None)

    def _look_at(self, quote: Quote) -> None:
        """Note what is to be done about a quote."""
        self._ends.set(quote.key, quote.removable_at)
        if quote.removable_at is None:
            self._waiting[quote.key] = None
        self._news.set()

    def synced(self) -> None:
        """All quotes are known, which changes nothing."""

    async def run(self, started: asyncio.Event) -> NoReturn:
        """Answer for ever, from the moment that the cluster is known."""
        await started.wait()
        while True:
            await until_news(self._news, self._ends.next(), self._clock)
            for key in self._ends.pop_due(self._clock.now()):
                await self._begin(key, self._remove)
            while self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                await self._begin(key, self._answer)

    async def _begin(self, key: Key, write: Callable[[Quote], Awaitable[None]]) -> None:
        """Have a request be made as soon as few are under way, and let others have their turn."""
        await self._slots.acquire()
        self._busy.add(key)
        quote = self._quotes.get(key)
        meta = quote.meta if quote is not None else ObjectMeta(key.name, key.namespace)
        about = About("quote", RESERVATIONQUOTES, meta)
        self._tasks.spawn(self._see_to(key, write), about, partial(self._look_again, key))
        await asyncio.sleep(0)

    async def _see_to(self, key: Key, write: Callable[[Quote], Awaitable[None]]) -> None:
        tried, pause = None, 0.0
        try:
            async with self._tasks.turn.of(_TENANT):
                tried = self._quotes.get(key)
                if tried is not None:
                    pause = await self._try(tried, write)
            self._backoffs.reset(key)
        except (Conflict, NotFound):
            pass  # the watch will tell, or has told
        except ApiError as error:
            pause = max(pause, self._backoffs.next(key), error.retry_after or 0.0)
            fields = {"quote": str(key), "error": str(error), "again_in": round(pause, 1)}
            logger.warning("a quote was not written", extra=fields)
        finally:
            self._slots.release()
            if not pause:
                self._busy.discard(key)
        if pause:  # without a slot: nobody waits behind a quote that is refused
            asyncio.get_running_loop().call_later(pause, self._look_again, key)
        elif (known := self._quotes.get(key)) is not None and known is not tried:
            self._look_at(known)

    async def _try(self, quote: Quote, write: Callable[[Quote], Awaitable[None]]) -> float:
        """Make a request; return for how many seconds to leave the quote alone if that fails by a fault."""
        fatal = (ApiError,)
        with self._isolation.attempt("quote", RESERVATIONQUOTES, quote.meta, fatal=fatal) as attempt:
            await write(quote)
        if attempt.error is not None:
            note, now = failure_note(attempt.error), self._clock.now()
            status = failed(quote.status, quote.meta.generation, reasons.INTERNAL_ERROR, note, now)
            if status != quote.status:
                await self._store(quote, status)
        return attempt.pause

    def _look_again(self, key: Key) -> None:
        """Look at a quote after a failure."""
        self._busy.discard(key)
        if (known := self._quotes.get(key)) is not None:
            self._look_at(known)

    async def _answer(self, quote: Quote) -> None:
        now = self._clock.now()
        status = render_dry_run(quote, self._judge(quote, now), now)
        await self._store(quote, status)

    async def _store(self, quote: Quote, status: dict[str, Any]) -> None:
        written = decode_quote(await self._client.replace_status(RESERVATIONQUOTES, quote.meta, status))
        known = self._quotes.get(quote.key)
        if known is not None and known.meta.uid == written.meta.uid:
            self._quotes[quote.key] = written

    def _judge(self, quote: Quote, now: float) -> DryRunResult:
        if quote.pod is None:
            return DryRunResult(None, reasons.INVALID_SPEC, quote.problem)
        return self._decider.quote(quote.pod, now)

    async def _remove(self, quote: Quote) -> None:
        meta = quote.meta
        await self._client.delete(
            RESERVATIONQUOTES.item(meta.name, meta.namespace),
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        if self._quotes.get(quote.key) is quote:
            self.remove(quote)
