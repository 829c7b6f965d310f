"""A ledger with reservations that are answered in the response to their creation."""

from typing import Any

from builders import NAMESPACE, NOW, Json, pod, reservation
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.answer import Answer
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from unit.ledger.ledger import EPOCH, LedgerScene

KEY = b"key"
OWNER = pod("web-0")


class Scene(LedgerScene):
    """A ledger that is asked about creations. The time of each call is `now`."""

    def __init__(self, *names: str, epoch: int = EPOCH, quotas: Quotas | None = None) -> None:
        super().__init__(*names, quotas=quotas)
        self.ledger.lead(epoch)
        self.answers = self.ledger.answers
        self.answers.keys.use(KEY)

    def propose(
        self, nonce: str = "once", name: str = "lock", *, at: float = NOW, **spec: Any
    ) -> ReservationInfo:
        """Begin to decide a creation."""
        asked = reservation(f"{name}~{nonce}", uid=nonce, created=int(at), **spec)
        return self.ledger.propose(asked, at)

    def answer(
        self, nonce: str = "once", name: str = "lock", *, at: float = NOW, **fields: Any
    ) -> dict[str, str]:
        """Conclude a creation, and return the annotations with its answer."""
        status = self.answers.conclude(nonce, at, stored=True)
        assert status is not None
        given: Json = {
            "name": name,
            "at": format_instant(at),
            "leadership": self.ledger.records.epoch,
        } | fields
        return self.answers.keys.sign(Answer(nonce=nonce, status=status, namespace=NAMESPACE, **given))

    def grant(
        self, nonce: str = "once", name: str = "lock", on: str = "node-a", *, at: float = NOW, **spec: Any
    ) -> dict[str, str]:
        """Grant a creation, and return the annotations with its answer."""
        self.admit(self.propose(nonce, name, at=at, **spec), on, at=at)
        return self.answer(nonce, name, at=at)

    def unseen(self) -> ReservationInfo:
        """Return the reservation of the creation, before its object was seen."""
        entry = self.answers.find("once")
        assert entry is not None
        return entry

    def effects(self) -> tuple[list[Event], list[Key], set[Key]]:
        """Return the transitions, the ended reservations and the statuses to write since the last call."""
        taken = self.ledger.effects.take()
        ended = [entry.key for entry in taken.ended]
        return [change.event for change in taken.transitions], ended, set(taken.statuses)
