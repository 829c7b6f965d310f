"""Quotas: sums over a namespace, limits of one reservation, and retries when a quota allows more."""

from typing import Any

import pytest

from builders import NAMESPACE, NOW, encode, pod, quota
from tidelock.cluster.lister import Lister
from tidelock.ledger.output.status import render_quota, render_reservation
from tidelock.ledger.queue.quotas import Quotas, exceeded_text
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.quotas import ReservationQuota, ResourceQuota, decode_resource_quota
from unit.ledger.ledger import LedgerScene

CORE = 1000
PREEMPT = "PreemptLowerPriority"
ALLOWED: dict[str, Any] = {"maxPriority": 10**9, "preemptionPolicy": PREEMPT}
PREEMPTION_IS_NOT_ALLOWED = (
    f"spec.preemptionPolicy {PREEMPT} needs a ReservationQuota with preemptionPolicy {PREEMPT},"
    " and there is none"
)


class Limited(LedgerScene):
    """A ledger with quotas of namespaces."""

    def __init__(self, *names: str) -> None:
        self.reservation_quotas: Lister[ReservationQuota] = Lister()
        self.resource_quotas: Lister[ResourceQuota] = Lister()
        super().__init__(*names, quotas=Quotas(self.reservation_quotas, self.resource_quotas))

    def limit(self, name: str = "team", namespace: str = NAMESPACE, **spec: Any) -> ReservationQuota:
        """Add a quota, or replace the one with its name."""
        old = self.reservation_quotas.get(name, namespace)
        new = quota(name, namespace=namespace, **spec)
        self.reservation_quotas.upsert(old, new)
        return new

    def limit_pods(self, hard: dict[str, str], used: dict[str, str], **spec: Any) -> None:
        """Set the namespace's ResourceQuota."""
        metadata = {"name": "pods", "namespace": NAMESPACE}
        plain = {"metadata": metadata, "spec": spec, "status": {"hard": hard, "used": used}}
        self.resource_quotas.upsert(
            self.resource_quotas.get("pods", NAMESPACE), decode_resource_quota(encode(plain))
        )

    def ask(self, name: str = "lock", *, at: float = NOW, **fields: Any) -> ReservationInfo:
        """Add a reservation and try it. It gets capacity on the first node if its quota allows that."""
        entry = self.reservation(name, at=at, **fields)
        self.try_line(at=at)
        return entry

    def try_line(self, *, at: float = NOW) -> None:
        """Apply due changes, and admit all waiting reservations that are within their quotas."""
        self.ledger.advance(at)
        while entries := self.ledger.waiting_reservations.take(untried_only=True):
            for entry in entries:
                if self.ledger.waiting_reservations.waiting.get(
                    entry.key
                ) is entry and self.ledger.admission.within_quota(entry, at):
                    self.admit(entry, at=at)


@pytest.fixture
def ledger() -> Limited:
    return Limited()


def refused(entry: ReservationInfo, message: str) -> bool:
    """Return whether a reservation waits for quota with exactly this message."""
    assert (entry.phase, entry.reason, entry.message) == (Phase.PENDING, reasons.QUOTA_EXCEEDED, message)
    return not entry.held


def test_without_a_quota_only_priority_and_preemption_are_limited(ledger: Limited) -> None:
    """Guard against a reservation of any priority that evicts pods of other namespaces without a quota."""
    ledger.limit(namespace="another", hard={"cpu": "0"}, **ALLOWED)
    assert ledger.ask(resources={"cpu": "4"}, ttlSeconds=31_536_000).held
    text = "spec.priority 1000000000 needs a ReservationQuota with maxPriority, and there is none"
    assert refused(ledger.ask("urgent", owner="web-1", priority=10**9), text)
    assert refused(ledger.ask("bold", owner="web-2", preemptionPolicy=PREEMPT), PREEMPTION_IS_NOT_ALLOWED)
    assert ledger.ask("meek", owner="web-3", priority=-5).reason != reasons.QUOTA_EXCEEDED


def test_a_quota_on_other_things_allows_neither_priority_nor_preemption(ledger: Limited) -> None:
    ledger.limit(hard={"cpu": "1"})
    entry = ledger.ask(resources={"cpu": "2"}, priority=1, preemptionPolicy=PREEMPT)
    for part in ("requested: cpu=2", "needs a ReservationQuota with maxPriority", PREEMPTION_IS_NOT_ALLOWED):
        assert part in entry.message


