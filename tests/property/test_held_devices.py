"""The search for devices beside held ones, against an enumeration of all assignments."""

from dataclasses import replace
from math import prod

from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replace_struct

from devices import compile_model
from property.oracles import dynamic_resources as oracle
from property.oracles.dynamic_resources import Choice, Inventory
from property.test_dynamic_resources import NODES, inventories, wanted_claims
from tidelock.cluster.index.reserved_devices import ReservedDevices, allocation_of
from tidelock.devices.allocated import AllocatedState, AllocatedToOthers
from tidelock.devices.allocator import DeviceAllocator, Solution
from tidelock.devices.pools import ResourcePools
from tidelock.devices.requests import PreparedClaim, prepare
from tidelock.devices.results import results
from tidelock.devices.selection import DeviceSelection
from tidelock.model.devices import DeviceId
from tidelock.model.nodes import Node
from tidelock.model.resource_claims import PodResourceClaim, ResourceClaim
from tidelock.plugins.dynamic_resources.own_devices import reserved_devices

MOST_ASSIGNMENTS = 200
FEW = settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large],
)
Found = list[tuple[int, str, DeviceId]]


class Held:
    """An inventory, with the devices that a reservation holds for claims on a node."""

    def __init__(self, inventory: Inventory, claims: list[ResourceClaim], on: Node) -> None:
        self.on = on
        self.index = ResourcePools()
        for each in inventory.slices:
            self.index.put(None, each)
        users = (each.allocation for each in inventory.allocated if each.allocation is not None)
        self.in_use = AllocatedState(users)
        self.prepared = [prepare(each, inventory.classes.get) for each in claims]
        solution = self.search(DeviceAllocator(self.in_use, DeviceSelection(compile_model), inventory.rules))
        assert solution is not None
        self.first = found_by(self.prepared, solution, on)
        in_spec = {each.meta.name: PodResourceClaim(each.meta.name) for each in claims}
        self.devices = tuple(reserved_devices(self.prepared, solution, on.name, in_spec, {}))
        self.reserved = ReservedDevices(self.in_use.count)
        self.reserved.put("uid", self.devices)
        holders = [
            replace_struct(each, status=replace_struct(each.status, allocation=allocation))
            for each, allocation in zip(claims, results(self.prepared, solution, on.name), strict=True)
        ]
        self.inventory = replace(inventory, allocated=[*inventory.allocated, *holders])

    def search(
        self, allocator: DeviceAllocator, prepared: list[PreparedClaim] | None = None
    ) -> Solution | None:
        return allocator.allocate(prepared or self.prepared, self.index.of(self.on))[0]


def found_by(prepared: list[PreparedClaim], solution: Solution, on: Node) -> Found:
    return [
        (claim, each.request, each.id)
        for claim, result in enumerate(results(prepared, solution, on.name))
        for each in result.devices.results
    ]


def enumerated(inventory: Inventory, claims: list[ResourceClaim], on: Node) -> list[Choice] | str | None:
    """Return the first valid assignment, None if there is none, or a text if there are too many to judge."""
    there = [pool for pool in oracle.pools(inventory, on) if not pool.state]
    number = prod(map(len, oracle.options(inventory, there, claims)))
    return oracle.allocate(inventory, on, claims) if number <= MOST_ASSIGNMENTS else "too many"


@st.composite
def holdings(draw: st.DrawFn) -> Held:
    """Draw an inventory, and the devices of some node for some claims that fit there."""
    inventory = draw(inventories())
    for on in (*NODES, *NODES):
        claims = draw(wanted_claims())
        if isinstance(enumerated(inventory, claims, on), list):
            return Held(inventory, claims, on)
    return reject()


@given(holdings(), wanted_claims())
@FEW
def test_strangers_get_what_is_left_beside_held_devices(held: Held, others: list[ResourceClaim]) -> None:
    expected = enumerated(held.inventory, others, held.on)
    assume(not isinstance(expected, str))
    prepared = [prepare(each, held.inventory.classes.get) for each in others]
    allocator = DeviceAllocator(held.in_use, DeviceSelection(compile_model), held.inventory.rules)
    solution = held.search(allocator, prepared)
    if solution is None:
        assert expected is None
        return
    assert isinstance(expected, list)
    assert found_by(prepared, solution, held.on) == [(each.claim, each.name, each.id) for each in expected]


@given(holdings())
@FEW
def test_an_owner_gets_exactly_the_held_devices(held: Held) -> None:
    beside = AllocatedToOthers(held.in_use, allocation_of(held.devices))
    ids = {
        index: frozenset(device.id for device in held.devices if device.claim == each.claim.meta.name)
        for index, each in enumerate(held.prepared)
    }
    only = {index: each for index, each in ids.items() if each}
    rules = held.inventory.rules
    solution = held.search(DeviceAllocator(beside, DeviceSelection(compile_model), rules, only))
    assert solution is not None
    assert found_by(held.prepared, solution, held.on) == held.first

    held.reserved.put("uid", ())
    again = held.search(DeviceAllocator(held.in_use, DeviceSelection(compile_model), rules))
    assert again is not None
    assert found_by(held.prepared, again, held.on) == held.first
