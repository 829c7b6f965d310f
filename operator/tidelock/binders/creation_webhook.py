"""Answers reservations in the response to their own creation.

The webhook of creations asks, the decision loop decides as for any reservation, and the response carries the
first status. A creation that is not decided in time gets no answer: it is created, and decided afterwards.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress

from tidelock.binders.creation_reviews import CreationReview, patched, read_creation, refused
from tidelock.clock import Clock
from tidelock.ledger.answers import is_decided
from tidelock.ledger.atomic import atomic
from tidelock.ledger.ledger import Ledger
from tidelock.model.answer import Answer
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.reservation import Reservation

# Seconds for a decision, of the one second for a review.
_PATIENCE = 0.5
_NONCE_BYTES = 16


class CreationWebhook:
    """Answers the reviews of creations between two decisions.

    Args:
        ledger: the reservations.
        clock: the process' clock.
        wake: runs the decision loop.
        provided: called when there are keys for signatures.
        note_request: called with each review, so that less urgent requests wait.

    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        wake: Callable[[], None],
        provided: Callable[[], None],
        note_request: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._wake = wake
        self.provided = provided
        self._note_request = note_request
        self._asked: dict[Key, asyncio.Future[None]] = {}

    @property
    def ledger(self) -> Ledger:
        """The ledger."""
        return self._ledger

    def time(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self._clock.now()

    def decided(self, keys: Iterable[Key]) -> None:
        """Take note of creations that have changed in a step, which may be decided now."""
        for key in keys:
            if (asked := self._asked.get(key)) is not None and not asked.done() and self._is_decided(key):
                asked.set_result(None)

    async def review(self, body: bytes) -> tuple[bytes, str]:
        """Return the response to a review, and its result: granted, refused, late, forged or unanswered.

        Raises:
            BadReviewError: the body is no review of a creation.

        """
        self._note_request()
        review = read_creation(body, secrets.token_hex(_NONCE_BYTES), self.time())
        if review.answered:
            return refused(review), "forged"
        if not answerable(review.reservation) or self._is_taken(review):
            return patched(review, {}), "unanswered"
        status = await self._decide(review)
        if status is None:
            return patched(review, {}), "late"
        answer = Answer(
            nonce=review.nonce,
            leadership=self._ledger.records.epoch,
            at=format_instant(self.time()),
            status=status,
            namespace=review.reservation.meta.namespace,
            name=review.name,
            generate_name=review.generate_name,
        )
        annotations = self._ledger.answers.keys.sign(answer)
        return patched(review, annotations), "granted" if status["phase"] == Phase.ACTIVE else "refused"

    async def _decide(self, review: CreationReview) -> dict[str, object] | None:
        """Return the first status, or None if there is no decision in time. Only a grant is kept."""
        nonce, key = review.nonce, self._propose(review.reservation)
        asked = self._asked[key] = asyncio.get_running_loop().create_future()
        try:
            self._wake()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await asked
            return self._conclude(nonce, stored=not review.dry_run)
        except BaseException:
            self._withdraw(nonce)
            raise
        finally:
            del self._asked[key]
            if self._ledger.answers.find(nonce) is None:
                self._wake()  # its capacity is free again

    @atomic
    def _propose(self, reservation: Reservation) -> Key:
        return self._ledger.propose(reservation, self.time()).key

    @atomic
    def _conclude(self, nonce: str, *, stored: bool) -> dict[str, object] | None:
        return self._ledger.answers.conclude(nonce, self.time(), stored=stored)

    @atomic
    def _withdraw(self, nonce: str) -> None:
        self._ledger.answers.withdraw(nonce)

    def _is_taken(self, review: CreationReview) -> bool:
        """Return whether the name is in use, so that the creation will fail and must hold nothing."""
        return self._ledger.records.find(Key(review.reservation.meta.namespace, review.name)) is not None

    def _is_decided(self, key: Key) -> bool:
        entry = self._ledger.entries.get(key)
        return entry is None or is_decided(entry)


def answerable(reservation: Reservation) -> bool:
    """Return whether a reservation can be answered alone, and at once.

    Members of groups and of sets are decided together, and a later window is only planned.
    """
    spec = reservation.spec
    if spec is None or reservation.problem or spec.answer is None:
        return False
    return spec.group is None and spec.any_of is None and spec.start_at is None
