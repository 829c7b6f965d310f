"""Reservations that are answered in the response to their own creation."""

from typing import Any

import pytest

from builders import NAMESPACE, NOW, Json, pod, quota, reservation
from tidelock.cluster.lister import Lister
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.answer import UNSEEN_SECONDS, Answer
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.quotas import ReservationQuota
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

    def unseen(self, nonce: str = "once") -> ReservationInfo:
        entry = self.answers.find(nonce)
        assert entry is not None
        return entry

    def effects(self) -> tuple[list[Event], list[Key], set[Key]]:
        """Return the transitions, the ended reservations and the statuses to write since the last call."""
        taken = self.ledger.effects.take()
        ended = [entry.key for entry in taken.ended]
        return [change.event for change in taken.transitions], ended, set(taken.statuses)


@pytest.fixture
def ledger() -> Scene:
    return Scene()


def restarted(annotations: dict[str, str], *names: str, at: float = NOW, **fields: Any) -> Scene:
    """Start the next leader, which lists one reservation with an answer and no status."""
    successor = Scene(*names, epoch=EPOCH + 1)
    successor.reservation(annotations=annotations, at=at, **fields)
    return successor


# Creations.


def test_a_proposed_reservation_is_decided_like_any_other_and_is_no_object(ledger: Scene) -> None:
    entry = ledger.propose(resources={"cpu": "2"})
    assert ledger.ledger.waiting_reservations.untried == {entry.key: entry}
    ledger.admit(entry)
    assert (entry.phase, ledger.reserved()) == (Phase.ACTIVE, 2000)
    assert ledger.ledger.effects.answers == {entry.key: None}
    assert ledger.effects() == ([], [], set())
    assert ledger.ledger.ownership.of(OWNER) == []


def test_a_creation_that_is_not_decided_gets_no_answer(ledger: Scene) -> None:
    entry = ledger.propose()
    assert ledger.answers.conclude("once", NOW, stored=True) is None
    assert entry.key not in ledger.ledger.entries
    assert ledger.ledger.next_deadline() is None


def test_a_refused_creation_holds_nothing_and_waits_for_nothing(ledger: Scene) -> None:
    entry = ledger.propose()
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    status = ledger.answers.conclude("once", NOW, stored=True)
    assert status is not None
    assert status["phase"] == "Pending"
    assert not ledger.ledger.entries
    assert not ledger.ledger.waiting_reservations.waiting


def test_a_dry_run_is_answered_and_holds_nothing(ledger: Scene) -> None:
    ledger.admit(ledger.propose())
    status = ledger.answers.conclude("once", NOW, stored=False)
    assert status is not None
    assert (status["phase"], ledger.reserved(), ledger.answers.find("once")) == ("Active", 0, None)


def test_a_withdrawn_creation_frees_its_capacity(ledger: Scene) -> None:
    ledger.admit(ledger.propose())
    freed = ledger.columns.freed
    ledger.answers.withdraw("once")
    assert (ledger.reserved(), ledger.columns.freed > freed) == (0, True)
    assert ledger.effects() == ([], [], set())
    ledger.answers.withdraw("once")


def test_two_creations_of_one_name_hold_both(ledger: Scene) -> None:
    first, second = ledger.grant("one"), ledger.grant("two")
    assert ledger.reserved() == 2000
    ledger.reservation(annotations=second)
    assert (ledger.entry().phase, ledger.reserved()) == (Phase.ACTIVE, 2000)
    ledger.ledger.advance(NOW + UNSEEN_SECONDS)
    assert ledger.reserved() == 1000
    assert first != second


def test_a_creation_that_is_not_stored_lapses(ledger: Scene) -> None:
    ledger.grant()
    assert ledger.ledger.next_deadline() == NOW + UNSEEN_SECONDS
    ledger.ledger.advance(NOW + UNSEEN_SECONDS - 0.001)
    assert ledger.reserved() == 1000
    ledger.ledger.advance(NOW + UNSEEN_SECONDS)
    assert (ledger.reserved(), ledger.answers.find("once"), ledger.ledger.next_deadline()) == (0, None, None)


def test_a_creation_lapses_in_time_when_the_clock_is_set_back(ledger: Scene) -> None:
    ledger.grant()
    ledger.ledger.advance(NOW + 30)
    ledger.ledger.advance(NOW - 3600)
    assert ledger.ledger.next_deadline() == NOW - 3600 + UNSEEN_SECONDS - 30
    ledger.ledger.advance(NOW - 3600 + UNSEEN_SECONDS - 30)
    assert ledger.reserved() == 0


