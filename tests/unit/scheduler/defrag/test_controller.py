"""Migration plans: published, approved, carried out, given up, and continued by another process."""

import asyncio

import pytest

from builders import Json, budget, node, pod
from tidelock.kube.errors import (
    AdmissionUnavailable,
    ApiError,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
)
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.scheduler.defrag.controller import unhelpful_text
from unit.scheduler.machinery import Core, Shell, pod_path
from unit.scheduler.moves import approve, ask, fragmented, move_planned, plan_of, planned, store, web


def victim(core: Core) -> Pod | None:
    """Return the next pod to evict for any reservation."""
    for task in core.take_migrations():
        if (found := core.decider.moving.next_victim(task)) is not None:
            return found
    return None


def events(core: Core) -> list[Event]:
    return [change.event for change in core.effects.transitions]


def under_way(core: Core | None = None) -> tuple[Core, ReservationInfo]:
    core = core or fragmented()
    entry = ask(core)
    approve(core, entry)
    assert plan_of(entry).under_way
    return core, entry


def test_a_plan_without_approval_is_never_carried_out() -> None:
    core = fragmented()
    entry = ask(core)
    store(core, entry)
    core.clock.advance(30)
    core.step()
    assert not plan_of(entry).under_way
    assert victim(core) is None
    assert not core.cache.nominator.on("node-a")


def test_the_token_of_another_plan_approves_nothing_and_is_reported() -> None:
    core = fragmented()
    entry = ask(core)
    approve(core, entry, "another")
    assert not plan_of(entry).under_way
    status, reason, message = move_planned(core, entry)
    assert (status, reason) == ("True", "TokenMismatch")
    assert "spec.mayMove.approve another is of another plan" in message
    assert plan_of(entry).token in message


def test_an_approved_plan_nominates_the_reservation_and_evicts_its_pods() -> None:
    core, entry = under_way()
    assert [each.uid for each in core.cache.nominator.on("node-a")] == ["uid-lock"]
    found = victim(core)
    assert found is not None
    assert found.meta.name == "a-0"
    core.event_handlers.pods.remove(found)
    core.step()
    assert (entry.phase, entry.node, entry.plan, entry.moved_pods) == (Phase.ACTIVE, "node-a", None, 1)
    assert render_reservation(entry, core.clock.now())["moved"] == 1
    assert not core.cache.nominator.on("node-a")
    assert events(core) == [Event.PLAN_MOVES, Event.MOVE, Event.ADMIT]


def test_no_pod_is_evicted_before_the_plan_is_stored_as_under_way() -> None:
    core = fragmented()
    entry = ask(core)
    store(core, entry)
    store(core, entry, mayMove={"approve": plan_of(entry).token})
    assert plan_of(entry).under_way
    assert victim(core) is None
    store(core, entry)
    assert victim(core) is not None


def test_an_automatic_plan_is_carried_out_once_it_is_stored() -> None:
    core = fragmented()
    entry = ask(core, may_move={"automatically": True})
    assert not plan_of(entry).under_way
    store(core, entry)
    assert plan_of(entry).under_way
    store(core, entry)
    assert victim(core) is not None


def test_other_pods_leave_the_capacity_that_comes_free_to_the_reservation() -> None:
    core, entry = under_way()
    core.add(pod("rival", requests={"cpu": "3"}))
    found = victim(core)
    assert found is not None
    core.event_handlers.pods.remove(found)
    core.refuse()
    assert entry.phase is Phase.ACTIVE


def test_equal_reservations_leave_the_capacity_to_the_one_with_the_plan() -> None:
    core = fragmented()
    first = ask(core, name="a-first")
    entry = ask(core)
    approve(core, entry)
    found = victim(core)
    assert found is not None
    core.event_handlers.pods.remove(found)
    for _ in range(3):
        core.step()
    assert (entry.phase, first.phase) == (Phase.ACTIVE, Phase.PENDING)


