"""Sets of alternative reservations. One of each set is chosen, and the others end."""

from itertools import permutations

import pytest

from builders import NOW, Json, encode, pod, reservation, reservation_json
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.status import render_reservation
from tidelock.model import reasons
from tidelock.model.api.reservation import MOST_ALTERNATIVES, Phase
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.reservation import Reservation, decode_reservation
from unit.ledger.ledger import LedgerScene

SET: Json = {"anyOf": "web"}
TWO_PHASES: Json = SET | {"commit": {"withinSeconds": 30}}


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def committed(name: str, hold: int = 1) -> Json:
    return {"commit": {"withinSeconds": 30, "token": f"uid-{name}.{hold}"}}


def phases(ledger: LedgerScene) -> dict[str, Phase]:
    return {key.name: entry.phase for key, entry in ledger.ledger.entries.items()}


def test_when_one_alternative_is_active_the_others_end_in_the_same_step(ledger: LedgerScene) -> None:
    waiting = ledger.reservation("b", owner="web-1", **SET)
    ledger.active("a", **SET)
    assert (waiting.phase, waiting.reason) == (Phase.EXPIRED, reasons.ANOTHER_CHOSEN)
    assert waiting.message == "a was chosen, of the same spec.anyOf"
    assert waiting.key not in ledger.ledger.waiting_reservations.waiting


def test_two_phase_alternatives_hold_capacity_until_one_is_committed(ledger: LedgerScene) -> None:
    for name, node in (("a", "node-a"), ("b", "node-b")):
        ledger.active(name, node, **TWO_PHASES)
    ledger.ledger.advance(NOW)
    assert (ledger.reserved("node-a"), ledger.reserved("node-b")) == (1000, 1000)
    ledger.edit("b", **committed("b"))
    ledger.ledger.advance(NOW)
    assert phases(ledger) == {"a": Phase.EXPIRED, "b": Phase.ACTIVE}
    assert (ledger.reserved("node-a"), ledger.reserved("node-b")) == (0, 1000)
    assert [change.event for change in ledger.ledger.effects.transitions][-2:] == [
        Event.COMMIT,
        Event.ABORT,
    ]


def test_a_set_has_at_most_as_many_members_as_can_be_ended_in_one_step() -> None:
    """Guard against an unlimited set: each change looks at all members, and 5,000 took 3.9 s in one step."""
    ledger = LedgerScene()
    for number in range(MOST_ALTERNATIVES):
        assert ledger.reservation(f"lock-{number:03}", **SET).phase is Phase.PENDING
    late = ledger.reservation("late", **SET)
    text = (
        "spec.anyOf: set web has 256 reservations already, those that are over included; "
        "at most 256 are supported"
    )
    assert (late.phase, late.reason, late.message) == (Phase.REJECTED, reasons.INVALID_SPEC, text)
    assert ledger.reservation("other", anyOf="other").phase is Phase.PENDING
    ledger.active("lock-000", **SET)
    assert (late.phase, late.message) == (Phase.REJECTED, text)


def test_a_reservation_beyond_the_limit_of_a_set_stays_rejected() -> None:
    ledger = LedgerScene()
    for number in range(MOST_ALTERNATIVES):
        ledger.reservation(f"lock-{number:03}", **SET)
    ledger.reservation("late", **SET)
    text = ledger.entry("late").message
    ledger.edit("late", ttlSeconds=7000)
    assert (ledger.entry("late").phase, ledger.entry("late").message) == (Phase.REJECTED, text)

    successor, late = ledger.succeeded("late")
    assert (late.phase, late.message) == (Phase.REJECTED, text)
    successor.active("lock-000", **SET)
    assert (late.phase, late.message) == (Phase.REJECTED, text)


def test_of_two_alternatives_committed_in_one_step_the_first_by_order_is_chosen(ledger: LedgerScene) -> None:
    for name, priority in (("a", 0), ("b", 5)):
        ledger.active(name, priority=priority, **TWO_PHASES)
    for name in ("a", "b"):
        ledger.edit(name, **committed(name))
    ledger.ledger.advance(NOW)
    assert phases(ledger) == {"a": Phase.EXPIRED, "b": Phase.ACTIVE}


def test_an_alternative_with_a_bound_owner_is_chosen_even_if_it_is_not_committed(ledger: LedgerScene) -> None:
    ledger.active("a", owner="web-0", **TWO_PHASES)
    ledger.active("b", owner="web-1", **TWO_PHASES)
    ledger.consume(pod("web-1"))
    assert phases(ledger) == {"a": Phase.EXPIRED, "b": Phase.CONSUMED}


def test_a_pod_that_owns_all_alternatives_consumes_all(ledger: LedgerScene) -> None:
    for name in ("a", "b"):
        ledger.active(name, **TWO_PHASES)
    ledger.consume(pod("web-0"))
    assert phases(ledger) == {"a": Phase.CONSUMED, "b": Phase.CONSUMED}


def test_an_unclaimed_alternative_ends_when_its_owner_consumes_another(
    ledger: LedgerScene,
) -> None:
    """Guard against the consumption of an alternative that has ended before."""
    either: Json = {"owners": [{"pod": {"name": "web-1"}}, {"pod": {"name": "web-2"}}]}
    ledger.active("a", **TWO_PHASES | either)
    ledger.active("b", **TWO_PHASES | either)
    first, second = pod("web-1"), pod("web-2")
    ledger.ledger.claims.claim(first, "node-a", NOW)
    ledger.ledger.claims.claim(second, "node-a", NOW)
    ledger.ledger.claims.unclaim(first.uid, NOW)
    ledger.ledger.claims.owner_bound(second, "node-a", NOW)
    assert phases(ledger) == {"a": Phase.CONSUMED, "b": Phase.EXPIRED}


