"""The state of a run at one version of its history, and facts from the versions before."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from faults.creations import Granted
from faults.history import Change, Json
from faults.observations import Delivery, Passed
from faults.reading import (
    amounts,
    asked_of,
    claims,
    due,
    has_taken,
    holds,
    is_bound,
    is_on,
    is_sound,
    may_be_owned_by,
    owns,
    phase_of,
    shrank,
)
from tidelock.model.instants import parse_instant

SLACK = 5.0
"""Seconds of the loop by which the checker's watch, or the operator's next request, may be late.

A claim on a reservation is no write, so it shows only in the requests about the owner.
"""

ROOMLESS = frozenset({"InsufficientCapacity", "NoMatchingNode", "NodeNotFound", "DeadlineExceeded"})
"""Reasons of a reservation that has lost its place and waits again, before any status reports the loss."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts for the checker beside the history."""

    asked: Sequence[Passed] = ()  # requests that came to the proxy
    foreign: Collection[str] = ()  # uids of pods that others have bound
    deleted: Collection[str] = ()  # uids of reservations that others have deleted
    peaks: Sequence[tuple[float, float]] = ()  # the operator's clock before each jump, by loop time
    deliveries: Sequence[Delivery] = ()  # events and lists that the operator received
    crashes: Sequence[float] = ()  # loop times of the operator's crashes
    granted: Sequence[Granted] = ()  # objects that were stored with the answer to their creation