def test_a_plan_that_no_longer_fits_at_its_approval_is_replaced_by_one_with_another_token() -> None:
    core = fragmented()
    entry = ask(core)
    before = plan_of(entry)
    store(core, entry)
    core.add(web("b-2", "node-b", "2"), web("a-2", "node-a", "500m"))
    core.event_handlers.pods.remove(web("b-0", "node-b"))
    core.event_handlers.pods.remove(web("b-1", "node-b"))
    store(core, entry, mayMove={"approve": before.token})
    after = plan_of(entry)
    assert not after.under_way
    assert after.token != before.token
    assert victim(core) is None


def test_a_plan_gets_new_target_nodes_under_its_token_when_the_former_target_is_full() -> None:
    core = fragmented()
    entry = ask(core)
    before = plan_of(entry)
    assert planned(entry) == [("a-0", "node-b")]
    core.add(web("b-2", "node-b", "2"))
    core.event_handlers.nodes.upsert(None, node("node-c", cpu="1"))
    core.clock.advance(10)
    core.step()
    assert planned(entry) == [("a-0", "node-c")]
    assert plan_of(entry).token == before.token


def test_a_budget_that_was_tightened_in_the_meantime_stops_a_plan_before_it_starts() -> None:
    core = fragmented()
    for place in "ab":
        for number in range(2):
            core.add(web(f"{place}-{number}", f"node-{place}", labels={"app": "web"}))
    budgets = core.decider.objects.pod_disruption_budgets
    budgets.upsert(None, budget(allowed=1, labels={"app": "web"}))
    entry = ask(core)
    store(core, entry)
    token = plan_of(entry).token
    budgets.upsert(None, budget(allowed=0, labels={"app": "web"}))
    store(core, entry, mayMove={"approve": token})
    assert entry.plan is None
    assert move_planned(core, entry)[:2] == ("False", "NoMoves")
    assert events(core)[-1] is Event.DROP_MOVES


def test_a_plan_is_given_up_when_its_approval_is_withdrawn() -> None:
    core, entry = under_way()
    store(core, entry, mayMove={})
    assert not planned(entry) or not plan_of(entry).under_way
    assert victim(core) is None
    assert not core.cache.nominator.on("node-a")


def test_a_plan_ends_when_the_reservation_no_longer_permits_moves() -> None:
    core, entry = under_way()
    store(core, entry, mayMove=None)
    assert entry.plan is None
    status = render_reservation(entry, core.clock.now())
    assert "plan" not in status
    assert "MovePlanned" not in {each["type"] for each in status["conditions"]}


def test_a_plan_is_given_up_with_a_message_if_others_have_taken_its_capacity() -> None:
    core, entry = under_way()
    core.add(web("urgent", "node-a", "2"))
    core.clock.advance(10)
    core.step()
    assert entry.plan is None
    assert f"given up: {unhelpful_text('node-a')}" in move_planned(core, entry)[2]


def test_no_pod_is_evicted_for_capacity_that_a_pod_of_higher_priority_has_claimed() -> None:
    core, entry = under_way()
    urgent = pod("urgent", requests={"cpu": "4"}, priority=9)
    core.add(urgent)
    core.refuse()
    (attempt,) = core.take_preemptions()
    assert attempt.node_name == "node-a"
    assert victim(core) is None
    core.clock.advance(10)
    core.step()
    assert "given up" in move_planned(core, entry)[2]


def test_a_plan_is_given_up_when_a_pod_becomes_unmovable() -> None:
    core, entry = under_way()
    core.add(web("a-0", "node-a", annotations={"tidelock.dev/movable": "false"}))
    assert victim(core) is None
    core.clock.advance(10)
    core.step()
    assert "may not be moved any more" in move_planned(core, entry)[2]


def test_no_plan_is_searched_for_a_deleted_reservation() -> None:
    core = fragmented()
    entry = ask(core)
    core.event_handlers.reservations.remove(entry.reservation)
    core.clock.advance(10)
    core.step()
    assert not core.ledger.entries
    assert core.decider.moving.idle


