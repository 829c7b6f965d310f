"""What the operator does wrong is found: one that has a fault planted in it does not pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devcluster import LocalCluster
from faults.plan import Fault, Plan, Step
from faults.trial import play
from tidelock.cluster.columns import Columns
from tidelock.kube.watch import Reflector
from tidelock.ledger import book, entry
from tidelock.model.meta import Key
from tidelock.scheduler.feed import ReservationSink
from tidelock.scheduler.publisher import Publisher

# Seconds of the loop in which an operator with a fault is given up that does not come to rest.
_PATIENCE = 100.0

Plant = Callable[[pytest.MonkeyPatch], None]

_LOCK = Step(
    None,
    "lock",
    {
        "number": 0,
        "cpu": "3",
        "node": "a",
        "owner": 0,
        "retention": "Retain",
        "priority": 0,
        "deadline": 600,
        "ttl": 600,
    },
)
_OWNER = Step(None, "pod", {"number": 0, "cpu": "3", "requires": False, "app": "web"})
_ANOTHER = Step(None, "pod", {"number": 1, "cpu": "3", "requires": False, "app": "web"})
_ASKED_TO_END = Step(None, "end pod", {"number": 0})
_ENDED = Step(0.0, "end pod", {"number": 0})
_CRASH = Step(None, "crash")
_LATER = Step(None, "clock jumps", {"seconds": 1000})
_DELETED = Step(None, "delete lock", {"number": 0})


def _locks_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Columns, "lock", lambda *_: None)


def _locks_are_forgotten_at_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        book, "adopt", lambda lock, now: entry.Entry(lock, seen_waiting_at=now, pending_since=now)
    )


def _locks_do_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry.Entry, "deadline", lambda _: None)


def _deleted_locks_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReservationSink, "remove", lambda *_: None)


def _deletions_in_a_gap_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = Reflector._deliver_page

    async def deliver_all(self: Reflector[Any], page: Any, present: set[Any]) -> None:
        await deliver(self, page, present)
        present.update(self._store)

    monkeypatch.setattr(Reflector, "_deliver_page", deliver_all)


def _statuses_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def write_once(self: Publisher, key: Key) -> None:
        await self._write_once(key)

    monkeypatch.setattr(Publisher, "_write", write_once)


@pytest.mark.parametrize(
    ("plant", "broken", "steps", "faults"),
    [
        (_locks_are_not_counted, "I1", (_LOCK, _ANOTHER), {}),
        (_locks_are_forgotten_at_a_start, "I4", (_LOCK, _CRASH), {}),
        (_locks_do_not_expire, "I5", (_LOCK, _LATER), {}),
        (_deleted_locks_stay, "I5", (_LOCK, _DELETED), {}),
        (
            _deletions_in_a_gap_are_missed,
            "I5",
            (_OWNER, _ASKED_TO_END, _ENDED),
            {("line pods", 3): Fault("gap", 10_000.0)},  # it ends with the calm
        ),
        (_statuses_are_written_once, "I5", (_LOCK,), {}),
    ],
)
def test_a_planted_fault_is_found(
    bare_cluster: LocalCluster,
    operator_identity: Path,
    monkeypatch: pytest.MonkeyPatch,
    plant: Plant,
    broken: str,
    steps: tuple[Step, ...],
    faults: dict[tuple[str, int], Fault],
) -> None:
    plan = Plan(0, {"a": "4"}, disturbed=False, steps=steps, faults=faults)

    assert play(bare_cluster.kubeconfig, operator_identity, plan).violations == []
    plant(monkeypatch)
    verdict = play(bare_cluster.kubeconfig, operator_identity, plan, _PATIENCE)
    assert any(each.startswith(broken) for each in verdict.violations)
