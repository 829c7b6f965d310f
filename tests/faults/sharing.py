"""Rules of shared reservations: their capacity counts once, as reserved or as used by pods."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import chain, combinations

from faults.history import Change, Json
from faults.reading import (
    Amounts,
    amounts,
    borrows,
    claims_to_devices,
    holds,
    is_leaving,
    is_sound,
    owns,
    phase_of,
    requests,
    room_of,
    says,
    total,
    uses_room_of,
)
from faults.world import World


class Sharing:
    """The rules of reusable and borrowable reservations."""

    def __init__(self, world: World) -> None:
        self._world = world

    def see(self, each: Change, before: Json | None) -> None:
        """Check that no owner ends a reusable reservation."""
        del before
        if each.kind == "reservations" and _is_for_reuse(each.state):
            self._world.expect(phase_of(each.state) != "Consumed", f"I2: {each}: it is for reuse")

    def see_rest(self, now: float) -> None:
        """Check that reservations report their use correctly, and are used as far as possible."""
        del now
        for node_name in self._world.nodes:
            here = [
                reservation
                for reservation in self._world.reservations.values()
                if holds(reservation) and _node_of(reservation) == node_name
            ]
            pods = [pod for pod in self._world.pods.values() if uses_room_of(pod, node_name)]
            told = total(
                amounts(reservation["status"].get(field, {}))
                for reservation in here
                for field in ("used", "lent")
            )
            used = {name: units for name, units in room_in_use(here, pods).items() if units}
            self._world.expect(told == used, f"I5: {used} of locks on {node_name} is used, and {told} told")
            for reservation in here:
                self._check_holder(reservation, pods)
                self._check_owners(reservation)

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return False: a shared reservation ends only for the reasons of any reservation."""
        del reason, before, each
        return False

    def _check_holder(self, reservation: Json, pods: Iterable[Json]) -> None:
        """Check that the pod that uses a reusable reservation, by its status, is there."""
        name, holder = reservation["metadata"]["name"], reservation["status"].get("boundPod", {}).get("uid")
        if _is_for_reuse(reservation):
            inside = {pod["metadata"]["uid"] for pod in pods if owns(reservation, pod)}
            told = says(reservation, "Occupied") == bool(holder)
            self._world.expect(told, f"I5: {name} says who is in it, or that nobody is")
            self._world.expect(not holder or holder in inside, f"I5: {holder} is not in {name}")

    def _check_owners(self, reservation: Json) -> None:
        """Check that an owner that fits into a borrowable reservation does not wait for its borrowers."""
        node = self._world.nodes[_node_of(reservation)]
        if (
            not reservation["spec"].get("borrowable")
            or not is_sound(node)
            or _node_of(reservation) in self._world.disturbed
        ):
            return
        for pod in self._world.pods.values():
            waits = owns(reservation, pod) and not pod["spec"].get("nodeName") and not is_leaving(pod)
            needed = requests(pod) | claims_to_devices(pod["spec"])
            room = room_of(reservation) | claims_to_devices(reservation["spec"])
            fits = all(units <= room.get(name, 0) for name, units in needed.items())
            names = pod["metadata"]["name"], reservation["metadata"]["name"]
            self._world.expect(not (waits and fits), f"I5: {names[0]} waits, though {names[1]} is its own")


def room_in_use(reservations: Sequence[Json], pods: Sequence[Json]) -> Amounts:
    """Return the largest part of the reservations' capacity on a node that pods use without ending them.

    An owner of several may use them all. So the use is a maximum flow from pods to reservations, which is as
    large as the smallest cut. Borrowers use any borrowable reservation.
    """
    reused = [reservation for reservation in reservations if _is_for_reuse(reservation)]
    lent = total(
        room_of(reservation) for reservation in reservations if reservation["spec"].get("borrowable")
    )
    borrowed = total(requests(pod) for pod in pods if borrows(pod))
    names = {name for reservation in reused for name in room_of(reservation)}
    return total(
        [
            {name: min(_cuts(reused, pods, name)) for name in names},
            {name: min(units, borrowed.get(name, Decimal(0))) for name, units in lent.items()},
        ]
    )


def excess(world: World, node_name: str, held: Iterable[Json]) -> Amounts:
    """Return by how much bound pods and these reservations exceed the capacity of a node.

    What a node has none of is provided by devices, which have rules of their own.
    """
    reservations, pods = list(held), [each for each in world.pods.values() if uses_room_of(each, node_name)]
    taken = total([*map(requests, pods), *map(room_of, reservations)])
    used = room_in_use(reservations, pods)
    room = amounts(world.nodes[node_name]["status"]["allocatable"])
    over = {name: taken.get(name, 0) - used.get(name, 0) - units for name, units in room.items()}
    return {name: units for name, units in over.items() if units > 0}


def _cuts(reservations: Sequence[Json], pods: Sequence[Json], name: str) -> Iterable[Decimal]:
    for full in chain.from_iterable(
        combinations(reservations, size) for size in range(len(reservations) + 1)
    ):
        owners = [
            pod
            for pod in pods
            if any(owns(reservation, pod) for reservation in reservations if reservation not in full)
        ]
        yield sum((room_of(reservation).get(name, Decimal(0)) for reservation in full), Decimal(0)) + sum(
            (requests(pod).get(name, Decimal(0)) for pod in owners), Decimal(0)
        )


def _is_for_reuse(reservation: Json) -> bool:
    return bool(reservation["spec"].get("reuse") == "Always")


def _node_of(reservation: Json) -> str:
    return str(reservation["status"]["nodeName"])