def test_preemption_needs_a_quota_and_the_strictest_of_several_counts(
    ledger: Limited,
) -> None:
    entry = ledger.ask(priority=3, preemptionPolicy=PREEMPT, pendingDeadlineSeconds=600)
    assert not entry.held
    ledger.limit(**ALLOWED)
    ledger.limit("strict", preemptionPolicy="Never")
    ledger.try_line(at=NOW + 60)
    text = exceeded_text("strict", f"preemptionPolicy={PREEMPT}", "", "preemptionPolicy=Never")
    assert refused(entry, text)
    ledger.limit("strict", weight=2)
    ledger.try_line()
    assert entry.held


def test_an_edit_cannot_raise_the_priority_above_the_quota(ledger: Limited) -> None:
    """Check that neither an edit of an active reservation nor a move evades the quota."""
    entry = ledger.ask()
    ledger.edit(priority=10**9, preemptionPolicy=PREEMPT)
    assert (entry.held["cpu"], entry.priority) == (CORE, 0)
    entry.moving = True
    assert PREEMPTION_IS_NOT_ALLOWED in ledger.ledger.quotas.problem(entry)


def test_a_restored_reservation_without_a_quota_keeps_its_capacity_with_priority_0(ledger: Limited) -> None:
    ledger.limit(**ALLOWED)
    ledger.ask(priority=5, preemptionPolicy=PREEMPT)
    adopted = Limited().reservation(**ledger.stored(), at=NOW + 5)
    assert (adopted.phase, adopted.held["cpu"], adopted.priority) == (Phase.ACTIVE, CORE, 0)


def test_a_reservation_that_would_exceed_the_sum_waits_with_the_numbers(ledger: Limited) -> None:
    ledger.limit(hard={"cpu": "3", "memory": "1Gi"})
    ledger.ask("first", resources={"cpu": "2"})
    second = ledger.ask("second", resources={"cpu": "1500m"})
    assert refused(second, exceeded_text("team", "cpu=1500m", "cpu=2", "cpu=3"))
    assert ledger.ask("third", resources={"cpu": "1", "memory": "1Gi"}).held


def test_a_reservation_is_not_refused_for_a_resource_that_it_does_not_request(ledger: Limited) -> None:
    ledger.ask("first", resources={"cpu": "1", "memory": "2Gi"})
    ledger.limit(hard={"memory": "1Gi"}, maxAmounts={"example.com/gpu": "0"})
    assert ledger.ask("second").held


def test_the_number_of_reservations_is_limited_as_pods(ledger: Limited) -> None:
    ledger.limit(hard={"pods": "1"})
    ledger.ask("first")
    assert refused(ledger.ask("second"), exceeded_text("team", "pods=1", "pods=1", "pods=1"))


def test_amounts_count_with_the_whole_lifetime(ledger: Limited) -> None:
    """Check that 2 cpu for 600 s count as 1200 cpu-seconds until the reservation ends."""
    ledger.limit(hardSeconds={"cpu": "2000"})
    ledger.ask("first", resources={"cpu": "2"}, ttlSeconds=600)
    second = ledger.ask("second", ttlSeconds=801, created=NOW + 599, at=NOW + 599)
    text = "requested: cpu-seconds=801, used: cpu-seconds=1200, limited: cpu-seconds=2000"
    assert refused(second, f"exceeded quota: team, {text}")
    assert ledger.ask("third", ttlSeconds=800, created=NOW + 599, at=NOW + 599).held


def test_a_lifetime_until_an_instant_begins_with_the_creation(ledger: Limited) -> None:
    ledger.limit(maxLifeSeconds=60)
    until = format_instant(NOW + 61)
    assert refused(
        ledger.ask("long", at=NOW + 30, ttlSeconds=None, expireAt=until, created=NOW),
        exceeded_text("team", "maxLifeSeconds=61", "", "maxLifeSeconds=60"),
    )
    assert ledger.ask("short", ttlSeconds=None, expireAt=until, created=NOW + 1).held


