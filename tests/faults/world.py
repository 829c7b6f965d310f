"""The state of a run at one point of its history, and what the history knows of how it came about."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from faults.history import Happening, Json
from faults.proxy import Passed, Told
from faults.reading import (
    amounts,
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
"""Seconds of the loop that the checker's watch, or the operator's next question, may come later than what it
tells of: a claim of a lock, which is no write, is seen by the requests about its owner."""

ROOMLESS = frozenset({"InsufficientCapacity", "NoMatchingNode", "NodeNotFound", "DeadlineExceeded"})
"""A lock that has lost its place waits anew, and may be told why before anybody sees that it has."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the checker is told beside the history.

    Attributes:
        asked: requests that came to the proxy.
        foreign: uids of pods that somebody else has bound.
        deleted: uids of locks that somebody else has deleted.
        peaks: what the operator's clock showed before each jump, with the loop's time.
        told: events and lists that the operator got.
        crashes: when it crashed, by the loop's time.

    """

    asked: Sequence[Passed] = ()
    foreign: Collection[str] = ()
    deleted: Collection[str] = ()
    peaks: Sequence[tuple[float, float]] = ()
    told: Sequence[Told] = ()
    crashes: Sequence[float] = ()


@dataclass
class World:
    """All objects by kind and name, and what has become of them so far.

    Attributes:
        objects: the newest state of each that is there.
        found: what is wrong.
        disturbed: nodes that shrank, went, or were used by others.
        unsound: nodes that locks for any node may have left.
        owners: uids of the owners that have been bound and end a lock, by the lock's uid; also of those that
            are owners no more, if the operator had not heard of that.
        given_at: when a lock was first active, by its uid and the loop's time.
        bound_at: when a pod was seen bound first, by its uid and the operator's clock.

    """

    circumstances: Circumstances
    objects: defaultdict[str, dict[str, Json]] = field(default_factory=lambda: defaultdict(dict))
    found: list[str] = field(default_factory=list)
    disturbed: set[str] = field(default_factory=set)
    unsound: set[str] = field(default_factory=set)
    owners: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    given_at: dict[str, float] = field(default_factory=dict)
    bound_at: dict[str, float] = field(default_factory=dict)
    _gave_back: set[str] = field(default_factory=set)  # locks that asked for less, and then for more at once
    _edited: defaultdict[str, list[tuple[Happening, Json]]] = field(default_factory=lambda: defaultdict(list))

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
        """Note what is wrong, once."""
        if not holds and text not in self.found:
            self.found.append(text)

    def take(self, each: Happening) -> Json | None:
        """Go on by one version; gives the state of the object before that."""
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
            for version in (reservation, *self._heard_of(uid, each.at)):
                owners = (pod for pod in self.bound_owners(version) if has_taken(version, pod))
                self.owners[uid].update(pod["metadata"]["uid"] for pod in owners)
        return before

    def _heard_of(self, uid: str, at: float) -> Iterator[Json]:
        """Give earlier versions of a lock, with other owners, after which the operator had heard of none."""
        for edit, before in self._edited[uid]:
            told = self.told_at(edit)
            if told is None or told > at - SLACK:
                yield before

    def _note_edit(self, each: Happening, before: Json) -> None:
        old, new = before["spec"], each.state["spec"]
        if old["owners"] != new["owners"]:
            self._edited[each.uid].append((each, before))
        asked, has = (amounts(part.get("resources", {})) for part in (old, before.get("status", {})))
        if has != amounts(each.state.get("status", {}).get("resources", {})):
            self._gave_back.discard(each.uid)
        elif old != new and any(units > asked.get(name, 0) for name, units in has.items()):
            self._gave_back.add(each.uid)

    def _note_node(self, each: Happening, before: Json | None) -> None:
        if each.gone or (before is not None and shrank(before, each.state)):
            self.disturbed.add(each.name)
        if not each.gone and before is not None and not is_sound(each.state):
            self.unsound.add(each.name)

    def _note_pod(self, each: Happening, before: Json | None) -> None:
        node_name = each.state["spec"].get("nodeName", "")
        if node_name:
            self.bound_at.setdefault(each.uid, each.clock)
        if node_name and (before is None or each.uid in self.circumstances.foreign):
            self.disturbed.add(node_name)

    def bound_owners(self, reservation: Json) -> Iterator[Json]:
        """Give the owners of a lock that are bound and not leaving."""
        return (pod for pod in self.pods.values() if is_bound(pod) and owns(reservation, pod))

    def ending_owner(self, reservation: Json) -> Json | None:
        """Give an owner that is bound and ends a lock: not one that may have been there before its window."""
        begins = reservation["spec"].get("startAt")
        came = float("-inf") if begins is None else parse_instant(begins) + SLACK
        owners = (pod for pod in self.bound_owners(reservation) if has_taken(reservation, pod))
        return next((pod for pod in owners if self.bound_at[pod["metadata"]["uid"]] >= came), None)

    def is_due(self, reservation: Json, each: Happening) -> bool:
        """Whether the operator's clock has shown an end of a lock since that was given."""
        return due(reservation) <= self.latest_shown(reservation, each)

    def surely_has_room(self, reservation: Json, each: Happening) -> bool:
        """Whether a lock that says Active has its room: not if it is known to be over, or to have moved."""
        if (
            not holds(reservation)
            or self.is_due(reservation, each)
            or reservation["metadata"]["uid"] in self._gave_back
        ):
            return False
        if reservation["status"]["nodeName"] in self.unsound and "nodeName" not in reservation["spec"]:
            return False
        if "group" in reservation["spec"] and self._falls_short(reservation["spec"]["group"]):
            return False  # what is left of a group that falls short is given back at once
        if reservation["spec"].get("reuse") == "Always":
            return True  # its owners use it, and it goes on
        if self._may_have_ended(reservation, each):
            return False  # it is told as soon as that can be written
        taken = any(
            not self._took_another(pod, reservation)
            for pod in self.bound_owners(reservation)
            if _may_take(reservation, pod)
        )
        return not taken

    def _may_have_ended(self, reservation: Json, each: Happening) -> bool:
        """Whether an owner was bound that may not have been there before the lock's window.

        Of a group it may have taken another lock, of which is told soon.
        """
        begins = reservation["spec"].get("startAt")
        came = float("-inf") if begins is None else parse_instant(begins) - SLACK
        if "group" in reservation["spec"]:
            came = each.clock - SLACK
        return any(self.bound_at[uid] >= came for uid in self.owners[reservation["metadata"]["uid"]])

    def members(self, group_uid: str) -> list[Json]:
        """Give the locks of a group."""
        return [
            reservation
            for reservation in self.reservations.values()
            if reservation["spec"].get("group", {}).get("uid") == group_uid
        ]

    def _falls_short(self, group: Json) -> bool:
        """Whether fewer locks of a group than it needs surely have room, or have been taken."""
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
        """Whether a pod that is an owner of a lock has taken another one of its group."""
        others = self.members(reservation["spec"]["group"]["uid"]) if "group" in reservation["spec"] else []
        took = (
            other.get("status", {}).get("boundPod", {}).get("uid")
            for other in others
            if other is not reservation
        )
        return pod["metadata"]["uid"] in took

    def latest_shown(self, reservation: Json, each: Happening) -> float:
        """Tell what the operator's clock has shown at its latest since a lock was given."""
        given_at = self.given_at.get(reservation["metadata"]["uid"], each.at)
        shown = [clock for at, clock in self.circumstances.peaks if given_at - SLACK < at <= each.at]
        return max([each.clock, *shown])

    def owner_was_tried(self, reservation: Json, at: float) -> bool:
        """Whether the operator has begun to bind an owner, or to ask whether it is bound, by a time."""
        return any(
            each.point in {"bind", "read"} and may_be_owned_by(reservation, each.name)
            for each in self.circumstances.asked
            if each.start - SLACK <= at
        )

    def sent_at(self, point: str, each: Happening) -> float:
        """Tell when the request was sent at the earliest that wrote a version, by the loop's time.

        One that creates something does not name it.
        """
        requests = (asked for asked in self.circumstances.asked if asked.point == point)
        about = (asked for asked in requests if asked.name in ("", each.name) and asked.start <= each.at)
        return min((asked.start for asked in about if asked.end >= each.at - SLACK), default=each.at)

    def told_at(self, each: Happening) -> float | None:
        """Tell when the operator got to know of a version for the first time; None if it never did."""
        return next(
            (
                told.at
                for told in self.circumstances.told
                if told.kind == each.kind
                and (told.version >= each.version if told.listed else told.version == each.version)
            ),
            None,
        )

    def clock_at(self, at: float, each: Happening) -> float:
        """Tell what the operator's clock showed at a time of the loop before an event."""
        jumps = ((then, clock) for then, clock in self.circumstances.peaks if at <= then <= each.at)
        then, clock = next(jumps, (each.at, each.clock))
        return clock - (then - at)

    def was_set_back(self, now: float, at: float = inf) -> bool:
        """Whether the operator's clock has shown more than it does now, at a time of the loop or before."""
        return any(clock > now and then <= at for then, clock in self.circumstances.peaks)

    def went_on(self, start: float, end: float) -> bool:
        """Whether neither a jump of the clock nor a crash was between two times of the loop."""
        jumps = (at for at, _ in self.circumstances.peaks)
        return not any(start - SLACK < at <= end for at in (*jumps, *self.circumstances.crashes))


def _may_take(reservation: Json, pod: Json) -> bool:
    """Whether an owner has taken a lock, or may yet have, as it does not say which it took."""
    return claims(pod) is None or has_taken(reservation, pod)
