"""The answers to other binders, and the state of an admitted binding until it is seen."""

from typing import Any

import pytest

from builders import NOW, encode, node, pod, pod_json
from devices import allocated, resource_claim
from isolating import Isolating
from tidelock.binders.admission_check import (
    CHOOSING_SECONDS,
    UNSEEN_SECONDS,
    AdmissionCheck,
    CheckResult,
)
from tidelock.binders.unbound_pods import UnboundPods
from tidelock.framework.rejections import shortage_text
from tidelock.ledger.messages import binding_text, taken_text
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.failures import OnFailure, raise_failure
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.pods import BORROWS, Pod, decode_pod
from tidelock.model.quantities import CPU
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.plugins.reservation.plugin import NO_OWN_RESERVATION, insufficient_beside
from unit.scheduler.failing import planted
from unit.scheduler.machinery import Core

OTHER = "default-scheduler"


def foreign(name: str, cpu: str = "1", **fields: Any) -> Pod:
    return pod(name, requests={"cpu": cpu}, scheduler=OTHER, **fields)


class Scene(Core):
    """A cluster with an admission check, which sees all pods first."""

    def __init__(self, *, on_failure: OnFailure = raise_failure, **cpu_of: str) -> None:
        super().__init__(*(node(name, cpu=cpu) for name, cpu in cpu_of.items()), on_failure=on_failure)
        self.check = AdmissionCheck(self.decider)
        self.unbound_pods = UnboundPods(self.event_handlers.pods, self.check, self.clock)

    def arrive(self, *pods: Pod) -> None:
        for each in pods:
            self.unbound_pods.upsert(None, each)

    def held(self, name: str = "lock", **fields: Any) -> ReservationInfo:
        """Create a reservation that holds capacity."""
        entry = self.reservation(name, **fields)
        self.step()
        assert entry.phase is Phase.ACTIVE
        return entry

    def admit(self, each: Pod, on: str = "a", **options: bool) -> str:
        return self.check.admit(each, on, self.clock.now(), **options)

    def filter(self, each: Pod, *names: str) -> tuple[str, ...]:
        return self.filtered(each, *(names or "ab")).names

    def filtered(self, each: Pod, *names: str) -> CheckResult:
        found = self.check.filter(each, names, self.clock.now())
        assert found is not None
        return found


def bound(each: Pod, on: str = "a") -> Pod:
    """Return a pod as the watch shows it once it is bound."""
    cpu = each.spec.containers[0].resources.requests["cpu"]
    plain = pod_json(each.meta.name, requests={"cpu": str(cpu)}, node_name=on, scheduler=OTHER, version=2)
    return decode_pod(encode(plain))


def test_a_binding_into_reserved_capacity_is_refused_with_the_numbers() -> None:
    scene = Scene(a="4")
    scene.held("lock", resources={"cpu": "3"}, owner="nobody")
    assert scene.admit(foreign("big", "2")) == (
        f"a: {insufficient_beside(CPU)} ({shortage_text('cpu', '2', '1')}, 3 reserved by shop/lock)"
    )
    assert scene.used("a") == 0


def test_a_binding_that_exceeds_the_node_is_refused_without_any_reservation() -> None:
    scene = Scene(a="1")
    assert scene.admit(foreign("big", "2")).startswith(f"a: {insufficient(CPU)} (")


def test_an_admitted_binding_counts_at_once() -> None:
    scene = Scene(a="2")
    assert scene.admit(foreign("first", "2")) == ""
    assert scene.admit(foreign("second", "1")).startswith(f"a: {insufficient(CPU)}")
    entry = scene.reservation(owner="nobody")
    scene.step()
    assert (entry.phase, scene.used("a")) == (Phase.PENDING, 2000)


def test_a_dry_run_counts_nothing() -> None:
    scene = Scene(a="1")
    assert scene.admit(foreign("x"), dry_run=True) == ""
    assert scene.used("a") == 0


def test_a_binding_to_an_unknown_node_is_admitted() -> None:
    assert Scene(a="1").admit(foreign("x"), "elsewhere") == ""


def test_an_owner_is_admitted_and_consumes_its_reservation_once_it_is_seen() -> None:
    scene = Scene(a="2")
    entry = scene.held(resources={"cpu": "2"}, owner="web-0")
    owner = foreign("web-0", "2")
    scene.arrive(owner)
    assert scene.admit(owner) == ""
    assert (entry.phase, scene.reserved("a"), scene.used("a")) == (Phase.BOUND, 0, 2000)
    scene.unbound_pods.upsert(owner, bound(owner))
    assert (entry.phase, scene.used("a")) == (Phase.CONSUMED, 2000)
    assert not scene.check.lapse(NOW + UNSEEN_SECONDS)