@pytest.mark.parametrize(
    ("limit", "asked", "text"),
    [
        (
            {"maxAmounts": {"cpu": "2"}},
            {"resources": {"cpu": "3"}},
            "maxAmounts.cpu=3, limited: maxAmounts.cpu=2",
        ),
        ({"maxLifeSeconds": 60}, {"ttlSeconds": 61}, "maxLifeSeconds=61, limited: maxLifeSeconds=60"),
        ({"maxPriority": -1}, {"priority": 0}, "maxPriority=0, limited: maxPriority=-1"),
    ],
)
def test_a_single_reservation_can_exceed_a_limit(
    ledger: Limited, limit: dict[str, Any], asked: dict[str, Any], text: str
) -> None:
    ledger.limit(**limit)
    entry = ledger.ask(**asked)
    assert refused(entry, f"exceeded quota: team, requested: {text}")
    ledger.edit(resources={"cpu": "2"}, ttlSeconds=60, priority=-1)
    ledger.try_line()
    assert entry.held


def test_every_quota_of_the_namespace_is_checked(ledger: Limited) -> None:
    ledger.limit("b", hard={"cpu": "1"})
    ledger.limit("a", maxPriority=0)
    entry = ledger.ask(resources={"cpu": "2"}, priority=1)
    assert refused(
        entry,
        f"{exceeded_text('a', 'maxPriority=1', '', 'maxPriority=0')}; "
        f"{exceeded_text('b', 'cpu=2', 'cpu=0', 'cpu=1')}",
    )


def test_a_reservation_over_quota_is_rejected_at_its_deadline(ledger: Limited) -> None:
    ledger.limit(hard={"cpu": "0"})
    entry = ledger.ask(pendingDeadlineSeconds=5)
    ledger.ledger.advance(NOW + 5)
    assert (entry.phase, entry.reason) == (Phase.REJECTED, reasons.DEADLINE_EXCEEDED)
    assert "exceeded quota: team" in entry.message


def test_a_reservation_over_quota_with_a_deadline_of_zero_is_rejected_at_once(ledger: Limited) -> None:
    ledger.limit(hard={"cpu": "0"})
    assert ledger.ask(pendingDeadlineSeconds=0).phase is Phase.REJECTED


def test_a_reservation_over_quota_is_not_tried_for_capacity(ledger: Limited) -> None:
    ledger.limit(hard={"cpu": "0"})
    entry = ledger.ask()
    assert ledger.ledger.waiting_reservations.take(untried_only=False) == []
    assert ledger.ledger.waiting_reservations.waiting == {entry.key: entry}


@pytest.mark.parametrize("end", ["delete", "expire", "shrink", "raise", "lift"])
def test_freed_quota_goes_to_the_oldest_waiting_reservations_first(ledger: Limited, end: str) -> None:
    ledger.limit(hard={"cpu": "2"})
    first = ledger.ask("first", resources={"cpu": "2"}, ttlSeconds=60)
    oldest, *others = [
        ledger.ask(name, created=NOW + n, pendingDeadlineSeconds=600)
        for n, name in enumerate(("b", "a", "c"))
    ]
    if end == "delete":
        ledger.ledger.remove(first.reservation)
    elif end == "expire":
        ledger.ledger.advance(NOW + 60)
    elif end == "shrink":
        ledger.edit("first", resources={"cpu": "1"})
    elif end == "raise":
        ledger.limit(hard={"cpu": "3"})
    else:
        quota = ledger.reservation_quotas.get("team", NAMESPACE)
        assert quota is not None
        ledger.reservation_quotas.remove(quota)
    ledger.try_line(at=NOW + 60 if end == "expire" else NOW)
    held = {"delete": 2, "expire": 2, "shrink": 1, "raise": 1, "lift": 3}[end]
    assert [bool(entry.held) for entry in (oldest, *others)] == [n < held for n in range(3)]


def test_when_a_tried_reservation_is_deleted_the_next_of_its_class_is_tried(ledger: Limited) -> None:
    ledger.limit(hard={"cpu": "1"})
    first, second, third = ledger.ask("first"), ledger.ask("second"), ledger.ask("third")
    ledger.ledger.remove(first.reservation)  # now the second must be tried, on behalf of both
    ledger.ledger.remove(second.reservation)
    ledger.try_line()
    assert third.held


def test_a_smaller_reservation_is_tried_although_a_larger_one_still_waits(ledger: Limited) -> None:
    ledger.limit(hard={"cpu": "3"})
    first = ledger.ask("first", resources={"cpu": "1"})
    ledger.ask("fill", resources={"cpu": "2"})
    large, small = ledger.ask("large", resources={"cpu": "2"}), ledger.ask("small")
    ledger.ledger.remove(first.reservation)
    ledger.try_line()
    assert not large.held
    assert small.held


