"""Reports the pods that use reservations: owners of a reusable one, and borrowers of a borrowable one."""

from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.messages import held_text
from tidelock.ledger.owners import occupants
from tidelock.ledger.records import Records
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import BoundPod, Phase


class Occupancy:
    """Reports pods that have begun or stopped using reservations, once they have been seen on the node."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def report(self, entry: ReservationInfo, now: float) -> None:
        """Compare the pods that use a reservation with those that were reported before."""
        if entry.phase is not Phase.ACTIVE:
            return
        if entry.reservation.reusable:
            self._report_owner(entry, now)
        if entry.reservation.borrowable:
            self._report_borrowers(entry, now)

    def _report_owner(self, entry: ReservationInfo, now: float) -> None:
        first = next(iter(occupants.bound_occupants(entry)), None)
        before = entry.bound_pod
        if (first.uid if first else "") != (before.uid if before else ""):
            occupants.count_use(entry, now, occupied=first is not None)
            if first is not None:
                entry.bound_pod = BoundPod(name=first.key.name, uid=first.uid)
                text = f"pod {first.key} uses it on {entry.node}"
                self._records.note(entry, Event.OCCUPY, reasons.OCCUPIED, text, now, now)
            else:
                entry.bound_pod = None
                text = f"{held_text(entry)}, with no owner"
                self._records.note(entry, Event.VACATE, reasons.VACANT, text, now, now)
        self._records.commit(entry)

    def _report_borrowers(self, entry: ReservationInfo, now: float) -> None:
        borrowers = occupants.bound_occupants(entry)
        was, _ = entry.transition_times.get("Lent", ("False", now))
        if was != str(bool(borrowers)):
            entry.transition_times["Lent"] = (str(bool(borrowers)), now)
            if borrowers:
                text = f"pod {borrowers[0].key} borrows from it on {entry.node}"
                self._records.note(entry, Event.LEND, reasons.LENT, text, now, now)
            else:
                text = f"{held_text(entry)}, with no borrowers"
                self._records.note(entry, Event.REPAY, reasons.NOT_LENT, text, now, now)
        self._records.commit(entry)
