"""Owners come and go, and the next one gets the capacity."""

import pytest

from builders import NOW, node, pod
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.audit import record
from tidelock.ledger.output.status import render_reservation
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.quantities import CPU
from tidelock.plugins.node_resources_fit import insufficient
from unit.scheduler.machinery import Core
from unit.scheduler.reuse import TWO, entry_of, occupied, reservation


def test_a_reservation_stays_active_with_its_owner_inside_and_its_capacity_counts_once(core: Core) -> None:
    assert occupied(core) == ("False", reasons.VACANT, "no owner uses it")
    core.run(pod("web-0", requests=TWO))

    entry = entry_of(core)
    assert (entry.phase, entry.reserved["cpu"], core.reserved(), core.used()) == (Phase.ACTIVE, 2000, 0, 4000)
    assert occupied(core) == ("True", reasons.OCCUPIED, "pod shop/web-0 uses it")
    status = render_reservation(entry, core.clock.now())
    assert (status["boundPod"]["name"], status["resources"], status["used"]) == ("web-0", TWO, TWO)


def test_a_reservation_is_placed_beside_an_owner_only_once_that_is_bound() -> None:
    """Regression: it was granted capacity that another reservation got back when the binding failed."""
    core = Core(node("node-a", cpu="2500m"))
    core.reservation("first", resources={"cpu": "1750m"})
    core.step()
    core.add(pod("web-0", requests={"cpu": "1500m"}))
    assumed = core.place()
    entry = reservation(core)
    assert entry.phase is Phase.PENDING

    core.decider.bound(assumed, NOW)
    core.step()
    core.add(pod("web-0", requests={"cpu": "1500m"}, node_name="node-a", version=2))
    core.step()

    assert (entry.phase, entry.reserved["cpu"], core.reserved()) == (Phase.ACTIVE, 2000, 500)


@pytest.mark.parametrize("arrives", ["before the owner", "during its binding"])
def test_the_reservations_of_an_owner_have_their_capacity_again_when_its_binding_fails(arrives: str) -> None:
    """Regression: the capacity of one owner counted for the consumed and for the reusable reservation."""
    core = Core(node("node-a", cpu="4"))
    first = core.reservation("first", resources=TWO)
    core.step()
    if arrives == "before the owner":
        reservation(core)
    core.add(pod("web-0", requests=TWO))
    assumed = core.place()
    if arrives == "during its binding":
        reservation(core)
    core.add(pod("thief", requests=TWO))
    assert core.refuse().waiting.pod.key.name == "thief"

    core.decider.binding_failed(assumed, NOW)
    core.step()

    assert (first.phase, first.held["cpu"]) == (Phase.ACTIVE, 2000)
    assert (entry_of(core).phase, entry_of(core).held["cpu"]) == (Phase.ACTIVE, 2000)


def test_a_reservation_gets_its_node_when_the_claim_of_its_owner_has_succeeded() -> None:
    """Until then its owner uses the capacity of another reservation."""
    core = Core(node("node-a", cpu="2"))
    core.reservation("first", resources=TWO)
    core.step()
    entry = reservation(core)
    core.add(pod("web-0", requests=TWO))
    core.place()
    core.step()
    assert entry.phase is Phase.PENDING
    core.add(pod("web-0", requests=TWO, node_name="node-a", version=2))
    core.step()
    assert (entry.phase, entry.node, core.reserved()) == (Phase.ACTIVE, "node-a", 0)


def test_an_owner_uses_its_reusable_reservation_once_its_claim_has_succeeded() -> None:
    core = Core(node("node-a", cpu="4"))
    core.reservation("first", resources=TWO)
    core.step()
    reservation(core)
    core.run(pod("web-0", requests=TWO))
    assert (entry_of(core, "first").phase, core.used(), core.reserved()) == (Phase.CONSUMED, 2000, 0)


def test_the_capacity_returns_to_the_reservation_in_the_step_in_which_the_owner_goes(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    thief = pod("thief", requests=TWO)
    core.add(thief)
    assert core.refuse().waiting.pod.key == thief.key
    core.clock.advance(60)
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 2000)
    core.wake()
    assert "reserved by shop/lock" in core.refuse().diagnosis.message

    replacement = pod("web-0", requests=TWO, uid="another")
    core.add(replacement)
    assert core.place().pod.uid == "another"
    assert (core.used(), core.reserved()) == (4000, 0)