def test_an_admitted_binding_that_is_never_seen_restores_capacity_and_reservation() -> None:
    scene = Scene(a="2")
    entry = scene.held(resources={"cpu": "2"}, owner="web-0")
    scene.admit(foreign("web-0", "2"))
    assert not scene.check.lapse(NOW + UNSEEN_SECONDS - 0.1)
    assert scene.check.lapse(NOW + UNSEEN_SECONDS)
    assert (entry.phase, scene.reserved("a"), scene.used("a")) == (Phase.ACTIVE, 2000, 0)


def test_a_pod_that_is_deleted_before_it_is_bound_restores_its_reservation() -> None:
    scene = Scene(a="2")
    entry = scene.held(resources={"cpu": "2"}, owner="web-0")
    owner = foreign("web-0", "2")
    scene.arrive(owner)
    scene.admit(owner)
    scene.unbound_pods.remove(owner)
    assert (entry.phase, scene.used("a")) == (Phase.ACTIVE, 0)
    assert scene.unbound_pods.find(owner.key) is None


def test_the_same_binding_again_counts_once() -> None:
    scene = Scene(a="1")
    one = foreign("x")
    assert (scene.admit(one), scene.admit(one), scene.used("a")) == ("", "", 1000)


def test_a_second_binding_to_another_node_is_refused_until_the_first_has_lapsed() -> None:
    scene = Scene(a="1", b="1")
    one = foreign("x")
    scene.admit(one)
    assert scene.admit(one, "b") == binding_text("shop/x", "a")
    scene.check.lapse(NOW + UNSEEN_SECONDS)
    assert scene.admit(one, "b") == ""


def test_a_bound_pod_is_left_to_the_api_server() -> None:
    scene = Scene(a="1", b="1")
    one = foreign("x")
    scene.arrive(bound(one))
    assert scene.admit(one, "b") == ""
    assert scene.used("b") == 0


def test_a_queued_pod_that_another_binder_binds_returns_if_that_fails() -> None:
    scene = Scene(a="1")
    ours = pod("web-0")
    scene.arrive(ours)
    assert scene.admit(ours) == ""
    assert scene.step() is None
    scene.check.lapse(NOW + UNSEEN_SECONDS)
    assert scene.place().pod.uid == ours.uid


def test_a_binding_of_tidelock_itself_is_admitted_only_for_its_node() -> None:
    scene = Scene(a="1", b="1")
    scene.arrive(pod("web-0"))
    placed = scene.place()
    other = "b" if placed.node_name == "a" else "a"
    assert scene.admit(placed.pod, placed.node_name) == ""
    assert scene.admit(placed.pod, other) == binding_text("shop/web-0", placed.node_name)
    assert not scene.check.lapse(NOW + UNSEEN_SECONDS)
    assert scene.used(placed.node_name) == 1000


def test_a_pod_that_requires_its_reservation_is_admitted_only_on_its_node() -> None:
    scene = Scene(a="2", b="2")
    entry = scene.held(owner="web-0", nodeName="a")
    wary = foreign("web-0", annotations={"tidelock.dev/require-reservation": "true"})
    assert scene.admit(wary, "b") == f"b: {NO_OWN_RESERVATION}"
    assert scene.filter(wary) == (entry.node,)
    assert scene.filtered(wary, "b").hopeless.keys() == {"b"}


def test_filter_returns_the_nodes_with_capacity_beside_reservations_in_order() -> None:
    scene = Scene(a="2", b="4", c="4")
    scene.held(resources={"cpu": "2"}, owner="nobody", nodeName="a")
    left = scene.filtered(foreign("x", "2"), "c", "a", "b", "new")
    assert left.names == ("c", "b")
    assert left.failed == {"a": insufficient_beside(CPU), "new": "node(s) not seen yet"}


def test_evictions_do_not_help_on_a_node_that_is_too_small() -> None:
    left = Scene(a="1").filtered(foreign("x", "2"), "a")
    assert (left.failed, left.hopeless) == ({}, {"a": insufficient(CPU)})