def test_held_capacity_is_not_checked_against_a_later_quota(ledger: Limited) -> None:
    """Check that a later quota neither takes capacity away nor prevents a move."""
    entry = ledger.ask(resources={"cpu": "2"})
    ledger.limit(hard={"cpu": "1"}, maxAmounts={"cpu": "1"}, maxLifeSeconds=1, maxPriority=-5)
    assert entry.held
    assert ledger.ledger.admission.within_quota(entry, NOW)


def test_growth_over_quota_waits_while_the_old_size_is_held(ledger: Limited) -> None:
    ledger.limit(hard={"cpu": "3"})
    entry = ledger.ask(resources={"cpu": "2"})
    ledger.edit(resources={"cpu": "4"})
    ledger.try_line()
    assert entry.held["cpu"] == 2 * CORE
    assert "requested: cpu=2, used: cpu=2, limited: cpu=3" in entry.resize_problem
    ledger.edit(resources={"cpu": "3"})
    ledger.try_line()
    assert entry.held["cpu"] == 3 * CORE


def test_a_longer_lifetime_over_quota_waits_while_the_old_end_applies(ledger: Limited) -> None:
    ledger.limit(hardSeconds={"cpu": "600"})
    entry = ledger.ask(ttlSeconds=600)
    ledger.edit(ttlSeconds=700)
    assert entry.expires_at == NOW + 600
    assert ledger.ledger.quotas.used(NAMESPACE).seconds["cpu"] == 600 * CORE
    status = {each["type"]: each for each in render_reservation(entry, NOW)["conditions"]}
    assert status["Active"]["status"] == "True"
    assert status["Reconciling"]["reason"] == reasons.RESIZE_PENDING
    assert "cpu-seconds=600, limited: cpu-seconds=600" in status["Reconciling"]["message"]

    ledger.limit(hardSeconds={"cpu": "700"})
    assert ledger.ledger.next_deadline() == 0.0
    ledger.try_line()
    assert entry.expires_at == NOW + 700
    assert "Reconciling" not in {each["type"] for each in render_reservation(entry, NOW)["conditions"]}


def test_growth_and_a_longer_lifetime_that_wait_for_quota_are_granted_together(ledger: Limited) -> None:
    ledger.limit(maxLifeSeconds=600)
    entry = ledger.ask(resources={"cpu": "1"}, ttlSeconds=600)
    ledger.edit(resources={"cpu": "2"}, ttlSeconds=700)
    ledger.try_line()
    assert (entry.held["cpu"], entry.expires_at) == (CORE, NOW + 600)
    ledger.limit(maxLifeSeconds=700)
    assert ledger.ledger.admission.within_quota(entry, NOW)
    ledger.admit(entry)
    assert (entry.held["cpu"], entry.expires_at) == (2 * CORE, NOW + 700)


def test_a_longer_lifetime_from_an_edit_during_a_downtime_needs_quota(ledger: Limited) -> None:
    """Check a restart with an edited object, after which the quotas are known later than the reservation."""
    ledger.ask(ttlSeconds=600)
    stored = render_reservation(ledger.entry(), NOW)
    successor = Limited()
    entry = successor.reservation(ttlSeconds=900, generation=2, status=stored)
    assert entry.expires_at == NOW + 600
    successor.limit(maxLifeSeconds=600)
    successor.ledger.advance(NOW + 599)
    assert entry.expires_at == NOW + 600

    unlimited = Limited()
    entry = unlimited.reservation(ttlSeconds=900, generation=2, status=stored)
    unlimited.ledger.advance(NOW + 601)
    assert (entry.phase, entry.expires_at) == (Phase.ACTIVE, NOW + 900)


def test_a_reservation_that_is_deleted_while_its_lifetime_waits_for_quota_is_forgotten(
    ledger: Limited,
) -> None:
    """Guard against a check of the deleted reservation itself.

    The quota that it freed let all reservations that wait for quota be checked, itself among them.
    """
    ledger.limit(hardSeconds={"cpu": "600"})
    entry = ledger.ask(ttlSeconds=600)
    ledger.edit(ttlSeconds=700)
    ledger.try_line()
    ledger.ledger.remove(entry.reservation)
    ledger.ledger.advance(NOW)
    assert not ledger.ledger.effects.statuses
    assert ledger.ledger.next_deadline() is None


