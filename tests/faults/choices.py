"""Rules for pods that may take one of several reservations, which match any pod of a workload."""

from decimal import Decimal

from faults.history import Change, Json
from faults.reading import Amounts, claims, claims_to_devices, is_for_any, owns, requests, room_of, total
from faults.world import World


class Choices:
    """Rules of reservations for workloads: a pod declares once which it took, and takes none without need."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._said: dict[str, frozenset[str]] = {}

    def see(self, each: Change, before: Json | None) -> None:
        """Check the reservations that a pod declares."""
        del before
        if each.kind != "pods" or each.gone or (said := claims(each.state)) is None:
            return
        known = self._said.setdefault(each.uid, said)
        self._world.expect(known == said, f"I2: {each}: it took {sorted(known)} and then {sorted(said)}")
        if known is said:
            self._check_needed(each, said)

    def see_rest(self, now: float) -> None:
        """Check nothing: a reservation that a pod declares ends as that of any owner does."""

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return False: these reservations end as any other does."""
        del reason, before, each
        return False

    def _check_needed(self, each: Change, said: frozenset[str]) -> None:
        pod, node_name = each.state, each.state["spec"]["nodeName"]
        if node_name in self._world.disturbed:
            return  # reservations there may have lost the capacity that their statuses report
        reservations = [
            reservation
            for reservation in self._world.reservations.values()
            if reservation["metadata"]["uid"] in said
        ]
        taken = [
            reservation
            for reservation in reservations
            if owns(reservation, pod) and is_for_any(reservation, pod)
        ]
        for reservation in taken:
            status = reservation.get("status", {})
            # A reservation on a disturbed node may have moved, and its status may not say so yet.
            there = status.get("nodeName", node_name) in {node_name, *self._world.disturbed}
            self._world.expect(there, f"I2: {each}: it took a lock on {status.get('nodeName')}")
            others = [other for other in taken if other is not reservation and "status" in other]
            room = total(room_of(other) | claims_to_devices(other["spec"]) for other in others)
            # The loan of one reservation may move to another, so that a pod may need both.
            lent = any(other["spec"].get("borrowable") for other in taken)
            needless = _covers(room, requests(pod) | claims_to_devices(pod["spec"])) and not lent
            self._world.expect(not needless, f"I2: {each}: it took {reservation['metadata']['name']} in vain")


def _covers(large: Amounts, small: Amounts) -> bool:
    return all(units <= large.get(name, Decimal(0)) for name, units in small.items())