def test_an_owner_passes_the_filter_on_the_node_of_its_reservation_and_prefers_it() -> None:
    scene = Scene(a="2", b="2")
    scene.held(resources={"cpu": "2"}, owner="web-0", nodeName="a")
    scene.held("other", resources={"cpu": "2"}, owner="nobody", nodeName="b")
    owner = foreign("web-0", "2")
    assert scene.filter(owner) == ("a",)
    assert scene.check.own_nodes(owner) == {"a"}
    assert scene.check.own_nodes(foreign("x")) == set()


def test_pods_that_passed_the_filter_count_beside_reservations_until_they_are_seen() -> None:
    """A scheduler counts its recently placed pods, but not beside reservations, which it does not know."""
    scene = Scene(a="3", b="3")
    scene.held(resources={"cpu": "2"}, owner="nobody", nodeName="a")
    first, second = foreign("first"), foreign("second")
    assert scene.filter(first) == ("a", "b")
    assert scene.filter(second) == ("b",)
    scene.arrive(bound(first, "b"))
    assert scene.filter(second) == ("a", "b")


def test_passed_pods_count_on_their_nodes_when_other_nodes_are_removed() -> None:
    scene = Scene(a="9", b="3", c="3")
    scene.held(resources={"cpu": "2"}, owner="nobody", nodeName="c")
    scene.filter(foreign("first"), "c")
    scene.event_handlers.nodes.remove(node("a"))
    assert scene.filter(foreign("second"), "b", "c") == ("b",)


def test_a_patient_caller_is_not_refused_because_of_bindings_in_progress() -> None:
    """A refused pod would wait for an event, although the last event has already arrived."""
    scene = Scene(a="3")
    scene.held(resources={"cpu": "2"}, owner="nobody")
    first, second = foreign("first"), foreign("second")
    scene.filter(first, "a")
    assert scene.check.filter(second, "a", NOW, patient=True) is None
    scene.arrive(bound(first))
    refused = scene.check.filter(second, "a", NOW, patient=True)
    assert refused == CheckResult((), {"a": insufficient_beside(CPU)}, {})


def test_a_pod_that_is_filtered_again_does_not_count_against_itself() -> None:
    scene = Scene(a="3")
    scene.held(resources={"cpu": "2"}, owner="nobody")
    one = foreign("x")
    assert [scene.filter(one, "a"), scene.filter(one, "a")] == [("a",), ("a",)]


@pytest.mark.parametrize("after", [CHOOSING_SECONDS, CHOOSING_SECONDS + 1])
def test_a_passed_pod_that_is_not_bound_is_forgotten_after_some_time(after: float) -> None:
    scene = Scene(a="3")
    scene.held(resources={"cpu": "2"}, owner="nobody")
    scene.filter(foreign("first"), "a")
    assert scene.filter(foreign("second"), "a") == ()
    scene.clock.advance(after)
    scene.check.lapse(scene.clock.now())
    assert scene.filter(foreign("second"), "a") == ("a",)


def test_a_pod_that_is_being_bound_passes_only_on_its_node() -> None:
    scene = Scene(a="1", b="1")
    one = foreign("x")
    scene.admit(one)
    left = scene.filtered(one, "a", "b")
    assert (left.names, left.hopeless) == (("a",), {"b": "the pod is being bound to a"})


def test_victims_must_free_enough_capacity_beside_reservations() -> None:
    scene = Scene(a="4", b="4")
    scene.held(resources={"cpu": "2"}, owner="nobody", nodeName="a")
    residents = {name: [foreign(f"{name}{i}", node_name=name) for i in (0, 1)] for name in "ab"}
    scene.arrive(*residents["a"], *residents["b"])
    one_each = {name: [pods[0].uid] for name, pods in residents.items()}
    assert scene.check.preempt(foreign("x", "2"), {**one_each, "gone": []}) == ["b"]
    both = {name: [each.uid for each in pods] for name, pods in residents.items()}
    assert scene.check.preempt(foreign("x", "2"), both) == ["a", "b"]
    assert scene.used("a") == 2000


def test_pods_are_found_by_name_until_they_are_bound() -> None:
    scene = Scene(a="1")
    one = foreign("x")
    scene.arrive(one)
    assert scene.unbound_pods.find(Key("shop", "x")) is one
    scene.unbound_pods.upsert(one, bound(one))
    assert scene.unbound_pods.find(Key("shop", "x")) is None