def test_a_claimed_alternative_ends_after_another_is_chosen_only_if_the_claim_fails(
    ledger: LedgerScene,
) -> None:
    claimed = ledger.active("a", owner="web-0", **TWO_PHASES)
    ledger.active("b", owner="web-1", **TWO_PHASES)
    ledger.ledger.claims.claim(pod("web-0"), "node-a", NOW)
    ledger.edit("b", **committed("b"))
    ledger.ledger.advance(NOW)
    assert claimed.phase is Phase.BOUND
    ledger.ledger.claims.unclaim(pod("web-0").uid, NOW + 1)
    assert (claimed.phase, claimed.reason) == (Phase.EXPIRED, reasons.ANOTHER_CHOSEN)
    assert ledger.reserved() == 1000


def test_an_alternative_that_is_added_after_the_choice_ends_at_once(ledger: LedgerScene) -> None:
    ledger.active("a", **SET)
    late = ledger.reservation("b", **SET)
    assert ledger.ledger.next_deadline() == 0.0
    ledger.ledger.advance(NOW)
    assert late.reason == reasons.ANOTHER_CHOSEN


def test_an_ended_choice_does_not_affect_later_alternatives(ledger: LedgerScene) -> None:
    ledger.active("a", ttlSeconds=10, **SET)
    ledger.ledger.advance(NOW + 10)
    next_one = ledger.active("b", at=NOW + 11, **SET)
    ledger.ledger.advance(NOW + 11)
    assert next_one.phase is Phase.ACTIVE


def test_a_planned_alternative_is_chosen_when_its_window_begins_and_the_others_end(
    ledger: LedgerScene,
) -> None:
    later = [ledger.active(name, startAt=format_instant(NOW + 100), **SET) for name in "ab"]
    assert {each.phase for each in later} == {Phase.PLANNED}
    ledger.ledger.advance(NOW + 100)
    assert phases(ledger) == {"a": Phase.ACTIVE, "b": Phase.EXPIRED}


def test_sets_are_separate_by_name_and_namespace(ledger: LedgerScene) -> None:
    ledger.active("a", **SET)
    ledger.active("b", anyOf="database")
    ledger.active("c")
    ledger.ledger.upsert(reservation("d", namespace="elsewhere", **SET), NOW)
    ledger.ledger.advance(NOW)
    assert phases(ledger) == {"a": Phase.ACTIVE, "b": Phase.ACTIVE, "c": Phase.ACTIVE, "d": Phase.PENDING}


def test_a_deleted_alternative_leaves_its_set(ledger: LedgerScene) -> None:
    ledger.active("a", **SET)
    ledger.ledger.remove(ledger.entry("a").reservation)
    left = ledger.active("b", **SET)
    ledger.ledger.advance(NOW)
    assert left.phase is Phase.ACTIVE


def stored(ledger: LedgerScene, name: str, **spec: object) -> Reservation:
    """Build a reservation as the API server stores it, with the status that a ledger has rendered."""
    status = render_reservation(ledger.entry(name), NOW)
    return decode_reservation(encode(reservation_json(name, status=status, **TWO_PHASES | spec)))


@pytest.mark.parametrize("order", [*permutations("abc")], ids="".join)
def test_the_next_process_restores_the_same_choice_in_any_order(
    ledger: LedgerScene, order: tuple[str, ...]
) -> None:
    """Check a restart after b was chosen, and before the ends of the others were written."""
    for name in "abc":
        ledger.active(name, **TWO_PHASES)
    ledger.edit("b", **committed("b"))
    ledger.ledger.advance(NOW)
    others = LedgerScene()
    for name in "ac":
        others.active(name, **TWO_PHASES)
    objects = {
        "a": stored(others, "a", **committed("a")),
        "b": stored(ledger, "b", **committed("b")),
        "c": stored(others, "c"),
    }
    successor = LedgerScene()
    for name in order:
        successor.ledger.upsert(objects[name], NOW + 1)
    successor.ledger.advance(NOW + 1)
    assert phases(successor) == {name: Phase.ACTIVE if name == "b" else Phase.EXPIRED for name in order}
    assert successor.reserved() == 1000
    assert successor.ledger.entries[Key("shop", "a")].message.startswith("b was chosen")


def test_a_chosen_alternative_that_loses_its_capacity_ends_if_another_is_consumed(
    ledger: LedgerScene,
) -> None:
    """Guard against a second active alternative: the preempted one waited and got capacity again."""
    first = ledger.active("a", owner="web-0", **SET)
    ledger.reservation("b", owner="web-1", **SET)
    ledger.consume(pod("web-1"))
    ledger.ledger.advance(NOW)
    assert phases(ledger) == {"a": Phase.ACTIVE, "b": Phase.CONSUMED}
    ledger.ledger.placement.preempt(first, "pod shop/urgent", NOW)
    ledger.ledger.advance(NOW)
    assert (first.phase, first.reason) == (Phase.EXPIRED, reasons.ANOTHER_CHOSEN)
