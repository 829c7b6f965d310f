"""Reservations with devices beside pods with claims, in any order of events, with restarts.

The scalar oracle lists the users of each device. It is made from claims and reservations after each move.
"""

from collections import defaultdict
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from msgspec.structs import replace

from builders import NAMESPACE, Json, encode, pod, reservation_json
from devices import claim_json, claim_template, claiming_from, pod_template, put, request, wanting
from tidelock.ledger.output.status import render_reservation
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.pods import Pod, assigned_to
from tidelock.model.reservation import decode_reservation
from tidelock.model.resource_claims import ResourceClaim, decode_resource_claim
from tidelock.scheduler.core.cycle import AssumedPod
from unit.scheduler.device_core import DeviceCore, held

NODES = ("node-a", "node-b")
WORKLOAD = [{"selector": {"matchLabels": {"app": "web"}}}]
ENDED = (Phase.CONSUMED, Phase.EXPIRED, Phase.REJECTED, Phase.LOST)
WANTS = {"one": 1, "two": 2}
HISTORIES = 2_000 if settings.get_current_profile_name() == "explore" else 32
MOVES_OF_A_HISTORY = 40

KINDS = [("one",), ("one",), ("two",), ("one", "two")]
LIVES: list[Json] = [
    *({}, {}, {}),
    {"reuse": "Always"},
    {"ttlSeconds": 30},
    {"priority": 5},
    {"borrowable": True},
]
MOVES = [
    *("reserve", "reserve", "reserve", "create_pod", "create_pod", "create_pod", "create_pod"),
    *("finish_binding", "finish_binding", "finish_binding", "end_pod", "cancel", "pass_time", "restart"),
    "edit_owners",
]
FAILING = [
    *("reserve", "create_pod", "create_pod", "finish_binding", "finish_binding", "finish_binding"),
    *("pass_time", "end_pod", "restart"),
]


