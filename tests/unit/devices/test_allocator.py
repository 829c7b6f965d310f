from typing import Any

import pytest

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
from tidelock.devices.allocated import AllocatedState
from tidelock.devices.allocator import DeviceAllocator
from tidelock.devices.errors import AllocationError, SearchLimitError
from tidelock.devices.pools import ResourcePools
from tidelock.devices.requests import class_not_found, prepare
from tidelock.devices.results import results
from tidelock.devices.selection import CompiledSelector, DeviceSelection
from tidelock.model.devices import Device, DeviceTaintRule, ResourceSlice
from tidelock.model.resource_claims import AllocationResult, ResourceClaim

OPAQUE = {"opaque": {"driver": DRIVER, "parameters": {"name": "class"}}}
CLASSES = {
    "gpu": device_class("gpu"),
    "broken": device_class("broken", "broken"),
    "configured": device_class("configured", config=[OPAQUE]),
}


def allocations(
    slices: list[ResourceSlice],
    *claims: ResourceClaim,
    in_use: list[Json] | None = None,
    rules: tuple[DeviceTaintRule, ...] = (),
    steps: int = 1000,
) -> tuple[AllocationResult, ...] | None:
    """Allocate the claims on node-a, beside claims with these statuses."""
    pools = ResourcePools()
    for each in slices:
        pools.put(None, each)
    users = [resource_claim("user", status=each) for each in in_use or []]
    state = AllocatedState(each.allocation for each in users if each.allocation is not None)
    prepared = [prepare(each, CLASSES.get) for each in claims]
    allocator = DeviceAllocator(state, DeviceSelection(compile_model), rules)
    on = node("node-a", labels={"zone": "a"})
    solution, _ = allocator.allocate(prepared, pools.of(on), steps)
    return None if solution is None else results(prepared, solution, on.name)


def names(*args: Any, **options: Any) -> list[str] | None:
    """Return the devices of all claims, in order."""
    found = allocations(*args, **options)
    if found is None:
        return None
    return [each.device for result in found for each in result.devices.results]


PLAIN = [device_slice("s", "d0", "d1", "d2", pool="a")]


def test_the_first_free_devices_are_allocated() -> None:
    wanted = resource_claim("c", request("r", wanting(count=2)))
    assert names(PLAIN, wanted, in_use=[allocated("d0")]) == ["d1", "d2"]
    assert names(PLAIN, wanted, in_use=[allocated("d0", "d1")]) is None


def test_two_claims_of_a_pod_get_different_devices() -> None:
    assert names(PLAIN, resource_claim("c"), resource_claim("d")) == ["d0", "d1"]


def test_an_earlier_choice_is_changed_if_a_later_request_needs_the_device() -> None:
    slices = [device_slice("s", device("d0", model="x"), device("d1", model="y"))]
    first, second = request("any", wanting()), request("x", wanting("x"))
    assert names(slices, resource_claim("c", first, second)) == ["d1", "d0"]


def test_a_device_with_admin_access_may_be_in_use() -> None:
    admin = resource_claim("c", request("r", wanting(adminAccess=True)))
    found = allocations(PLAIN, admin, in_use=[allocated("d0")])
    assert found is not None
    (result,) = found[0].devices.results
    assert (result.device, result.admin_access) == ("d0", True)
    assert names(PLAIN, resource_claim("c"), in_use=[allocated("d0", adminAccess=True)]) == ["d0"]
    twice = [request("r", wanting(adminAccess=True)), request("s", wanting(adminAccess=True))]
    assert names(PLAIN, resource_claim("c", *twice)) == ["d0", "d1"]


def test_all_devices_are_allocated_or_none() -> None:
    everything = resource_claim("c", request("r", wanting_all()))
    assert names(PLAIN, everything) == ["d0", "d1", "d2"]
    assert names(PLAIN, everything, in_use=[allocated("d1")]) is None
    assert names([], everything) is None


