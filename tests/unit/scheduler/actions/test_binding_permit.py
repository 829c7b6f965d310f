"""Permit and the rest of the binding cycle."""

from dataclasses import replace
from typing import Any

import pytest

from builders import node, pod
from tidelock.framework.api import SUCCESS, Code, Filter, Status
from tidelock.framework.waiting_pods import timeout_text
from tidelock.model.api.reservation import Phase
from tidelock.scheduler.core.queued_pod import QueueName
from unit.scheduler.actions.permits import UID, WAIT, Gang, Noting, PermitShell, holding_shell
from unit.scheduler.machinery import pod_path, turns


class Fault(Filter):
    """A Filter plugin that fails."""

    name = "Fault"

    def filter(self, *_: object) -> Any:
        raise LookupError("a bug")

    def reasons(self, *_: object) -> tuple[str, ...]:
        return ()


@pytest.fixture
async def shell() -> PermitShell:
    return PermitShell()


@pytest.fixture
async def held() -> PermitShell:
    return await holding_shell()


async def test_a_waiting_pod_keeps_its_capacity_and_is_bound_when_it_is_allowed(held: PermitShell) -> None:
    assert (held.used(), held.bound) == (1000, False)
    held.waiting_pod.allow("Gang")
    await held.settle()

    assert held.api.objects[pod_path()]["spec"]["nodeName"] == "node-a"
    assert held.where is None
    assert list(held.decider.waiting_pods) == []
    assert held.metric("scheduler_permit_wait_duration_seconds_count", result="Success") == 1


async def test_the_durations_of_a_permit_and_of_a_plugin_are_measured(
    shell: PermitShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell.telemetry, "sample", lambda: True)
    shell.extend(permit=(Gang(shell.handle, {}),))
    shell.clock.advance(5)
    await shell.start()
    shell.api.gate.clear()
    shell.clock.advance(2)
    shell.waiting_pod.allow("Gang")
    await turns()
    shell.clock.advance(3)
    shell.api.gate.set()
    await shell.settle()

    binder = {"plugin": "DefaultBinder", "extension_point": "Bind", "status": "Success"}
    assert shell.metric("scheduler_permit_wait_duration_seconds_sum", result="Success") == 2
    assert shell.metric("scheduler_plugin_execution_duration_seconds_sum", **binder) == 3


async def test_a_rejected_pod_returns_its_capacity_and_waits_for_the_events_of_the_plugin(
    held: PermitShell,
) -> None:
    held.waiting_pod.reject("Gang", "too few members")
    await held.settle()

    (entry,) = held.ledger.entries.values()
    assert (held.used(), entry.phase, held.where) == (0, Phase.ACTIVE, QueueName.UNSCHEDULABLE)
    (told,) = held.recorder
    assert told.note == "0/1 nodes are available: 1 too few members."
    (condition,) = held.api.objects[pod_path()]["status"]["conditions"]
    assert condition["reason"] == "Unschedulable"
    assert held.metric("scheduler_permit_wait_duration_seconds_count", result="Unschedulable") == 1

    places = []
    held.event_handlers.nodes.upsert(None, node("node-b"))
    places.append(held.where)
    held.add(pod("member", node_name="node-b"))
    places.append(held.where)
    assert places == [QueueName.UNSCHEDULABLE, QueueName.BACKOFF]


async def test_an_event_while_a_pod_waits_for_its_permit_counts_when_the_pod_is_rejected(
    held: PermitShell,
) -> None:
    held.add(pod("member", node_name="node-b"))
    held.waiting_pod.reject("Gang", "too few members")
    await held.settle()

    assert held.where is QueueName.BACKOFF


async def test_the_capacity_of_a_rejected_pod_helps_other_pods(held: PermitShell) -> None:
    held.add(pod("other"))
    held.refuse()
    held.waiting_pod.reject("Gang", "too few members")
    await held.settle()

    other = held.queue.get("uid-other")
    assert other is not None
    assert other.queue is QueueName.BACKOFF


async def test_a_pod_is_rejected_when_its_permit_times_out(held: PermitShell) -> None:
    held.waiting_pod.time_out("Gang")
    await held.settle()

    (told,) = held.recorder
    assert f"1 {timeout_text('Gang', '30s')}" in told.note


async def test_the_time_for_a_permit_runs_while_the_node_is_written(shell: PermitShell) -> None:
    shell.extend(permit=(Gang(shell.handle, {}),))
    shell.api.gate.clear()
    await shell.start()
    shell.clock.advance(30)
    shell.api.gate.set()
    await shell.settle()

    assert "after waiting 30s at plugin Gang" in shell.recorder.told[0].note


async def test_the_timeout_of_a_permit_runs_while_a_pod_waits(shell: PermitShell) -> None:
    gang = Gang(shell.handle, {})
    gang.answer = (WAIT, 0.0)
    shell.extend(permit=(gang,))
    await shell.start()
    await shell.settle()

    assert "after waiting 0s at plugin Gang" in shell.recorder.told[0].note


@pytest.mark.parametrize("change", ["deleted", "leaving", "bound elsewhere"])
async def test_a_waiting_pod_that_is_gone_returns_its_capacity(held: PermitShell, change: str) -> None:
    last = pod()
    if change == "deleted":
        held.event_handlers.pods.remove(last)
    elif change == "leaving":
        held.event_handlers.pods.upsert(last, pod(deleted=True))
    else:
        held.event_handlers.pods.upsert(last, pod(node_name="node-b"))
    await held.settle()

    assert (held.used(), held.where, held.bound) == (0, None, False)
    assert held.recorder.reasons == []