# Objects.


@pytest.mark.parametrize("spec", [{}, {"borrowable": True}, {"reuse": "Always"}, {"runSeconds": 30}])
def test_the_object_takes_over_what_was_granted(ledger: Scene, spec: Json) -> None:
    annotations = ledger.grant(resources={"cpu": "2"}, **spec)
    granted = ledger.unseen().reservation.status
    entry = ledger.reservation(annotations=annotations, resources={"cpu": "2"}, at=NOW + 3, **spec)
    assert (entry.phase, entry.node, entry.node_uid) == (Phase.ACTIVE, "node-a", "uid-node-a")
    assert (entry.activated_at, entry.expires_at, entry.epoch) == (NOW, NOW + 600, EPOCH)
    assert (ledger.reserved(), ledger.answers.find("once")) == (2000, None)
    assert render_reservation(entry, NOW + 3) == granted
    assert ledger.ledger.ownership.of(OWNER) == [entry]
    assert ledger.effects() == ([Event.ADMIT], [], {entry.key})


def test_a_handover_frees_nothing_and_wakes_no_waiting_reservation(ledger: Scene) -> None:
    annotations = ledger.grant(resources={"cpu": "4"})
    waiting = ledger.reservation("other")
    ledger.ledger.waiting_reservations.take(untried_only=True)
    ledger.ledger.admission.refuse(waiting, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    ledger.ledger.holdings.changes.take()
    freed = ledger.columns.freed

    entry = ledger.reservation(annotations=annotations, resources={"cpu": "4"})

    changes = ledger.ledger.holdings.changes.take()
    assert [(each.entry, each.before, each.after) for each in changes] == [(entry, {}, entry.held)]
    assert (ledger.columns.freed, ledger.ledger.waiting_reservations.untried) == (freed, {})


def test_an_object_that_asks_for_less_by_now_frees_the_rest(ledger: Scene) -> None:
    annotations = ledger.grant(resources={"cpu": "4"})
    freed = ledger.columns.freed
    ledger.reservation(annotations=annotations, resources={"cpu": "1"}, generation=2)
    assert (ledger.reserved(), ledger.columns.freed > freed) == (1000, True)


@pytest.mark.parametrize("after", ["Rejected", "Pending"])
def test_a_refusal_of_this_leadership_counts(ledger: Scene, after: str) -> None:
    spec: Json = {"pendingDeadlineSeconds": 0 if after == "Rejected" else 600}
    ledger.ledger.admission.refuse(ledger.propose(**spec), reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    entry = ledger.reservation(annotations=ledger.answer(), at=NOW + 1, **spec)
    assert (entry.phase, entry.reason) == (Phase(after), reasons.INSUFFICIENT_CAPACITY) or (
        entry.phase is Phase.REJECTED and entry.reason == reasons.DEADLINE_EXCEEDED
    )
    assert not entry.promised


def test_a_grant_counts_for_one_object(ledger: Scene) -> None:
    ledger.admit(ledger.propose())
    annotations = ledger.answer(name="", generate_name="lock")
    original = ledger.reservation("lock-1", annotations=annotations)
    copy = ledger.reservation("lock-2", annotations=annotations)
    assert (original.phase, copy.phase, ledger.reserved()) == (Phase.ACTIVE, Phase.PENDING, 1000)
    ledger.ledger.remove(original.reservation)
    assert ledger.reservation("lock-3", annotations=annotations).phase is Phase.PENDING
    assert ledger.reserved() == 0


def test_a_forged_grant_counts_for_nothing(ledger: Scene) -> None:
    annotations = ledger.grant()
    ledger.answers.keys.use(b"another key")
    assert ledger.reservation(annotations=annotations).phase is Phase.PENDING
    assert ledger.reserved() == 1000


def test_an_answer_beside_a_status_counts_for_nothing(ledger: Scene) -> None:
    annotations = ledger.grant()
    status = render_reservation(ledger.unseen(), NOW) | {"nodeName": "node-b", "nodeUID": "uid-node-b"}
    assert ledger.reservation(annotations=annotations, status=status).node == "node-b"
    assert (ledger.reserved("node-a"), ledger.reserved("node-b")) == (1000, 1000)


def test_a_grant_of_an_earlier_leadership_that_comes_later_counts_for_nothing(ledger: Scene) -> None:
    annotations = ledger.grant()
    successor = Scene(epoch=EPOCH + 1)
    successor.ledger.resume(NOW)
    assert successor.reservation(annotations=annotations).phase is Phase.PENDING


def test_an_object_that_is_deleted_before_it_was_seen_frees_its_capacity(ledger: Scene) -> None:
    annotations = ledger.grant()
    ledger.reservation(annotations=annotations, deleted=True)
    assert (ledger.entry().phase, ledger.reserved(), ledger.answers.find("once")) == (
        Phase.TERMINATING,
        0,
        None,
    )
    assert ledger.effects()[1] == []


def test_an_object_that_is_seen_after_its_creation_has_lapsed_has_no_grant(ledger: Scene) -> None:
    annotations = ledger.grant()
    ledger.ledger.advance(NOW + UNSEEN_SECONDS)
    assert ledger.reservation(annotations=annotations, at=NOW + UNSEEN_SECONDS).phase is Phase.PENDING


# What happens before the object is seen.


def test_a_creation_that_expires_unseen_is_reported_when_its_object_is_seen(ledger: Scene) -> None:
    annotations = ledger.grant(ttlSeconds=30)
    ledger.ledger.advance(NOW + 30)
    assert (ledger.unseen().phase, ledger.reserved()) == (Phase.EXPIRED, 0)
    assert ledger.effects()[:2] == ([], [])
    entry = ledger.reservation(annotations=annotations, ttlSeconds=30, at=NOW + 40)
    assert (entry.phase, entry.finished_at, entry.expires_at) == (Phase.EXPIRED, NOW + 30, NOW + 30)
    assert ledger.effects() == ([], [entry.key], {entry.key})


def test_a_creation_that_is_preempted_unseen_waits_again(ledger: Scene) -> None:
    annotations = ledger.grant(pendingDeadlineSeconds=60)
    ledger.ledger.placement.preempt(ledger.unseen(), "shop/urgent", NOW + 20)
    assert ledger.unseen().pending_since == NOW + 20
    entry = ledger.reservation(annotations=annotations, pendingDeadlineSeconds=60, at=NOW + 30)
    assert (entry.phase, entry.reason, entry.pending_since) == (Phase.PENDING, reasons.PREEMPTED, NOW + 20)
    assert ledger.reserved() == 0


def test_a_creation_that_loses_its_node_unseen_waits_again(ledger: Scene) -> None:
    annotations = ledger.grant()
    ledger.drop_node("node-a", at=NOW + 1)
    entry = ledger.reservation(annotations=annotations, at=NOW + 2)
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.NODE_LOST)


def test_a_creation_for_one_node_that_is_lost_unseen_ends(ledger: Scene) -> None:
    annotations = ledger.grant(nodeName="node-a")
    ledger.drop_node("node-a", at=NOW + 1)
    entry = ledger.reservation(annotations=annotations, nodeName="node-a", at=NOW + 2)
    assert (entry.phase, ledger.effects()[1]) == (Phase.LOST, [entry.key])


def test_a_pod_takes_no_reservation_that_was_not_seen(ledger: Scene) -> None:
    """Its binding would name the nonce, which means nothing after a restart."""
    selector: Json = {"owners": [{"selector": {"matchLabels": {"app": "web"}}}]}
    ledger.reservation("earlier", **selector)
    annotations = ledger.grant(**selector)
    owner = pod("web-0", labels={"app": "web"})
    assert ledger.ledger.ownership.taken(owner, "node-a") == []
    entry = ledger.reservation(annotations=annotations, **selector)
    assert ledger.ledger.ownership.taken(owner, "node-a") == [entry]


# Failures.


def test_a_rebuild_keeps_an_unseen_grant(ledger: Scene) -> None:
    annotations = ledger.grant(commit={"withinSeconds": 30})
    granted = ledger.unseen().reservation.status
    ledger.ledger.records.in_change[ledger.unseen().key] = ledger.unseen()
    ledger.ledger.recovery.recover(NOW + 5)
    entry = ledger.unseen()
    assert (entry.phase, entry.node, entry.expires_at, entry.unseen) == (
        Phase.ACTIVE,
        "node-a",
        NOW + 600,
        True,
    )
    assert render_reservation(entry, NOW + 5) == granted
    assert entry.hold is not None
    assert entry.hold.due == NOW + 30
    assert ledger.reservation(annotations=annotations, commit={"withinSeconds": 30}).phase is Phase.ACTIVE
    assert ledger.reserved() == 1000


def test_a_rebuild_keeps_a_grant_that_no_status_shows(ledger: Scene) -> None:
    annotations = ledger.grant()
    entry = ledger.reservation(annotations=annotations)
    ledger.ledger.records.in_change[entry.key] = entry
    ledger.ledger.recovery.recover(NOW + 5)
    assert ledger.entry() is not entry
    assert (ledger.entry().phase, ledger.entry().expires_at, ledger.reserved()) == (
        Phase.ACTIVE,
        NOW + 600,
        1000,
    )
    ledger.store()
    assert ledger.entry().promised


def test_a_creation_with_a_record_that_can_not_be_rebuilt_lapses(
    ledger: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.grant()
    entry = ledger.unseen()
    ledger.ledger.recovery.on_failure = lambda *_: 1.0

    def fail(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(ledger.ledger.recovery, "_upsert", fail)
        ledger.ledger.recovery.rebuild(entry, entry.reservation, NOW)
    assert (ledger.ledger.entries, ledger.reserved()) == ({}, 0)
    ledger.ledger.advance(NOW + UNSEEN_SECONDS)
    assert ledger.answers.find("once") is None


def test_a_lapse_that_fails_costs_no_step(ledger: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.grant("one")
    ledger.grant("two")
    failures: list[str] = []

    def note(step: str, *_: object) -> float:
        failures.append(step)
        return 1.0

    ledger.ledger.recovery.on_failure = note

    def fail(entry: ReservationInfo) -> None:
        if entry.uid == "one":
            raise RuntimeError

    monkeypatch.setattr(ledger.ledger.groups, "remove", fail)
    ledger.ledger.advance(NOW + UNSEEN_SECONDS)
    assert (failures, ledger.ledger.entries, ledger.reserved()) == (["due"], {}, 0)


# The next leader.


def test_the_next_leader_holds_a_grant_before_its_first_decision(ledger: Scene) -> None:
    annotations = ledger.grant(resources={"cpu": "3"})
    granted = ledger.unseen().reservation.status
    successor = restarted(annotations, resources={"cpu": "3"}, at=NOW + 9)
    assert (successor.entry().phase, successor.reserved()) == (Phase.PENDING, 0)
    successor.ledger.resume(NOW + 9)
    entry = successor.entry()
    assert (entry.phase, successor.reserved(), entry.epoch) == (Phase.ACTIVE, 3000, EPOCH)
    assert render_reservation(entry, NOW + 9) == granted
    assert not successor.ledger.waiting_reservations.waiting


def test_the_next_leader_repeats_a_refusal(ledger: Scene) -> None:
    spec: Json = {"pendingDeadlineSeconds": 0}
    ledger.ledger.admission.refuse(ledger.propose(**spec), reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    successor = restarted(ledger.answer(), **spec)
    successor.ledger.resume(NOW)
    assert successor.entry().phase is Phase.REJECTED


def test_of_several_objects_with_one_answer_the_oldest_has_it(ledger: Scene) -> None:
    ledger.admit(ledger.propose())
    annotations = ledger.answer(name="", generate_name="lock")
    successor = Scene(epoch=EPOCH + 1)
    successor.reservation("lock-1", annotations=annotations, created=NOW + 2, priority=5)
    successor.reservation("lock-2", annotations=annotations, created=NOW + 1)
    successor.reservation("lock-3", annotations=annotations, created=NOW + 3)
    successor.ledger.resume(NOW + 3)
    phases = [successor.entry(f"lock-{number}").phase for number in (1, 2, 3)]
    assert (phases, successor.reserved()) == ([Phase.PENDING, Phase.ACTIVE, Phase.PENDING], 1000)


def test_an_answer_of_an_object_with_a_status_is_spent(ledger: Scene) -> None:
    ledger.admit(ledger.propose())
    annotations = ledger.answer(name="", generate_name="lock")
    stored = render_reservation(ledger.reservation("lock-9", annotations=annotations), NOW)
    successor = Scene(epoch=EPOCH + 1)
    successor.reservation("lock-1", annotations=annotations, created=NOW - 1)
    successor.reservation("lock-9", annotations=annotations, status=stored)
    successor.ledger.resume(NOW)
    assert (successor.entry("lock-1").phase, successor.entry("lock-9").phase) == (Phase.PENDING, Phase.ACTIVE)


def test_a_copy_with_a_status_does_not_spend_the_answer(ledger: Scene) -> None:
    """Guard against a copy that waits, whose status is written before that of the original."""
    ledger.admit(ledger.propose())
    annotations = ledger.answer(name="", generate_name="lock")
    ledger.reservation("lock-1", annotations=annotations)
    copy = ledger.reservation("lock-2", annotations=annotations, resources={"cpu": "9"})
    ledger.ledger.admission.refuse(copy, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    successor = Scene(epoch=EPOCH + 1)
    successor.reservation("lock-1", annotations=annotations)
    successor.reservation("lock-2", annotations=annotations, status=render_reservation(copy, NOW))
    successor.ledger.resume(NOW)
    assert (successor.entry("lock-1").phase, successor.reserved()) == (Phase.ACTIVE, 1000)


def test_a_grant_on_a_node_that_is_full_by_now_waits_again(ledger: Scene) -> None:
    annotations = ledger.grant(resources={"cpu": "3"})
    successor = restarted(annotations, resources={"cpu": "3"})
    successor.use("node-a", 2000)
    successor.ledger.resume(NOW)
    successor.ledger.placement.settle_unseen("node-a", NOW)
    entry = successor.entry()
    assert (entry.phase, successor.reserved()) == (Phase.PENDING, 0)
    assert entry.reason in (reasons.INSUFFICIENT_CAPACITY, reasons.OVERCOMMITTED)


def test_a_grant_is_kept_beside_a_reservation_whose_bound_owner_is_not_known_yet(ledger: Scene) -> None:
    """Guard against a node that is judged before the bound owners have ended their reservations."""
    annotations = ledger.grant()
    owned = ledger.active("owned", resources={"cpu": "3"})
    successor = restarted(annotations)
    successor.reservation("owned", resources={"cpu": "3"}, status=render_reservation(owned, NOW))
    successor.use("node-a", 3000)
    successor.ledger.resume(NOW)
    successor.ledger.remove(successor.entry("owned").reservation)
    successor.ledger.placement.settle_unseen("node-a", NOW)
    assert (successor.entry().phase, successor.reserved()) == (Phase.ACTIVE, 1000)


def test_capacity_that_a_status_shows_is_kept_before_a_grant(ledger: Scene) -> None:
    """Another leader may have given it away before the object was stored."""
    annotations = ledger.grant(resources={"cpu": "3"})
    between = Scene(epoch=EPOCH + 1)
    stored = render_reservation(between.active("other", resources={"cpu": "3"}, at=NOW + 5), NOW + 5)
    successor = Scene(epoch=EPOCH + 2)
    successor.reservation(annotations=annotations, resources={"cpu": "3"}, priority=5)
    successor.reservation("other", resources={"cpu": "3"}, status=stored)
    successor.ledger.resume(NOW + 6)
    successor.ledger.placement.settle_unseen("node-a", NOW + 6)
    assert (successor.entry().phase, successor.entry("other").phase) == (Phase.PENDING, Phase.ACTIVE)


def test_a_grant_on_a_node_that_is_gone_is_lost(ledger: Scene) -> None:
    successor = restarted(ledger.grant(), "node-b")
    successor.ledger.resume(NOW)
    successor.ledger.placement.settle_unseen("node-a", NOW)
    assert (successor.entry().phase, successor.entry().reason) == (Phase.PENDING, reasons.NODE_LOST)


def test_a_grant_that_is_over_ends(ledger: Scene) -> None:
    successor = restarted(ledger.grant(ttlSeconds=30), ttlSeconds=30, at=NOW + 40)
    successor.ledger.resume(NOW + 40)
    successor.ledger.advance(NOW + 40)
    assert (successor.entry().phase, successor.reserved()) == (Phase.EXPIRED, 0)


# Two phases, leases and quotas.


def test_the_token_of_an_answer_stays_the_same(ledger: Scene) -> None:
    commit = {"withinSeconds": 30}
    annotations = ledger.grant(commit=commit)
    granted = ledger.unseen().reservation.status
    assert granted["commit"]["token"] == "once.1"  # noqa: S105
    entry = ledger.reservation(annotations=annotations, commit=commit, at=NOW + 5)
    assert render_reservation(entry, NOW + 5)["commit"] == granted["commit"]
    successor = restarted(annotations, commit=commit, at=NOW + 6)
    successor.ledger.resume(NOW + 6)
    assert render_reservation(successor.entry(), NOW + 6)["commit"] == granted["commit"]
    ledger.store(at=NOW + 6)
    assert ledger.readopted(at=NOW + 7).hold == entry.hold
    ledger.edit(commit=commit | {"token": "once.1"}, at=NOW + 8)
    ledger.ledger.advance(NOW + 8)
    assert entry.hold is not None
    assert entry.hold.committed_at == NOW + 8


def test_a_token_after_the_first_one_is_the_same_in_each_process(ledger: Scene) -> None:
    """Guard against tokens with the nonce in one process and with the UID in the next."""
    commit = {"withinSeconds": 30}
    entry = ledger.reservation(annotations=ledger.grant(commit=commit), commit=commit)
    ledger.ledger.placement.preempt(entry, "shop/urgent", NOW + 1)
    ledger.store(at=NOW + 1)
    successor, restored = ledger.succeeded(at=NOW + 2)
    assert restored.hold == entry.hold
    ledger.admit(entry, at=NOW + 3)
    successor.admit(restored, at=NOW + 3)
    assert restored.hold == entry.hold
    assert entry.hold is not None
    assert entry.hold.token == "uid-lock.2"  # noqa: S105


def test_a_lease_counts_from_the_answer(ledger: Scene) -> None:
    lease = {"durationSeconds": 30}
    annotations = ledger.grant(lease=lease)
    entry = ledger.reservation(annotations=annotations, lease=lease, at=NOW + 20)
    assert entry.lease is not None
    assert entry.lease.renew_by == NOW + 30
    successor = restarted(annotations, lease=lease, at=NOW + 25)
    successor.ledger.resume(NOW + 25)
    assert successor.entry().lease == entry.lease


def test_an_unseen_reservation_uses_quota() -> None:
    quotas: Lister[ReservationQuota] = Lister()
    quotas.upsert(None, quota(hard={"cpu": "3"}))
    ledger = Scene(quotas=Quotas(quotas, Lister()))
    annotations = ledger.grant(resources={"cpu": "2"})
    other = ledger.reservation("other", resources={"cpu": "2"})
    assert not ledger.ledger.admission.within_quota(other, NOW)
    ledger.reservation(annotations=annotations, resources={"cpu": "2"})
    assert not ledger.ledger.admission.within_quota(other, NOW)
    ledger.ledger.remove(ledger.entry().reservation)
    assert ledger.ledger.admission.within_quota(other, NOW)


def test_an_answered_reservation_that_loses_its_capacity_counts_its_deadline_from_then(ledger: Scene) -> None:
    entry = ledger.reservation(annotations=ledger.grant(pendingDeadlineSeconds=60), pendingDeadlineSeconds=60)
    ledger.ledger.placement.preempt(entry, "shop/urgent", NOW + 40)
    assert entry.pending_since == NOW + 40


def test_a_refused_reservation_keeps_its_deadline_until_a_status_shows_capacity(ledger: Scene) -> None:
    spec: Json = {"pendingDeadlineSeconds": 60}
    ledger.ledger.admission.refuse(ledger.propose(**spec), reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    entry = ledger.reservation(annotations=ledger.answer(), **spec)
    ledger.admit(entry, at=NOW + 10)
    ledger.ledger.placement.preempt(entry, "shop/urgent", NOW + 20)
    assert entry.pending_since == NOW


@pytest.mark.parametrize("gone", ["status", "removal"])
def test_nothing_is_remembered_of_an_answer_in_the_end(ledger: Scene, gone: str) -> None:
    annotations = ledger.grant()
    entry = ledger.reservation(annotations=annotations)
    if gone == "status":
        ledger.store()
    ledger.ledger.remove(entry.reservation)
    assert (ledger.answers._taken, ledger.answers._unseen) == ({}, {})
    assert ledger.reservation(annotations=annotations, status={}).phase is Phase.PENDING


def test_nothing_is_remembered_of_an_object_that_was_deleted_unseen(ledger: Scene) -> None:
    ledger.reservation(annotations=ledger.grant(), deleted=True)
    ledger.ledger.remove(ledger.entry().reservation)
    assert (ledger.answers._taken, ledger.answers._unseen) == ({}, {})
