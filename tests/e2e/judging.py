"""Judgement on the recorded history of a cluster, with no knowledge of the operator's code.

Other schedulers bind pods there too, and admission answers for them. So a node counts at every version, while
`faults.checker` leaves out nodes that others have used.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import median

from faults.history import Change, Json
from faults.reading import (
    SETTLED,
    Amounts,
    amounts,
    due,
    has_taken,
    holds,
    is_on,
    is_sound,
    owns,
    phase_of,
    reason_of,
    requests,
    room_of,
    says,
    total,
    uses_room_of,
)
from faults.sharing import room_in_use

_SKEW = 1.0  # seconds between the clocks of nodes and of the recorder
_NODE_FAILED = frozenset({"NodeLost", "NodeNotFound", "NodeNotReady", "NodeCordoned"})

FOREIGN = "foreign-"
"""Beginning of the names of pods that kube-scheduler binds."""
Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The time from an object's creation until it was bound or active, in seconds.

    An object that was neither in the whole record waits until its end, and `done` is False.
    """

    name: str
    seconds: float
    done: bool
    begun: float
    """The loop's time at the creation."""

    def __str__(self) -> str:
        return f"{self.name} {self.seconds:.2f} s{'' if self.done else ', and still waits'}"


@dataclass(slots=True)
class Judgement:
    """The violations in a history, and the waits in it.

    Attributes:
        violations: sentences, empty if all promises were kept.
        pods: the wait of each pod that was created without a node, in the order of their creation.
        reservations: the wait of each reservation.

    """

    violations: list[str]
    pods: list[Wait]
    reservations: list[Wait]

    def lines(self, detailed: bool = False) -> Iterator[str]:
        """Yield the figures for people: longest waits, and on demand each wait of a pod."""
        for what, waits in {
            "pods": [wait for wait in self.pods if not wait.name.startswith(FOREIGN)],
            "pods of kube-scheduler": [wait for wait in self.pods if wait.name.startswith(FOREIGN)],
            "reservations": self.reservations,
        }.items():
            if waits:
                middle = median(wait.seconds for wait in waits)
                longest = max(waits, key=lambda wait: wait.seconds)
                yield f"{len(waits)} {what}: longest wait {longest}, median {middle:.2f} s"
        first = min((wait.begun for wait in self.pods), default=0.0)
        for wait in self.pods if detailed else ():
            yield f"  created at {wait.begun - first:6.2f} s: {wait}"
        yield f"violations: {self.violations or 'none'}"


def judge(changes: Sequence[Change], *, deleted: Collection[str] = ()) -> Judgement:
    """Judge a history in the order of its versions. `deleted` are uids of reservations that users deleted."""
    history = _History(deleted)
    for each in changes:
        history.take(each)
    end = max((each.at for each in changes), default=0.0)
    return Judgement(
        list(dict.fromkeys(history.found)),
        _waits(changes, "pods", lambda state: bool(state["spec"].get("nodeName")), end),
        _waits(changes, "reservations", _was_active, end),
    )


