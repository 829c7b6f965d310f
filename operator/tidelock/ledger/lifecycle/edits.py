"""Edits of a spec: the effects of a newer version of a Reservation on its record."""

from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.capacity.nominations import Nominations
from tidelock.ledger.capacity.placement import Placement, has_other_claims
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.lifecycle.choices import Choices
from tidelock.ledger.lifecycle.endings import Endings
from tidelock.ledger.lifecycle.leases import ask_the_same, lease_followed
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.queue.admission import Admission
from tidelock.ledger.queue.waiting import WaitingReservations
from tidelock.ledger.records import Records
from tidelock.ledger.reservation_info import ReservationInfo, give_up_parts
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import Pod
from tidelock.model.reservation import Reservation


class Edits:
    """Applies newer versions of Reservations."""

    def __init__(
        self,
        records: Records,
        holdings: Holdings,
        placement: Placement,
        nominations: Nominations,
        admission: Admission,
        waiting: WaitingReservations,
        endings: Endings,
        choices: Choices,
    ) -> None:
        self._records = records
        self._holdings = holdings
        self._placement = placement
        self._nominations = nominations
        self._admission = admission
        self._waiting = waiting
        self._endings = endings
        self._choices = choices

    def apply(self, entry: ReservationInfo, reservation: Reservation, now: float) -> None:
        """Apply a newer version to a record. The caller commits the change."""
        self._records.in_change[entry.key] = entry
        edited = reservation.meta.generation != entry.reservation.meta.generation
        known, before, spec = entry.reservation, entry.reservation.spec, reservation.spec
        priority = entry.priority
        if entry.reserved and before is not None and spec is not None and before.owners != spec.owners:
            self._holdings.announce(entry)
        entry.reservation, entry.problem = reservation, reservation.problem or entry.outside
        if not edited or entry.final:
            return
        give_up_parts(entry)
        self._endings.follow_lease(entry, now)
        self._choices.look_later(entry)
        if ask_the_same(known, reservation):
            return  # otherwise each renewal of a lease would retry the reservation, or revive a rejected one
        self._placement.hold_for_new_owners(entry, now)
        self._follow_priority(entry, priority)
        if entry.phase is Phase.ACTIVE and known.pod and reservation.pod and not entry.problem:
            self._follow_claims(entry, known.pod, reservation.pod, now)
        self._follow_request(entry, now)

    def _follow_priority(self, entry: ReservationInfo, before: int) -> None:
        if entry.priority == before:
            return
        self._waiting.positions_changed |= entry.tried
        self._nominations.renew_earmark(entry)
        self._admission.offer_if_lowered(entry, before)

    def _follow_claims(self, entry: ReservationInfo, before: Pod, after: Pod, now: float) -> None:
        """Let a reservation wait again because its pod would have other claims to devices."""
        if has_other_claims(after, before):
            text = "the spec was edited: spec.template.spec.resourceClaims"
            self._placement.displace(entry, reasons.WAITING, text, now, entry.reservation.asked_at or None)

    def _follow_request(self, entry: ReservationInfo, now: float) -> None:
        """Try, place, resize or end a reservation because its spec has changed."""
        asked_at = entry.reservation.asked_at or None
        if entry.phase is Phase.PLANNED:
            self._placement.displace(entry, reasons.WAITING, "the spec was edited", now, asked_at)
        if entry.problem:
            self._endings.reject_if_unreadable(entry, now)
            return
        if entry.phase is Phase.REJECTED:
            entry.finished_at = None
            lifetime.look_ahead(entry, now)
            entry.lease = lease_followed(None, entry.reservation, now)
            entry.wait(now, asked_at if entry.rejection_published else entry.pending_since)
            self._records.step(entry, Event.REVISE, reasons.WAITING, "the spec was edited", now)
        self._admission.renew_expiry(entry)
        self._waiting.renew(entry)
        if entry.phase is not Phase.BOUND and self._endings.expire_if_over(entry, now):
            return
        if entry.phase is Phase.ACTIVE:
            self._placement.resize(entry, now)