async def test_a_plugin_can_refuse_a_pod_at_once(shell: PermitShell) -> None:
    gang = Gang(shell.handle, {})
    gang.answer = (Status(Code.UNSCHEDULABLE, ("no quota",)), 0.0)
    shell.extend(permit=(gang,))
    diagnosis = shell.refuse().diagnosis

    message = "0/1 nodes are available: 1 no quota."
    assert (diagnosis.message, diagnosis.plugins) == (message, frozenset({"Gang"}))
    assert (shell.used(), len(shell.decider.waiting_pods)) == (0, 0)


async def test_plugins_run_in_order_and_no_bind_plugin_runs_after_the_one_that_binds(
    shell: PermitShell,
) -> None:
    first, second = Noting(shell, "a"), Noting(shell, "b", bind=SUCCESS)
    third = Noting(shell, "c")
    shell.extend(pre_bind=(first, second), post_bind=(first, second))
    waiting = shell.queue.get(UID)
    assert waiting is not None
    waiting.profile = replace(waiting.profile, bind=(first, second, third))
    await shell.start()
    await shell.settle()

    assert shell.notes == ["pre_bind a", "pre_bind b", "bind a", "bind b", "post_bind a", "post_bind b"]
    assert (shell.where, shell.recorder.reasons, shell.bound) == (None, ["Scheduled"], False)
    point = {"extension_point": "Bind", "status": "Success", "profile": "tidelock-scheduler"}
    assert shell.metric("scheduler_framework_extension_point_duration_seconds_count", **point) == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Status(Code.ERROR, ("no disk",)), "no disk"),
        (Status(Code.UNSCHEDULABLE, ("no disk",)), "no disk"),
        (LookupError("a bug"), "LookupError: a bug"),
    ],
)
async def test_a_failure_before_the_binding_calls_unreserve_in_reverse_order(
    shell: PermitShell, answer: Status | Exception, text: str
) -> None:
    first, second = Noting(shell, "a"), Noting(shell, "b", pre_bind=answer)
    shell.extend(reserve=(first, second), pre_bind=(first, second))
    await shell.start()
    await shell.settle()

    assert shell.notes == [
        "reserve a",
        "reserve b",
        "pre_bind a",
        "pre_bind b",
        "unreserve b",
        "unreserve a",
    ]
    (entry,) = shell.ledger.entries.values()
    assert (shell.used(), entry.phase, shell.where) == (0, Phase.ACTIVE, QueueName.BACKOFF)
    (condition,) = shell.api.objects[pod_path()]["status"]["conditions"]
    assert condition["reason"] == "SchedulerError"
    assert condition["message"] == f'running PreBind plugin "Noting": {text}'


async def test_a_pod_that_no_plugin_binds_is_an_error(shell: PermitShell) -> None:
    waiting = shell.queue.get(UID)
    assert waiting is not None
    waiting.profile = replace(waiting.profile, bind=())
    await shell.start()
    await shell.settle()

    assert (shell.where, shell.recorder.told[0].note) == (
        QueueName.BACKOFF,
        "no Bind plugin has bound the pod",
    )


async def test_a_fault_of_a_postbind_plugin_changes_nothing(shell: PermitShell) -> None:
    shell.extend(post_bind=(Noting(shell, "a", post_bind=LookupError("a bug")), Noting(shell, "b")))
    await shell.start()
    await shell.settle()

    assert (shell.notes, shell.where) == (["post_bind a", "post_bind b"], None)


async def test_a_fault_of_a_filter_plugin_is_an_error_of_its_pod(shell: PermitShell) -> None:
    shell.extend(filter=(Fault(shell.handle, {}),))
    outcome = shell.refuse()
    shell.binder.report(outcome)
    await shell.settle()

    assert (outcome.diagnosis.error, shell.where) == (True, QueueName.BACKOFF)
    (condition,) = shell.api.objects[pod_path()]["status"]["conditions"]
    message = 'running Filter plugin "Fault": LookupError: a bug'
    assert (condition["reason"], condition["message"]) == ("SchedulerError", message)


async def test_a_fault_of_a_prebind_plugin_is_an_error_of_its_pod(shell: PermitShell) -> None:
    """Regression: the fault was counted without its pod, which had no event."""
    shell.extend(pre_bind=(Noting(shell, "a", pre_bind=LookupError("a bug")),))
    await shell.start()
    await shell.settle()

    (condition,) = shell.api.objects[pod_path()]["status"]["conditions"]
    assert condition["reason"] == "SchedulerError"
    assert shell.isolation.faults == ["binding shop/web-0: a bug"]
    assert (shell.used(), shell.where) == (0, QueueName.BACKOFF)


@pytest.mark.parametrize("answer", [LookupError("a bug"), Status(Code.ERROR, ("a bug",))])
async def test_a_fault_of_a_reserve_plugin_leaves_nothing_reserved(
    shell: PermitShell, answer: Status | Exception
) -> None:
    unable = Noting(shell, "a", reserve=answer, unreserve=LookupError("another bug"))
    shell.extend(reserve=(unable, Noting(shell, "b")))
    assert shell.refuse().diagnosis.error

    (entry,) = shell.ledger.entries.values()
    assert (shell.used(), entry.phase, shell.where) == (0, Phase.ACTIVE, QueueName.BACKOFF)
    assert shell.notes == ["reserve a", "unreserve b", "unreserve a"]