def test_each_change_of_the_occupancy_is_an_event(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    core.clock.advance(60)
    core.event_handlers.pods.remove(bound)
    core.step()

    events = [change.event for change in core.effects.transitions]
    assert events == [Event.ADMIT, Event.OCCUPY, Event.VACATE]
    assert occupied(core)[0] == "False"
    assert render_reservation(entry_of(core), core.clock.now())["occupiedSeconds"] == 60
    assert "boundPod" not in render_reservation(entry_of(core), core.clock.now())


def test_a_failed_binding_returns_the_capacity(core: Core) -> None:
    core.add(pod("web-0", requests=TWO))
    assumed = core.place()
    assert (core.used(), core.reserved()) == (4000, 0)
    assert occupied(core)[0] == "False"  # the owner is only assumed
    core.decider.binding_failed(assumed, core.clock.now())
    assert (core.used(), core.reserved()) == (2000, 2000)


def test_expiry_ends_the_reservation_and_its_owner_keeps_running(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    core.clock.advance(600)
    core.step()

    entry = entry_of(core)
    assert (entry.phase, core.used(), entry.occupied_seconds) == (Phase.EXPIRED, 4000, 600)
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 0)


def test_an_expired_lease_ends_the_reservation_and_its_owner_keeps_running() -> None:
    core = Core(node("node-a", cpu="2"))
    entry = reservation(core, lease={"durationSeconds": 20, "graceSeconds": 10}, retention="Retain")
    core.run(pod("web-0", requests=TWO))
    core.clock.advance(20)
    core.step()
    assert (entry.phase, occupied(core)[0]) == (Phase.ACTIVE, "True")
    core.clock.advance(10)
    core.step()
    assert (entry.phase, entry.reason, core.used()) == (Phase.EXPIRED, reasons.LEASE_EXPIRED, 2000)


def test_the_owner_of_a_deleted_reservation_keeps_running(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    assert (core.used(), core.reserved()) == (4000, 0)
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 0)


def test_a_replacement_after_the_end_of_the_reservation_is_an_ordinary_pod(core: Core) -> None:
    core.event_handlers.pods.remove(core.run(pod("web-0", requests=TWO)))
    core.clock.advance(600)
    core.step()
    core.add(pod("stranger", requests=TWO))
    assert core.place().pod.meta.name == "stranger"
    core.add(pod("web-0", requests=TWO, uid="late"))
    assert core.refuse().waiting.pod.uid == "late"


def test_a_second_owner_that_does_not_fit_beside_the_first_waits_for_its_end() -> None:
    core = Core(node("node-a", cpu="2"))
    reservation(core, owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    first, second = (pod(name, requests=TWO, labels={"app": "web"}) for name in ("web-0", "web-1"))
    bound = core.run(first)
    core.add(second)
    assert core.refuse().waiting.pod.key == second.key
    core.event_handlers.pods.remove(bound)
    core.wake()
    assert core.place().pod.key == second.key
    assert (core.used(), core.reserved()) == (2000, 0)


def test_the_record_of_a_reservation_has_its_occupied_and_idle_seconds(core: Core) -> None:
    core.clock.advance(100)
    bound = core.run(pod("web-0", requests=TWO))
    core.clock.advance(200)
    core.event_handlers.pods.remove(bound)
    core.step()
    core.clock.advance(100)
    core.run(pod("web-0", requests=TWO, uid="another"))
    core.clock.advance(50)
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    life = record(core.effects.ended[0], core.clock.now())
    assert (life.outcome, life.idle, life.occupied, life.used) == ("Deleted", 200.0, 250.0, True)
    assert life.text == "waited 0s, idle 200s, occupied 250s"
    core.telemetry.ended(life)
    assert core.metric("tidelock_reservation_idle_seconds_total", namespace="shop", used="true") == 200
    assert core.metric("tidelock_reservation_occupied_seconds_total", namespace="shop") == 250
    assert core.metric("tidelock_reservations_ended_total", namespace="shop", outcome="Deleted") == 1


def test_an_owner_on_another_node_leaves_the_reservation_unchanged(core: Core) -> None:
    core.add(pod("web-0", requests=TWO, node_name="node-b"))
    core.answer()
    core.step()
    assert (entry_of(core).phase, core.reserved(), occupied(core)[0]) == (Phase.ACTIVE, 2000, "False")


def test_a_smaller_owner_leaves_the_rest_to_the_next_one(core: Core) -> None:
    core.run(pod("web-0", requests={"cpu": "500m"}))
    assert core.reserved() == 1500


def test_a_second_owner_shares_the_rest_of_the_reservation() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core, resources={"cpu": "4"}, owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    for name in ("web-0", "web-1"):
        core.run(pod(name, requests=TWO, labels={"app": "web"}))
    assert (core.used(), core.reserved()) == (4000, 0)
    assert occupied(core)[2] == "pod shop/web-0 uses it, and 1 more"

    core.add(pod("web-2", requests=TWO, labels={"app": "web"}))
    assert insufficient(CPU) in core.refuse().diagnosis.message


def test_a_replacement_that_requires_its_reservation_waits_until_the_former_owner_is_gone(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    annotations = {"tidelock.dev/require-reservation": "true"}
    leaving = pod("web-0", requests=TWO, node_name="node-a", deleted=True)
    core.event_handlers.pods.upsert(bound, leaving)
    core.add(pod("web-0", requests=TWO, uid="another", annotations=annotations))
    assert core.step() is None
    assert (core.used(), core.reserved()) == (4000, 0)
    core.event_handlers.pods.remove(leaving)
    assert core.place().node_name == "node-a"


def test_a_pod_that_requires_a_reservation_waits_while_others_use_the_amounts_that_it_needs() -> None:
    """Regression: the pod was bound beside the reservation.

    A resource of the reservation was left, but the pod did not request it.
    """
    core = Core(node("node-a", cpu="4", **{"example.com/gpu": "1"}))
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    reservation(core, resources=TWO | {"example.com/gpu": "1"}, owners=owners)
    bound = core.run(pod("web-0", requests=TWO, labels={"app": "web"}))
    annotations = {"tidelock.dev/require-reservation": "true"}
    core.add(pod("web-1", requests=TWO, labels={"app": "web"}, annotations=annotations))
    assert core.step() is None
    core.event_handlers.pods.remove(bound)
    assert core.place().node_name == "node-a"