def test_evicted_pods_count_against_the_limit_of_later_plans() -> None:
    core = fragmented()
    entry = ask(core, may_move={"maxPods": 2}, resources={"cpu": "3"})
    assert len(planned(entry)) == 1
    store(core, entry)
    store(core, entry, mayMove={"maxPods": 2, "approve": plan_of(entry).token})
    store(core, entry)
    found = victim(core)
    assert found is not None
    core.event_handlers.pods.remove(found)
    core.add(web("urgent", "node-a", "2"))
    core.clock.advance(10)
    core.step()
    core.clock.advance(10)
    core.step()
    assert (entry.moved_pods, entry.moves_left) == (1, 1)
    assert entry.plan is None or not entry.plan.under_way


def test_the_cause_of_a_given_up_plan_is_reported_even_if_no_more_pods_may_move() -> None:
    core = fragmented()
    entry = ask(core, may_move={"maxPods": 1})
    store(core, entry)
    store(core, entry, mayMove={"maxPods": 1, "approve": plan_of(entry).token})
    store(core, entry)
    found = victim(core)
    assert found is not None
    core.event_handlers.pods.remove(found)
    core.add(web("urgent", "node-a", "2"))
    for _ in range(3):
        core.clock.advance(10)
        core.step()
        assert entry.moves_left == 0
        assert f"given up: {unhelpful_text('node-a')}" in move_planned(core, entry)[2]


def test_a_pod_that_leaves_by_another_plan_counts_on_its_target_node() -> None:
    core, entry = under_way()
    assert planned(entry) == [("a-0", "node-b")]
    core.event_handlers.nodes.upsert(None, node("node-c", cpu="4"))
    core.add(web("c-0", "node-c", "2"))
    spec: Json = {"may_move": {"maxPods": 1}, "resources": {"cpu": "4"}}

    assert planned(ask(core, name="second", **spec)) == []
    core.event_handlers.pods.remove(web("a-0", "node-a"))
    core.clock.advance(10)
    core.step()
    assert planned(core.ledger.entries[Key("shop", "second")]) == [("c-0", "node-b")]


def test_another_process_continues_a_plan_under_way() -> None:
    core, entry = under_way()
    stored = entry.reservation.status
    follower = fragmented()
    adopted = follower.reservation(
        resources={"cpu": "3"},
        pendingDeadlineSeconds=600,
        mayMove={"approve": plan_of(entry).token},
        status=stored,
        generation=stored["observedGeneration"],
    )
    assert [each.uid for each in follower.cache.nominator.on("node-a")] == ["uid-lock"]
    assert render_reservation(adopted, core.clock.now()) == stored
    follower.step()
    found = victim(follower)
    assert found is not None
    assert found.meta.name == "a-0"


def test_another_process_finishes_a_plan_if_its_pods_are_gone() -> None:
    _, entry = under_way()
    follower = fragmented()
    follower.event_handlers.pods.remove(web("a-0", "node-a"))
    stored = entry.reservation.status
    spec: Json = {"resources": {"cpu": "3"}, "mayMove": {"approve": plan_of(entry).token}}
    adopted = follower.reservation(status=stored, generation=stored["observedGeneration"], **spec)
    follower.step()
    assert (adopted.phase, adopted.node, adopted.moved_pods) == (Phase.ACTIVE, "node-a", 1)


def shell() -> Shell:
    """Build a fragmented cluster with a reservation that moves pods without approval."""
    made = Shell(*(node(name, cpu="4") for name in ("node-a", "node-b")))
    for place in "ab":
        for number in range(2):
            fields = {"requests": {"cpu": "1"}, "controller": "apps/v1/ReplicaSet/web"}
            made.store_pod(f"{place}-{number}", node_name=f"node-{place}", **fields)
    made.store_reservation(
        resources={"cpu": "3"}, mayMove={"automatically": True}, pendingDeadlineSeconds=600
    )
    return made


async def carry_on(made: Shell) -> None:
    """Decide and write until a plan is under way and stored."""
    for _ in range(6):
        made.step()
        await made.publish()
        made.evict()
        await made.settle()


def evictions(made: Shell) -> list[str]:
    return [each.path for each in made.api.asked if each.path.endswith("/eviction")]


