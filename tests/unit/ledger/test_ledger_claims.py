"""Claims of owners, bindings that fail, and reservations that are consumed."""

import pytest

from builders import NOW, pod
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.messages import binding_text, bound_text, edited_text, gone_text
from tidelock.model import reasons
from tidelock.model.api.reservation import BoundPod, Phase
from tidelock.model.instants import format_instant
from tidelock.model.quantities import CPU
from unit.ledger.ledger import LedgerScene
from unit.scheduler.failing import planted

OWNER = pod("web-0")


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def test_a_claim_covers_all_reservations_of_the_pod_on_any_node(ledger: LedgerScene) -> None:
    here = ledger.active("here", "node-a")
    there = ledger.active("there", "node-b")
    waiting = ledger.reservation("waiting")
    claim = ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    assert claim is not None
    assert (ledger.reserved("node-a"), ledger.reserved("node-b")) == (0, 1000), (
        "capacity that it does not use is kept"
    )
    for entry in (here, there, waiting):
        assert (entry.phase, entry.reason) == (Phase.BOUND, reasons.CLAIMED)
        assert entry.message == binding_text("shop/web-0", "node-a")
        assert entry.bound_pod == BoundPod(name="web-0", uid="uid-web-0")
    assert not ledger.ledger.waiting_reservations.waiting
    ledger.ledger.claims.resolve_claim(claim, "node-a", NOW)
    assert (ledger.reserved("node-a"), ledger.reserved("node-b")) == (0, 0)


def test_a_pod_without_reservations_claims_nothing(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.ledger.claims.claim(pod("db-0"), "node-a", NOW)
    ledger.ledger.claims.unclaim("uid-db-0", NOW)
    assert entry.phase is Phase.ACTIVE


def test_a_claimed_reservation_cannot_be_claimed_by_another_pod(ledger: LedgerScene) -> None:
    entry = ledger.active(owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    first, second = pod("web-0", labels={"app": "web"}), pod("web-1", labels={"app": "web"})
    ledger.ledger.claims.claim(first, "node-a", NOW)
    ledger.ledger.claims.claim(second, "node-a", NOW)
    ledger.ledger.claims.unclaim(second.uid, NOW)
    assert entry.bound_pod == BoundPod(name="web-0", uid="uid-web-0")
    assert entry.phase is Phase.BOUND


def test_reservations_are_active_again_when_the_binding_fails(ledger: LedgerScene) -> None:
    here, there = ledger.active("here", "node-a"), ledger.active("there", "node-b")
    waiting = ledger.reservation("waiting")
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.ledger.claims.unclaim(OWNER.uid, NOW + 5)
    assert (ledger.reserved("node-a"), ledger.reserved("node-b")) == (1000, 1000)
    for entry in (here, there):
        assert (entry.phase, entry.reason, entry.bound_pod) == (Phase.ACTIVE, reasons.ADMITTED, None)
        assert (entry.activated_at, entry.expires_at) == (NOW, NOW + 600)
    assert (waiting.phase, waiting.reason) == (Phase.PENDING, reasons.WAITING)
    assert waiting.pending_since == NOW
    assert waiting.key in ledger.ledger.waiting_reservations.waiting
    ledger.ledger.claims.unclaim(OWNER.uid, NOW + 6)
    assert ledger.reserved("node-a") == 1000


def test_the_reservation_waits_again_if_its_capacity_was_taken_during_the_claim(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.store()
    ledger.ledger.claims.claim(OWNER, "node-b", NOW)
    ledger.use("node-a", 3500)
    ledger.ledger.claims.unclaim(OWNER.uid, NOW + 5)
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.INSUFFICIENT_CAPACITY)
    assert entry.message == "the owner's binding failed and node-a has no capacity left"
    assert (entry.node, entry.pending_since) == ("", NOW + 5)
    assert ledger.reserved() == 0
    assert ledger.ledger.effects.transitions[-1].event is Event.RETURN


def test_capacity_that_an_owner_does_not_use_is_kept_until_it_is_bound(ledger: LedgerScene) -> None:
    """Guard against the loss of unused capacity during a binding.

    It was freed at once. If the binding then failed, the reservation had lost its capacity without a reason.
    """
    entry = ledger.active(resources={"cpu": "3"})
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.use("node-a", 1000)
    assert ledger.reserved() == 2000
    assert not ledger.columns.fits("node-a", {CPU: 2000})
    ledger.use("node-a", -1000)
    ledger.ledger.claims.unclaim(OWNER.uid, NOW + 1)
    assert (entry.phase, ledger.reserved()) == (Phase.ACTIVE, 3000)


def test_capacity_kept_beside_an_owner_is_freed_once_the_owner_is_bound(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "3"})
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.ledger.holdings.changes.take()
    ledger.ledger.claims.owner_bound(OWNER, "node-a", NOW)
    assert (entry.phase, ledger.reserved()) == (Phase.CONSUMED, 0)
    (change,) = ledger.ledger.holdings.changes.take()
    assert (change.node, change.before[CPU], change.after) == ("node-a", 2000, {})


def test_the_unused_rest_of_two_reservations_is_kept(ledger: LedgerScene) -> None:
    for name in ("first", "second"):
        ledger.active(name, resources={"cpu": "1500m"})
    ledger.ledger.claims.claim(pod("web-0", requests={"cpu": "2"}), "node-a", NOW)
    assert ledger.reserved() == 1000


def test_capacity_kept_beside_an_owner_is_given_up_before_any_reservation_loses_its_own(
    ledger: LedgerScene,
) -> None:
    entry = ledger.active(resources={"cpu": "2"})
    other = ledger.active("other", resources={"cpu": "2"}, owners=[{"pod": {"name": "db-0"}}])
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.use("node-a", 1000)
    ledger.put_node("node-a", cpu="3")
    assert (other.phase, ledger.reserved()) == (Phase.ACTIVE, 2000)
    ledger.use("node-a", -1000)
    ledger.ledger.claims.unclaim(OWNER.uid, NOW + 1)
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.INSUFFICIENT_CAPACITY)