def test_the_deletion_of_a_pod_does_not_remove_its_successor() -> None:
    scene = Scene(a="1")
    first, second = foreign("x"), foreign("x", uid="another")
    scene.arrive(first, second)
    scene.unbound_pods.remove(first)
    assert scene.unbound_pods.find(Key("shop", "x")) is second


def test_capacity_that_awaits_a_replacement_is_only_for_the_replacement() -> None:
    scene = Scene(a="2")
    scene.held(resources={"cpu": "2"}, reuse="Always")
    first = foreign("web-0", "2")
    assert scene.admit(first) == ""
    scene.arrive(bound(first))
    assert (scene.used("a"), scene.reserved("a")) == (2000, 0)

    scene.unbound_pods.remove(bound(first))
    stranger, second = foreign("stranger"), foreign("web-0", "2", uid="second")
    assert scene.filter(stranger, "a") == ()
    assert "2 reserved by shop/lock" in scene.admit(stranger)
    assert scene.filter(second, "a") == ("a",)
    assert scene.admit(second) == ""
    assert (scene.used("a"), scene.reserved("a")) == (2000, 0)

    scene.check.gone(second.uid, scene.clock.now())
    assert (scene.used("a"), scene.reserved("a")) == (0, 2000)


def test_a_lapsed_binding_of_an_owner_reports_the_pod_that_took_its_capacity() -> None:
    """The reservation was once Active with capacity that its node did not have."""
    scene = Scene(a="2")
    entry = scene.held(resources={"cpu": "2"}, reuse="Always")
    owner = foreign("web-0", "2")
    assert scene.admit(owner) == ""
    scene.arrive(foreign("stranger", node_name="a", created=NOW + 1))
    scene.check.gone(owner.uid, scene.clock.now())
    assert (entry.violation, scene.reserved("a")) == (taken_text("pod shop/stranger", "cpu 1", "a"), 1000)


def test_a_borrower_of_another_scheduler_gets_borrowable_capacity() -> None:
    scene = Scene(a="4", b="4")
    scene.held("lock", resources={"cpu": "3"}, nodeName="b", owner="nobody", borrowable=True)
    borrower = foreign("batch", "3", annotations={BORROWS: "true"})
    assert scene.filter(foreign("plain", "3")) == ("a",)
    assert scene.filter(borrower) == ("a", "b")
    assert scene.admit(borrower, "b") == ""
    assert (scene.used("b"), scene.reserved("b")) == (3000, 0)
    assert insufficient(CPU) in scene.admit(foreign("plain", "2"), "b")


def test_an_admitted_pod_with_a_deadline_starts_at_its_admission() -> None:
    """Until its binding was seen, such a pod once counted as overdue, and so as running forever."""
    scene = Scene(a="4")
    assert scene.admit(foreign("batch", "4", activeDeadlineSeconds=600)) == ""
    entry = scene.reservation("later", resources={"cpu": "3"}, startAt=format_instant(NOW + 3600))
    scene.step()
    assert entry.phase is Phase.PLANNED


def test_an_admitted_binding_lapses_in_time_although_the_clock_is_set_back() -> None:
    """Its capacity was once kept for an hour more."""
    scene = Scene(a="4")
    pod = foreign("db-0", cpu="4")
    scene.arrive(pod)
    assert not scene.admit(pod)
    scene.clock.jump(-3600)
    assert not scene.check.lapse(scene.clock.now())
    scene.clock.advance(UNSEEN_SECONDS)
    assert scene.check.lapse(scene.clock.now())


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("cache.assume", "web-0"),
        ("ledger.claims.claim", "web-0"),
        ("ledger.holdings.pass_on", "lock"),
        ("ledger.records.step", "lock"),
    ],
)
def test_an_admission_that_fails_leaves_everything_as_it_was(step: str, name: str) -> None:
    """The pod counted for ever, its reservation was Active and held nothing, and a retry claimed nothing."""
    scene = Scene(a="4")
    entry = scene.held("lock", resources={"cpu": "3"}, owner="web-0")
    scene.store()
    owner = pod("web-0", requests={"cpu": "3"})
    scene.add(owner)

    with planted(scene, step, name=name, times=1) as failed, pytest.raises(LookupError):
        scene.admit(owner)
    assert failed
    assert scene.cache.get(owner.uid) is None
    assert (scene.used("a"), scene.reserved("a")) == (0, 3000)
    assert scene.queue.get(owner.uid) is not None
    entry = scene.ledger.entries[entry.key]
    assert (entry.phase, entry.held["cpu"]) == (Phase.ACTIVE, 3000)
    assert not scene.ledger.claims.in_flight

    assert scene.admit(owner) == ""
    assert (scene.used("a"), scene.reserved("a")) == (3000, 0)
    assert scene.ledger.entries[entry.key].phase is Phase.BOUND
    scene.arrive(bound(owner))
    assert entry.key not in scene.ledger.entries or scene.ledger.entries[entry.key].phase is Phase.CONSUMED


