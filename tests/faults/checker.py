"""Proves over the API's history that the operator kept its promises, knowing nothing of how it works.

I1: no node is overcommitted by bound pods and Active locks that are not the pods' own, at any version.
I2: a lock has one holder: it is consumed by one pod that is bound, given once, and its end is an end.
I3: nothing is locked for longer than its expiry, or beside its bound owner, once all has come to rest.
I4 (memory equals the API) and I5 (it converges) need the operator at rest: see `rest`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity

from faults.history import Happening, Json
from faults.proxy import Passed
from tidelock.model.instants import parse_instant

Amounts = dict[str, Decimal]

_SETTLED = {"Consumed", "Expired", "Lost"}
_TROUBLED = {"Overcommitted", "Violated", "NodeLost"}
# A lock that has lost its place waits anew, and may be told why before anybody sees that it has.
_ROOMLESS = {"InsufficientCapacity", "NoMatchingNode", "NodeNotFound", "DeadlineExceeded"}
_DONE = {"Succeeded", "Failed"}
# Seconds of the loop that the checker's watch, or the operator's next question, may come later than what it
# tells of: a claim of a lock, which is no write, is seen by the requests about its owner.
_SLACK = 5.0
_SAME_CLAIM = 10.0


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the checker is told beside the history.

    Attributes:
        asked: requests that came to the proxy.
        foreign: uids of pods that somebody else has bound.
        deleted: uids of locks that somebody else has deleted.
        peaks: what the operator's clock showed before each jump, with the loop's time.

    """

    asked: Sequence[Passed] = ()
    foreign: Collection[str] = ()
    deleted: Collection[str] = ()
    peaks: Sequence[tuple[float, float]] = ()