@dataclass(slots=True)
class _History:
    """The cluster at one version of its history.

    Attributes:
        found: the violations.

    """

    deleted: Collection[str]
    found: list[str] = field(default_factory=list)
    _objects: defaultdict[str, dict[Key, Json]] = field(default_factory=lambda: defaultdict(dict))
    _owned: set[str] = field(default_factory=set)  # uids of reservations with an owner that was bound
    _active: dict[str, Json] = field(default_factory=dict)  # last active version, by uid
    _failed: set[str] = field(default_factory=set)  # nodes that were cordoned or not ready
    _told: set[tuple[str, ...]] = field(default_factory=set)

    def take(self, each: Change) -> None:
        """Advance by one version, and check it."""
        objects, key = self._objects[each.kind], _key(each.state)
        before = objects.pop(key, None)
        if not each.gone:
            objects[key] = each.state
        if each.kind == "nodes" and not is_sound(each.state):
            self._failed.add(each.name)
        if each.kind == "pods":
            self._note_owner(each.state)
        if each.kind == "reservations":
            self._check_end(each)
        for name in {*_nodes_of(each.kind, each.state), *_nodes_of(each.kind, before)}:
            self._check_capacity(name, each)

    def _note_owner(self, pod: Json) -> None:
        if pod["spec"].get("nodeName"):
            own = self._in(pod["metadata"].get("namespace", ""), "reservations")
            self._owned.update(_uid(one) for one in own if owns(one, pod) and has_taken(one, pod))

    def _check_capacity(self, name: str, each: Change) -> None:
        node = self._objects["nodes"].get(("", name))
        if node is None:
            return
        pods = [pod for pod in self._objects["pods"].values() if uses_room_of(pod, name)]
        held = [one for one in self._objects["reservations"].values() if self._surely_holds(one, node, each)]
        taken = total([*map(requests, pods), *map(room_of, held)])
        over = _beyond(taken, room_in_use(held, pods), amounts(node["status"]["allocatable"]))
        names = sorted(one["metadata"]["name"] for one in held)
        if over and (name, *names) not in self._told:
            self._told.add((name, *names))
            self.found.append(f"{name} has given {over} twice, beside {names}, at {each}")

    def _surely_holds(self, reservation: Json, node: Json, each: Change) -> bool:
        """Return whether a reservation holds capacity of a node, and no owner may have taken it."""
        if not holds(reservation) or not is_on(reservation, node) or due(reservation) <= each.clock:
            return False
        return reservation["spec"].get("reuse") == "Always" or _uid(reservation) not in self._owned

    def _check_end(self, each: Change) -> None:
        """Check that a reservation stays active until an end of its own."""
        last = self._active.get(each.uid)
        if not each.gone and says(each.state, "Active"):
            self._active[each.uid] = each.state
        elif last is not None and not self._explains(last, each):
            end = "deleted" if each.gone else f"{phase_of(each.state)} ({reason_of(each.state)})"
            self.found.append(f"{each.name} was lost: it was active, and is {end} at {each}")
        if each.gone or not says(each.state, "Active"):
            self._active.pop(each.uid, None)

    def _explains(self, last: Json, each: Change) -> bool:
        """Return whether a user, an owner, the clock or a failed node explains that it is not active."""
        if each.uid in self.deleted or each.uid in self._owned or phase_of(last) in SETTLED:
            return True
        failed = last["status"].get("nodeName") in self._failed and reason_of(each.state) in _NODE_FAILED
        return failed or due(last) <= each.clock + _SKEW

    def _in(self, namespace: str, kind: str) -> Iterator[Json]:
        for (of, _), state in self._objects[kind].items():
            if of == namespace:
                yield state


def _waits(changes: Sequence[Change], kind: str, done: Callable[[Json], bool], end: float) -> list[Wait]:
    """Return the waits of the objects that the history shows before they were done."""
    begun: dict[str, Change] = {}
    ended: dict[str, float] = {}
    known: set[str] = set()
    for each in changes:
        if each.kind != kind:
            continue
        if each.uid not in known and not done(each.state):
            begun[each.uid] = each
        known.add(each.uid)
        if each.uid in begun and (each.gone or done(each.state)):
            ended.setdefault(each.uid, each.at)
    return [
        Wait(each.name, ended.get(uid, end) - each.at, uid in ended, each.at) for uid, each in begun.items()
    ]


def _was_active(reservation: Json) -> bool:
    return "activatedAt" in reservation.get("status", {})


def _beyond(taken: Amounts, shared: Amounts, room: Amounts) -> dict[str, str]:
    over = {
        name: taken.get(name, Decimal(0)) - shared.get(name, Decimal(0)) - has for name, has in room.items()
    }
    return {name: str(units) for name, units in over.items() if units > 0}


def _nodes_of(kind: str, state: Json | None) -> list[str]:
    if state is None:
        return []
    if kind == "nodes":
        return [state["metadata"]["name"]]
    part = "spec" if kind == "pods" else "status"
    name = state.get(part, {}).get("nodeName")
    return [name] if name else []


def _key(state: Json) -> Key:
    return state["metadata"].get("namespace", ""), state["metadata"]["name"]


def _uid(state: Json) -> str:
    return str(state["metadata"]["uid"])
