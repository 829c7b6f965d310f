import asyncio

import pytest

from builders import NAMESPACE, SCHEDULER, node
from tidelock.framework.rejections import nodes_by_reason, shortage_text
from tidelock.kube.errors import (
    Conflict,
    Forbidden,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.scheduler.actions.extenders import Extenders
from tidelock.scheduler.core.reservation_scheduler import RESERVATIONS_A_STEP
from unit.scheduler.machinery import Shell, pod_path, turns

LOST = Unreachable("time-out", outcome_unknown=True)


async def bind(shell: Shell) -> None:
    """Decide on a pod and bind it."""
    shell.binder.bind(shell.place(), shell.clock.monotonic())
    await shell.settle()


@pytest.fixture
async def shell() -> Shell:
    """Build a scheduler with a pod that is ready and its active reservation."""
    shell = Shell(node("node-a", cpu="1"))
    shell.store_reservation()
    shell.step()
    shell.store_pod()
    return shell


def bound(shell: Shell) -> bool:
    """Return whether the pod has left the queue and its reservation is consumed."""
    (entry,) = shell.ledger.entries.values()
    waits = shell.queue.get("uid-web-0") is not None
    assert (entry.phase is Phase.CONSUMED) is not waits
    assert (shell.used(), shell.reserved()) == ((0, 1000) if waits else (1000, 0))
    return not waits


def attempts(shell: Shell, result: str) -> float | None:
    return shell.metric("scheduler_schedule_attempts_total", result=result, profile="tidelock-scheduler")


async def test_a_binding_names_the_uid_of_the_pod_its_reservations_and_the_node(shell: Shell) -> None:
    await bind(shell)

    (asked,) = shell.api.asked
    assert (asked.method, asked.path) == ("POST", f"{pod_path()}/binding")
    assert asked.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "web-0",
            "namespace": NAMESPACE,
            "uid": "uid-web-0",
            "annotations": {"tidelock.dev/claimed-locks": "uid-lock"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-a"},
    }


async def test_a_binding_of_a_pod_without_reservations_has_no_annotation() -> None:
    shell = Shell(node("node-a"))
    shell.store_pod()
    await bind(shell)

    (asked,) = shell.api.asked
    assert asked.body["metadata"] == {"name": "web-0", "namespace": NAMESPACE, "uid": "uid-web-0"}


async def test_a_binding_names_at_most_as_many_reservations_as_the_api_server_accepts() -> None:
    shell = Shell(node("node-a"))
    for number in range(1100):
        shell.store_reservation(f"lock-{number}")
    for _ in range(1100 // RESERVATIONS_A_STEP + 1):
        shell.step()
    shell.store_pod()
    await bind(shell)

    claims = shell.api.objects[pod_path()]["metadata"]["annotations"]["tidelock.dev/claimed-locks"]
    assert len(claims.split(",")) == 1000


async def test_a_bound_pod_gets_an_event_and_is_counted(shell: Shell) -> None:
    shell.clock.advance(0.5)
    await bind(shell)

    assert bound(shell)
    (told,) = shell.recorder
    assert (told.regarding.kind, told.regarding.uid) == ("Pod", "uid-web-0")
    assert (told.type, told.reason, told.action) == ("Normal", "Scheduled", "Binding")
    assert told.note == "Successfully assigned shop/web-0 to node-a"
    assert attempts(shell, "scheduled") == 1
    assert shell.metric("scheduler_pod_scheduling_attempts_sum") == 1
    assert shell.metric("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="1") == 0.5


async def test_the_durations_of_a_binding_and_of_its_whole_attempt_are_measured(shell: Shell) -> None:
    shell.clock.advance(5)
    shell.api.gate.clear()
    shell.binder.bind(shell.place(), shell.clock.monotonic() - 1)
    await turns()
    shell.clock.advance(2)
    shell.api.gate.set()
    await shell.settle()

    bind, attempt = {"extension_point": "Bind", "status": "Success"}, {"result": "scheduled"}
    for name, seconds, labels in (("framework_extension_point", 2, bind), ("scheduling_attempt", 3, attempt)):
        measured = shell.metric(f"scheduler_{name}_duration_seconds_sum", profile=SCHEDULER, **labels)
        assert measured == seconds


async def test_a_pod_that_left_the_queue_during_its_decision_is_still_bound(shell: Shell) -> None:
    assumed = shell.place()
    shell.queue.remove(assumed.pod.uid)
    shell.binder.bind(assumed, 0.0)
    await shell.settle()

    assert bound(shell)
    assert shell.metric("scheduler_pod_scheduling_attempts_count") == 0


async def test_a_refused_binding_is_undone_and_the_pod_is_retried(shell: Shell) -> None:
    shell.api.fails(Conflict("the uid differs", status=409))
    await bind(shell)

    assert not bound(shell)
    (told,) = shell.recorder
    message = 'running Bind plugin "DefaultBinder": 409: the uid differs'
    assert (told.type, told.reason, told.note) == ("Warning", "FailedScheduling", message)
    (condition,) = shell.api.objects[pod_path()]["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("SchedulerError", message)
    assert attempts(shell, "error") == 1
    assert shell.metric("tidelock_api_write_errors_total", write="Bind", reason="Conflict") == 1
    shell.clock.advance(1)
    await bind(shell)
    assert bound(shell)


async def test_a_binding_with_a_lost_response_counts_if_it_was_made(shell: Shell) -> None:
    shell.api.loses(LOST)
    await bind(shell)

    assert shell.api.verbs == ["POST", "GET"]
    assert bound(shell)
    assert shell.recorder.reasons == ["Scheduled"]


async def test_a_binding_with_a_lost_response_is_sent_again_if_it_was_not_made(shell: Shell) -> None:
    shell.api.fails(LOST)
    await bind(shell)

    assert shell.api.verbs == ["POST", "GET", "POST"]
    assert bound(shell)
    assert shell.recorder.reasons == ["Scheduled"]


async def test_a_binding_that_is_made_after_the_check_for_it_is_not_given_up(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a slow API server carried out a binding after the operator had looked for it.

    The operator had waited 10 s for the response. It gave the capacity to other pods, and then the pod came.
    """

    sleep = asyncio.sleep

    async def carried_out_meanwhile(seconds: float) -> None:
        if seconds:
            shell.api.edit(pod_path(), {"spec": {"nodeName": "node-a"}})
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", carried_out_meanwhile)
    shell.api.fails(LOST)
    shell.api.refuses["POST"] = TooManyRequests("slow down", status=429)
    await bind(shell)

    assert shell.api.verbs == ["POST", "GET", "POST", "GET"]
    assert bound(shell)


async def test_a_binding_is_given_up_when_the_api_server_can_no_longer_carry_it_out(
    shell: Shell, sleeps: list[float]
) -> None:
    shell.api.fails(LOST)
    shell.api.refuses["POST"] = Forbidden("not now", status=403)
    shell.clock.tick = 4.0
    started = shell.clock.monotonic()
    await bind(shell)

    assert not bound(shell)
    assert shell.clock.monotonic() - started > 60.0
    assert shell.recorder.reasons == ["FailedScheduling"]


async def test_a_binding_with_a_lost_response_is_undone_if_the_pod_is_gone(shell: Shell) -> None:
    shell.api.fails(LOST)
    del shell.api.objects[pod_path()]
    await bind(shell)

    assert not bound(shell)


async def test_another_pod_of_the_same_name_does_not_count_as_the_bound_one(shell: Shell) -> None:
    shell.api.fails(LOST)
    shell.api.edit(pod_path(), {"metadata": {"uid": "another"}, "spec": {"nodeName": "node-a"}})
    await bind(shell)

    assert not bound(shell)


async def test_the_capacity_stays_in_use_until_the_outcome_of_the_binding_is_known(
    shell: Shell, sleeps: list[float]
) -> None:
    shell.api.loses(LOST)
    shell.api.fails(Unreachable("refused"), TooManyRequests("slow down", retry_after=7.0))
    await bind(shell)

    assert shell.api.verbs == ["POST", "GET", "GET", "GET"]
    assert 0.05 <= sleeps[0] <= 0.1
    assert sleeps[1] == 7.0
    assert bound(shell)


async def test_a_refused_pod_gets_its_condition_once_and_an_event_each_time() -> None:
    shell = Shell(node("node-a", cpu="1"))
    shell.store_pod(requests={"cpu": "2"})
    shell.api.edit(pod_path(), {"metadata": {"generation": 3}})
    shell.see_pod()
    for _ in range(2):
        outcome = shell.refuse()
        shell.binder.report(outcome)
        await shell.settle()
        shell.wake()

    message = outcome.diagnosis.message
    assert message.startswith(
        f"{nodes_by_reason(1, {insufficient(CPU): 1})} node-a: {shortage_text('cpu', '2', '1')}."
    )
    assert [(told.type, told.reason, told.note) for told in shell.recorder] == [
        ("Warning", "FailedScheduling", message)
    ] * 2  # the recorder leaves out repeated events
    (asked,) = shell.api.asked
    assert (asked.method, asked.path) == ("PATCH", f"{pod_path()}/status")
    assert asked.content_type == "application/strategic-merge-patch+json"
    assert asked.body["metadata"] == {"uid": "uid-web-0"}
    assert asked.body["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": "2027-01-15T08:00:00Z",
            "observedGeneration": 3,
        }
    ]
    assert {told.controller for told in shell.recorder} == {shell.decider.profile.scheduler_name}


async def test_a_condition_keeps_the_time_since_which_the_pod_is_not_scheduled() -> None:
    """Regression: each change of the message moved it, so a pod seemed to be refused since a moment ago."""
    shell = Shell(node("node-a", cpu="1"))
    shell.store_pod(requests={"cpu": "2"})
    shell.binder.report(shell.refuse())
    await shell.settle()
    shell.see_pod()
    shell.event_handlers.nodes.upsert(None, node("node-b", cpu="1"))
    shell.wake()
    shell.binder.report(shell.refuse())
    await shell.settle()

    (condition,) = shell.api.objects[pod_path()]["status"]["conditions"]
    assert condition["message"].startswith("0/2 nodes are available: 2 ")
    assert condition["lastTransitionTime"] == "2027-01-15T08:00:00Z"


async def test_a_condition_is_written_again_when_its_message_changes() -> None:
    shell = Shell(node("node-a", cpu="1"))
    shell.store_pod(requests={"cpu": "2"})
    shell.binder.report(shell.refuse())
    shell.event_handlers.nodes.upsert(None, node("node-b", cpu="1"))
    shell.wake()
    shell.binder.report(shell.refuse())
    await shell.settle()

    texts = [asked.body["status"]["conditions"][0]["message"][:27] for asked in shell.api.asked]
    assert texts == ["0/1 nodes are available: 1 ", "0/2 nodes are available: 2 "]


async def test_the_condition_of_an_earlier_attempt_does_not_replace_a_newer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The writes of two attempts were under way at once, and a pod could keep the reason of the first one."""
    shell = Shell(node("node-a", cpu="1"))
    shell.store_pod(requests={"cpu": "2"})
    send, slow = shell.api.request, [asyncio.Event()]

    async def request(method: str, path: str, **arguments: object) -> object:
        if slow:
            await slow.pop().wait()
        return await send(method, path, **arguments)  # type: ignore[arg-type]

    (answered,) = slow
    monkeypatch.setattr(shell.api, "request", request)
    shell.binder.report(shell.refuse())
    shell.event_handlers.nodes.upsert(None, node("node-b", cpu="1"))
    shell.wake()
    shell.binder.report(shell.refuse())
    await turns(20)
    answered.set()
    await shell.settle()

    (condition,) = shell.api.objects[pod_path()]["status"]["conditions"]
    assert condition["message"].startswith("0/2 nodes are available: 2 ")


async def test_a_condition_that_failed_to_be_written_is_written_by_the_next_attempt() -> None:
    """Regression: the condition counted as written before it was, so a pod could stay without any."""
    shell = Shell(node("node-a", cpu="1"))
    shell.store_pod(requests={"cpu": "2"})
    shell.api.fails(ServerError("etcd is down", status=500))
    for _ in range(2):
        shell.binder.report(shell.refuse())
        await shell.settle()
        shell.wake()

    assert shell.api.verbs == ["PATCH", "PATCH"]
    assert "conditions" in shell.api.objects[pod_path()]["status"]


class SilentExtenders(Extenders):
    """An extender for all bindings that does not answer."""

    def __init__(self) -> None:
        super().__init__(())
        self.asked = 0

    @property
    def configured(self) -> bool:
        return True

    async def bind(self, pod: Pod, node_name: str) -> bool:  # noqa: ARG002 -- the signature of extenders
        self.asked += 1
        await asyncio.Event().wait()
        return False


async def test_an_extender_that_does_not_answer_keeps_no_status_waiting() -> None:
    """Regression: 32 such bindings held all turns at the API server for the time-out of the extender."""
    silent = SilentExtenders()
    shell = Shell(node("node-a", cpu="64"), extenders=silent)
    for index in range(40):
        shell.store_pod(f"web-{index}")
    for _ in range(40):
        shell.binder.bind(shell.place(), shell.clock.monotonic())
    await turns()
    assert silent.asked == 40
    shell.store_reservation()
    shell.step()
    shell.flush()
    await turns()

    assert shell.stored_status()["phase"] == "Active"
    await shell.tasks.drain(0.0)