@dataclass
class Checker:
    """Plays a history, and finds what must not be in it."""

    circumstances: Circumstances
    found: list[str] = field(default_factory=list)
    _nodes: dict[str, Json] = field(default_factory=dict)
    _pods: dict[str, Json] = field(default_factory=dict)
    _locks: dict[str, Json] = field(default_factory=dict)
    _disturbed: set[str] = field(default_factory=set)  # nodes that shrank, went, or were used by others
    _unsound: set[str] = field(default_factory=set)  # nodes that locks for any node may have left
    _owners: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # bound, by lock
    _activated: dict[str, str] = field(default_factory=dict)
    _overcommitted: set[tuple[str, ...]] = field(default_factory=set)
    _given_at: dict[str, float] = field(default_factory=dict)  # by the loop's time

    def play(self, happenings: Iterable[Happening]) -> list[str]:
        """Check every version; returns what is wrong."""
        for each in happenings:
            getattr(self, f"_on_{each.kind}")(each)
            self._note_owners()
            self._check_room(each)
        return self.found

    def check_rest(self, happenings: Iterable[Happening], now: float) -> list[str]:
        """Check the state that a history ends with, given that the operator has nothing left to do."""
        self.play(happenings)
        for name, lock in self._locks.items():
            if not _holds(lock):
                continue
            self._expect(_expiry(lock) > now, f"I3: {name} is Active after its expiry")
            owner = next((pod for pod in self._pods.values() if _bound(pod) and owns(lock, pod)), None)
            self._expect(owner is None, f"I3: {name} is Active beside its bound owner")
            on_node, node = lock["status"]["nodeName"], self._nodes.get(lock["status"]["nodeName"])
            there = node is not None and node["metadata"]["uid"] == lock["status"]["nodeUID"]
            self._expect(there, f"I1: {name} is Active on {on_node}, which is another or gone")
        for name in self._nodes:
            held = [lock for lock in self._locks.values() if _holds(lock) and _on(lock, self._nodes[name])]
            over = self._excess(name, held)
            self._expect(not (over and held), f"I1: {name} is overcommitted at rest by {over}")
        return self.found

    # What happened.

    def _on_nodes(self, each: Happening) -> None:
        before = self._nodes.get(each.name)
        if each.gone or (before is not None and _shrank(before, each.state)):
            self._disturbed.add(each.name)
        if each.gone:
            del self._nodes[each.name]
            return
        if before is not None and not _sound(each.state):
            self._unsound.add(each.name)
        self._nodes[each.name] = each.state

    def _on_pods(self, each: Happening) -> None:
        before = self._pods.pop(each.name, None)
        if each.gone:
            return
        self._pods[each.name] = each.state
        node_name = each.state["spec"].get("nodeName", "")
        by_another = before is None or each.uid in self.circumstances.foreign
        if node_name and by_another:
            self._disturbed.add(node_name)

    def _on_reservations(self, each: Happening) -> None:
        before = self._locks.pop(each.name, None)
        if each.gone:
            last = each.state if before is None else before
            self._check_deletion(each, last)
            return
        self._locks[each.name] = each.state
        status, meta = each.state.get("status", {}), each.state["metadata"]
        activated = status.get("activatedAt", "")
        known = self._activated.setdefault(each.uid, activated)
        self._expect(known in ("", activated), f"I2: {each} was given at {known} before")
        self._activated[each.uid] = activated
        if activated:
            self._given_at.setdefault(each.uid, each.at)
        if before is None:
            return
        assert before["metadata"]["uid"] == meta["uid"], f"{each}: a deletion is missing"
        self._check_transition(each, before.get("status", {}), status)

    def _check_transition(self, each: Happening, old: Json, new: Json) -> None:
        phases = f"{old.get('phase')} to {new.get('phase')}"
        final = old.get("phase") in _SETTLED
        self._expect(not final or old["phase"] == new.get("phase"), f"I2: {each}: from {phases}")
        holder, other = old.get("boundPod"), new.get("boundPod")
        changed = final and holder != other
        self._expect(not changed, f"I2: {each}: consumed by {holder} and then by {other}")
        if new.get("phase") == "Consumed" and old.get("phase") != "Consumed":
            bound = (other or {}).get("uid") in self._owners[each.uid]
            self._expect(bound, f"I2: {each}: consumed by {other}, which has not been bound")
        if _active(old) and not _active(new):
            self._check_end(each, old, _reason(new))

    def _check_deletion(self, each: Happening, last: Json) -> None:
        if each.uid in self.circumstances.deleted:
            return
        status = last.get("status", {})
        settled = status.get("phase") in {*_SETTLED, "Rejected"}
        over = settled or self._expired(last, each) or bool(self._owners[each.uid])
        self._expect(over, f"I2: {each}: deleted by the operator while it was {status.get('phase')}")

    def _check_end(self, each: Happening, old: Json, reason: str) -> None:
        """Active ends for a reason that the history knows too."""
        disturbed = old.get("nodeName") in self._disturbed
        known = {
            "Expired": lambda: self._expired(each.state, each),
            "Consumed": lambda: bool(self._owners[each.uid]),
            **dict.fromkeys(_TROUBLED, lambda: disturbed),
            **dict.fromkeys(_ROOMLESS, lambda: disturbed or self._owner_was_tried(each.state, each.at)),
        }
        allowed = reason in known and known[reason]()
        self._expect(allowed, f"I1: {each}: no reason for an end of Active ({reason})")

    def _note_owners(self) -> None:
        for lock in self._locks.values():
            owners = (pod for pod in self._pods.values() if _bound(pod) and owns(lock, pod))
            self._owners[lock["metadata"]["uid"]].update(pod["metadata"]["uid"] for pod in owners)

    def _expired(self, lock: Json, each: Happening) -> bool:
        """Whether the operator's clock has shown the end of a lock since that was given."""
        given_at = self._given_at.get(lock["metadata"]["uid"], each.at)
        shown = [clock for at, clock in self.circumstances.peaks if given_at - _SLACK < at <= each.at]
        return _expiry(lock) <= max([each.clock, *shown])

    # Room.

    def _check_room(self, each: Happening) -> None:
        for name in self._nodes.keys() - self._disturbed:
            held = [lock for lock in self._locks.values() if self._counts(lock, self._nodes[name], each)]
            over = self._excess(name, held)
            names = sorted(lock["metadata"]["name"] for lock in held)
            if over and (name, *names) not in self._overcommitted:  # told once, at its first version
                self._overcommitted.add((name, *names))
                self._expect(False, f"I1: {name} is overcommitted by {over}, with locks {names}, at {each}")

    def _counts(self, lock: Json, node: Json, each: Happening) -> bool:
        """Whether a lock that says Active holds its room: not if it is known to be over, or to have moved."""
        if not _holds(lock) or not _on(lock, node) or self._expired(lock, each):
            return False
        if node["metadata"]["name"] in self._unsound and "nodeName" not in lock["spec"]:
            return False
        owned = any(_bound(pod) and owns(lock, pod) for pod in self._pods.values())
        return not owned and not self._owner_was_tried(lock, each.at, recently=True)

    def _owner_was_tried(self, lock: Json, at: float, *, recently: bool = False) -> bool:
        """Whether the operator was binding an owner, or asking whether it is bound, around a time."""
        last_end = float("-inf")
        for each in self.circumstances.asked:
            if each.point not in {"bind", "read"} or not _names(lock, each.name):
                continue
            if each.start - _SLACK > at:
                break
            last_end = max(last_end, each.end)
            if not recently:
                return True
        return recently and last_end + _SAME_CLAIM >= at

    def _excess(self, node_name: str, held: Iterable[Json]) -> Amounts:
        """By how much bound pods and these locks exceed what a node has to give."""
        taken: Amounts = {}
        for pod in self._pods.values():
            if pod["spec"].get("nodeName") == node_name and pod["status"].get("phase") not in _DONE:
                _add(taken, _amounts(pod["spec"]["containers"][0]["resources"].get("requests", {})))
        for lock in held:
            has = _amounts(lock["status"].get("resources", {}))
            asks = _amounts(lock["spec"].get("resources", {}))
            _add(taken, {name: min(units, asks.get(name, Decimal(0))) for name, units in has.items()})
        room = _amounts(self._nodes[node_name]["status"]["allocatable"])
        return {name: units - room[name] for name, units in taken.items() if units > room.get(name, 0)}

    def _expect(self, holds: bool, text: str) -> None:
        if not holds and text not in self.found:
            self.found.append(text)


