"""Reservations with devices beside pods with claims and extended resources, in any order of events.

The scalar oracle lists the users of each device. It is made from claims and reservations after each move.
"""

from collections import defaultdict
from random import Random

import pytest
from hypothesis import settings

from property.device_world import CHANGING, FAILING, GPU, DeviceWorld
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.scheduler.core.cycle import AssumedPod
from unit.scheduler.device_core import held

WANTS = {"one": 1, "two": 2}
HISTORIES = 2_000 if settings.get_current_profile_name() == "explore" else 24
MOVES_OF_A_HISTORY = 40


class World(DeviceWorld):
    """A world with the oracle."""

    def check(self) -> None:
        """Check everything that holds at any time."""
        self.no_device_is_given_twice()
        self.reservations_hold_what_they_ask_for()
        self.the_index_follows_the_records()
        self.a_reservation_is_for_the_pod_with_its_devices()

    def having(self) -> dict[str, list[tuple[str, str]]]:
        """Return the users of each device: claims with the UIDs of their pods, and reservations."""
        found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        claims = self.core.objects.resource_claims
        stored = {claim.key: claim for claim in claims.all()}
        users = [
            (claim.meta.owner_references[0].uid, claim.allocation)
            for claim in stored.values()
            if claim.allocation is not None
        ]
        for key, allocation in claims.in_flight.items():
            known = stored.get(key)
            uid = key.name.rpartition(" ")[2] if known is None else known.meta.owner_references[0].uid
            users.append((uid, allocation))
        for uid, allocation in users:
            for each in allocation.devices.results:
                found[each.device].append(("claim", uid))
        for entry in self.core.ledger.entries.values():
            for device in held(entry):
                found[device].append(("lock", entry.key.name))
        return found

    def no_device_is_given_twice(self) -> None:
        """Check that a device has one claim and one reservation at most, of which the claim is an owner's.

        The claim of a former owner has the device alone from the next decision on, or after its binding.
        """
        settled = not (self.core.ledger.holdings.former_owners or self.core.decider.taken_devices.pending)
        for device, users in self.having().items():
            claims = [uid for kind, uid in users if kind == "claim"]
            locks = [name for kind, name in users if kind == "lock"]
            assert len(claims) <= 1, (device, users)
            assert len(locks) <= 1, (device, users)
            owned = all(self.owns(uid.rpartition("-")[0], lock) for uid in claims for lock in locks)
            assert owned or not settled, (device, users)

    def reservations_hold_what_they_ask_for(self) -> None:
        """Check that one with a node has all devices there, and an ended or waiting one has none.

        An owner may also take a reservation that still waits.
        """
        for entry in self.core.ledger.entries.values():
            if not (entry.phase in (Phase.ACTIVE, Phase.BOUND, Phase.PLANNED) and entry.node):
                assert not entry.devices, entry.key
                continue
            asked = self.asked_by(entry.key.name)
            claimed = [each for each in entry.devices if each.claim is not None]
            assert len(claimed) == sum(WANTS[each] for each in asked.claims), entry.key
            assert {each.device[0] for each in entry.devices} <= {entry.node.removeprefix("node-")}
            assert len(held(entry)) == len(entry.devices), entry.key
            self.holds_its_gpus(entry)

    def holds_its_gpus(self, entry: ReservationInfo) -> None:
        """Check that devices of the class provide the held GPUs, unless the node publishes GPUs itself.

        A reservation keeps its devices if the node begins to publish GPUs, and while its owner is bound.
        """
        backing = [each for each in entry.devices if each.resource_name == GPU]
        of_class = self.provided(entry.node)
        if entry.phase is not Phase.BOUND:
            amount = entry.reserved.get(GPU, 0)
            if of_class is not None:
                assert len(backing) == amount, (entry.key, amount)
                assert {each.device_class_name for each in backing} <= {of_class.meta.name}, entry.key
            assert len(backing) in (0, amount), (entry.key, amount)

    def the_index_follows_the_records(self) -> None:
        reserved = self.core.objects.resource_claims.reserved
        entries = self.core.ledger.entries.values()
        holders = {each.id: entry.uid for entry in entries for each in entry.devices}
        assert bool(reserved) is bool(holders)
        assert not reserved.any_contested
        for device, uid in holders.items():
            assert list(reserved.holders(device)) == [uid]
        for entry in entries:
            assert reserved.of(entry.uid) == entry.devices
        having, in_use = self.having(), self.core.objects.resource_claims.allocated
        pools = self.core.objects.resource_slices.pools
        for node in self.core.decider.columns.nodes:
            for each in pools.of(node).candidates:
                assert in_use.users(each.id)[0] == len(having.get(each.id.device, [])), each.id

    def decided(self, assumed: AssumedPod) -> None:
        """Check that an owner gets exactly the devices that were held for the same claims and GPUs.

        Its claims may have some already, by an earlier attempt. The claim of a former pod of its name, which
        is gone, may have one until the binding of that pod has failed.
        """
        if any(each.allocation is not None for each in self.claims_of(assumed.pod.uid)):
            return
        claim = self.core.ledger.claims.in_flight.get(assumed.pod.uid)
        entries = [] if claim is None else [each for each in claim.entries if each.devices]
        asked = sorted(each.name for each in assumed.pod.spec.resource_claims)
        gpus = 0 if self.published[assumed.node_name] else assumed.pod.requests.get(GPU, 0)
        having = self.having()
        mine = {device for device, users in having.items() if ("claim", assumed.pod.uid) in users}
        for entry in entries if len(entries) == 1 else ():
            claimed = sorted({each.claim for each in entry.devices if each.claim is not None})
            backing = [each for each in entry.devices if each.resource_name == GPU]
            others = {each for device in held(entry) for each in having[device]} - {
                ("claim", assumed.pod.uid),
                ("lock", entry.key.name),
            }
            if entry.node == assumed.node_name and (claimed, len(backing)) == (asked, gpus) and not others:
                assert mine == held(entry), (assumed.pod.uid, mine, held(entry))

    def a_reservation_is_for_the_pod_with_its_devices(self) -> None:
        """Check that no pod has the devices of a reservation but its owner in binding, or owners that wait.

        The pods that use a reusable reservation on its node have its devices, too. So have former owners that
        were bound, until the next decision.
        """
        former_owners = self.core.ledger.holdings.former_owners.values()
        pods, having = {each.uid: each for each in self.pods.values()}, self.having()
        for entry in self.core.ledger.entries.values():
            users = {
                uid
                for device in held(entry)
                for kind, uid in having[device]
                if kind == "claim" and uid in pods
            }
            if entry.reservation.reusable or entry.phase not in (Phase.ACTIVE, Phase.BOUND):
                continue
            if entry in former_owners:
                continue
            if entry.phase is Phase.BOUND:
                assert entry.bound_pod is not None
                assert users <= {entry.bound_pod.uid}, (entry.key, users)
            else:
                placed = {each for each in users if pods[each].node_name or each in self.binding}
                assert not placed, (entry.key, placed)


class FailingBindings(World):
    """A world with reservations for any pod of the workload, in which most bindings fail late."""

    moves = FAILING
    for_any, bound, failed_late = 1.0, 0.2, 0.6


class ChangingProviders(World):
    """A world in which classes, nodes and slices change, so GPUs are provided in other ways."""

    moves = CHANGING


@pytest.mark.parametrize("world_of", [World, FailingBindings, ChangingProviders])
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_no_device_is_given_twice_and_owners_get_those_that_are_held(
    seed: int, world_of: type[World]
) -> None:
    world = world_of(Random(seed))  # noqa: S311 -- for histories
    for _ in range(MOVES_OF_A_HISTORY):
        getattr(world, world.rng.choice(world.moves))()
        if world.rng.random() < 0.7:
            world.decide()
        world.check()
