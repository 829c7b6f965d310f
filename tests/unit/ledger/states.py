"""A reservation in every state that its status can show."""

from builders import NOW, pod
from tidelock.model import reasons
from tidelock.model.instants import format_instant
from unit.ledger.ledger import LedgerScene

OWNER = pod("web-0")


def pending(ledger: LedgerScene) -> None:
    ledger.ledger.admission.refuse(ledger.reservation(), reasons.INSUFFICIENT_CAPACITY, "full", NOW)


def planned(ledger: LedgerScene) -> None:
    ledger.active(startAt=format_instant(NOW + 60))


def active(ledger: LedgerScene) -> None:
    ledger.active()


def on_a_cordoned_node(ledger: LedgerScene) -> None:
    ledger.active()
    ledger.put_node("node-a", cordoned=True)


def with_a_lapsed_lease(ledger: LedgerScene) -> None:
    ledger.active(lease={"durationSeconds": 30})
    ledger.ledger.advance(NOW + 30)


def uncommitted(ledger: LedgerScene) -> None:
    ledger.active(commit={"withinSeconds": 30})


def committed(ledger: LedgerScene) -> None:
    uncommitted(ledger)
    ledger.edit(commit={"withinSeconds": 30, "token": "uid-lock.1"})
    ledger.ledger.advance(NOW)


def not_committed(ledger: LedgerScene) -> None:
    uncommitted(ledger)
    ledger.ledger.advance(NOW + 30)


def growing(ledger: LedgerScene) -> None:
    ledger.active()
    ledger.edit(resources={"cpu": "9"})


def held_with_an_invalid_spec(ledger: LedgerScene) -> None:
    ledger.active()
    ledger.edit(resources={"cpu": "much"})


def bound(ledger: LedgerScene) -> None:
    ledger.active()
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)


def consumed(ledger: LedgerScene) -> None:
    ledger.active()
    ledger.consume(OWNER, "node-a")


def expired(ledger: LedgerScene) -> None:
    ledger.active()
    ledger.ledger.advance(NOW + 600)


def expired_with_an_invalid_spec(ledger: LedgerScene) -> None:
    held_with_an_invalid_spec(ledger)
    ledger.ledger.advance(NOW + 600)


def lost(ledger: LedgerScene) -> None:
    ledger.active(nodeName="node-a")
    ledger.drop_node("node-a")


def rejected(ledger: LedgerScene) -> None:
    ledger.ledger.admission.refuse(
        ledger.reservation(pendingDeadlineSeconds=0), reasons.INSUFFICIENT_CAPACITY, "full", NOW
    )


def invalid(ledger: LedgerScene) -> None:
    ledger.reservation(resources={"cpu": "much"})


def terminating(ledger: LedgerScene) -> None:
    ledger.active()
    ledger.ledger.upsert(ledger.next_version(deleted=True), NOW)


def with_a_lease(ledger: LedgerScene) -> None:
    ledger.active(lease={"durationSeconds": 30})


def violated(ledger: LedgerScene) -> None:
    ledger.active(resources={"cpu": "3"})
    ledger.use(cpu=2000)
    ledger.ledger.placement.settle_node("node-a", NOW, pod("intruder", node_name="node-a"))
