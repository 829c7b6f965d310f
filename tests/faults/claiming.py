"""Rules of devices: each has one user, which is a claim, or a reservation that waits for its owner."""

from collections import defaultdict

from faults.history import CLAIMS, Happening, Json, devices_of
from faults.reading import controller_of, holds, owns
from faults.world import World

Device = tuple[str, str]
"""Pool and name."""


class Claiming:
    """The rules of devices. The run has one driver."""

    def __init__(self, world: World) -> None:
        self._world = world

    def see(self, each: Happening, before: Json | None) -> None:
        """Check that no device has two users, whenever a claim or a reservation changes."""
        del before
        if each.kind not in (CLAIMS.plural, "reservations"):
            return
        users: defaultdict[Device, list[str]] = defaultdict(list)
        for name, claim in self._claims.items():
            for device in devices_of(claim):
                users[device].append(f"claim {name}")
        for reservation in self._world.reservations.values():
            if self._world.surely_has_room(reservation, each):
                self._add_holder(users, reservation)
        for device, names in users.items():
            self._world.expect(len(names) == 1, f"I1: {device} belongs to {names}, at {each}")

    def _add_holder(self, users: defaultdict[Device, list[str]], reservation: Json) -> None:
        """Add a reservation to the users of its devices, except where its owner has got one."""
        for device in held_by(reservation):
            claims = (claim for claim in self._claims.values() if device in devices_of(claim))
            if not any(self._is_owners(claim, reservation) for claim in claims):
                users[device].append(f"reservation {reservation['metadata']['name']}")

    @property
    def _claims(self) -> dict[str, Json]:
        return self._world.objects[CLAIMS.plural]

    def _is_owners(self, claim: Json, reservation: Json) -> bool:
        pod = self._world.pods.get(controller_of(claim).get("name", ""))
        return pod is not None and owns(reservation, pod)

    def see_rest(self, now: float) -> None:
        """Check that each active reservation has a device for each claim of its template."""
        del now
        for name, reservation in self._world.reservations.items():
            if holds(reservation):
                template = reservation["spec"].get("template", {"spec": {}})
                wanted = [each["name"] for each in template["spec"].get("resourceClaims", [])]
                has = [each["claim"] for each in reservation["status"].get("devices", [])]
                self._world.expect(has == wanted, f"I1: {name} holds devices for {has}, not {wanted}")

    def explains(self, reason: str, before: Json, each: Happening) -> bool:
        """Return False, as no other program takes a device."""
        del reason, before, each
        return False


def held_by(reservation: Json) -> list[Device]:
    """Return the devices that a reservation reports."""
    return [(each["pool"], each["device"]) for each in reservation["status"].get("devices", [])]
