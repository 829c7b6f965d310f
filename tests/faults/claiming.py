"""Rules of devices: each has one user, and a bound pod has those that it asks for on its node.

The user is a claim, or a reservation that waits for its owner.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from math import inf

from faults.history import CLAIMS, Change, Json, devices_of
from faults.reading import controller_of, devices_asked_of, holds, is_bound, owns
from faults.world import ROOMLESS, World

_EXTENDED = "resource.kubernetes.io/extended-resource-claim"

Device = tuple[str, str]
"""Pool and name. The run has one driver."""


class Claiming:
    """The rules of claims and of reservations that hold devices."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pods: dict[str, Json] = {}  # by uid, also those that are gone
        self._allocated_at: dict[str, float] = {}  # loop times of allocations, by the uid of the claim

    def see(self, each: Change, before: Json | None) -> None:
        """Check the users of devices at each change of a claim or a reservation, and pods that are bound."""
        if each.kind == "pods":
            self._pods[each.uid] = each.state
            came = before is not None and is_bound(each.state) and not before["spec"].get("nodeName")
            if came and each.uid not in self._world.circumstances.foreign:
                self._check_claims(each)
        elif each.kind in (CLAIMS.plural, "reservations"):
            if devices_of(each.state) and not (before and devices_of(before)):
                self._allocated_at[each.uid] = each.at
            surely = (
                reservation
                for reservation in self._world.reservations.values()
                if self._world.surely_has_room(reservation, each)
                and reservation["status"]["nodeName"] not in self._world.disturbed
                and len(held_by(reservation)) <= len(devices_asked_of(reservation["spec"]))
            )
            self._check_users(surely, self._may_be_for, f"at {each}")

    def see_rest(self, now: float) -> None:
        """Check the users of all devices, and that each active reservation has those that it asks for."""
        del now
        for claim in self._claims:
            self._check_left_over(claim)
        active = [each for each in self._world.reservations.values() if holds(each)]
        self._check_users(active, self._is_for, "at rest")
        for reservation in active:
            name, status = reservation["metadata"]["name"], reservation["status"]
            # A resource that an edit has added waits for capacity, and the status does not name it.
            asked = devices_asked_of(reservation["spec"])
            wanted = [each for each in asked if "/" not in each or each in status["resources"]]
            has = _purposes(reservation)
            self._world.expect(has == wanted, f"I1: {name} holds devices for {has}, not {wanted}")
            near = all(pool == status["nodeName"] for pool, _ in held_by(reservation))
            self._world.expect(near, f"I1: {name} on {status['nodeName']} holds {held_by(reservation)}")

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return whether the claim of a former owner has a device that a reservation held until an edit."""
        former = [*self._world.heard_of(each.uid, -inf)]
        lost = (
            claim
            for claim in self._claims
            if not {*devices_of(claim)}.isdisjoint(held_by(before)) and not self._is_for(claim, each.state)
        )
        has_left = any(self._was_for(claim, former) for claim in lost)
        return reason in ROOMLESS | {"Waiting", "Violated"} and has_left

    def _check_claims(self, each: Change) -> None:
        """Check that a pod that was bound uses claims with the devices of its node that it asks for."""
        node_name = each.state["spec"]["nodeName"]
        claims = [one for one in self._claims if controller_of(one).get("uid") == each.uid]
        used = [
            pool
            for claim in claims
            for pool, _ in devices_of(claim)
            if each.uid in {user["uid"] for user in claim["status"].get("reservedFor", [])}
        ]
        wanted = [node_name for _ in devices_asked_of(each.state["spec"])]
        self._world.expect(used == wanted, f"I1: {each}: it has devices of {used}, not of {wanted}")

    def _check_left_over(self, claim: Json) -> None:
        """Check that a claim that the operator made for the binding of its pod is used by it."""
        name, pod = claim["metadata"]["name"], self._world.pods.get(controller_of(claim)["name"])
        if _EXTENDED in claim["metadata"].get("annotations", {}) and pod is not None:
            there = (
                bool(pod["spec"].get("nodeName")) and pod["metadata"]["uid"] == controller_of(claim)["uid"]
            )
            self._world.expect(there, f"I5: {name} was made for a binding of its pod, which is not bound")

    def _check_users(
        self, reservations: Iterable[Json], is_for: Callable[[Json, Json], bool], when: str
    ) -> None:
        """Check that no device has two users. A reservation is none if the claim `is_for` its owner."""
        users: defaultdict[Device, list[str]] = defaultdict(list)
        with_devices = [(claim, devices_of(claim)) for claim in self._claims]
        for claim, devices in with_devices:
            for device in devices:
                users[device].append(f"claim {claim['metadata']['name']}")
        for reservation in reservations:
            for device in held_by(reservation):
                has = (claim for claim, devices in with_devices if device in devices)
                if not any(is_for(claim, reservation) for claim in has):
                    users[device].append(f"reservation {reservation['metadata']['name']}")
        for device, names in users.items():
            self._world.expect(len(names) == 1, f"I1: {device} belongs to {names}, {when}")

    def _is_for(self, claim: Json, reservation: Json) -> bool:
        """Return whether the pod of a claim is an owner of a reservation."""
        pod = self._world.pods.get(controller_of(claim).get("name", ""))
        return pod is not None and owns(reservation, pod)

    def _may_be_for(self, claim: Json, reservation: Json) -> bool:
        """Return whether the pod of a claim was an owner, as far as the operator knew when it allocated.

        The pod may be gone, and its claim is freed soon.
        """
        at = self._allocated_at[claim["metadata"]["uid"]]
        former = self._world.heard_of(reservation["metadata"]["uid"], at)
        return self._was_for(claim, (reservation, *former))

    def _was_for(self, claim: Json, versions: Iterable[Json]) -> bool:
        pod = self._pods.get(controller_of(claim)["uid"])
        return pod is not None and any(owns(version, pod) for version in versions)

    @property
    def _claims(self) -> Iterable[Json]:
        return self._world.objects[CLAIMS.plural].values()


def held_by(reservation: Json) -> list[Device]:
    """Return the devices that a reservation reports."""
    return [(each["pool"], each["device"]) for each in reservation["status"].get("devices", [])]


def _purposes(reservation: Json) -> list[str]:
    """Return for which claim, or extended resource, a reservation reports each device."""
    devices = reservation["status"].get("devices", [])
    return [each.get("claim") or each["resourceName"] for each in devices]
