"""Answered reservations with an object that was not seen yet, and faults of their records."""

import pytest

from builders import NOW, Json, pod, quota
from tidelock.cluster.lister import Lister
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.answer import UNSEEN_SECONDS
from tidelock.model.api.reservation import Phase
from tidelock.model.quotas import ReservationQuota
from unit.ledger.answered import Scene


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