class World:
    """Two nodes with three devices each. The API server is a few dictionaries.

    Attributes:
        moves: the moves, of which frequent ones stand there several times.
        for_any: the share of reservations for any pod of the workload.
        bound, failed_late: the shares of bindings that succeed, and that fail after the claims are written.

    """

    moves = MOVES
    for_any, bound, failed_late = 0.4, 0.5, 0.25

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.reservations: dict[str, Json] = {}
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.binding: dict[str, AssumedPod] = {}
        self.versions = 0
        self.core = self.new_core()
        self.core.list_all()

    def new_core(self) -> DeviceCore:
        core = DeviceCore(*NODES, devices=3, listed=False)
        put(core.objects, claim_template("one"), claim_template("two", request("gpu", wanting(count=2))))
        return core

    # The API server.

    def version(self) -> int:
        self.versions += 1
        return self.versions

    def store_statuses(self) -> None:
        """Write the statuses that have changed. Ended reservations are deleted, as their specs ask."""
        for name, stored in list(self.reservations.items()):
            entry = self.core.ledger.entries.get(Key(NAMESPACE, name))
            if entry is None:
                continue
            stored["status"] = render_reservation(entry, self.core.clock.now())
            stored["metadata"]["resourceVersion"] = str(self.version())
            self.core.ledger.acknowledge(decode_reservation(encode(stored)))
            if entry.phase in ENDED:
                self.delete(name)

    def delete(self, name: str) -> None:
        del self.reservations[name]
        self.core.event_handlers.reservations.remove(self.core.entry(name).reservation)

    # Moves.

    def reserve(self) -> None:
        kinds, life = self.rng.choice(KINDS), self.rng.choice(LIVES)
        for_any = self.rng.random() < self.for_any
        owners: Json = {"owners": WORKLOAD} if for_any else {"owners": self.one_owner()}
        name = f"lock-{self.rng.randrange(10)}-{self.version()}"
        plain = reservation_json(
            name,
            uid=name,
            version=self.version(),
            resources=None,
            template=pod_template(*kinds),
            **(life | owners),
        )
        self.reservations[name] = plain
        self.core.event_handlers.reservations.upsert(None, decode_reservation(encode(plain)))

    def one_owner(self) -> list[Json]:
        return [{"pod": {"name": self.rng.choice(["web-0", "web-1"])}}]

    def edit_owners(self) -> None:
        """Name another owner, which may be the same, or bound already."""
        if self.reservations:
            stored = self.reservations[self.rng.choice(sorted(self.reservations))]
            known = self.core.entry(stored["metadata"]["name"]).reservation
            stored["spec"]["owners"] = self.one_owner()
            stored["metadata"]["generation"] += 1
            stored["metadata"]["resourceVersion"] = str(self.version())
            self.core.event_handlers.reservations.upsert(known, decode_reservation(encode(stored)))
            self.core.answer()

    def cancel(self) -> None:
        if self.reservations:
            self.delete(self.rng.choice(sorted(self.reservations)))

    def create_pod(self) -> None:
        """Create a pod, mostly with the claims of a reservation for it."""
        own = self.rng.random() < 0.7
        kinds, name = self.rng.choice(KINDS), f"{'web' if own else 'other'}-{self.rng.randrange(2)}"
        if name in self.pods:
            return
        locks = [lock for lock in self.reservations if self.owns(name, lock)]
        if locks and self.rng.random() < 0.8:
            claims = self.reservations[self.rng.choice(locks)]["spec"]["template"]["spec"]["resourceClaims"]
            kinds = tuple(each["name"] for each in claims)
        uid = f"{name}-{self.version()}"
        annotations = {"tidelock.dev/borrows": "true"} if self.rng.random() < 0.2 else {}
        labels = {"app": "web"} if own else {}
        made = pod(name, uid=uid, labels=labels, annotations=annotations, **claiming_from(*kinds, pod=name))
        self.pods[name] = made
        for kind in kinds:
            template = self.core.objects.resource_claim_templates.get(kind, NAMESPACE)
            assert template is not None
            plain = claim_json(f"{name}-{kind}", owner=name, version=self.version())
            plain["metadata"]["ownerReferences"][0]["uid"] = uid
            claim = replace(decode_resource_claim(encode(plain)), spec=template.spec.spec)
            self.claims[claim.meta.name] = claim
            put(self.core.objects, claim)
        self.core.add(made)

    def decide(self) -> None:
        for outcome in self.core.decide():
            if isinstance(outcome, AssumedPod):
                self.binding[outcome.pod.meta.name] = outcome
        self.store_statuses()

    def pass_time(self) -> None:
        self.core.clock.advance(self.rng.choice([1, 31, 400]))

    def finish_binding(self) -> None:
        """Bind a pod, or fail before or after its claims are written."""
        if not self.binding:
            return
        name, outcome = self.rng.choice(sorted(self.binding)), self.rng.random()
        binds, writes = outcome < self.bound, outcome < self.bound + self.failed_late
        assumed = self.binding.pop(name)
        if writes:
            for claim in self.core.claims_of(assumed.pod):
                allocation = self.core.objects.resource_claims.in_flight.get(claim.key)
                if allocation is not None:
                    stored = replace(claim, status=replace(claim.status, allocation=allocation))
                    self.claims[claim.meta.name] = stored
                    put(self.core.objects, stored)
        if not binds:
            self.core.decider.binding_failed(assumed, self.core.clock.now())
            return
        bound = assigned_to(assumed.pod, assumed.node_name)
        self.pods[name] = bound
        self.core.decider.bound(assumed, self.core.clock.now())
        self.core.event_handlers.pods.upsert(assumed.pod, bound)
        self.core.answer()
        self.store_statuses()

    def end_pod(self) -> None:
        there = sorted(self.pods.keys() - self.binding.keys())
        if not there:
            return
        gone = self.pods.pop(self.rng.choice(there))
        for claim in self.core.claims_of(gone):
            del self.claims[claim.meta.name]
        self.core.end(gone)

    def restart(self) -> None:
        """Begin again with what is stored. Bindings under way have failed."""
        self.store_statuses()
        now = self.core.clock.time
        before = {name: held(self.core.entry(name)) for name in self.reservations}
        self.binding.clear()
        self.start_again(now)
        for name, devices in before.items():
            assert held(self.core.entry(name)) == devices

    def start_again(self, now: float) -> None:
        self.core = core = self.new_core()
        core.clock.time = now
        put(core.objects, *self.claims.values())
        core.add(*self.pods.values())
        for stored in self.reservations.values():
            core.event_handlers.reservations.upsert(None, decode_reservation(encode(stored)))
        core.list_all()
        core.answer()

    # The oracle.

    def check(self) -> None:
        """Check everything that holds at any time."""
        self.no_device_is_given_twice()
        self.reservations_hold_what_they_ask_for()
        self.the_index_follows_the_records()
        self.an_owner_in_binding_has_the_devices_of_its_reservations()
        self.a_reservation_is_for_the_pod_with_its_devices()

    def having(self) -> dict[str, list[tuple[str, str]]]:
        """Return the users of each device: claims with the names of their pods, and reservations."""
        found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        claims = self.core.objects.resource_claims
        for claim in claims.all():
            allocation = claim.allocation or claims.in_flight.get(claim.key)
            owner = claim.meta.owner_references[0].name
            for each in allocation.devices.results if allocation is not None else ():
                found[each.device].append(("claim", owner))
        for entry in self.core.ledger.entries.values():
            for device in held(entry):
                found[device].append(("lock", entry.key.name))
        return found

    def owns(self, name: str, lock: str) -> bool:
        owners: Any = self.reservations[lock]["spec"]["owners"]
        if owners == WORKLOAD:
            return name.startswith("web-")
        return bool(owners[0]["pod"]["name"] == name)

    def no_device_is_given_twice(self) -> None:
        """Check that a device has one claim and one reservation at most, of which the claim is an owner's.

        The claim of a former owner has the device alone from the next decision on, or after its binding.
        """
        settled = not (self.core.ledger.holdings.former_owners or self.core.decider.taken_devices.pending)
        for device, users in self.having().items():
            claims = [name for kind, name in users if kind == "claim"]
            locks = [name for kind, name in users if kind == "lock"]
            assert len(claims) <= 1, (device, users)
            assert len(locks) <= 1, (device, users)
            owned = all(self.owns(name, lock) for name in claims for lock in locks)
            assert owned or not settled, (device, users)

    def reservations_hold_what_they_ask_for(self) -> None:
        """Check that one with a node has all devices there, and an ended or waiting one has none.

        An owner may also take a reservation that still waits.
        """
        for entry in self.core.ledger.entries.values():
            asked = entry.reservation.pod
            assert asked is not None
            number = sum(WANTS[each.name] for each in asked.spec.resource_claims)
            if entry.phase in (Phase.ACTIVE, Phase.BOUND) and entry.node:
                assert len(held(entry)) == number, entry.key
                assert {each.device[0] for each in entry.devices} == {entry.node.removeprefix("node-")}
            else:
                assert not entry.devices, entry.key

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

    def an_owner_in_binding_has_the_devices_of_its_reservations(self) -> None:
        """Check that the claims of an owner get exactly the devices that were held for them.

        They may have some already, by an earlier attempt.
        """
        for name, assumed in self.binding.items():
            if any(each.allocation is not None for each in self.core.claims_of(assumed.pod)):
                continue
            claim = self.core.ledger.claims.in_flight.get(assumed.pod.uid)
            entries = claim.entries if claim is not None else ()
            for entry in entries:
                asked = {each.name for each in assumed.pod.spec.resource_claims}
                if entry.node == assumed.node_name and {each.claim for each in entry.devices} == asked:
                    mine = self.core.devices_of(assumed.pod)
                    assert len(entries) > 1 or mine == held(entry), (name, mine, held(entry))

    def a_reservation_is_for_the_pod_with_its_devices(self) -> None:
        """Check that no pod has the devices of a reservation but its owner in binding, or owners that wait.

        The pods that use a reusable reservation on its node have its devices, too. So have former owners that
        were bound, until the next decision.
        """
        former_owners = self.core.ledger.holdings.former_owners.values()
        for entry in self.core.ledger.entries.values():
            users = {
                name
                for device in held(entry)
                for kind, name in self.having()[device]
                if kind == "claim" and name in self.pods
            }
            if entry.reservation.reusable or entry.phase not in (Phase.ACTIVE, Phase.BOUND):
                continue
            if entry in former_owners:
                continue
            if entry.phase is Phase.BOUND:
                assert entry.bound_pod is not None
                assert users <= {entry.bound_pod.name}, (entry.key, users)
            else:
                placed = {each for each in users if self.pods[each].node_name or each in self.binding}
                assert not placed, (entry.key, placed)


class FailingBindings(World):
    """A world with reservations for any pod of the workload, in which most bindings fail late."""

    moves = FAILING
    for_any, bound, failed_late = 1.0, 0.2, 0.6


@pytest.mark.parametrize("world_of", [World, FailingBindings])
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