async def test_a_pod_is_evicted_through_the_eviction_api_and_gets_an_event() -> None:
    made = shell()
    await carry_on(made)
    assert evictions(made) == [f"{pod_path('a-0')}/eviction"]
    assert pod_path("a-0") not in made.api.objects
    (event,) = [each for each in made.recorder if each.reason == "Moved"]
    assert (event.regarding.name, event.type, event.action) == ("a-0", "Normal", "Moving")
    assert event.note == "Moved for reservation shop/lock, to free capacity on node node-a"
    made.event_handlers.pods.remove(web("a-0", "node-a"))
    await carry_on(made)
    status = made.stored_status()
    assert (status["phase"], status["nodeName"], status["moved"]) == ("Active", "node-a", 1)
    assert "plan" not in status
    assert {"MovePlanned", "Moving", "Admitted"} <= set(made.recorder.reasons)


async def test_an_eviction_that_a_budget_forbids_is_retried_and_nothing_is_deleted(
    sleeps: list[float],
) -> None:
    made = shell()
    made.step()
    await made.publish()
    made.step()
    await made.publish()
    made.api.fails(*[TooManyRequests("the budget is used up", status=429)] * 3)
    await carry_on(made)
    assert len(evictions(made)) == 4
    assert len(sleeps) == 3
    assert pod_path("a-0") not in made.api.objects
    assert "DELETE" not in made.api.verbs


@pytest.mark.parametrize(
    "error",
    [AdmissionUnavailable("failed to configure binding", status=422), ServerError("no", status=500)],
)
@pytest.mark.usefixtures("sleeps")
async def test_an_eviction_that_fails_again_and_again_is_reported(
    error: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: a policy that could not be evaluated kept a plan up without any line in the log."""
    made = shell()
    made.step()
    await made.publish()
    made.step()
    await made.publish()
    made.api.fails(*[error] * 3)
    await carry_on(made)
    assert pod_path("a-0") not in made.api.objects
    assert caplog.messages == ["a move failed"] * 3
    labels = {"write": "move", "reason": type(error).__name__}
    assert made.metric("tidelock_api_write_errors_total", **labels) == 3


@pytest.mark.parametrize(
    "error",
    [
        TooManyRequests("the budget is used up", status=429),
        AdmissionUnavailable("failed to configure binding", status=422),
    ],
)
async def test_a_pod_that_ends_by_itself_after_a_refused_eviction_does_not_count_as_moved(
    monkeypatch: pytest.MonkeyPatch, error: ApiError
) -> None:
    made, sleep = shell(), asyncio.sleep
    made.step()
    await made.publish()
    made.step()
    await made.publish()

    async def ended_meanwhile(seconds: float) -> None:
        if seconds:
            made.event_handlers.pods.remove(web("a-0", "node-a"))
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", ended_meanwhile)
    made.api.fails(error)
    await carry_on(made)
    assert made.stored_status()["phase"] == "Active"
    assert "moved" not in made.stored_status()


async def test_an_eviction_with_a_lost_response_counts(
    sleeps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shell()
    answers = iter((ServerError("no answer", status=504), NotFound("it is gone", status=404)))

    async def ask(victim: Pod) -> None:
        """Carry out the eviction. The watch reports it before the next request."""
        answer = next(answers)
        if isinstance(answer, NotFound):
            made.event_handlers.pods.remove(victim)
        raise answer

    monkeypatch.setattr(made.evictor, "_ask_to_evict", ask)
    await carry_on(made)

    assert len(sleeps) == 2
    assert made.stored_status()["moved"] == 1


async def test_a_forbidden_eviction_ends_the_plan() -> None:
    made = shell()
    made.api.refuses["POST"] = Forbidden("no right", status=403)
    await carry_on(made)
    entry = next(iter(made.ledger.entries.values()))
    assert (entry.plan, entry.moved_pods) == (None, 0)
    assert "given up: pod shop/a-0 can't be evicted: 403: no right" in move_planned(made, entry)[2]
    assert made.metric("tidelock_api_write_errors_total", write="move", reason="Forbidden") == 1
    assert not made.cache.nominator.on("node-a")
