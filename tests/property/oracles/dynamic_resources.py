"""The rules of device allocation, written for one node, without any search that prunes.

All assignments of devices to requests are enumerated in the order of preference, and each is judged from the
beginning. The first valid one is the answer. Amounts are whole numbers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from tidelock.model.devices import Device, DeviceClass, DeviceId, DeviceTaintRule, ResourceSlice
from tidelock.model.nodes import Node
from tidelock.model.resource_claims import DeviceRequest, ResourceClaim


@dataclass(frozen=True)
class Inventory:
    """The devices of a cluster and the claims that have some."""

    slices: list[ResourceSlice]
    classes: dict[str, DeviceClass]
    allocated: list[ResourceClaim] = field(default_factory=list)
    rules: list[DeviceTaintRule] = field(default_factory=list)

    def results(self) -> list[tuple[DeviceId, bool, dict[str, int]]]:
        """List devices in use: name, whether shared, and consumed amounts. Admin access does not use one."""
        return [
            (each.id, each.share_id is not None, {name: int(n) for name, n in each.consumed_capacity.items()})
            for claim in self.allocated
            if claim.allocation is not None
            for each in claim.allocation.devices.results
            if not each.admin_access
        ]


@dataclass(frozen=True)
class Pool:
    state: str  # "", "incomplete" or "invalid"
    near: list[tuple[DeviceId, Device, ResourceSlice]] = field(default_factory=list)
    every: list[tuple[DeviceId, Device]] = field(default_factory=list)
    counters: dict[tuple[str, str], int] = field(default_factory=dict)


def reaches(node: Node, name: str, every: bool, selector: object) -> bool:
    if name:
        return node.name == name
    return every or (selector is not None and selector.matches(node.name, node.meta.labels))  # type: ignore[attr-defined]


def near(slice_: ResourceSlice, node: Node) -> bool:
    spec = slice_.spec
    if spec.per_device_node_selection:
        return any(reaches(node, each.node_name, each.all_nodes, each.node_selector) for each in spec.devices)
    return reaches(node, spec.node_name, spec.all_nodes, spec.node_selector)


def pools(inventory: Inventory, node: Node) -> list[Pool]:
    """Return the pools that concern a node, in the order of allocation."""
    found = []
    for name in sorted({each.pool for each in inventory.slices}):
        mine = [each for each in inventory.slices if each.pool == name and near(each, node)]
        if not mine:
            continue
        newest = max(each.spec.pool.generation for each in mine)
        mine = [each for each in mine if each.spec.pool.generation == newest]
        every = mine
        if len(mine) != mine[0].spec.pool.resource_slice_count:
            if any(each.pool == name and each.spec.pool.generation > newest for each in inventory.slices):
                continue
            every = [
                each for each in inventory.slices if each.pool == name and each.spec.pool.generation == newest
            ]
            if len(every) != mine[0].spec.pool.resource_slice_count:
                found.append((False, Pool("incomplete")))
                continue
        found.append(_complete(mine, every, node))
    return [pool for late in (False, True) for each, pool in found if each is late]


def _complete(mine: list[ResourceSlice], every: list[ResourceSlice], node: Node) -> tuple[bool, Pool]:
    mine = sorted((each for each in mine if not each.spec.shared_counters), key=lambda each: each.meta.name)
    devices = [(each.id_of(device), device, each) for each in mine for device in each.spec.devices]
    late = any(device.binding_conditions for _, device, _ in devices)
    groups = [group for each in every for group in each.spec.shared_counters]
    counters = {
        (group.name, name): int(counter.value) for group in groups for name, counter in group.counters.items()
    }
    all_devices = [
        (each.id_of(device), device)
        for each in every
        if not each.spec.shared_counters
        for device in each.spec.devices
    ]
    consumed = {
        (each.counter_set, name)
        for _, device in all_devices
        for each in device.consumes_counters
        for name in each.counters
    }
    names = [name for name, _, _ in devices]
    group_names = [group.name for group in groups]
    if (
        len(names) != len(set(names))
        or len(group_names) != len(set(group_names))
        or not consumed <= counters.keys()
    ):
        return False, Pool("invalid")
    usable = [
        (name, device, each)
        for name, device, each in devices
        if not each.spec.per_device_node_selection
        or reaches(node, device.node_name, device.all_nodes, device.node_selector)
    ]
    return late, Pool("", usable, all_devices, counters)


def selected(inventory: Inventory, wanted: DeviceRequest, device: Device) -> bool:
    """Return whether a device has the model that class and request name (`devices.compile_model`)."""
    model = device.attributes["model"].text
    rules = (*inventory.classes[wanted.device_class_name].spec.selectors, *wanted.selectors)
    return all(each.cel is None or each.cel.expression == model for each in rules)


def consumption(wanted: DeviceRequest, device: Device) -> dict[str, int] | None:
    """Return the amounts that a request consumes, or None if the device does not have or admit them."""
    requests = wanted.capacity.requests if wanted.capacity is not None else {}
    if any(name not in device.capacity for name in requests):
        return None
    found = {}
    for name, capacity in device.capacity.items():
        policy = capacity.request_policy
        if name not in requests:
            default = policy.default if policy is not None else None
            found[name] = int(capacity.value if default is None else default)
            continue
        wish = int(requests[name])
        if policy is None or wish == policy.default:
            found[name] = wish
            continue
        if policy.valid_range is not None:
            least = int(policy.valid_range.min or 0)
            most = int(policy.valid_range.max or 1000)
            step = int(policy.valid_range.step or 1)
            admitted = list(range(least, most + 1, step))
        else:
            admitted = [int(each) for each in policy.valid_values]
        larger = [each for each in admitted if each >= wish]
        if not larger:
            return None
        found[name] = larger[0]
    return found


@dataclass(frozen=True)
class Choice:
    """A device for a request of a claim, by its index among the claims."""

    claim: int
    request: str
    name: str
    wanted: DeviceRequest
    pool: Pool
    id: DeviceId
    device: Device


class Books:
    """The devices in use while an assignment is judged, choice after choice."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.dedicated = {name for name, shared, _ in inventory.results() if not shared}
        self.shared = {name for name, shared, _ in inventory.results() if shared}
        self.used: Counter[tuple[DeviceId, str]] = Counter()
        for name, _, amounts in inventory.results():
            for capacity, amount in amounts.items():
                self.used[name, capacity] += amount
        self.taken: list[tuple[int, DeviceId]] = []
        self.left: dict[int, dict[tuple[str, str], int]] = {}

    def admit(self, choice: Choice) -> bool:
        """Use one more device, or return False if that is not possible."""
        several = choice.device.allow_multiple_allocations
        if not (self.free(choice) and self.tolerated(choice) and self.counted(choice)):
            return False
        amounts = consumption(choice.wanted, choice.device)
        if amounts is None:
            return False
        for capacity, amount in amounts.items():
            if self.used[choice.id, capacity] + amount > int(choice.device.capacity[capacity].value):
                return False
            self.used[choice.id, capacity] += amount if several else 0
        if several:
            self.shared.add(choice.id)
        else:
            self.taken.append((choice.claim, choice.id))
        return True

    def free(self, choice: Choice) -> bool:
        if choice.wanted.admin_access:
            return (choice.claim, choice.id) not in self.taken
        return choice.id not in self.dedicated and all(name != choice.id for _, name in self.taken)

    def tolerated(self, choice: Choice) -> bool:
        taints = [*choice.device.taints, *(each.taint_of(choice.id) for each in self.inventory.rules)]
        hard = [each for each in taints if each and each.effect in ("NoSchedule", "NoExecute")]
        keys = {each.key for each in choice.wanted.tolerations}
        return "" in keys or all(taint.key in keys for taint in hard)

    def counted(self, choice: Choice) -> bool:
        consumes = choice.device.consumes_counters
        if not consumes or (choice.device.allow_multiple_allocations and choice.id in self.shared):
            return True
        counters = self.left.setdefault(id(choice.pool), _counters_left(self.inventory, choice.pool))
        for consumed in consumes:
            for name, counter in consumed.counters.items():
                counters[consumed.counter_set, name] -= int(counter.value)
        return all(amount >= 0 for amount in counters.values())


