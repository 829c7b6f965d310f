"""Proof that the operator kept its promises, from the API's history and with no knowledge of its code.

I1: no node is overcommitted, at any version, by bound pods and Active reservations that these do not own.
I2: a reservation has one holder. It becomes active once, one bound pod consumes it, and its end is final.
I3: at rest, no reservation is Active after its expiry or beside its bound owner.
I4 (memory equals the API) and I5 (the operator converges) need the operator at rest, see `rest`.

Each kind of reservation has rules of its own, which refine these.
"""

from collections.abc import Sequence
from typing import Protocol

from faults.answering import Answering, answered
from faults.choices import Choices
from faults.claiming import Claiming
from faults.deadlines import Deadlines
from faults.gangs import Gangs
from faults.history import Change, Json
from faults.holds import Holds
from faults.leases import Leases
from faults.moves import Moves
from faults.quoting import Quoting
from faults.reading import (
    expiry,
    holds,
    is_on,
    phase_of,
    reason_of,
    says,
)
from faults.schedules import Schedules
from faults.sharing import Sharing, excess
from faults.usage import Usage
from faults.windows import Windows
from faults.world import ROOMLESS, Circumstances, World

_FINAL = {"Consumed", "Expired", "Lost"}
_TROUBLED = {"Overcommitted", "Violated", "NodeLost"}


class Rule(Protocol):
    """Conditions that must hold for one kind of objects."""

    def see(self, each: Change, before: Json | None) -> None:
        """Check one version against the version before it."""

    def see_rest(self, now: float) -> None:
        """Check the state of an operator that has nothing left to do."""

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return whether the history explains the end of Active by a reason, or a deletion by "Deleted"."""


class Checker:
    """Replays a history and collects the violations in it."""

    def __init__(self, circumstances: Circumstances) -> None:
        self._world = World(circumstances)
        self._activated: dict[str, str] = {}
        self._overcommitted: set[tuple[str, ...]] = set()  # each is reported once, at its first version
        self._rules: list[Rule] = [
            rule(self._world)
            for rule in (
                *(Deadlines, Leases, Holds, Gangs, Choices, Sharing),
                *(Usage, Quoting, Windows, Schedules, Moves, Answering, Claiming),
            )
        ]

    def replay(self, changes: Sequence[Change]) -> list[str]:
        """Check every version, and return the violations."""
        self._world.expect_answers(changes)
        for each in (answered(each, self._world.answered) for each in changes):
            before = self._world.take(each)
            if each.kind == "reservations":
                self._check_reservation(each, before)
            for rule in self._rules:
                rule.see(each, before)
            self._check_room(each)
        return self._world.found

    def check_rest(self, changes: Sequence[Change], now: float) -> list[str]:
        """Check the last state of a history, given that the operator has nothing left to do."""
        self.replay(changes)
        world = self._world
        for name, reservation in world.reservations.items():
            if not holds(reservation):
                continue
            world.expect(expiry(reservation) > now, f"I3: {name} is Active after its expiry")
            lasts = reservation["spec"].get("reuse") == "Always" or "group" in reservation["spec"]
            owner = None if lasts else world.ending_owner(reservation)
            world.expect(owner is None, f"I3: {name} is Active beside its bound owner")
            on_node, node = (
                reservation["status"]["nodeName"],
                world.nodes.get(reservation["status"]["nodeName"]),
            )
            there = node is not None and node["metadata"]["uid"] == reservation["status"]["nodeUID"]
            world.expect(there, f"I1: {name} is Active on {on_node}, which is another or gone")
        for name in world.nodes:
            held = [
                reservation
                for reservation in world.reservations.values()
                if holds(reservation) and is_on(reservation, world.nodes[name])
            ]
            over = excess(world, name, held)
            by_reservations = over != excess(world, name, [])  # one in use takes no capacity
            world.expect(not by_reservations, f"I1: {name} is overcommitted at rest by {over}")
        for rule in self._rules:
            rule.see_rest(now)
        return world.found

    # Reservations.

    def _check_reservation(self, each: Change, before: Json | None) -> None:
        world = self._world
        if each.gone:
            self._check_deletion(each, each.state if before is None else before)
            return
        activated = each.state.get("status", {}).get("activatedAt", "")
        known = self._activated.setdefault(each.uid, activated)
        world.expect(known in ("", activated), f"I2: {each} was given at {known} before")
        self._activated[each.uid] = activated
        if before is None:
            return
        assert before["metadata"]["uid"] == each.uid, f"{each}: a deletion is missing"
        self._check_transition(each, before)

    def _check_transition(self, each: Change, before: Json) -> None:
        world, old, new = self._world, phase_of(before), phase_of(each.state)
        final = old in _FINAL
        world.expect(not final or old == new, f"I2: {each}: from {old} to {new}")
        holder, other = (state.get("status", {}).get("boundPod") for state in (before, each.state))
        changed = final and holder != other
        world.expect(not changed, f"I2: {each}: consumed by {holder} and then by {other}")
        if new == "Consumed" and old != "Consumed":
            bound = (other or {}).get("uid") in world.owners[each.uid]
            world.expect(bound, f"I2: {each}: consumed by {other}, which has not been bound")
        if says(before, "Active") and not says(each.state, "Active"):
            reason = reason_of(each.state)
            known = self._explains(reason, before, each)
            known = known or any(rule.explains(reason, before, each) for rule in self._rules)
            world.expect(known, f"I1: {each}: no reason for an end of Active ({reason})")

    def _check_deletion(self, each: Change, last: Json) -> None:
        if each.uid in self._world.circumstances.deleted:
            return
        settled = phase_of(last) in {*_FINAL, "Rejected"}
        over = settled or self._world.is_due(last, each) or bool(self._world.owners[each.uid])
        over = over or any(rule.explains("Deleted", last, each) for rule in self._rules)
        self._world.expect(over, f"I2: {each}: deleted by the operator while it was {phase_of(last)}")

    def _explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return whether the history explains why a plain reservation is no longer active."""
        world = self._world
        disturbed = before["status"].get("nodeName") in world.disturbed
        if reason == "Expired":
            return expiry(each.state) <= world.latest_shown(each.state, each)
        if reason == "Consumed":
            return bool(world.owners[each.uid])
        return reason in _TROUBLED | ROOMLESS and disturbed

    # Capacity.

    def _check_room(self, each: Change) -> None:
        world = self._world
        for name in world.nodes.keys() - world.disturbed:
            reservations = (
                reservation
                for reservation in world.reservations.values()
                if holds(reservation) and is_on(reservation, world.nodes[name])
            )
            held = [reservation for reservation in reservations if world.surely_has_room(reservation, each)]
            over = excess(world, name, held)
            names = sorted(reservation["metadata"]["name"] for reservation in held)
            if over and (name, *names) not in self._overcommitted:
                self._overcommitted.add((name, *names))
                world.expect(False, f"I1: {name} is overcommitted by {over}, with locks {names}, at {each}")
