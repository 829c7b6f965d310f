import pytest

from builders import NAMESPACE, NOW, encode, node, pod
from tidelock.ledger.queue import waiting
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.quotas import decode_reservation_quota
from tidelock.plugins.node_name import NodeName
from tidelock.scheduler.core.queued_pod import QueueName
from tidelock.scheduler.core.reservation_cycle import ReservationCycle
from tidelock.scheduler.core.reservation_scheduler import RESERVATIONS_A_STEP
from unit.scheduler.machinery import Core


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the reservations for which nodes were searched."""
    names: list[str] = []
    place = ReservationCycle.place

    def noting(cycle: ReservationCycle, profile: object, entry: ReservationInfo, now: float) -> object:
        names.append(entry.key.name)
        return place(cycle, profile, entry, now)  # type: ignore[arg-type]

    monkeypatch.setattr(ReservationCycle, "place", noting)
    return names


def test_due_changes_come_before_reservations_and_reservations_before_pods() -> None:
    core = Core(node("node-a", cpu="2"))
    ending = core.reservation("ending", resources={"cpu": "2"}, ttlSeconds=60, owner="nobody")
    core.step()
    late = core.reservation("late", resources={"cpu": "2"}, owner="nobody")
    core.add(pod("web-0", requests={"cpu": "2"}))
    core.clock.advance(60)

    outcome = core.refuse()

    assert (ending.phase, late.phase) == (Phase.EXPIRED, Phase.ACTIVE)
    assert "reserved by shop/late" in outcome.diagnosis.message


def test_no_pod_is_decided_before_all_that_is_due_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelock.ledger.ledger._DUE_A_STEP", 2)
    core = Core(node("node-a", cpu="3"))
    ending = [core.reservation(f"brief-{number}", ttlSeconds=60, owner="nobody") for number in range(3)]
    core.step()
    core.add(pod("web-0", requests={"cpu": "3"}))
    core.clock.advance(60)

    assert core.step() is None
    assert sorted(entry.phase for entry in ending) == [Phase.ACTIVE, Phase.EXPIRED, Phase.EXPIRED]
    assert core.step() is None  # the removal of the first two may be due
    assert core.place().node_name == "node-a"


def test_reservations_go_by_priority_then_age_then_name() -> None:
    core = Core(node("node-a", cpu="3"))
    entries = [
        core.reservation("b", created=NOW - 1),
        core.reservation("young", created=NOW),
        core.reservation("a", created=NOW - 1),
        core.reservation("urgent", created=NOW, priority=1),
    ]
    core.step()

    assert [entry.key.name for entry in entries if entry.phase is Phase.PENDING] == ["young"]


def test_a_long_queue_is_placed_over_several_steps_and_pods_wait_for_its_end() -> None:
    core = Core(node("node-a", cpu="64"))
    entries = [
        core.reservation(f"lock-{index:02}", owner="nobody") for index in range(RESERVATIONS_A_STEP + 1)
    ]
    core.add(pod())

    assert core.step() is None
    assert sum(entry.phase is Phase.ACTIVE for entry in entries) == RESERVATIONS_A_STEP
    assert core.decider.next_due() == 0.0
    assert core.place().pod.meta.name == "web-0"
    assert entries[-1].phase is Phase.ACTIVE


def test_a_reservation_that_is_gone_at_its_turn_is_skipped(evaluated: list[str]) -> None:
    core = Core(node("node-a", cpu="64"))
    for index in range(RESERVATIONS_A_STEP):
        core.reservation(f"a-{index:02}")
    last = core.reservation("b")
    core.step()
    core.event_handlers.reservations.remove(last.reservation)
    core.step()

    assert len(evaluated) == RESERVATIONS_A_STEP


def test_a_refused_equivalence_class_is_not_evaluated_again_until_capacity_comes_free(
    evaluated: list[str],
) -> None:
    core = Core(node("node-a", cpu="4"))
    core.add(pod("other", requests={"cpu": "4"}, node_name="node-a"))
    first, second = core.reservation("first"), core.reservation("second")
    core.reservation("bigger", resources={"cpu": "2"})
    core.decide()
    third = core.reservation("third")
    core.decide()

    assert evaluated == ["bigger", "first"]
    assert {entry.reason for entry in (first, second, third)} == {reasons.INSUFFICIENT_CAPACITY}
    assert first.message == second.message == third.message

    core.event_handlers.pods.remove(pod("other"))
    core.decide()

    assert evaluated == ["bigger", "first", "bigger", "first", "second", "third"]
    assert [entry.phase for entry in (first, second, third)] == [Phase.ACTIVE, Phase.ACTIVE, Phase.PENDING]


def test_a_refusal_because_of_neighbours_is_not_shared_with_other_equivalence_classes() -> None:
    """Regression: reservations that differ only in their spread constraints or namespace shared refusals."""
    apart = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    core = Core(node("node-a", labels={"kubernetes.io/hostname": "node-a"}))
    core.add(pod("web", node_name="node-a", affinity=alone))
    stranger = core.reservation("lock", owner="web-1")
    another = core.reservation("lock", namespace="wares", owner="web-1")
    core.decide()
    assert (stranger.phase, another.phase) == (Phase.PENDING, Phase.ACTIVE)

    zones = [node("node-a", labels={"zone": "a"}), node("node-b", cpu="0", labels={"zone": "b"})]
    core = Core(*zones)
    core.add(*(pod(f"web-{n}", labels={"app": "web"}, node_name="node-a") for n in range(2)))
    web = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone", "maxSkew": 1}
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    specs = [{"topologySpreadConstraints": [web | {"whenUnsatisfiable": "DoNotSchedule"}]}, {}]
    templates = [{"spec": {"containers": containers} | spec} for spec in specs]
    spread, anywhere = (
        core.reservation(f"lock-{n}", owner="new", resources=None, template=template)
        for n, template in enumerate(templates)
    )
    core.decide()
    assert (spread.phase, anywhere.phase) == (Phase.PENDING, Phase.ACTIVE)


def test_growing_reservations_are_evaluated_one_by_one(evaluated: list[str]) -> None:
    core = Core(node("node-a", cpu="2"))
    for name in ("a", "b"):
        core.reservation(name)
    core.decide()
    del evaluated[:]
    for name in ("a", "b"):
        core.reservation(name, resources={"cpu": "2"}, generation=2, version=2)
    core.decide()

    assert evaluated == ["a", "b"]


def test_capacity_that_comes_free_wakes_pods() -> None:
    core = Core(node("node-a", cpu="1"))
    core.add(pod("other", node_name="node-a"), pod("web-0"))
    core.refuse()
    assert core.queue.counts()[QueueName.UNSCHEDULABLE] == 1

    core.event_handlers.pods.remove(pod("other"))

    assert core.decider.next_due() == 0.0
    assert core.place().pod.meta.name == "web-0"
    assert ("backoff", "AssignedPodDelete") in core.enqueued


def test_a_pod_that_requires_its_reservation_is_gated_until_that_is_active() -> None:
    core = Core(node("node-a"))
    core.add(pod(annotations={"tidelock.dev/require-reservation": "true"}))
    core.reservation(owner="somebody else")
    assert core.step() is None
    assert core.queue.counts()[QueueName.GATED] == 1
    core.reservation("its-own")

    assert core.place().node_name == "node-a"
    assert core.enqueued == [("gated", "UnscheduledPodAdd"), ("active", "ReservationActive")]


def test_a_reservation_that_returns_its_capacity_wakes_pods() -> None:
    core = Core(node("node-a", cpu="1"))
    core.reservation(owner="nobody", ttlSeconds=60)
    core.add(pod())
    core.refuse()
    core.clock.advance(60)

    assert core.place().node_name == "node-a"
    assert ("active", "ReservationFreed") in core.enqueued


def test_capacity_that_passes_from_a_reservation_to_its_owner_wakes_no_pod() -> None:
    core = Core(node("node-a", cpu="1"))
    core.reservation()
    core.add(pod("other"))
    core.refuse()
    core.add(pod("web-0"))
    core.place()

    assert core.queue.counts()[QueueName.UNSCHEDULABLE] == 1


def test_a_pod_that_was_refused_without_any_node_is_retried_with_a_new_node() -> None:
    core = Core()
    core.add(pod())
    core.refuse()
    core.event_handlers.nodes.upsert(None, node("node-a", cpu="500m"))
    core.event_handlers.nodes.upsert(None, node("node-b"))

    assert core.place().node_name == "node-b"


def test_nothing_is_due_if_nothing_waits() -> None:
    core = Core()
    core.step()

    assert core.decider.next_due() is None


def test_a_step_is_due_at_once_while_reservations_are_untried_or_pods_are_ready() -> None:
    core = Core(node("node-a"))
    core.decide()
    core.reservation(owner="nobody")
    assert core.decider.next_due() == 0.0
    core.step()
    assert core.decider.next_due() == NOW + 600
    core.add(pod())
    assert core.decider.next_due() == 0.0


def test_the_earlier_of_the_end_of_a_reservation_and_the_backoff_of_a_pod_is_due() -> None:
    core = Core(node("node-a", cpu="2"))
    core.reservation(owner="nobody", ttlSeconds=30)
    core.decide()
    core.add(pod())
    assumed = core.place()
    assert core.decider.next_due() == NOW + 30

    core.decider.binding_failed(assumed, NOW)
    core.decide()
    assert core.decider.next_due() == NOW + 1


def test_a_bound_pod_leaves_the_queue_and_consumes_its_reservation() -> None:
    core = Core(node("node-a"))
    entry = core.reservation()
    core.add(pod())
    assumed = core.place()

    core.decider.bound(assumed, NOW)

    assert core.queue.get(assumed.pod.uid) is None
    assert (entry.phase, core.used()) == (Phase.CONSUMED, 1000)


def test_a_pod_is_retried_after_its_backoff_if_its_binding_fails() -> None:
    core = Core(node("node-a", cpu="1"))
    core.add(pod())
    assumed = core.place()

    core.decider.binding_failed(assumed, NOW)

    core.decide()
    assert core.decider.next_due() == NOW + 1
    core.clock.advance(1)
    assert core.place().pod.uid == assumed.pod.uid


def test_a_pod_keeps_its_nomination_after_the_fault_of_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a bug")

    core = Core(node("node-a"), node("node-b"))
    core.add(pod(status={"nominatedNodeName": "node-b"}))
    with monkeypatch.context() as patched:
        patched.setattr(NodeName, "pre_filter", fail)
        assert core.refuse().diagnosis.error

    assert core.cache.nominator.node_of("uid-web-0") == "node-b"
    core.clock.advance(10)
    assert core.place().node_name == "node-b"


def test_the_fault_of_a_plugin_is_the_reason_why_a_reservation_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a bug")

    core = Core(node("node-a"))
    monkeypatch.setattr(NodeName, "pre_filter", fail)
    entry = core.reservation()
    core.step()

    message = 'running PreFilter plugin "NodeName": LookupError: a bug'
    assert (entry.phase, entry.message) == (Phase.PENDING, message)
    monkeypatch.undo()
    core.event_handlers.nodes.upsert(None, node("node-b"))
    core.step()
    assert entry.phase is Phase.ACTIVE


def test_a_reservation_is_due_again_after_its_pause_for_the_fault_of_a_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a bug")

    core = Core(node("node-a"), on_failure=lambda *_: 5.0)
    monkeypatch.setattr(ReservationCycle, "place", fail)
    core.reservation()
    core.decide()
    assert core.decider.next_due() == NOW + 5


def test_a_flood_of_reservations_in_one_namespace_does_not_delay_another_namespace() -> None:
    core = Core(node("node-a", cpu="3"))
    for number in range(10 * RESERVATIONS_A_STEP):
        core.reservation(f"flood-{number}", namespace="noisy", resources={"cpu": "100"}, created=NOW - 100)
    core.step()
    late = core.reservation("late", created=NOW)
    core.step()
    assert late.phase is Phase.ACTIVE


def test_no_node_is_searched_for_a_reservation_over_quota(evaluated: list[str]) -> None:
    core = Core(node("node-a", cpu="3"))
    plain = {"metadata": {"name": "team", "namespace": NAMESPACE}, "spec": {"hard": {"pods": "1"}}}
    core.decider.objects.reservation_quotas.upsert(None, decode_reservation_quota(encode(plain)))
    entries = [core.reservation(name, owner=name) for name in ("a", "b", "c")]
    core.decide()
    assert evaluated == ["a"]
    assert [entry.reason for entry in entries[1:]] == [reasons.QUOTA_EXCEEDED] * 2

    core.event_handlers.nodes.upsert(None, node("node-b"))  # they do not lack capacity
    core.decide()
    assert evaluated == ["a"]
    core.event_handlers.reservations.remove(entries[0].reservation)
    core.decide()
    assert evaluated == ["a", "b"]
    assert [entry.phase for entry in entries[1:]] == [Phase.ACTIVE, Phase.PENDING]


def test_equal_reservations_are_tried_even_if_the_one_that_is_tried_for_them_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The test removes that reservation. No code of the decider does so."""
    monkeypatch.setattr(waiting, "_RENEWED", 0)
    core = Core(node("node-a", cpu="1"))
    first, second = [core.reservation(name, owner="nobody", pendingDeadlineSeconds=600) for name in "ab"]
    core.add(pod("resident", node_name="node-a"))
    core.decide()
    core.event_handlers.pods.remove(pod("resident", node_name="node-a"))
    assert first in core.ledger.waiting_reservations.take(untried_only=False)
    core.decider.reservation_scheduler._refused.clear()
    core.decider.reservation_scheduler._freed = core.decider.columns.freed
    core.decide()
    assert (first.phase, second.phase) == (Phase.PENDING, Phase.ACTIVE)