def test_capacity_kept_beside_an_owner_is_dropped_with_its_node(ledger: LedgerScene) -> None:
    ledger.active(resources={"cpu": "3"})
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.drop_node("node-a")
    ledger.put_node("node-a")
    assert (ledger.reserved(), ledger.ledger.holdings.holds_any) == (0, False)


def test_the_reservation_ends_if_it_expired_during_the_claim(ledger: LedgerScene) -> None:
    entry = ledger.active(ttlSeconds=10)
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.ledger.advance(NOW + 20)
    assert entry.phase is Phase.BOUND
    ledger.ledger.claims.unclaim(OWNER.uid, NOW + 25)
    assert (entry.phase, entry.finished_at, entry.bound_pod) == (Phase.EXPIRED, NOW + 25, None)
    assert entry.message == "spec.ttlSeconds has passed"
    assert ledger.ledger.effects.transitions[-1].due == NOW + 10


@pytest.mark.parametrize(
    ("node_name", "phase"), [("node-a", Phase.LOST), (None, Phase.PENDING)], ids=["pinned", "any node"]
)
@pytest.mark.parametrize("recreated", [False, True])
def test_a_claimed_reservation_is_lost_or_displaced_with_its_node(
    ledger: LedgerScene, node_name: str | None, phase: Phase, recreated: bool
) -> None:
    entry = ledger.active(nodeName=node_name)
    ledger.ledger.claims.claim(OWNER, "node-b", NOW)
    ledger.drop_node("node-a")
    if recreated:
        ledger.put_node("node-a", uid="another")
    ledger.ledger.claims.unclaim(OWNER.uid, NOW + 5)
    assert (entry.phase, entry.reason) == (phase, reasons.NODE_LOST)
    assert entry.message == gone_text("node-a", "uid-node-a")