def test_priority_above_the_ceiling_counts_as_the_ceiling(ledger: Limited) -> None:
    ledger.limit(maxPriority=5)
    entry = ledger.ask(priority=5)
    ledger.limit(maxPriority=3)
    assert entry.priority == 3
    assert ledger.ledger.holdings.lowest() == 3
    ledger.edit(priority=9)
    assert (entry.held["cpu"], entry.priority) == (CORE, 3)
    quota = ledger.reservation_quotas.get("team", NAMESPACE)
    assert quota is not None
    ledger.reservation_quotas.remove(quota)
    assert entry.priority == 0
    assert ledger.ledger.holdings.lowest() == 0


def test_a_claimed_reservation_counts_until_its_owner_is_bound(ledger: Limited) -> None:
    ledger.limit(hard={"cpu": "1"})
    ledger.ask("first")
    owner = pod("web-0", uid="uid-owner")
    ledger.ledger.claims.claim(owner, "node-a", NOW)
    second = ledger.ask("second", owner="web-1")
    assert not second.held
    ledger.ledger.claims.owner_bound(owner, "node-a", NOW)
    ledger.try_line()
    assert second.held


def test_an_unreadable_quota_refuses_all_reservations_with_a_message(ledger: Limited) -> None:
    quota = ledger.limit(hard={"cpu": "two"})
    entry = ledger.ask()
    assert "reservations=0, as the quota can't be read (spec.hard: cpu: 'two'" in entry.message
    conditions = {
        each["type"]: each
        for each in render_quota(quota, ledger.ledger.quotas.used(NAMESPACE), NOW)["conditions"]
    }
    assert (conditions["Ready"]["status"], conditions["Stalled"]["status"]) == ("False", "True")


def test_the_status_of_a_quota_shows_used_and_hard(ledger: Limited) -> None:
    quota = ledger.limit(
        hard={"cpu": "3", "memory": "2Gi", "pods": "5"}, hardSeconds={"cpu": "1P"}, maxPriority=1
    )
    ledger.ask(resources={"cpu": "1500m"}, ttlSeconds=600)
    status = render_quota(quota, ledger.ledger.quotas.used(NAMESPACE), NOW)
    assert status == {
        "observedGeneration": 3,
        "hard": {"cpu": "3", "memory": "2Gi", "pods": "5"},
        "used": {"cpu": "1500m", "memory": "0", "pods": "1"},
        "hardSeconds": {"cpu": "1000000000000000"},
        "usedSeconds": {"cpu": "900"},
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Enforced",
                "message": "reservations of this namespace are limited by it",
                "lastTransitionTime": format_instant(NOW),
                "observedGeneration": 3,
            }
        ],
    }


def test_changes_are_noted_for_the_status(ledger: Limited) -> None:
    quotas = ledger.ledger.quotas
    ledger.limit(hard={"cpu": "3"})
    assert quotas.changed.take() == [NAMESPACE]
    entry = ledger.ask()
    assert quotas.changed.take() == [NAMESPACE]
    ledger.ledger.remove(entry.reservation)
    assert quotas.changed.take() == [NAMESPACE]
    assert not quotas.changed


def test_resource_quotas_count_if_a_reservation_quota_asks_for_that(ledger: Limited) -> None:
    ledger.limit_pods({"requests.cpu": "5", "pods": "9", "limits.cpu": "1"}, {"requests.cpu": "3"})
    first = ledger.ask("first", resources={"cpu": "2"})
    assert first.held
    ledger.limit(countAgainstResourceQuota=True)
    assert first.held
    second = ledger.ask("second")
    text = "requested: requests.cpu=1, used: requests.cpu=5, limited: requests.cpu=5"
    assert refused(second, f"exceeded quota: pods, {text}")

    ledger.limit_pods({"requests.cpu": "5"}, {"requests.cpu": "2"})
    ledger.try_line()
    assert second.held


def test_resource_quotas_with_a_scope_do_not_apply_to_reservations(ledger: Limited) -> None:
    ledger.limit(countAgainstResourceQuota=True)
    ledger.limit_pods({"cpu": "0"}, {}, scopes=["BestEffort"])
    assert ledger.ask("first").held
    ledger.limit_pods({"cpu": "0"}, {}, scopeSelector={"matchExpressions": []})
    assert ledger.ask("second").held
    ledger.limit_pods({"cpu": "0"}, {})
    assert not ledger.ask("third").held