def owns(lock: Json, pod: Json) -> bool:
    """Tell whether a pod is an owner of a lock, by name or labels."""
    labels = pod["metadata"].get("labels", {})
    for term in lock["spec"]["owners"]:
        named = "pod" not in term or term["pod"]["name"] == pod["metadata"]["name"]
        wanted = term.get("selector", {}).get("matchLabels", {})
        if named and wanted.items() <= labels.items():
            return True
    return False


def _names(lock: Json, name: str) -> bool:
    """Whether a pod of a name, which may be gone by now, may have been an owner."""
    return any(term.get("pod", {"name": name})["name"] == name for term in lock["spec"]["owners"])


def _active(status: Json) -> bool:
    return any(each["type"] == "Active" and each["status"] == "True" for each in status.get("conditions", []))


def _reason(status: Json) -> str:
    return next(
        (str(each["reason"]) for each in status.get("conditions", []) if each["type"] == "Active"), ""
    )


def _holds(lock: Json) -> bool:
    return _active(lock.get("status", {})) and "deletionTimestamp" not in lock["metadata"]


def _on(lock: Json, node: Json) -> bool:
    status, meta = lock["status"], node["metadata"]
    return (status.get("nodeName"), status.get("nodeUID")) == (meta["name"], meta["uid"])


def _expiry(lock: Json) -> float:
    """Tell when a lock ends at the latest, by its status or an edit that came after it."""
    spec, status = lock["spec"], lock.get("status", {})
    ends = [parse_instant(text) for text in (status.get("expiresAt"), spec.get("expireAt")) if text]
    if "activatedAt" in status and "ttlSeconds" in spec:
        ends.append(parse_instant(status["activatedAt"]) + spec["ttlSeconds"])
    return min(ends, default=float("inf"))


def _bound(pod: Json) -> bool:
    leaving = "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in _DONE
    return bool(pod["spec"].get("nodeName")) and not leaving


def _sound(node: Json) -> bool:
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])
    return ready and not node["spec"].get("unschedulable")


def _shrank(before: Json, after: Json) -> bool:
    old, new = _amounts(before["status"]["allocatable"]), _amounts(after["status"]["allocatable"])
    return any(new.get(name, Decimal(0)) < units for name, units in old.items())


def _amounts(resources: Json) -> Amounts:
    return dict(zip(resources, map(parse_quantity, resources.values()), strict=True))


def _add(total: Amounts, more: Amounts) -> None:
    for name, units in more.items():
        total[name] = total.get(name, Decimal(0)) + units