def valid(inventory: Inventory, claims: Sequence[ResourceClaim], choices: Sequence[Choice]) -> bool:
    """Judge a whole assignment, in the order of its choices."""
    books = Books(inventory)
    return all(books.admit(each) for each in choices) and all(
        _constrained(claim, index, choices) for index, claim in enumerate(claims)
    )


def _counters_left(inventory: Inventory, pool: Pool) -> dict[tuple[str, str], int]:
    left = dict(pool.counters)
    in_use = {name for name, _, _ in inventory.results()}
    for name, device in pool.every:
        if name in in_use:
            for consumed in device.consumes_counters:
                for counter, amount in consumed.counters.items():
                    left[consumed.counter_set, counter] -= int(amount.value)
    return left


def _constrained(claim: ResourceClaim, index: int, choices: Sequence[Choice]) -> bool:
    for constraint in claim.spec.devices.constraints:
        name = constraint.match_attribute or constraint.distinct_attribute or ""
        short = name.partition("/")[2]
        concerned = [
            each
            for each in choices
            if each.claim == index
            and (not constraint.requests or {each.request, each.name} & {*constraint.requests})
        ]
        values = [each.device.attributes.get(short) for each in concerned]
        if None in values:
            return False
        if constraint.match_attribute is not None and len(set(values)) > 1:
            return False
        if constraint.distinct_attribute is not None and len(set(values)) < len(values):
            return False
    return True


def options(
    inventory: Inventory, there: Sequence[Pool], claims: Sequence[ResourceClaim]
) -> list[list[list[Choice]]]:
    """Return, for each request in order, the ways to meet it by itself, with the preferred ones first."""
    found = []
    for index, claim in enumerate(claims):
        for request in claim.spec.devices.requests:
            ways: list[list[Choice]] = []
            for number, wanted in enumerate(request.alternatives):
                name = request.name_of(number)
                suitable = [
                    Choice(index, request.name, name, wanted, pool, device_id, device)
                    for pool in there
                    for device_id, device, _ in pool.near
                    if selected(inventory, wanted, device)
                ]
                ways += _ways(wanted, suitable)
            found.append(ways)
    return found


def _ways(wanted: DeviceRequest, suitable: list[Choice]) -> Iterator[list[Choice]]:
    if wanted.allocation_mode == "ExactCount":
        yield from map(list, combinations(suitable, wanted.count))
        return
    every = []
    for each in suitable:
        amounts = consumption(wanted, each.device)
        if amounts is not None and all(
            amount <= int(each.device.capacity[name].value) for name, amount in amounts.items()
        ):
            every.append(each)
    if every:
        yield every


def allocate(inventory: Inventory, node: Node, claims: Sequence[ResourceClaim]) -> list[Choice] | str | None:
    """Return the first valid assignment, None if there is none, or why no node can be used."""
    there = pools(inventory, node)
    wants_all = any(
        wanted.allocation_mode == "All"
        for claim in claims
        for request in claim.spec.devices.requests
        for wanted in request.alternatives
    )
    if wants_all and any(pool.state for pool in there):
        return "asks for all devices"
    usable = [pool for pool in there if not pool.state]
    for ways in product(*options(inventory, usable, claims)):
        choices = [choice for way in ways for choice in way]
        if valid(inventory, claims, choices):
            return choices
    return None