def test_the_first_of_several_errors_is_that_of_kube_scheduler() -> None:
    """Pools and their devices are looked at in order, and first of all for requests of all devices."""
    slices = [device_slice("s", "d0", pool="a"), device_slice("t", "d1", pool="b", slices=2)]
    exact, every = request("r", wanting(of_class="broken")), request("all", wanting_all())
    with pytest.raises(AllocationError, match="is currently being updated"):
        names(slices, resource_claim("c", exact, every))
    failing = request("all", wanting_all(of_class="broken"))
    with pytest.raises(AllocationError, match="class broken: selector #0"):
        names(slices, resource_claim("c", failing))


def test_the_first_possible_alternative_is_chosen() -> None:
    wanted = resource_claim("c", request("r", wanting(count=3), wanting(count=2)))
    found = allocations(PLAIN, wanted, in_use=[allocated("d0")])
    assert found is not None
    assert [(each.request, each.device) for each in found[0].devices.results] == [
        ("r/b", "d1"),
        ("r/b", "d2"),
    ]


RACKS = [
    device_slice(
        "s",
        *(device(f"d{index}", attributes=attributes(rack=rack)) for index, rack in enumerate("rstst")),
    )
]


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({"matchAttribute": f"{DRIVER}/rack"}, ["d1", "d3"]),
        ({"matchAttribute": f"{DRIVER}/rack", "requests": ["r/b"]}, ["d1", "d3"]),
        ({"distinctAttribute": f"{DRIVER}/rack"}, ["d0", "d1", "d2"]),
        ({"matchAttribute": "other.example.com/rack"}, None),
        ({"matchAttribute": f"{DRIVER}/rack", "requests": ["other"]}, ["d0", "d1"]),
    ],
)
def test_constraints_compare_an_attribute_of_all_devices(
    constraint: Json, expected: list[str] | None
) -> None:
    count = 3 if "distinctAttribute" in constraint else 2
    either = request("r", wanting(count=9), wanting(count=count))
    assert names(RACKS, resource_claim("c", either, constraints=[constraint])) == expected


@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
def test_a_list_agrees_with_no_other_device(kind: str) -> None:
    """kube-scheduler compares lists with its alpha gate DRAListTypeAttributes only."""
    values = {"numas": {"ints": [0, 1]}}, {"numas": {"ints": [0, 1]}}, {"numas": {"ints": [2]}}
    slices = [device_slice("s", *(device(f"d{n}", attributes=each) for n, each in enumerate(values)))]
    constraint = {kind: f"{DRIVER}/numas"}
    assert names(slices, resource_claim("c", request("r", wanting()), constraints=[constraint])) == ["d0"]
    two = request("r", wanting(count=2))
    assert names(slices, resource_claim("c", two, constraints=[constraint])) is None


def test_distinct_values_exclude_devices_with_the_same_one() -> None:
    constraint = {"distinctAttribute": f"{DRIVER}/rack"}
    wanted = request("r", wanting(count=2))
    assert names(
        RACKS, resource_claim("c", wanted, constraints=[constraint]), in_use=[allocated("d0", "d2", pool="s")]
    ) == [
        "d1",
        "d4",
    ]


def test_devices_that_could_not_be_allocated_leave_constraints_as_they_were() -> None:
    full = shared("d0", "4", default="4") | {"attributes": attributes(rack="r", model="x")}
    other = device("d1", attributes=attributes(rack="s", model="y"))
    used = allocated("d0", shareID="a", consumedCapacity={"memory": "4"})
    either = request("r", wanting_all("x"), wanting("y"))
    wanted = resource_claim("c", either, constraints=[{"matchAttribute": f"{DRIVER}/rack"}])
    assert names([device_slice("s", full, other, pool="a")], wanted, in_use=[used]) == ["d1"]


