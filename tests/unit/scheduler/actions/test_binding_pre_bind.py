"""PreBindPreFlight, the node that a pod names while it waits, and PreBind."""

import pytest

from builders import SCHEDULER, pod
from tidelock.framework.api import SKIP, Code, Status
from tidelock.kube.errors import ServerError
from tidelock.scheduler.core.queued_pod import QueueName
from unit.scheduler.actions.permits import UID, Gang, Lasting, Noting, PermitShell, holding_shell
from unit.scheduler.machinery import Shell


@pytest.fixture
async def shell() -> PermitShell:
    return PermitShell()


@pytest.fixture
async def held() -> PermitShell:
    return await holding_shell()


def pre_flights(shell: Shell, status: str) -> float | None:
    labels = {"extension_point": "PreBindPreFlight", "status": status, "profile": SCHEDULER}
    return shell.metric("scheduler_framework_extension_point_duration_seconds_count", **labels)


async def test_a_pod_that_waits_for_a_permit_names_its_node(held: PermitShell) -> None:
    assert held.nominations == ["node-a"]
    held.waiting_pod.allow("Gang")
    await held.settle()

    assert held.nominations == ["node-a"]
    assert held.api.verbs == ["PATCH", "POST"]


async def test_a_pod_that_waits_for_prebind_names_its_node_before(shell: PermitShell) -> None:
    noting = Noting(shell, "a")
    shell.extend(pre_bind=(noting,))
    shell.api.gate.clear()
    await shell.start()
    assert (shell.notes, shell.nominations) == ([], ["node-a"])
    shell.api.gate.set()
    await shell.settle()

    assert (shell.notes, shell.api.verbs) == (["pre_bind a"], ["PATCH", "POST"])
    assert pre_flights(shell, "Success") == 1


async def test_a_pod_that_waits_for_nothing_is_bound_by_one_request(shell: PermitShell) -> None:
    shell.extend(pre_bind=(Noting(shell, "a", pre_flight=SKIP),))
    await shell.start()
    await shell.settle()

    assert (shell.notes, shell.api.verbs) == ([], ["POST"])
    assert (pre_flights(shell, "Skip"), pre_flights(shell, "Success")) == (1, None)


async def test_a_pod_that_names_its_node_already_is_not_written_again(shell: PermitShell) -> None:
    shell.extend(pre_bind=(Noting(shell, "a"),))
    shell.store_pod(status={"nominatedNodeName": "node-a"})
    await shell.start()
    await shell.settle()

    assert shell.api.verbs == ["POST"]


async def test_a_binding_goes_on_if_its_node_can_not_be_written(shell: PermitShell) -> None:
    shell.extend(pre_bind=(Noting(shell, "a"),))
    shell.api.fails(ServerError("etcd is down", status=500))
    await shell.start()
    await shell.settle()

    assert (shell.notes, shell.where, shell.bound) == (["pre_bind a"], None, True)


@pytest.mark.parametrize("seen", [False, True])
async def test_a_rejected_pod_names_no_node_any_more(held: PermitShell, seen: bool) -> None:
    """The name is removed whether the watch has shown it by then or not."""
    if seen:
        held.see_pod()
    held.waiting_pod.reject("Gang", "too few members")
    await held.settle()

    assert held.nominations == ["node-a", None]
    stored = held.see_pod()
    assert (stored.status.nominated_node_name, held.cache.nominator.node_of(UID)) == ("", "")


async def test_the_name_of_a_node_does_not_keep_capacity_after_a_failure(shell: PermitShell) -> None:
    """A late event shows the name of the node again. That is no nomination of another process."""
    shell.extend(pre_bind=(Noting(shell, "a", pre_bind=Status(Code.ERROR, ("no disk",))),))
    shell.api.gate.clear()
    await shell.start()
    shell.add(pod(status={"nominatedNodeName": "node-a"}))
    shell.api.gate.set()
    await shell.settle()
    shell.add(pod(status={"nominatedNodeName": "node-a"}, annotations={"noted": "yes"}))

    assert shell.nominations == ["node-a", None]
    assert (shell.cache.nominator.node_of(UID), shell.where) == ("", QueueName.BACKOFF)


@pytest.mark.parametrize(
    ("answer", "text", "faults"),
    [
        (Status(Code.ERROR, ("no disk",)), "no disk", []),
        (Status(Code.UNSCHEDULABLE, ("no disk",)), "no disk", []),
        (LookupError("a bug"), "LookupError: a bug", ["binding shop/web-0: a bug"]),
    ],
)
async def test_a_failed_pre_flight_is_an_error_of_its_pod(
    shell: PermitShell, answer: Status | Exception, text: str, faults: list[str]
) -> None:
    first, second = Noting(shell, "a"), Noting(shell, "b", pre_flight=answer)
    shell.extend(permit=(Gang(shell.handle, {}),), reserve=(first, second), pre_bind=(first, second))
    await shell.start()
    await shell.settle()

    assert shell.notes == ["reserve a", "reserve b", "unreserve b", "unreserve a"]
    assert (shell.used(), shell.where, list(shell.decider.waiting_pods)) == (0, QueueName.BACKOFF, [])
    assert shell.recorder.told[0].note == f'running PreBindPreFlight plugin "Noting": {text}'
    assert (shell.isolation.faults, shell.nominations, pre_flights(shell, "Error")) == (faults, [], 1)


async def test_a_pod_that_is_preempted_during_prebind_is_not_deleted(shell: PermitShell) -> None:
    shell.extend(reserve=(Noting(shell, "a"),), pre_bind=(Lasting(shell, "a"), Noting(shell, "b")))
    await shell.start()
    assert shell.decider.reject_waiting(UID)
    assert not shell.decider.reject_waiting(UID)
    await shell.settle()

    assert shell.notes == ["reserve a", "pre_bind a", "unreserve a"]
    assert (shell.used(), shell.where, shell.bound) == (0, QueueName.BACKOFF, False)
    assert shell.recorder.told[0].note == 'running PreBind plugin "Noting": preempted by DefaultPreemption'
    assert (shell.nominations, shell.isolation.faults) == (["node-a", None], [])


async def test_a_pod_after_prebind_can_only_be_deleted(shell: PermitShell) -> None:
    shell.extend(pre_bind=(Noting(shell, "a"),))
    await shell.start()
    await shell.settle()

    assert shell.notes == ["pre_bind a"]
    assert not shell.decider.reject_waiting(UID)


async def test_the_end_of_the_process_during_prebind_is_no_preemption(shell: PermitShell) -> None:
    shell.extend(pre_bind=(Lasting(shell, "a"),))
    await shell.start()
    await shell.tasks.drain(0.0)

    assert (len(shell.tasks), shell.where, shell.recorder.told) == (0, QueueName.IN_FLIGHT, [])
