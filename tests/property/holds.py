"""Invariants of two-phase reservations, and of sets of alternatives."""

from collections import defaultdict
from itertools import pairwise

from builders import Json
from property.process import Process
from tidelock.ledger.lifecycle.transitions import GIVEN, SETTLED, Event
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import parse_instant
from tidelock.model.reservation import Reservation


class HoldObserver:
    """An observer with its own record of commit deadlines, and of the sets that have been decided."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}  # by token
        self._token: dict[str, str] = {}  # the newest of each reservation
        self._decided: set[str] = set()

    def check(self, process: Process) -> None:
        """Check that a hold ends at its commit deadline, not before, and that a set has one choice."""
        for entry in process.ledger.entries.values():
            self._follow(process, entry)
        if process.event_handlers.ready:
            self._check_sets(process)
        for change in process.effects.transitions:
            spec = process.api.reservations.versions[change.meta.uid][-1].spec
            if change.event is Event.ADMIT and spec is not None and spec.any_of and spec.commit is None:
                self._decided.add(spec.any_of)  # also if it is preempted in the same step
            if change.event is Event.ABORT and change.reason == reasons.NOT_COMMITTED:
                assert change.at >= self._until[self._token[change.meta.uid]], change.meta.key
            elif change.event is Event.ABORT:
                assert spec is None or spec.any_of in self._decided, change.meta.key

    def _follow(self, process: Process, entry: ReservationInfo) -> None:
        spec, hold = entry.reservation.spec, entry.hold
        if spec is None or spec.commit is None or hold is None or entry.phase not in GIVEN:
            return
        until = process.clock.now() + spec.commit.within_seconds
        self._until.setdefault(hold.token, until)
        self._token[entry.uid] = hold.token
        if entry.phase is Phase.BOUND:
            return  # it may have been claimed in the step that granted it
        tokens = (v.spec.commit.token for v in _versions(process, entry) if v.spec and v.spec.commit)
        assert hold.committed_at is None or hold.token in tokens, (
            f"{entry.key} was committed with a token that its spec never had"
        )
        if hold.committed_at is None and process.event_handlers.ready:
            assert hold.due is not None
            assert hold.due > process.decided_at, f"{entry.key} is held beyond its commit deadline"

    def _check_sets(self, process: Process) -> None:
        for name, members in _sets(process).items():
            # A reservation that was being claimed when another was chosen may still be consumed after that.
            chosen = sorted(filter(_is_chosen, members), key=lambda each: (each.chosen_at or 0.0, each.key))
            # The chosen reservation may have been claimed in the same step.
            if chosen or any(each.phase is Phase.BOUND and each.chosen_at is not None for each in members):
                self._decided.add(name)
            if not chosen:
                continue
            known = [each for each in members if each not in process.ledger._choices.undecided]
            held = [each.key for each in known if each.reserved and each is not chosen[0]]
            assert not held, f"{held} hold capacity beside {chosen[0].key}"
            over = all(each in chosen or each.phase in (*SETTLED, Phase.BOUND) for each in known)
            assert over, f"{[(each.key, each.phase) for each in known]} beside {chosen[0].key}"


def check_stored_holds(process: Process) -> None:
    """Check that the stored objects alone show each hold, and that no version contradicts another."""
    now = process.clock.now()
    for reservation in process.api.reservations.decoded.values():
        told: list[Json] = [
            version.status["commit"]
            for version in process.api.reservations.versions[reservation.meta.uid]
            if "commit" in version.status
        ]
        numbers = [each["holds"] for each in told]
        assert numbers == sorted(numbers), f"{reservation.key} had the holds {numbers}"
        for before, after in pairwise(told):
            if "token" in before and before["holds"] == after["holds"] and "token" in after:
                assert before.items() <= after.items(), reservation.key
            assert "token" in before or "token" not in after or before["holds"] < after["holds"], (
                reservation.key
            )
        phase, commit = Phase(reservation.status["phase"]), reservation.status.get("commit", {})
        two_phases = reservation.spec is not None and reservation.spec.commit is not None
        conditions = {each["type"]: each["status"] for each in reservation.status["conditions"]}
        assert ("Committed" in conditions) == two_phases, reservation.key
        if two_phases:
            assert (conditions["Committed"] == "True") == ("committedAt" in commit), reservation.key
        if two_phases and phase is Phase.ACTIVE and "committedAt" not in commit:
            assert reservation.spec is not None
            assert reservation.spec.commit is not None
            assert reservation.spec.commit.token != commit["token"], (
                f"the commit of {reservation.key} was ignored"
            )
            assert parse_instant(commit["dueAt"]) > now, f"{reservation.key} was not committed in time"


def _is_chosen(entry: ReservationInfo) -> bool:
    if entry.phase is Phase.CONSUMED:
        return True
    return entry.phase is Phase.ACTIVE and (entry.hold is None or entry.hold.committed_at is not None)


def _sets(process: Process) -> dict[str, list[ReservationInfo]]:
    sets: defaultdict[str, list[ReservationInfo]] = defaultdict(list)
    for entry in process.ledger.entries.values():
        if entry.reservation.spec is not None and entry.reservation.spec.any_of is not None:
            sets[entry.reservation.spec.any_of].append(entry)
    return sets


def _versions(process: Process, entry: ReservationInfo) -> list[Reservation]:
    return process.api.reservations.versions[entry.uid]
