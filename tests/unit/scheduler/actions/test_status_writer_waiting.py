"""Statuses of Reservations that wait: few are written at once, and none of them keeps the others waiting."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

from builders import NAMESPACE, Json, node
from tidelock.kube.errors import ApiError, Invalid, ServerError
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from unit.scheduler.fake_api import FakeApi
from unit.scheduler.machinery import Shell, lock_path, turns

MILL = "mill"
"""A namespace with statuses that can't be written, beside that of the other tests."""
REFUSED = Invalid("status.phase: unsupported value", status=422)
PASSING = ServerError("etcd is away", status=500)


async def flush_often(shell: Shell) -> None:
    """Run the decision loop's part many times, without the end of a pause or of a turn."""
    for _ in range(50):
        shell.flush()
        await turns()


def statuses(shell: Shell, namespace: str) -> list[Json]:
    collection = lock_path("", namespace)
    return [each.get("status", {}) for path, each in shell.api.objects.items() if path.startswith(collection)]


async def take_all_turns(shell: Shell, stack: AsyncExitStack, namespace: str) -> None:
    for _ in range(8):
        await stack.enter_async_context(shell.tasks.turn.of(namespace))


@pytest.mark.parametrize("error", [REFUSED, PASSING], ids=lambda error: type(error).__name__)
async def test_statuses_that_are_never_written_keep_no_other_waiting(error: ApiError) -> None:
    """Regression: each refused write kept one of two places through pauses of up to a minute."""
    shell = Shell()
    for index in range(20):
        shell.store_reservation(f"lock-{index}", namespace=MILL)
        shell.api.refuses_paths[lock_path(f"lock-{index}", MILL)] = error
    await flush_often(shell)
    shell.store_reservation()
    await flush_often(shell)

    assert shell.stored_status()["phase"] == "Pending"
    assert len(shell.api.asked) == 21
    assert len(shell.tasks) == 0


async def test_statuses_without_the_fields_of_an_older_crd_keep_no_other_waiting() -> None:
    """Regression: the API server dropped a field, so two statuses were written again for ever.

    No other Reservation that waited got a status.
    """
    shell = Shell()
    shell.api.unknown_fields = frozenset({"observedGeneration"})
    for index in range(20):
        shell.store_reservation(f"lock-{index}", namespace=MILL)
    await flush_often(shell)
    shell.store_reservation()
    await flush_often(shell)

    assert shell.stored_status()["phase"] == "Pending"
    assert {each["phase"] for each in statuses(shell, MILL)} == {"Pending"}
    labels = {"write": "reservation", "reason": "NoEffect"}
    assert shell.metric("tidelock_api_write_errors_total", **labels) == 21


async def test_a_namespace_whose_turns_never_come_keeps_no_other_waiting() -> None:
    """Regression: the statuses of a namespace with 577 schedules waited for its turns, in both places."""
    shell = Shell()
    for index in range(5):
        shell.store_reservation(f"lock-{index}", namespace=MILL)
    async with AsyncExitStack() as stack:
        await take_all_turns(shell, stack, MILL)
        await flush_often(shell)
        shell.store_reservation()
        await flush_often(shell)

        assert shell.stored_status()["phase"] == "Pending"
        assert {each["phase"] for each in statuses(shell, MILL)} == {"Pending"}


async def test_a_grant_that_waits_for_its_namespace_and_is_lost_again_keeps_no_place() -> None:
    """Regression: a write under way was taken for that of the status that reports the wait."""
    shell = Shell(node("node-a", cpu="8"))
    for index in range(5):
        shell.store_reservation(f"lock-{index}", namespace=MILL)
    shell.decide()
    async with AsyncExitStack() as stack:
        await take_all_turns(shell, stack, MILL)
        await flush_often(shell)
        shell.event_handlers.nodes.upsert(node("node-a", cpu="8"), node("node-a", cpu="10m", version=2))
        shell.decide()
        await flush_often(shell)
        shell.store_reservation()
        await flush_often(shell)

        assert shell.stored_status()["phase"] == "Pending"
    await shell.publish()
    assert {each["phase"] for each in statuses(shell, MILL)} == {"Pending"}


class AlteringApi(FakeApi):
    """Stores something else than was sent in each status of a namespace, as a webhook would."""

    def _carry_out(self, method: str, path: str, body: Any) -> Json:
        if method == "PUT" and f"/{MILL}/" in path:
            body = body | {"status": body["status"] | {"seen": len(self.asked)}}
        return super()._carry_out(method, path, body)


async def test_statuses_that_another_program_alters_at_once_keep_no_other_waiting() -> None:
    """Regression: two such statuses were written again and again in the two places."""
    shell = Shell(api=AlteringApi())
    for index in range(5):
        shell.store_reservation(f"lock-{index}", namespace=MILL)
    await flush_often(shell)
    shell.store_reservation()
    await flush_often(shell)

    assert shell.stored_status()["phase"] == "Pending"
    assert len(shell.api.asked) == 6


async def test_a_reservation_that_gets_capacity_reports_it_though_its_last_status_was_refused() -> None:
    """Regression: the grant was reported after a pause of up to a minute, which the refusal had begun."""
    shell = Shell()
    shell.store_reservation(pendingDeadlineSeconds=3600)
    shell.api.fails(REFUSED)
    await shell.publish()
    shell.event_handlers.nodes.upsert(None, node("node-a"))
    shell.decide()
    await shell.publish()

    assert shell.ledger.entries[Key(NAMESPACE, "lock")].phase is Phase.ACTIVE
    assert shell.stored_status()["phase"] == "Active"


async def test_a_reservation_that_gets_capacity_while_a_status_is_refused_reports_it_at_once() -> None:
    shell = Shell()
    shell.store_reservation()
    shell.api.fails(REFUSED)
    shell.api.gate.clear()
    await flush_often(shell)
    shell.event_handlers.nodes.upsert(None, node("node-a"))
    shell.decide()
    shell.flush()
    shell.api.gate.set()
    await shell.publish()

    assert shell.stored_status()["phase"] == "Active"


async def names_in_a_status(*, capacity: bool) -> set[str]:
    shell = await waiting_or_active(frozenset(), capacity=capacity)
    return set(_names(shell.stored_status()))


async def waiting_or_active(unknown: frozenset[str], *, capacity: bool) -> Shell:
    shell = Shell(*[node("node-a")] if capacity else [])
    shell.api.unknown_fields = unknown
    shell.store_reservation()
    shell.decide()
    await shell.publish()
    return shell


def _names(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [name for key, each in value.items() for name in (key, *_names(each))]
    return [name for each in value for name in _names(each)] if isinstance(value, list) else []


@pytest.mark.parametrize("capacity", [False, True], ids=["waiting", "active"])
async def test_whatever_field_an_older_crd_lacks_its_statuses_are_written_ever_less(capacity: bool) -> None:
    names = await names_in_a_status(capacity=capacity)
    assert {"phase", "conditions", "reason", "lastTransitionTime"} <= names
    for name in names:
        shell = await waiting_or_active(frozenset({name}), capacity=capacity)
        for _ in range(20):
            assert shell.tasks.await_pause(), name
            shell.see_reservation()
            await shell.publish()
        assert len(shell.api.asked) <= 2 * 21, name
        assert min(shell.tasks.pauses[12:]) >= 30, name
