"""A lock in every state that its status tells of."""

from builders import NOW, pod
from tidelock.ledger import reasons
from tidelock.model.instants import format_instant
from unit.ledger.ledger import Ledger

OWNER = pod("web-0")


def pending(ledger: Ledger) -> None:
    ledger.book.refuse(ledger.lock(), reasons.INSUFFICIENT_CAPACITY, "full", NOW)


def planned(ledger: Ledger) -> None:
    ledger.active(startAt=format_instant(NOW + 60))


def active(ledger: Ledger) -> None:
    ledger.active()


def on_a_cordoned_node(ledger: Ledger) -> None:
    ledger.active()
    ledger.put_node("node-a", cordoned=True)


def with_a_lapsed_lease(ledger: Ledger) -> None:
    ledger.active(lease={"durationSeconds": 30})
    ledger.book.advance(NOW + 30)


def uncommitted(ledger: Ledger) -> None:
    ledger.active(commit={"withinSeconds": 30})


def committed(ledger: Ledger) -> None:
    uncommitted(ledger)
    ledger.edit(commit={"withinSeconds": 30, "token": "uid-lock.1"})
    ledger.book.advance(NOW)


def not_committed(ledger: Ledger) -> None:
    uncommitted(ledger)
    ledger.book.advance(NOW + 30)


def growing(ledger: Ledger) -> None:
    ledger.active()
    ledger.edit(resources={"cpu": "9"})


def held_with_an_invalid_spec(ledger: Ledger) -> None:
    ledger.active()
    ledger.edit(resources={"cpu": "much"})


def bound(ledger: Ledger) -> None:
    ledger.active()
    ledger.book.claim(OWNER, "node-a", NOW)


def consumed(ledger: Ledger) -> None:
    ledger.active()
    ledger.consume(OWNER, "node-a")


def expired(ledger: Ledger) -> None:
    ledger.active()
    ledger.book.advance(NOW + 600)


def expired_with_an_invalid_spec(ledger: Ledger) -> None:
    held_with_an_invalid_spec(ledger)
    ledger.book.advance(NOW + 600)


def lost(ledger: Ledger) -> None:
    ledger.active(nodeName="node-a")
    ledger.drop_node("node-a")


def rejected(ledger: Ledger) -> None:
    ledger.book.refuse(ledger.lock(pendingDeadlineSeconds=0), reasons.INSUFFICIENT_CAPACITY, "full", NOW)


def invalid(ledger: Ledger) -> None:
    ledger.lock(resources={"cpu": "much"})


def terminating(ledger: Ledger) -> None:
    ledger.active()
    ledger.book.upsert(ledger.reservation(deleted=True), NOW)