@dataclass
class World:
    """All objects by kind and name, and facts about their past.

    Attributes:
        objects: the newest state of each object that exists.
        found: the violations.
        disturbed: nodes that shrank, vanished, or were used by others.
        unsound: nodes that reservations for any node may have left.
        owners: uids of bound owners that end a reservation, by its uid. Former owners are included, if the
            operator had not received the edit.
        given_at: first activation of a reservation, by its uid and the loop's time.
        answered: uids of reservations whose answer the operator must keep, as soon as they are stored.
        doubtful: uids of those for which the operator's clock jumped before it received them.
        bound_at: first time that a pod was seen bound, by its uid and the operator's clock.

    """

    circumstances: Circumstances
    objects: defaultdict[str, dict[str, Json]] = field(default_factory=lambda: defaultdict(dict))
    found: list[str] = field(default_factory=list)
    disturbed: set[str] = field(default_factory=set)
    unsound: set[str] = field(default_factory=set)
    owners: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    given_at: dict[str, float] = field(default_factory=dict)
    bound_at: dict[str, float] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    _gave_back: set[str] = field(default_factory=set)  # those that shrank and grew again at once
    _edited: defaultdict[str, list[tuple[Change, Json]]] = field(default_factory=lambda: defaultdict(list))

    def expect_answers(self, changes: Iterable[Change]) -> None:
        """Note the answers in a history that the operator must keep."""
        stored = {each.uid: each for each in reversed([*changes]) if each.kind == "reservations"}
        for uid, at in self.circumstances.granted:
            told = self.delivered_at(stored[uid]) if uid in stored else None
            jumped = any(
                at <= then and (told is None or then <= told) for then, _ in self.circumstances.peaks
            )
            (self.doubtful if jumped else self.answered).add(uid)

    @property
    def nodes(self) -> dict[str, Json]:
        """All nodes by name."""
        return self.objects["nodes"]

    @property
    def pods(self) -> dict[str, Json]:
        """All pods by name."""
        return self.objects["pods"]

    @property
    def reservations(self) -> dict[str, Json]:
        """All Reservations by name."""
        return self.objects["reservations"]

    def expect(self, holds: bool, text: str) -> None:
        """Note a violation, once."""
        if not holds and text not in self.found:
            self.found.append(text)

    def take(self, each: Change) -> Json | None:
        """Advance by one version, and return the object's state before it."""
        known = self.objects[each.kind]
        before = known.pop(each.name, None)
        if not each.gone:
            known[each.name] = each.state
        if each.kind == "nodes":
            self._note_node(each, before)
        elif each.kind == "pods" and not each.gone:
            self._note_pod(each, before)
        elif each.kind == "reservations":
            if each.state.get("status", {}).get("activatedAt"):
                self.given_at.setdefault(each.uid, each.at)
            if before is not None:
                self._note_edit(each, before)
        for reservation in self.reservations.values():
            uid = reservation["metadata"]["uid"]
            for version in (reservation, *self.heard_of(uid, each.at)):
                owners = (pod for pod in self.bound_owners(version) if has_taken(version, pod))
                self.owners[uid].update(pod["metadata"]["uid"] for pod in owners)
        return before

    def heard_of(self, uid: str, at: float) -> Iterator[Json]:
        """Yield versions of a reservation with former owners, if the operator had not received the edit."""
        for edit, before in self._edited[uid]:
            told = self.delivered_at(edit)
            if told is None or told > at - SLACK:
                yield before

    def _note_edit(self, each: Change, before: Json) -> None:
        old, new = before["spec"], each.state["spec"]
        if old["owners"] != new["owners"]:
            self._edited[each.uid].append((each, before))
        asked, has = amounts(asked_of(old)), amounts(before.get("status", {}).get("resources", {}))
        if has != amounts(each.state.get("status", {}).get("resources", {})):
            self._gave_back.discard(each.uid)
        elif old != new and any(units > asked.get(name, 0) for name, units in has.items()):
            self._gave_back.add(each.uid)

    def _note_node(self, each: Change, before: Json | None) -> None:
        if each.gone or (before is not None and shrank(before, each.state)):
            self.disturbed.add(each.name)
        if not each.gone and before is not None and not is_sound(each.state):
            self.unsound.add(each.name)

    def _note_pod(self, each: Change, before: Json | None) -> None:
        node_name = each.state["spec"].get("nodeName", "")
        if node_name:
            self.bound_at.setdefault(each.uid, each.clock)
        if node_name and (before is None or each.uid in self.circumstances.foreign):
            self.disturbed.add(node_name)

    def bound_owners(self, reservation: Json) -> Iterator[Json]:
        """Return the owners of a reservation that are bound and not leaving."""
        return (pod for pod in self.pods.values() if is_bound(pod) and owns(reservation, pod))

    def ending_owner(self, reservation: Json) -> Json | None:
        """Return a bound owner that ends a reservation, unless it was bound before its window."""
        begins = reservation["spec"].get("startAt")
        came = float("-inf") if begins is None else parse_instant(begins) + SLACK
        owners = (pod for pod in self.bound_owners(reservation) if has_taken(reservation, pod))
        return next((pod for pod in owners if self.bound_at[pod["metadata"]["uid"]] >= came), None)

    def is_due(self, reservation: Json, each: Change) -> bool:
        """Return whether the operator's clock has shown the end of a reservation since its activation."""
        return due(reservation) <= self.latest_shown(reservation, each)

    def surely_has_room(self, reservation: Json, each: Change) -> bool:
        """Return whether an Active reservation certainly has its capacity, is not over and has not moved."""
        if (
            not holds(reservation)
            or self.is_due(reservation, each)
            or reservation["metadata"]["uid"] in self._gave_back
        ):
            return False
        if reservation["status"]["nodeName"] in self.unsound and "nodeName" not in reservation["spec"]:
            return False
        if "group" in reservation["spec"] and self._falls_short(reservation["spec"]["group"]):
            return False  # the rest of an incomplete group is given back at once
        if reservation["spec"].get("reuse") == "Always":
            return True  # its owners use it, and it stays active
        if self._may_have_ended(reservation, each):
            return False  # the status reports it as soon as it can be written
        taken = any(
            not self._took_another(pod, reservation)
            for pod in self.bound_owners(reservation)
            if _may_take(reservation, pod)
        )
        return not taken

    def _may_have_ended(self, reservation: Json, each: Change) -> bool:
        """Return whether an owner was bound that may have come after the start of the window.

        An owner of a group may have taken another member, which a status reports soon.
        """
        begins = reservation["spec"].get("startAt")
        came = float("-inf") if begins is None else parse_instant(begins) - SLACK
        if "group" in reservation["spec"]:
            came = each.clock - SLACK
        return any(self.bound_at[uid] >= came for uid in self.owners[reservation["metadata"]["uid"]])

    def members(self, group_uid: str) -> list[Json]:
        """Return the reservations of a group."""
        return [
            reservation
            for reservation in self.reservations.values()
            if reservation["spec"].get("group", {}).get("uid") == group_uid
        ]

    def _falls_short(self, group: Json) -> bool:
        """Return whether fewer members than a group needs certainly have capacity, or were taken."""
        whole = 0
        for reservation in self.members(group["uid"]):
            name = reservation.get("status", {}).get("nodeName", "")
            node = self.nodes.get(name)
            there = (
                holds(reservation)
                and node is not None
                and is_on(reservation, node)
                and name not in self.disturbed
            )
            whole += there or phase_of(reservation) == "Consumed"
        return whole < int(group["minMembers"])

    def _took_another(self, pod: Json, reservation: Json) -> bool:
        """Return whether an owner of a reservation has taken another member of its group."""
        others = self.members(reservation["spec"]["group"]["uid"]) if "group" in reservation["spec"] else []
        took = (
            other.get("status", {}).get("boundPod", {}).get("uid")
            for other in others
            if other is not reservation
        )
        return pod["metadata"]["uid"] in took

    def latest_shown(self, reservation: Json, each: Change) -> float:
        """Return the highest reading of the operator's clock since a reservation became active."""
        given_at = self.given_at.get(reservation["metadata"]["uid"], each.at)
        shown = [clock for at, clock in self.circumstances.peaks if given_at - SLACK < at <= each.at]
        return max([each.clock, *shown])

    def owner_was_tried(self, reservation: Json, at: float) -> bool:
        """Return whether the operator had begun to bind an owner, or to ask about it, by a loop time."""
        return any(
            each.point in {"bind", "read"} and may_be_owned_by(reservation, each.name)
            for each in self.circumstances.asked
            if each.start - SLACK <= at
        )

    def sent_at(self, point: str, each: Change) -> float:
        """Return the earliest loop time at which the request that wrote a version may have been sent.

        A request that creates an object does not name it.
        """
        requests = (asked for asked in self.circumstances.asked if asked.point == point)
        about = (asked for asked in requests if asked.name in ("", each.name) and asked.start <= each.at)
        return min((asked.start for asked in about if asked.end >= each.at - SLACK), default=each.at)

    def delivered_at(self, each: Change) -> float | None:
        """Return when the operator first received a version or a later list, or None if it never did."""
        return next(
            (
                delivery.at
                for delivery in self.circumstances.deliveries
                if delivery.kind == each.kind
                and (
                    delivery.version >= each.version if delivery.listed else delivery.version == each.version
                )
            ),
            None,
        )

    def clock_at(self, at: float, each: Change) -> float:
        """Return the reading of the operator's clock at a loop time before an event."""
        jumps = ((then, clock) for then, clock in self.circumstances.peaks if at <= then <= each.at)
        then, clock = next(jumps, (each.at, each.clock))
        return clock - (then - at)

    def was_set_back(self, now: float, at: float = inf) -> bool:
        """Return whether the operator's clock had shown a later time than now, at a loop time or before."""
        return any(clock > now and then <= at for then, clock in self.circumstances.peaks)

    def went_on(self, start: float, end: float) -> bool:
        """Return whether there was neither a jump of the clock nor a crash between two loop times."""
        jumps = (at for at, _ in self.circumstances.peaks)
        return not any(start - SLACK < at <= end for at in (*jumps, *self.circumstances.crashes))


def _may_take(reservation: Json, pod: Json) -> bool:
    """Return whether an owner took a reservation, or may have, as it does not declare any."""
    return claims(pod) is None or has_taken(reservation, pod)