def test_a_constraint_that_excludes_one_of_all_devices_is_an_error() -> None:
    constraint = {"matchAttribute": f"{DRIVER}/rack"}
    wanted = resource_claim("c", request("r", wanting_all()), constraints=[constraint])
    with pytest.raises(AllocationError, match=r"cannot add device .*/d1 because a claim constraint"):
        names(RACKS, wanted)


def test_a_tainted_device_needs_a_toleration() -> None:
    slices = [device_slice("s", device("d0", taints=[{"key": "hot", "effect": "NoExecute"}]), "d1", pool="a")]
    tolerating = wanting(tolerations=[{"key": "hot", "operator": "Exists", "tolerationSeconds": 5}])
    assert names(slices, resource_claim("c")) == ["d1"]
    found = allocations(slices, resource_claim("c", request("r", tolerating)))
    assert found is not None
    (result,) = found[0].devices.results
    assert result.device == "d0"
    assert result.tolerations[0].toleration_seconds == 5


def test_a_rule_taints_the_devices_that_it_selects() -> None:
    assert names(PLAIN, resource_claim("c"), rules=(taint_rule("drain", device="d0"),)) == ["d1"]
    assert names(PLAIN, resource_claim("c"), rules=(taint_rule("drain", driver=DRIVER, pool="a"),)) is None
    assert names(PLAIN, resource_claim("c"), rules=(taint_rule("drain"),)) == ["d0"]
    assert names(PLAIN, resource_claim("c"), rules=(taint_rule("drain", "None", pool="a"),)) == ["d0"]


def partition(name: str, slots: int, **fields: Any) -> Json:
    consumed = {"counterSet": "chip", "counters": {"slots": {"value": str(slots)}}}
    return device(name, consumesCounters=[consumed], **fields)


def chip(slots: int, *partitions: Json) -> list[ResourceSlice]:
    counters = [{"name": "chip", "counters": {"slots": {"value": str(slots)}}}]
    return [
        device_slice("s0", *partitions, pool="a", slices=2),
        device_slice("s1", pool="a", slices=2, sharedCounters=counters, node_name="node-b"),
    ]


def test_partitions_share_the_counters_of_their_device() -> None:
    slices = chip(3, partition("whole", 3), partition("half", 2), partition("small", 1))
    two = resource_claim("c", request("r", wanting(count=2)))
    assert names(slices, resource_claim("c")) == ["whole"]
    assert names(slices, two) == ["half", "small"]
    assert names(slices, resource_claim("c"), in_use=[allocated("half")]) == ["small"]
    assert names(slices, resource_claim("c"), in_use=[allocated("whole")]) is None


def shared(name: str, amount: str, **policy: Any) -> Json:
    capacity = {"value": amount} | ({"requestPolicy": policy} if policy else {})
    return device(name, allowMultipleAllocations=True, capacity={"memory": capacity})


def memory(amount: str) -> Json:
    return request("r", wanting(capacity={"requests": {"memory": amount}}))


def test_shares_of_a_device_consume_its_capacity() -> None:
    slices = [device_slice("s", shared("d0", "10Gi"), shared("d1", "10Gi"), pool="a")]
    claims = [resource_claim(f"c{index}", memory("6Gi")) for index in range(2)]
    found = allocations(slices, *claims)
    assert found is not None
    each = [result for allocation in found for result in allocation.devices.results]
    assert [(one.device, one.consumed_capacity) for one in each] == [
        ("d0", {"memory": "6Gi"}),
        ("d1", {"memory": "6Gi"}),
    ]
    assert each[0].share_id != each[1].share_id
    used = allocated("d0", shareID="a", consumedCapacity={"memory": "5Gi"})
    assert names(slices, claims[0], in_use=[used]) == ["d1"]
    assert names(slices, resource_claim("c", memory("5Gi")), in_use=[used]) == ["d0"]
    assert names(slices, resource_claim("c", memory("11Gi"))) is None


