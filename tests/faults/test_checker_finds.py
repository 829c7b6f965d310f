"""Faults that are planted in the operator, each of which the checker must find."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from devcluster import LocalCluster
from faults.kinds import DEVICES, LEVELS
from faults.plan import Fault, Plan, Step
from faults.runner import run_plan
from tidelock.cluster.columns import Columns
from tidelock.cluster.index.reserved_devices import ReservedDevices
from tidelock.cluster.nominator import Nominator
from tidelock.handlers.supervision import SupervisedOperator
from tidelock.kube.watch import Reflector
from tidelock.ledger import answers, ledger, reservation_info
from tidelock.ledger.capacity import sharing
from tidelock.ledger.capacity.placement import Placement
from tidelock.ledger.lifecycle import choices, deadlines
from tidelock.ledger.lifecycle.leases import LeaseState
from tidelock.ledger.lifecycle.two_phase import TwoPhaseState
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.sets.groups import Group
from tidelock.model.meta import Key
from tidelock.model.reservation_schedule import ReservationSchedule
from tidelock.scheduler.actions.evictions import Evictor
from tidelock.scheduler.actions.status_writer import StatusWriter
from tidelock.scheduler.controllers.quotes import QuoteController
from tidelock.scheduler.controllers.schedules import ScheduleController
from tidelock.scheduler.defrag import controller
from tidelock.scheduler.defrag.controller import DefragmentationController
from tidelock.scheduler.informers.event_handlers import ReservationEventHandler

# Seconds of the loop after which a faulty operator that does not come to rest is given up.
_PATIENCE = 100.0

Plant = Callable[[pytest.MonkeyPatch], None]

_ASKED: dict[str, Any] = {
    "number": 0,
    "cpu": "3",
    "node": "a",
    "owner": 0,
    "retention": "Retain",
    "priority": 0,
    "deadline": 600,
    "ttl": 600,
}


def _reservation(**fields: Any) -> Step:
    return Step(None, "lock", _ASKED | fields)


_LOCK = _reservation()
_OWNER = Step(None, "pod", {"number": 0, "cpu": "3", "requires": False, "app": "web"})
_ANOTHER = Step(None, "pod", {"number": 1, "cpu": "3", "requires": False, "app": "web"})
_ASKED_TO_END = Step(None, "end pod", {"number": 0})
_ENDED = Step(0.0, "end pod", {"number": 0})
_CRASH = Step(None, "crash")
_LATER = Step(None, "clock jumps", {"seconds": 1000})
_DELETED = Step(None, "delete lock", {"number": 0})


def _answered(fate: str) -> Step:
    return _reservation(answer={"fate": fate, "seconds": 20.0})


def _reservations_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Columns, "reservation", lambda *_: None)


def _reserved_devices_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReservedDevices, "put", lambda *_: None)


def _former_owners_are_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Placement, "_note_former_owners", lambda *_: None)


def _reservations_are_forgotten_at_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ledger,
        "restore",
        lambda reservation, now: reservation_info.ReservationInfo(
            reservation, seen_waiting_at=now, pending_since=now
        ),
    )


def _kopf_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(self: SupervisedOperator, stop: asyncio.Event, ended: asyncio.Event) -> None:
        await self._run_once(stop, ended)
        await ended.wait()

    monkeypatch.setattr(SupervisedOperator, "run", run)


def _reservations_do_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "next_due", lambda _: None)


def _deleted_reservations_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReservationEventHandler, "remove", lambda *_: None)


def _deletions_in_a_gap_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = Reflector._deliver_page

    async def deliver_all(self: Reflector[Any], page: Any, present: set[Any]) -> None:
        await deliver(self, page, present)
        present.update(self._store)

    monkeypatch.setattr(Reflector, "_deliver_page", deliver_all)


def _statuses_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def write_once(self: StatusWriter, key: Key, *_: object) -> None:
        await self._write_difference(key)

    monkeypatch.setattr(StatusWriter, "_write", write_once)


def _groups_are_given_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Group, "stored", True)


def _answers_are_forgotten_at_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers.Answers, "resume", lambda *_: None)


def _answers_lapse_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "UNSEEN_SECONDS", 0.2)  # after the decision, and before the object comes


def _answers_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers.Answers, "take", lambda *_: answers.FirstStatus({}))


def _leases_do_not_lapse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaseState, "due", inf)


def _commits_are_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TwoPhaseState, "committed", lambda self, *_: self)


def _all_of_a_set_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices.Choices, "_end_superseded", lambda *_: None)


def _owners_use_no_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_may_use", lambda *_: False)


def _nobody_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave_alone(*_: object) -> None:
        pass

    monkeypatch.setattr(Evictor, "_evict", leave_alone)


def _quotas_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quotas, "problem", lambda *_: "")


def _quotes_are_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuoteController, "_differs", lambda *_: False)


def _all_is_approved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "approved", lambda *_: True)


def _room_is_not_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nominator, "rivals", lambda *_: {})


def _plans_are_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DefragmentationController, "next_victim", lambda *_: None)


def _begun_windows_are_forgotten_at_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReservationSchedule, "last_start", lambda *_: 0.0)
    monkeypatch.setattr(ScheduleController, "_is_unacknowledged", lambda *_: False)


def _suspension_is_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    def to_come(self: ReservationSchedule, now: float) -> list[float]:
        return list(islice(self.timetable.after(now), 1)) if self.timetable is not None else []

    monkeypatch.setattr(ReservationSchedule, "to_come", to_come)


_SCHEDULE = Step(
    None,
    "schedule",
    {
        "number": 0,
        "spec": {
            "schedule": "* * * * *",
            "durationSeconds": 200,
            "template": {"spec": {"resources": {"cpu": "1"}, "owners": [{"pod": {"name": "web-0"}}]}},
        },
    },
)
_A_WINDOW_BEGINS = Step(None, "a minute begins", {"offset": 2.0})
_SUSPENDED = Step(None, "edit schedule", {"number": 0, "spec": {"suspend": True}})
_GROUP = Step(
    None,
    "group",
    {
        "number": 0,
        "members": [{"name": "worker", "count": 2, "cpu": "1"}],
        "least": None,
        "spread": False,
        "retention": "Retain",
        "priority": 0,
        "deadline": 600,
        "ttl": 600,
    },
)
_A_MINUTE_LATER = Step(5.0, "clock jumps", {"seconds": 60})
# Kopf tries once again by itself.
_KOPF_IS_REFUSED = {("watch waterlevels by Kopf", number): Fault("refused", code=403) for number in (1, 2)}
_LEVEL = Step(5.0, "water level", {"number": 0, "refresh": 30})
_COMMIT = Step(5.0, "commit lock", {"number": 0, "stale": False})
_QUOTE = Step(None, "quote", {"number": 0, "cpu": "1", "node": "", "ttl": 300})
_QUOTA = Step(None, "quota", {"number": 0, "spec": {"hard": {"cpu": "2"}}})
_BORROWER = Step(None, "borrower", {"number": 0, "cpu": "3"})
_SMALL = Step(None, "pod", {"number": 0, "cpu": "1", "requires": True, "app": "web"})
_FRAGMENTED = (
    Step(None, "part", {"number": 0, "cpu": "1", "grace": 20, "stays": False}),
    Step(5.0, "replace node", {"node": "b"}),
)
_MOVED = _reservation(cpu="4", owner=3, also={"mayMove": {"maxPods": 1, "automatically": True}})
_RIVALS = (
    Step(1.0, "pod", {"number": 1, "cpu": "4", "requires": False, "app": "db"}),
    Step(1.0, "pod", {"number": 2, "cpu": "3", "requires": False, "app": "db"}),
)
_CLAIMERS = [
    Step(5.0, "pod", {"number": number, "cpu": "1", "requires": False, "app": "db", "gpu": "claim"})
    for number in range(3)
]
_CLAIMING = (_reservation(cpu="1", gpu="claim"), *_CLAIMERS[1:])
_BY_NAME = (
    _reservation(cpu="1", gpu="1"),
    *(replace(each, arguments={**each.arguments, "gpu": "1"}) for each in _CLAIMERS[1:]),
)
_FORMER_OWNER = (
    _reservation(cpu="1", gpu="claim", also={"reuse": "Always"}),
    _CLAIMERS[0],
    Step(5.0, "edit lock", {"number": 0, "spec": {"owners": [{"pod": {"name": "web-3"}}]}}),
)


def _at_night(*values: object) -> ParameterSet:
    """Return a case that `make test` leaves out: a pure history in test_rules_*.py breaks the same rule."""
    return pytest.param(*values, marks=pytest.mark.nightly)


@pytest.mark.parametrize(
    ("plant", "broken", "steps", "faults"),
    [
        _at_night(_reservations_are_not_counted, "I1", (_LOCK, _ANOTHER), {}),
        (_reserved_devices_are_not_counted, "I1", _CLAIMING, {}),
        _at_night(_reserved_devices_are_not_counted, "I1", _BY_NAME, {}),
        # Owners can be edited until a status reports that the reservation is active.
        _at_night(_former_owners_are_not_noted, "I1", _FORMER_OWNER, {("status", 1): Fault("late", 20.0)}),
        (_reservations_are_forgotten_at_a_start, "I4", (_LOCK, _CRASH), {}),
        (_reservations_do_not_expire, "I5", (_LOCK, _LATER), {}),
        (_deleted_reservations_stay, "I5", (_LOCK, _DELETED), {}),
        (
            _deletions_in_a_gap_are_missed,
            "I5",
            (_OWNER, _ASKED_TO_END, _ENDED),
            {("line pods", 3): Fault("gap", 10_000.0)},  # it ends when the faults stop
        ),
        (_statuses_are_written_once, "I5", (_LOCK,), {}),
        # One member is given before the other is stored.
        (_groups_are_given_at_once, "I1", (_GROUP,), {("status", 2): Fault("late", 20.0)}),
        (
            _leases_do_not_lapse,
            "I3",
            (_reservation(also={"lease": {"durationSeconds": 5}}), _A_MINUTE_LATER),
            {},
        ),
        _at_night(
            _commits_are_not_heard, "I5", (_reservation(also={"commit": {"withinSeconds": 600}}), _COMMIT), {}
        ),
        (
            _all_of_a_set_are_given,
            "I2",
            tuple(_reservation(number=number, cpu="1", also={"anyOf": "one"}) for number in (0, 1)),
            {},
        ),
        (_owners_use_no_reservation, "I5", (_reservation(also={"reuse": "Always"}), _SMALL), {}),
        (_nobody_is_evicted, "I5", (_reservation(also={"borrowable": True}), _BORROWER, _OWNER), {}),
        _at_night(_quotas_are_not_asked, "I1", (_QUOTA, replace(_LOCK, pause=20.0)), {}),
        (_quotes_are_not_answered, "I5", (_QUOTE,), {}),
        _at_night(_reservations_are_not_counted, "I1", (_reservation(starts_in=90), _ANOTHER), {}),
        _at_night(_all_is_approved, "I2", (*_FRAGMENTED, _reservation(cpu="4", also={"mayMove": {}})), {}),
        _at_night(_room_is_not_set_aside, "I1", (*_FRAGMENTED, _MOVED, *_RIVALS), {}),
        _at_night(_plans_are_not_carried_out, "I5", (*_FRAGMENTED, _MOVED), {}),
        _at_night(
            _begun_windows_are_forgotten_at_a_start,
            "I2",
            (_SCHEDULE, _A_WINDOW_BEGINS, _SMALL, replace(_CRASH, pause=5.0)),
            {},
        ),
        _at_night(_suspension_is_not_heard, "I5", (_SCHEDULE, _SUSPENDED), {}),
        (_kopf_is_not_started_again, "I5", (_LEVEL,), _KOPF_IS_REFUSED),
        (
            _answers_are_forgotten_at_a_start,
            "I2",
            (_answered("stored"),),
            {("creation", 1): Fault("crash after")},
        ),
        _at_night(_answers_lapse_at_once, "I1", (_answered("delayed"), replace(_ANOTHER, pause=1.0)), {}),
        _at_night(_answers_are_not_taken, "I2", (_answered("stored"),), {}),
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
    claims = any("gpu" in step.arguments for step in steps)
    kinds = [kind.name for kind, drawn in ((LEVELS, _LEVEL in steps), (DEVICES, claims)) if drawn]
    plan = Plan(0, {"a": "4"}, disturbed=False, steps=steps, faults=faults, kinds=tuple(kinds))

    assert run_plan(bare_cluster.kubeconfig, operator_identity, plan).violations == []
    plant(monkeypatch)
    verdict = run_plan(bare_cluster.kubeconfig, operator_identity, plan, _PATIENCE)
    assert any(each.startswith(broken) for each in verdict.violations)