def test_an_admitted_binding_whose_end_fails_ends_later_and_affects_no_other() -> None:
    """One fault ended the loop over the bindings that lapsed, and the reservation stayed Bound for ever."""
    isolation = Isolating()
    isolation.pause = 10.0
    scene = Scene(a="8", on_failure=isolation.failed)
    entries = [scene.held(f"lock-{number}", owner=f"web-{number}") for number in range(2)]
    for number in range(2):
        scene.store(f"lock-{number}")
        assert scene.admit(foreign(f"web-{number}")) == ""
    scene.clock.advance(UNSEEN_SECONDS)
    with planted(scene.ledger, "claims.resolve_claim", name="web-0", times=1):
        assert scene.check.lapse(scene.clock.now())
    assert isolation.faults == ["bindings shop/web-0: planted in claims.resolve_claim"]
    scene.clock.advance(10)
    scene.check.lapse(scene.clock.now())
    assert (scene.used("a"), scene.reserved("a")) == (0, 2000)
    assert {scene.ledger.entries[each.key].phase for each in entries} == {Phase.ACTIVE}
    assert not scene.ledger.claims.in_flight


def admitted_long_ago() -> tuple[Scene, Isolating, Pod]:
    """Build a scene with an admitted pod that is about to lapse. Failed steps are repeated after 10 s."""
    isolation = Isolating()
    isolation.pause = 10.0
    scene = Scene(a="2", on_failure=isolation.failed)
    waiting = pod("web-0", requests={"cpu": "2"})
    scene.arrive(waiting)
    assert scene.admit(waiting) == ""
    scene.clock.advance(UNSEEN_SECONDS)
    return scene, isolation, waiting


@pytest.mark.parametrize("step", ["notify", "upsert"])
def test_a_pod_of_a_lapsed_binding_is_queued_although_a_step_after_its_end_fails(step: str) -> None:
    """The binding was forgotten by then, so nothing queued the pod until its next event."""
    scene, isolation, waiting = admitted_long_ago()
    original, failures = getattr(scene.queue, step), [LookupError("planted")]

    def fails(*arguments: Any) -> None:
        if failures:
            raise failures.pop()
        original(*arguments)

    setattr(scene.queue, step, fails)
    assert scene.check.lapse(scene.clock.now())
    assert (isolation.faults, scene.used("a")) == (["bindings shop/web-0: planted"], 0)
    scene.clock.advance(10)
    assert scene.check.lapse(scene.clock.now())
    assert scene.queue.get(waiting.uid) is not None
    assert not scene.check.lapse(scene.clock.now())
    assert scene.place().pod.uid == waiting.uid


def test_a_pod_that_is_gone_is_not_queued_by_the_retry_of_its_lapsed_binding() -> None:
    scene, _, waiting = admitted_long_ago()
    with planted(scene.queue, "upsert", name="web-0", times=1):
        scene.check.lapse(scene.clock.now())
    scene.unbound_pods.remove(waiting)
    scene.clock.advance(10)
    assert not scene.check.lapse(scene.clock.now())
    assert scene.queue.get(waiting.uid) is None


def test_a_lapsed_allocation_whose_report_fails_affects_no_other() -> None:
    isolation = Isolating()
    scene = Scene(a="2", on_failure=isolation.failed)
    claims = [resource_claim(f"gpu-{number}", status=allocated(f"a-{number}")) for number in range(2)]
    for each in claims:
        assert scene.check.claims.admit(each, scene.clock.now()) == ""
    scene.clock.advance(UNSEEN_SECONDS)
    reported: list[str] = []

    def notify(_event: Any, claim: Any, *_: Any) -> None:
        reported.append(claim.meta.name)
        if len(reported) == 1:
            raise LookupError("planted")

    scene.queue.notify = notify  # type: ignore[assignment]
    freed = scene.cache.columns.freed
    assert scene.check.lapse(scene.clock.now())
    assert reported == ["gpu-0", "gpu-1"]
    assert isolation.faults[-1] == "bindings: planted"
    assert scene.cache.columns.freed > freed