def test_a_request_without_an_amount_consumes_the_default_or_everything() -> None:
    slices = [device_slice("s", shared("d0", "10"), shared("d1", "10", default="4"))]
    found = allocations(slices, *(resource_claim(f"c{index}") for index in range(3)))
    assert found is not None
    each = [result for allocation in found for result in allocation.devices.results]
    assert [(one.device, one.consumed["memory"] // 10**9) for one in each] == [
        ("d0", 10),
        ("d1", 4),
        ("d1", 4),
    ]


def test_a_further_share_consumes_no_counters_again() -> None:
    part = shared("d0", "10") | {"consumesCounters": partition("", 3)["consumesCounters"]}
    slices = chip(3, part)
    two = [resource_claim(f"c{index}", memory("5")) for index in range(2)]
    assert names(slices, *two) == ["d0", "d0"]
    used = allocated("d0", shareID="a", consumedCapacity={"memory": "5"})
    assert names(slices, two[0], in_use=[used]) == ["d0"]


def test_a_share_that_is_given_back_leaves_the_counters_of_the_first_one() -> None:
    part = shared("d0", "10") | {"consumesCounters": partition("", 3)["consumesCounters"]}
    slices = chip(3, part, part | {"name": "d1"})
    claims = [resource_claim(f"c{index}", memory("5")) for index in range(3)]
    assert names(slices, *claims) is None


def test_a_claim_has_at_most_32_devices() -> None:
    many = [device_slice("s", *(f"d{index}" for index in range(40)))]
    assert names(many, resource_claim("c", request("r", wanting(count=32)))) is not None
    with pytest.raises(AllocationError, match="adding 33 devices exceeds the claim limit of 32"):
        names(many, resource_claim("c", request("r", wanting(count=33))))
    either = request("s", wanting(count=20), wanting())
    found = names(many, resource_claim("c", request("r", wanting(count=20)), either))
    assert found is not None
    assert len(found) == 21


def test_a_request_for_too_many_devices_is_reported_before_later_requests_are_looked_at() -> None:
    incomplete = [device_slice("s", "d0", slices=2)]
    requests = [request("r", wanting(count=33)), request("s", wanting_all())]
    with pytest.raises(AllocationError, match="request r: adding 33 devices exceeds the claim limit"):
        names(incomplete, resource_claim("c", *requests))


def test_a_pod_can_claim_thousands_of_devices() -> None:
    many = [
        device_slice(f"s{part:02}", *(f"d{part}-{index}" for index in range(128)), pool=f"p{part:02}")
        for part in range(16)
    ]
    claims = [resource_claim(f"c{index}", request("r", wanting(count=32))) for index in range(64)]
    found = names(many, *claims, steps=10_000_000)
    assert found is not None
    assert len({*found}) == 64 * 32


def test_a_search_ends_after_a_number_of_steps() -> None:
    many = [device_slice("s", *(device(f"d{index}", model="y") for index in range(30)))]
    impossible = [request("r", wanting(count=10)), request("s", wanting("x"))]
    with pytest.raises(SearchLimitError):
        names(many, resource_claim("c", *impossible))


def test_errors_of_expressions_name_their_origin() -> None:
    with pytest.raises(AllocationError, match="class broken: selector #0: CEL compile error: syntax error"):
        names(PLAIN, resource_claim("c", request("r", wanting(of_class="broken"))))
    with pytest.raises(AllocationError, match=r"claim shop/c: selector #0 on device .*/s/d0: CEL runtime"):
        names([device_slice("s", "d0")], resource_claim("c", request("r", wanting("fails"))))


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (wanting(of_class="none"), class_not_found("none")),
        (wanting(of_class=""), "missing device class name"),
        (wanting() | {"allocationMode": "Some"}, "unsupported count mode Some"),
        (wanting() | {"selectors": [{}]}, "CEL expression empty"),
        (wanting(derivedAttributes=[{"name": "a", "expression": "1"}]), "derived attributes"),
    ],
)
def test_requests_that_are_not_understood_are_refused(wanted: Json, problem: str) -> None:
    with pytest.raises(AllocationError, match=problem):
        names(PLAIN, resource_claim("c", request("r", wanted)))


