"""What the operator does wrong is found: one that has a fault planted in it does not pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devcluster import LocalCluster
from faults.hasty import run
from faults.trial import try_seeds
from tidelock.cluster.columns import Columns
from tidelock.kube.watch import Reflector
from tidelock.ledger import book, entry
from tidelock.model.meta import Key
from tidelock.scheduler.publisher import Publisher

_SEEDS = range(12)
# Seconds of the loop: a sound operator is at rest after a few.
_PATIENCE = 100.0

Plant = Callable[[pytest.MonkeyPatch], None]


def _locks_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Columns, "lock", lambda *_: None)


def _locks_are_forgotten_at_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "adopt", lambda lock, now: entry.Entry(lock, seen_at=now, pending_since=now))


def _locks_do_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry.Entry, "deadline", lambda _: None)


def _deletions_in_a_gap_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = Reflector._deliver_page

    async def deliver_all(self: Reflector[Any], page: Any, present: set[Any]) -> None:
        await deliver(self, page, present)
        present.update(self._store)

    monkeypatch.setattr(Reflector, "_deliver_page", deliver_all)


def _claims_are_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book.Book, "unclaim", lambda *_: None)


def _statuses_are_never_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def write_once(self: Publisher, key: Key) -> None:
        await self._write_once(key)

    monkeypatch.setattr(Publisher, "_write", write_once)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        (_locks_are_not_counted, "I1"),
        (_locks_are_forgotten_at_a_start, "I2"),
        (_locks_do_not_expire, "I3"),
        (_deletions_in_a_gap_are_missed, "I5"),
        (_claims_are_not_given_back, "I4"),
        (_statuses_are_never_compared_again, "the operator has failed"),
    ],
)
def test_a_planted_fault_is_found(
    bare_cluster: LocalCluster,
    operator_identity: Path,
    monkeypatch: pytest.MonkeyPatch,
    plant: Plant,
    broken: str,
) -> None:
    plant(monkeypatch)
    verdicts = run(try_seeds(bare_cluster.kubeconfig, operator_identity, _SEEDS, _PATIENCE))
    found = [each for verdict in verdicts for each in verdict.violations]
    assert any(each.startswith(broken) for each in found), found
