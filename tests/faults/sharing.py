"""What must hold of locks that are shared: their room counts once, as theirs or as that of who is in it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import chain, combinations

from faults.history import Happening, Json
from faults.reading import (
    Amounts,
    amounts,
    holds,
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
    """The rules of locks for reuse."""

    def __init__(self, world: World) -> None:
        self._world = world

    def see(self, each: Happening, before: Json | None) -> None:
        """No owner ends a lock for reuse."""
        del before
        if each.kind == "reservations" and _for_reuse(each.state):
            self._world.expect(phase_of(each.state) != "Consumed", f"I2: {each}: it is for reuse")

    def see_rest(self, now: float) -> None:
        """What locks say of those who are in them is so, and they are used as far as that goes."""
        del now
        by_node: defaultdict[str, list[Json]] = defaultdict(list)
        for lock in self._world.locks.values():
            if holds(lock) and _for_reuse(lock):
                by_node[lock["status"]["nodeName"]].append(lock)
        for node_name, locks in by_node.items():
            pods = [pod for pod in self._world.pods.values() if uses_room_of(pod, node_name)]
            told = total(amounts(lock["status"].get("used", {})) for lock in locks)
            used = {name: units for name, units in room_in_use(locks, pods).items() if units}
            self._world.expect(told == used, f"I5: {used} of locks on {node_name} is used, and {told} told")
            for lock in locks:
                self._check_holder(lock, pods)

    def explains(self, reason: str, before: Json, each: Happening) -> bool:
        """Nothing but what ends any lock ends one that is shared."""
        del reason, before, each
        return False

    def _check_holder(self, lock: Json, pods: Iterable[Json]) -> None:
        name, holder = lock["metadata"]["name"], lock["status"].get("boundPod", {}).get("uid")
        inside = {pod["metadata"]["uid"] for pod in pods if owns(lock, pod)}
        self._world.expect(
            says(lock, "Occupied") == bool(holder), f"I5: {name} says who is in it, or that nobody is"
        )
        self._world.expect(not holder or holder in inside, f"I5: {holder} is not in {name}")


def room_in_use(locks: Iterable[Json], pods: Sequence[Json]) -> Amounts:
    """Tell what of the room of locks on a node its pods use without ending them, at the most.

    An owner of several may use them all: as much flows from pods to locks as the smallest cut lets through.
    """
    reused = [lock for lock in locks if _for_reuse(lock)]
    names = {name for lock in reused for name in room_of(lock)}
    return {name: min(_cuts(reused, pods, name)) for name in names}


def _cuts(locks: Sequence[Json], pods: Sequence[Json], name: str) -> Iterable[Decimal]:
    for full in chain.from_iterable(combinations(locks, size) for size in range(len(locks) + 1)):
        owners = [pod for pod in pods if any(owns(lock, pod) for lock in locks if lock not in full)]
        yield sum((room_of(lock)[name] for lock in full), Decimal(0)) + sum(
            (requests(pod).get(name, Decimal(0)) for pod in owners), Decimal(0)
        )


def _for_reuse(lock: Json) -> bool:
    return bool(lock["spec"].get("reuse") == "Always")