def test_an_owner_that_is_bound_consumes_the_reservation(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.ledger.claims.claim(OWNER, "node-b", NOW)
    ledger.ledger.claims.owner_bound(OWNER, "node-b", NOW + 1)
    assert (entry.phase, entry.reason, entry.finished_at) == (Phase.CONSUMED, reasons.CONSUMED, NOW + 1)
    assert entry.message == bound_text("shop/web-0", "node-b")
    ledger.ledger.claims.unclaim(OWNER.uid, NOW + 2)
    assert entry.phase is Phase.CONSUMED
    assert ledger.ledger.ownership.of(OWNER) == []


@pytest.mark.parametrize("held", [True, False])
def test_an_owner_that_another_scheduler_bound_consumes_the_reservation(
    ledger: LedgerScene, held: bool
) -> None:
    entry = ledger.active() if held else ledger.reservation()
    ledger.consume(OWNER, "node-b")
    assert (entry.phase, ledger.reserved()) == (Phase.CONSUMED, 0)
    assert entry.bound_pod == BoundPod(name="web-0", uid="uid-web-0")


def test_a_bound_pod_consumes_a_reservation_that_another_pod_has_claimed(ledger: LedgerScene) -> None:
    entry = ledger.active(owners=[{"pod": {"name": "web-0"}}, {"pod": {"name": "web-1"}}])
    claimant, intruder = pod("web-0"), pod("web-1")
    ledger.ledger.claims.claim(claimant, "node-a", NOW)
    ledger.consume(intruder, "node-a")
    ledger.ledger.claims.unclaim(claimant.uid, NOW)
    assert entry.phase is Phase.CONSUMED
    assert entry.bound_pod == BoundPod(name="web-1", uid="uid-web-1")


def test_a_reservation_returns_to_its_new_owners_if_they_changed_during_the_claim(
    ledger: LedgerScene,
) -> None:
    entry = ledger.active()
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.edit(owners=[{"pod": {"name": "web-1"}}])
    ledger.ledger.claims.owner_bound(OWNER, "node-b", NOW + 1)
    assert (entry.phase, ledger.reserved()) == (Phase.ACTIVE, 1000)
    assert ledger.ledger.ownership.of(OWNER) == []
    assert ledger.ledger.ownership.of(pod("web-1")) == [entry]


def test_a_reservation_that_was_deleted_during_the_claim_stays_deleted(ledger: LedgerScene) -> None:
    ledger.active()
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.ledger.remove(ledger.next_version())
    ledger.ledger.claims.unclaim(OWNER.uid, NOW)
    assert (ledger.ledger.entries, ledger.reserved()) == ({}, 0)


def test_a_reservation_that_was_recreated_during_the_claim_is_another(ledger: LedgerScene) -> None:
    ledger.active()
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    recreated = ledger.reservation(uid="another")
    ledger.ledger.claims.unclaim(OWNER.uid, NOW)
    assert (recreated.phase, ledger.reserved()) == (Phase.PENDING, 0)


def test_a_reservation_that_shrank_during_the_claim_returns_smaller(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "2"})
    ledger.ledger.claims.claim(OWNER, "node-b", NOW)
    ledger.edit(resources={"cpu": "1"})
    ledger.use("node-a", 3000)
    ledger.ledger.claims.unclaim(OWNER.uid, NOW)
    assert (entry.phase, ledger.reserved(), entry.wanting) == (Phase.ACTIVE, 1000, False)


def test_a_reservation_that_grew_during_the_claim_returns_at_its_old_size_and_waits(
    ledger: LedgerScene,
) -> None:
    entry = ledger.active(resources={"cpu": "1"})
    ledger.ledger.claims.claim(OWNER, "node-b", NOW)
    ledger.edit(resources={"cpu": "2"})
    ledger.ledger.claims.unclaim(OWNER.uid, NOW)
    assert (entry.phase, ledger.reserved()) == (Phase.ACTIVE, 1000)
    assert entry.growing
    assert entry.key in ledger.ledger.waiting_reservations.waiting


def test_a_reservation_that_names_another_node_during_the_claim_waits_for_that_node(
    ledger: LedgerScene,
) -> None:
    entry = ledger.active()
    ledger.ledger.claims.claim(OWNER, "node-b", NOW)
    ledger.edit(nodeName="node-b")
    ledger.ledger.claims.unclaim(OWNER.uid, NOW)
    assert (entry.phase, entry.message) == (Phase.PENDING, edited_text("node-b"))


def test_an_expiry_that_was_edited_during_the_claim_counts(ledger: LedgerScene) -> None:
    entry = ledger.active(ttlSeconds=600)
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.edit(ttlSeconds=None, expireAt=format_instant(NOW + 5), at=NOW + 10)
    assert entry.phase is Phase.BOUND
    ledger.ledger.claims.unclaim(OWNER.uid, NOW + 10)
    assert (entry.phase, entry.message) == (Phase.EXPIRED, "spec.expireAt has passed")


def test_a_binding_whose_verification_fails_is_verified_once_and_written_by_the_next_try(
    ledger: LedgerScene,
) -> None:
    """The claim was in two places by then, and the next try did not write which reservation the pod took."""
    entry = ledger.active(owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    claims, labels = ledger.ledger.claims, {"app": "web"}
    claims.claim(pod("web-0", labels=labels), "node-a", NOW)
    bound = pod("web-0", labels=labels, node_name="node-a", bound_at=NOW + 1)
    with planted(ledger.ledger, "holdings.count_occupants", name="node-a", times=1) as failed:
        with pytest.raises(LookupError):
            claims.owner_bound(bound, "node-a", NOW)
        assert failed
        assert (set(claims.in_flight), claims.has_chosen) == ({bound.uid}, set())
        assert ledger.ledger.effects.claims == []
        claims.owner_bound(bound, "node-a", NOW)
    assert (claims.in_flight, claims.has_chosen) == ({}, {bound.uid})
    [claim] = ledger.ledger.effects.claims
    assert (claim.unwritten, claim.pod.node_name) == (True, "node-a")
    claims.resolve_claim(claim, "node-a", NOW)
    assert (entry.phase, ledger.reserved()) == (Phase.CONSUMED, 0)
