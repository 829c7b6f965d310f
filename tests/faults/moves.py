"""Rules of migration plans: an evicted pod is in a plan that was shown, approved and begun.

No more pods are evicted than allowed, and the capacity that comes free is kept for the reservation.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from faults.history import BUDGETS, Change, Json
from faults.observations import Passed
from faults.reading import (
    borrows,
    condition,
    controller_of,
    devices_asked_of,
    holds,
    is_bound,
    is_evicted,
    is_on,
    owns,
    phase_of,
    reason_of,
    requests,
    room_of,
    says,
    selects,
    total,
)
from faults.sharing import excess
from faults.world import ROOMLESS, SLACK, World
from tidelock.model.instants import parse_instant

_LOOKS_EVERY = 10.0  # seconds of the loop
_MOST = 3


@dataclass
class _Versions:
    """States of an object, each valid until the operator received the next one."""

    seen: list[Change] = field(default_factory=list)

    def add(self, each: Change) -> None:
        self.seen.append(each)

    def known(self, world: World, at: float) -> Iterator[Json | None]:
        """Yield the states that the operator may have used at a loop time or later. None is no object."""
        over_at = inf
        for each in reversed(self.seen):
            if over_at > at - SLACK:
                yield None if each.gone else each.state
            told = world.delivered_at(each)
            over_at = min(over_at, inf if told is None else told)
        if over_at > at - SLACK:
            yield None


@dataclass(slots=True)
class _Course:
    """A plan that is, or was, under way."""

    reservation: Change
    plan: Json
    ended_at: float = inf

    @property
    def pods(self) -> set[str]:
        return _pods(self.plan)


class Moves:
    """The rules of reservations that allow pods to be moved."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._asked: defaultdict[str, _Versions] = defaultdict(_Versions)  # reservations, by uid
        self._pods: defaultdict[str, _Versions] = defaultdict(_Versions)  # pods with a controller, by uid
        self._budgets: defaultdict[str, _Versions] = defaultdict(_Versions)
        self._courses: dict[tuple[str, str, str], _Course] = {}
        self._evicted: defaultdict[str, set[str]] = defaultdict(set)  # pods by reservation, all by uid
        self._came_at: dict[str, float] = {}

    def see(self, each: Change, before: Json | None) -> None:
        """Follow plans, and check each eviction and each newcomer on the node of a plan."""
        if each.kind == "reservations":
            self._see_reservation(each, before)
        elif each.kind == BUDGETS.plural:
            self._budgets[each.name].add(each)
        elif each.kind == "pods" and not each.gone:
            self._came_at.setdefault(each.uid, each.at)
            if is_evicted(each.state) and not (before and is_evicted(before)) and not borrows(each.state):
                self._check_eviction(each)
            if controller_of(each.state):
                self._pods[each.uid].add(each)
                marked = condition(each.state, "DisruptionTarget").get("reason", "EvictionByEvictionAPI")
                evicted = marked == "EvictionByEvictionAPI"
                self._world.expect(evicted, f"I2: {each}: it was to go by {marked}")
            if is_bound(each.state) and before is not None and not before["spec"].get("nodeName"):
                self._check_pod(each)

    # Plans.

    def _see_reservation(self, each: Change, before: Json | None) -> None:
        old, new = _plan(before), {} if each.gone else _plan(each.state)
        if before is None or each.gone or before["spec"] != each.state["spec"]:
            self._asked[each.uid].add(each)
        if "begunAt" in old and old.get("begunAt") != new.get("begunAt"):
            timer = self._courses[_timer(each.uid, old)]
            timer.ended_at = each.at
            self._check_end(timer, each, new)
        if new.get("token") != old.get("token") and new:
            self._check_plan(each, new)
        if "begunAt" in new and old.get("begunAt") != new["begunAt"]:
            self._courses[_timer(each.uid, new)] = _Course(each, new)
            shown = old.get("token") == new["token"] and _pods(old) == _pods(new)
            self._world.expect(shown, f"I2: {each}: it began what was not shown")
            sent = self._world.sent_at("status", each)
            approved = self._may_be_approved(each.uid, new["token"], sent)
            self._world.expect(approved, f"I2: {each}: it began what nobody has approved")
        if holds(each.state) and not each.gone:
            self._check_rival(each, before)

    def _check_plan(self, each: Change, plan: Json) -> None:
        """Check that a plan has few enough pods, all movable, and that budgets allow their eviction."""
        world, sent = self._world, self._world.sent_at("status", each) - _LOOKS_EVERY
        world.expect(phase_of(each.state) == "Pending", f"I2: {each}: it has a plan, and waits for no room")
        moved = each.state["status"].get("moved", 0)
        many = len(plan["evictions"]) + moved > self._most(each.uid, sent)
        world.expect(not many, f"I2: {each}: its plan is of too many pods, {moved} have moved")
        states = {pod["metadata"]["uid"]: pod for pod in world.pods.values()}
        pods = [states[uid] for uid in _pods(plan) if uid in states]
        for pod in pods:
            name, node_name = pod["metadata"]["name"], pod["spec"].get("nodeName")
            movable = bool(controller_of(pod)) and node_name == plan["nodeName"] and not borrows(pod)
            world.expect(movable, f"I2: {each}: {name} is in a plan, and not to be moved")
            if movable:
                self._check_stays(pod, sent, f"I2: {each}: {name} is in a plan, and is to stay")
        for name, versions in self._budgets.items():
            left = [_left(budget, pods) for budget in versions.known(world, sent)]
            world.expect(max(left) >= 0, f"I2: {each}: its plan is of more pods than {name} lets go")
        for pod in pods:
            twice = sum(
                all(budget is not None and selects(budget, pod) for budget in versions.known(world, sent))
                for versions in self._budgets.values()
            )
            world.expect(twice <= 1, f"I2: {each}: its plan is of a pod of two budgets")

    def _check_end(self, timer: _Course, each: Change, new: Json) -> None:
        """Check that a reservation reports why its plan has ended, if it still waits and allows moves."""
        waits = not each.gone and phase_of(each.state) == "Pending" and "mayMove" in each.state["spec"]
        waits = waits and not self._world.owner_was_tried(each.state, each.at)
        if waits and not new:
            told = condition(each.state, "MovePlanned")
            late = len(list(self._writes_of(timer, until=each.at))) > 1  # it may have had another plan since
            why = told.get("status") == "False" and (late or told["message"].startswith("given up: "))
            self._world.expect(why, f"I5: {each}: it does not say why its plan was given up: {told}")

    def _may_be_approved(self, uid: str, token: str, at: float) -> bool:
        """Return whether the operator may have considered a plan approved at a loop time."""
        known = self._asked[uid].known(self._world, at)
        asks = (state["spec"].get("mayMove", {}) for state in known if state is not None)
        return any(each.get("approve") == token or each.get("automatically") for each in asks)

    def _most(self, uid: str, at: float) -> int:
        """Return the most pods that a reservation may move, as the operator may have known its spec."""
        known = self._asked[uid].known(self._world, at)
        asks = (state["spec"].get("mayMove") for state in known if state is not None)
        return max((each.get("maxPods", _MOST) for each in asks if each is not None), default=0)

    def _check_stays(self, pod: Json, at: float, text: str) -> None:
        versions = self._pods[pod["metadata"]["uid"]]
        known = [state for state in versions.known(self._world, at) if state is not None]
        notes = (state["metadata"].get("annotations", {}) for state in known)
        self._world.expect(any(each.get("tidelock.dev/movable") != "false" for each in notes), text)

    # Evictions.

    def _check_eviction(self, each: Change) -> None:
        """Check that an evicted pod is in a plan that is under way and approved."""
        world, sent = self._world, self._world.sent_at("evict", each)
        courses = [timer for timer in self._courses.values() if each.uid in timer.pods]
        world.expect(bool(courses), f"I2: {each}: it is in no plan that is under way")
        if not courses:
            return
        timer = max(courses, key=lambda timer: timer.ended_at)
        world.expect(sent <= timer.ended_at + SLACK, f"I2: {each}: its plan was over at {timer.ended_at}")
        approved = any(self._may_be_approved(one.reservation.uid, one.plan["token"], sent) for one in courses)
        world.expect(approved, f"I2: {each}: its plan is not approved any more")
        self._check_stays(each.state, sent, f"I2: {each}: it was to stay")
        uids = {one.reservation.uid for one in courses}
        if len(uids) == 1:
            evicted = self._evicted[timer.reservation.uid]
            evicted.add(each.uid)
            most = self._most(timer.reservation.uid, -inf)
            world.expect(
                len(evicted) <= most, f"I2: {each}: {len(evicted)} went for {timer.reservation.name}"
            )

    # Capacity.

    def _check_pod(self, each: Change) -> None:
        """Check that a pod that comes to the node of a plan under way leaves the capacity to the reservation.

        A pod that uses a reservation of its own takes none of that capacity.
        """
        node_name = each.state["spec"]["nodeName"]
        if self._has_own_room(each.state, node_name):
            return
        binds = (
            asked.start
            for asked in self._world.circumstances.asked
            if asked.point == "bind" and asked.name == each.name
        )
        came_at = self._came_at[each.uid]
        decided = min((start for start in binds if came_at - SLACK <= start <= each.at), default=-inf)
        self._check_guest(each, node_name, decided)

    def _has_own_room(self, pod: Json, node_name: str) -> bool:
        """Return whether the reservations that a pod owns held its requests on its node."""
        node = self._world.nodes.get(node_name)
        if node is None:
            return False
        here = (
            reservation
            for reservation in self._world.reservations.values()
            if holds(reservation) and is_on(reservation, node)
        )
        room = total(room_of(reservation) for reservation in here if owns(reservation, pod))
        return all(units <= room.get(name, 0) for name, units in requests(pod).items())

    def _check_rival(self, each: Change, before: Json | None) -> None:
        """Check that a reservation of no higher priority that becomes active there does so, too."""
        spec, status = each.state["spec"], each.state["status"]
        ahead = "group" in spec or "startAt" in spec
        if ahead or before is None or "activatedAt" in before.get("status", {}):
            return
        decided = each.at - (each.clock - parse_instant(status["activatedAt"]))
        self._check_guest(each, status["nodeName"], decided, spec.get("priority", 0))

    def _check_guest(self, each: Change, node_name: str, decided: float, priority: float = -inf) -> None:
        world = self._world
        if node_name in world.disturbed or node_name not in world.nodes:
            return
        for reservation in self._waiting_for(node_name, each, decided):
            if (
                priority > reservation["spec"].get("priority", 0)
                or reservation["metadata"]["uid"] == each.uid
                or devices_asked_of(reservation["spec"])  # it may wait for one
            ):
                continue
            here = (
                one
                for one in world.reservations.values()
                if holds(one) and is_on(one, world.nodes[node_name])
            )
            held = [one for one in here if world.surely_has_room(one, each)]
            room = {"nodeName": node_name, "resources": reservation["spec"]["resources"]}
            over = excess(world, node_name, [*held, reservation | {"status": room}])
            name = reservation["metadata"]["name"]
            world.expect(not over, f"I1: {each}: {name} lacks {over} of what is being made free for it")

    def _waiting_for(self, node_name: str, each: Change, decided: float) -> Iterator[Json]:
        """Yield the reservations for which capacity was certainly being freed at the time of a decision."""
        for timer in self._courses.values():
            begun, name = timer.reservation, timer.reservation.name
            reservation = self._world.reservations.get(name)
            if timer.plan["nodeName"] != node_name or timer.ended_at < inf or reservation is None:
                continue
            same = reservation["metadata"]["generation"] == begun.state["metadata"]["generation"]
            if not same or decided <= begun.at or not self._world.went_on(begun.at, each.at):
                continue
            if self._world.owner_was_tried(reservation, each.at):
                continue  # the capacity is for its owner, and the reservation ends with the binding
            if not self._was_news_written(timer, decided):
                yield reservation

    def _was_news_written(self, timer: _Course, decided: float) -> bool:
        """Return whether the operator had begun to write the status again, as its plan may have been over."""
        return any(self._writes_of(timer, until=decided + SLACK))

    def _writes_of(self, timer: _Course, until: float) -> Iterator[Passed]:
        """Yield the requests that tried to write the status of a reservation since its plan began."""
        begun = timer.reservation
        for asked in self._world.circumstances.asked:
            news = asked.start > begun.at or asked.end > begun.at + SLACK
            if asked.point == "status" and asked.name == begun.name and news and asked.start <= until:
                yield asked

    # Rest.

    def see_rest(self, now: float) -> None:
        """Check that plans and approvals have been processed, and that statuses report them."""
        del now
        for name, reservation in self._world.reservations.items():
            plan, asked = _plan(reservation), reservation["spec"].get("mayMove")
            waits = phase_of(reservation) == "Pending"
            self._world.expect(waits or not plan, f"I5: {name} has a plan, and is {phase_of(reservation)}")
            if "begunAt" in plan:
                pods = self._world.pods.values()
                here = [pod for pod in pods if pod["spec"].get("nodeName") == plan["nodeName"]]
                awaited = any("deletionTimestamp" in pod["metadata"] for pod in here)
                self._world.expect(awaited, f"I5: the plan of {name} is under way, and nobody is leaving")
            elif plan and asked is not None:
                heard = asked.get("approve") != plan["token"] and not asked.get("automatically")
                self._world.expect(heard, f"I5: the approval of {name} is not heard")
            if (
                waits
                and asked is not None
                and reason_of(reservation) in ROOMLESS
                and "group" not in reservation["spec"]
            ):
                told = says(reservation, "MovePlanned") == bool(plan) and condition(
                    reservation, "MovePlanned"
                )
                self._world.expect(bool(told), f"I5: {name} does not tell how its plan stands")
            evicted = len(self._evicted[reservation["metadata"]["uid"]])
            moved = reservation.get("status", {}).get("moved", 0)
            counted = moved >= evicted or "begunAt" in plan
            self._world.expect(counted, f"I5: {evicted} were evicted for {name}, which tells of {moved}")

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return False: moves end no reservation."""
        del reason, before, each
        return False


def _plan(reservation: Json | None) -> Json:
    found: Json = {} if reservation is None else reservation.get("status", {}).get("plan", {})
    return found


def _pods(plan: Json) -> set[str]:
    return {each["uid"] for each in plan.get("evictions", ())}


def _timer(uid: str, plan: Json) -> tuple[str, str, str]:
    return uid, plan["token"], plan["begunAt"]


def _left(budget: Json | None, pods: Iterable[Json]) -> float:
    """Return how many more evictions a budget allows after those of these pods."""
    if budget is None:
        return inf
    taken, status = sum(selects(budget, pod) for pod in pods), budget.get("status", {})
    current = status.get("observedGeneration", 0) >= budget["metadata"]["generation"]
    return (status.get("disruptionsAllowed", 0) if current else 0) - taken if taken else inf
