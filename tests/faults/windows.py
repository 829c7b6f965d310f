"""Rules of windows: when they begin, no pod that may stay for ever uses their capacity."""

from faults.history import Change, Json
from faults.reading import (
    SETTLED,
    amounts,
    holds,
    is_on,
    phase_of,
    requests,
    room_of,
    total,
    uses_room_of,
)
from faults.world import ROOMLESS, World
from tidelock.model.instants import parse_instant

_OVERSTAYED = ROOMLESS | {"Overcommitted"}


class Windows:
    """The rules of windows."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._passed: set[str] = set()  # nodes of pods with a declared run time
        self._ending: set[str] = set()  # nodes of reservations with a declared run time of their pods

    def see(self, each: Change, before: Json | None) -> None:
        """Check that a window begins at its start, and that no lasting pod uses its capacity."""
        if each.gone:
            return
        if each.kind == "pods" and _passes(each.state):
            self._passed.add(each.state["spec"].get("nodeName", ""))
        if each.kind == "reservations" and "runSeconds" in each.state["spec"]:
            self._ending.add(each.state.get("status", {}).get("nodeName", ""))
        if each.kind == "reservations" and "startAt" in each.state["spec"]:
            self._check_begin(each, before)
        if each.kind in {"pods", "reservations"}:
            for name in self._world.nodes.keys() - self._world.disturbed - self._world.unsound:
                self._check_room(name, each)

    def _check_begin(self, each: Change, before: Json | None) -> None:
        begins, phase = parse_instant(each.state["spec"]["startAt"]), phase_of(each.state)
        if holds(each.state):
            self._world.expect(each.clock >= begins, f"I2: {each}: it is active before its window")
        if before is None or phase_of(before) != "Planned" or phase == "Planned":
            return
        node = before["status"].get("nodeName", "")
        edited = before["status"].get("observedGeneration") != each.state["metadata"]["generation"]
        if phase == "Active":
            activated = parse_instant(each.state["status"]["activatedAt"])
            # An edited reservation is placed again, which may be after the start of its window.
            anew = edited or each.state["status"]["nodeName"] != node
            self._world.expect(anew or activated == begins, f"I2: {each}: it began at {activated}")
        elif phase == "Pending":
            known = (
                edited or node in self._world.disturbed | self._world.unsound | self._passed | self._ending
            )
            self._world.expect(known, f"I1: {each}: it was planned, and no reason is known why it is not")

    def _check_room(self, name: str, each: Change) -> None:
        """Check that lasting pods and a window fit on a node, unless it has reservations with a run time."""
        world, node = self._world, self._world.nodes[name]
        reservations = [
            reservation
            for reservation in world.reservations.values()
            if self._is_surely_planned(reservation, each) and is_on(reservation, node)
        ]
        if not reservations or name in self._ending:
            return
        pods = (pod for pod in world.pods.values() if uses_room_of(pod, name) and not _passes(pod))
        lasting = total(map(requests, pods))
        room = amounts(node["status"]["allocatable"])
        for reservation in reservations:
            taken = total([lasting, room_of(reservation)])
            over = {what: taken[what] - units for what, units in room.items() if taken.get(what, 0) > units}
            text = (
                f"I1: {reservation['metadata']['name']} planned on {name}, which will lack {over}, at {each}"
            )
            world.expect(not over, text)

    def _is_surely_planned(self, reservation: Json, each: Change) -> bool:
        """Return whether a reservation is certainly planned, without a start, an edit or an end since."""
        current = reservation["metadata"]["generation"] == reservation.get("status", {}).get(
            "observedGeneration"
        )
        if phase_of(reservation) != "Planned" or not current or self._world.is_due(reservation, each):
            return False
        return parse_instant(reservation["spec"]["startAt"]) > self._world.latest_shown(reservation, each)

    def see_rest(self, now: float) -> None:
        """Check that a reservation is planned exactly until its window begins."""
        for name, reservation in self._world.reservations.items():
            if "startAt" in reservation["spec"] and phase_of(reservation) not in SETTLED | {"Pending"}:
                ahead = parse_instant(reservation["spec"]["startAt"]) > now
                self._world.expect(
                    ahead == (phase_of(reservation) == "Planned"), f"I5: {name} is {phase_of(reservation)}"
                )

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return whether pods that should be gone may still be there, or may be counted as there."""
        del each
        return reason in _OVERSTAYED and before["status"].get("nodeName", "") in self._passed | self._ending


def _passes(pod: Json) -> bool:
    """Return whether a pod declares its run time."""
    return "tidelock.dev/run-seconds" in pod["metadata"].get("annotations", {})
