"""The search for devices against an enumeration of all assignments, and devices in flight."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builders import Json, node
from devices import (
    DRIVER,
    allocated,
    attributes,
    compile_model,
    device,
    device_class,
    device_slice,
    request,
    resource_claim,
    taint_rule,
    wanting,
    wanting_all,
)
from property.oracles import dynamic_resources as oracle
from property.oracles.dynamic_resources import Inventory
from tidelock.devices.allocated import AllocatedState
from tidelock.devices.allocator import DeviceAllocator
from tidelock.devices.errors import AllocationError
from tidelock.devices.pools import ResourcePools
from tidelock.devices.requests import prepare
from tidelock.devices.results import results
from tidelock.devices.selection import DeviceSelection
from tidelock.model.devices import ResourceSlice
from tidelock.model.resource_claims import ResourceClaim

NODES = [node("node-a", labels={"zone": "a"}), node("node-b", labels={"zone": "b"})]
MODELS = st.sampled_from(["x", "x", "y"])
CLASSES = {"gpu": device_class("gpu"), "only-x": device_class("only-x", "x")}
MOST_ASSIGNMENTS = 1500
NAMES = ["d0", "d1", "d2", "d3"]
TOLERATED = {"tolerations": [{"key": "hot", "operator": "Exists"}]}


def zone(value: str) -> Json:
    wanted = {"key": "zone", "operator": "In", "values": [value]}
    return {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}


PLACES: st.SearchStrategy[Json] = st.sampled_from(
    [{"nodeName": "node-a"}, {"nodeName": "node-b"}, {"allNodes": True}, {"nodeSelector": zone("a")}]
)
POLICIES: st.SearchStrategy[Json] = st.sampled_from(
    [
        {},
        {"requestPolicy": {"default": "2"}},
        {"requestPolicy": {"default": "2", "validValues": ["2", "3"]}},
        {"requestPolicy": {"default": "2", "validRange": {"min": "2", "max": "6", "step": "2"}}},
    ]
)


@st.composite
def devices(draw: st.DrawFn, name: str, counters: bool) -> Json:
    extra: Json = {"attributes": attributes(rack=draw(st.sampled_from(["r1", "r2"])))}
    if draw(st.integers(0, 3)) == 0:
        extra["taints"] = [{"key": "hot", "effect": draw(st.sampled_from(["NoSchedule", "None"]))}]
    if draw(st.booleans()):
        extra["capacity"] = {"mem": {"value": draw(st.sampled_from(["4", "6"]))} | draw(POLICIES)}
        extra["allowMultipleAllocations"] = draw(st.booleans())
    if counters:
        amount = draw(st.sampled_from(["1", "2"]))
        extra["consumesCounters"] = [{"counterSet": "chip", "counters": {"slots": {"value": amount}}}]
    if draw(st.integers(0, 5)) == 0:
        extra["bindingConditions"] = ["Ready"]
    return device(name, model=draw(MODELS), **extra)


@st.composite
def pools(draw: st.DrawFn, name: str) -> list[ResourceSlice]:
    """Draw the slices of a pool, which may be incomplete, invalid, out of date, or split over nodes."""
    counters = draw(st.booleans())
    parts = draw(st.integers(1, 2))
    total = parts + counters + (draw(st.integers(0, 7)) == 0)
    generation = draw(st.integers(1, 2))
    made: list[ResourceSlice] = []
    names = draw(st.permutations(NAMES))
    for part in range(parts):
        mine = names[part * 2 : part * 2 + draw(st.integers(1, 2))]
        if draw(st.integers(0, 9)) == 0:
            mine = ["d0", *mine][:2]
        place: Json = draw(PLACES)
        drawn = [draw(devices(each, counters)) for each in mine]
        if draw(st.integers(0, 4)) == 0:
            place = {"perDeviceNodeSelection": True}
            drawn = [each | draw(PLACES) for each in drawn]
        fields: Json = {"pool": name, "generation": generation, "slices": total}
        made.append(_slice(f"{name}-{part}", *drawn, **place, **fields))
    if counters:
        chip = [{"name": "chip", "counters": {"slots": {"value": draw(st.sampled_from(["1", "2", "3"]))}}}]
        fields = {"pool": name, "generation": generation, "slices": total, "sharedCounters": chip}
        made.append(_slice(f"{name}-counters", **fields, **draw(PLACES)))
    if draw(st.integers(0, 7)) == 0:
        made.append(_slice(f"{name}-old", device("old", model="x"), pool=name, generation=0, allNodes=True))
    if draw(st.integers(0, 11)) == 0:
        made.append(_slice(f"{name}-new", device("new", model="x"), pool=name, generation=3, slices=2))
    return made


def _slice(name: str, *drawn: Json, **fields: Any) -> ResourceSlice:
    node_name = fields.pop("nodeName", "")
    return device_slice(name, *drawn, node_name=node_name, **fields)


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    slices = [each for name in ("p", "q")[: draw(st.integers(1, 2))] for each in draw(pools(name))]
    users = []
    everything = [(each, known) for each in slices for known in each.spec.devices]
    for index in range(draw(st.integers(0, 2)) if everything else 0):
        used, known = draw(st.sampled_from(everything))
        extra: Json = {"adminAccess": True} if draw(st.integers(0, 4)) == 0 else {}
        if known.allow_multiple_allocations and known.capacity:
            extra |= {"shareID": f"share-{index}", "consumedCapacity": {"mem": "2"}}
        status = allocated(known.name, pool=used.spec.pool.name, **extra)
        users.append(resource_claim(f"user-{index}", status=status))
    rules = [taint_rule("hot", device="d1")] if draw(st.integers(0, 7)) == 0 else []
    return Inventory(slices, CLASSES, users, rules)


@st.composite
def wishes(draw: st.DrawFn, *, alternative: bool) -> Json:
    fields: Json = {"of_class": draw(st.sampled_from(["gpu", "only-x"]))}
    if draw(st.integers(0, 2)) == 0:
        fields["capacity"] = {"requests": {"mem": draw(st.sampled_from(["1", "2", "3", "5"]))}}
    if draw(st.integers(0, 2)) == 0:
        fields |= TOLERATED
    if not alternative and draw(st.integers(0, 5)) == 0:
        fields["adminAccess"] = True
    expressions = draw(st.sampled_from([(), (), ("x",), ("y",)]))
    if draw(st.integers(0, 5)) == 0:
        return wanting_all(*expressions, **fields)
    return wanting(*expressions, count=draw(st.integers(1, 2)), **fields)


@st.composite
def claims(draw: st.DrawFn, name: str, most: int) -> ResourceClaim:
    requests = []
    for index in range(draw(st.integers(1, most))):
        several = draw(st.integers(0, 2)) == 0
        drawn = [draw(wishes(alternative=several)) for _ in range(2 if several else 1)]
        requests.append(request(f"r{index}", *drawn))
    some = st.sampled_from([[], ["r0"], ["r0/a", "r1"]])
    kinds = st.sampled_from(["matchAttribute", "distinctAttribute"])
    plain = str(requests)
    many = draw(st.integers(0, 1)) if "'All'" not in plain else 0  # such a constraint is an error
    constraints = [
        {draw(kinds): f"{DRIVER}/{draw(st.sampled_from(['rack', 'model', 'none']))}", "requests": draw(some)}
        for _ in range(many)
    ]
    return resource_claim(name, *requests, constraints=constraints)


@st.composite
def wanted_claims(draw: st.DrawFn) -> list[ResourceClaim]:
    if draw(st.booleans()):
        return [draw(claims("c0", 2))]
    return [draw(claims("c0", 1)), draw(claims("c1", 1))]


@given(inventories(), wanted_claims())
@settings(deadline=None)
def test_the_first_valid_assignment_is_found_on_each_node(
    inventory: Inventory, wanted: list[ResourceClaim]
) -> None:
    index = ResourcePools()
    for each in inventory.slices:
        index.put(None, each)
    in_use = AllocatedState(each.allocation for each in inventory.allocated if each.allocation is not None)
    allocator = DeviceAllocator(in_use, DeviceSelection(compile_model), inventory.rules)
    prepared = [prepare(each, inventory.classes.get) for each in wanted]
    for on in NODES:
        there = oracle.pools(inventory, on)
        usable = [pool for pool in there if not pool.state]
        number = 1
        for ways in oracle.options(inventory, usable, wanted):
            number *= len(ways)
        assume(number <= MOST_ASSIGNMENTS)
        expected = oracle.allocate(inventory, on, wanted)
        if isinstance(expected, str):
            with pytest.raises(AllocationError, match=expected):
                allocator.allocate(prepared, index.of(on))
            continue
        solution, _ = allocator.allocate(prepared, index.of(on))
        if solution is None:
            assert expected is None
            continue
        assert expected is not None
        found = [
            (claim, each.request, each.id)
            for claim, result in enumerate(results(prepared, solution, on.name))
            for each in result.devices.results
        ]
        assert found == [(each.claim, each.name, each.id) for each in expected]
        for claim, chosen in enumerate(solution.devices):
            amounts = [oracle.consumption(e.wanted, e.device) for e in expected if e.claim == claim]
            for taken, amount in zip(chosen, amounts, strict=True):
                if taken.consumed is not None:
                    assert amount == {name: nanos // 10**9 for name, nanos in taken.consumed.items()}


@given(st.lists(inventories().flatmap(lambda each: st.permutations(each.slices)), min_size=2, max_size=4))
@settings(deadline=None)
def test_the_devices_of_a_node_follow_every_change_of_slices(changes: list[list[ResourceSlice]]) -> None:
    """Check the kept results against an index that has never seen another version."""
    index = ResourcePools()
    known: dict[str, ResourceSlice] = {}
    there = [node("node-a", labels={"zone": "a"}), node("node-b", labels={"zone": "b"})]
    for slices in changes:
        wanted = {each.meta.name: each for each in slices}
        for name in [*known.keys() - wanted.keys()]:
            index.put(known.pop(name), None)
            _assert_like_new(index, known)
        for name, each in wanted.items():
            index.put(known.get(name), each)
            known[name] = each
            for on in there:
                index.of(on)
        for on in there:
            assert _ids(index, on) == _ids(_new_index(known), node(on.name, labels=dict(on.meta.labels)))


def _assert_like_new(index: ResourcePools, known: dict[str, ResourceSlice]) -> None:
    for on in NODES:
        assert _ids(index, on) == _ids(_new_index(known), on)


def _new_index(known: dict[str, ResourceSlice]) -> ResourcePools:
    index = ResourcePools()
    for each in known.values():
        index.put(None, each)
    return index


def _ids(index: ResourcePools, on: Any) -> object:
    found = index.of(on)
    pools = [(pool.id, pool.complete, pool.invalid, pool.counters) for pool in found.pools]
    return pools, [(each.id, each.device) for each in found.candidates]