def test_unknown_kinds_of_requests_and_constraints_are_refused() -> None:
    with pytest.raises(AllocationError, match="unknown request type"):
        names(PLAIN, resource_claim("c", {"name": "r"}))
    with pytest.raises(AllocationError, match="empty constraint"):
        names(PLAIN, resource_claim("c", constraints=[{}]))


def test_expensive_expressions_are_evaluated_further_at_the_next_attempt() -> None:
    evaluated: list[str] = []

    def compile_expensive(expression: str) -> CompiledSelector:
        def matches(driver: str, device: Device) -> tuple[bool, int]:
            evaluated.append(f"{driver}/{device.name}")
            return device.name == "d7", 998_000

        assert expression
        return matches

    pools = ResourcePools()
    pools.put(None, device_slice("s", *(f"d{index}" for index in range(8))))
    devices = pools.of(node("node-a"))
    selection = DeviceSelection(compile_expensive)
    allocator = DeviceAllocator(AllocatedState(), selection)
    prepared = [prepare(resource_claim("c", request("r", wanting("costly"))), CLASSES.get)]
    with pytest.raises(SearchLimitError):
        allocator.allocate(prepared, devices)
    assert len(evaluated) == 4
    selection.begin()
    solution, _ = allocator.allocate(prepared, devices)
    assert solution is not None
    assert len({*evaluated}) == len(evaluated) == 8


def test_long_expressions_are_compiled_one_by_one_over_several_attempts() -> None:
    compiled: list[str] = []

    def compile_slowly(expression: str) -> CompiledSelector:
        compiled.append(expression)
        return lambda _driver, _device: (True, 1)

    pools = ResourcePools()
    pools.put(None, device_slice("s", "d0"))
    devices = pools.of(node("node-a"))
    selection = DeviceSelection(compile_slowly)
    allocator = DeviceAllocator(AllocatedState(), selection)
    long = [letter * 10_000 for letter in "abc"]
    prepared = [prepare(resource_claim("c", request("r", wanting("short", *long, "last"))), CLASSES.get)]
    for attempts in range(1, 3):
        with pytest.raises(SearchLimitError):
            allocator.allocate(prepared, devices)
        assert compiled == ["short", *long][: attempts + 1]
        selection.begin()
    solution, _ = allocator.allocate(prepared, devices)
    assert solution is not None
    assert compiled == ["short", *long, "last"]


def test_as_many_expressions_are_kept_compiled_as_have_64_ki_characters() -> None:
    """256 expressions of 10,000 characters were all kept, and took 590 MB."""
    compiled: list[str] = []

    def compile_counted(expression: str) -> CompiledSelector:
        compiled.append(expression)
        return lambda _driver, _device: (True, 1)

    pools = ResourcePools()
    selection = DeviceSelection(compile_counted)
    allocator = DeviceAllocator(AllocatedState(), selection)

    def ask(number: int) -> None:
        pools.put(None, device_slice("s", "d0"))  # a new slice has no results yet
        expression = str(number).rjust(10_000)
        selection.begin()
        allocator.allocate(
            [prepare(resource_claim("c", request("r", wanting(expression))), CLASSES.get)],
            pools.of(node("node-a")),
        )

    for number in range(7):
        ask(number)
    ask(6)
    assert len(compiled) == 7
    ask(0)
    assert len(compiled) == 8


def test_an_alternative_for_all_devices_needs_complete_pools_even_if_the_first_one_gets_some() -> None:
    """Guard against a claim that got a device here, and that kube-scheduler refuses at the time."""
    wanted = resource_claim("c", request("r", wanting(), wanting_all()))
    assert names([device_slice("s", "d0", pool="a")], wanted) == ["d0"]
    with pytest.raises(AllocationError, match="request b: asks for all devices"):
        names([device_slice("s", "d0", pool="a", slices=2)], wanted)
