"""Finds devices for all claims of a pod on one node: a depth-first search for the first solution.

Semantics of Kubernetes 1.37, dynamic-resource-allocation/structured (incubating, allocateOne). Claims,
requests, alternatives and devices are tried in order, so the result is the one of kube-scheduler. A pod can
claim thousands of devices, so the search has a stack of its own.

kube-scheduler ends a search after 10 seconds. Here all decisions are made one after the other, and a search
ends after a number of steps, each of which looks at one place or at one device that is not in use.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from types import MappingProxyType

from tidelock.devices.allocated import DevicesInUse
from tidelock.devices.consumable_capacity import Consumed, fits
from tidelock.devices.errors import SEARCH_TIMED_OUT, AllocationError, SearchLimitError
from tidelock.devices.pools import Candidate, CounterSets, NodeDevices
from tidelock.devices.requests import Alternative, PreparedClaim, all_devices, size_with
from tidelock.devices.selection import DeviceSelection
from tidelock.model.devices import DeviceId, DeviceTaintRule, PoolId
from tidelock.model.resource_claims import ALL_DEVICES, MOST_RESULTS

MOST_STEPS = 20_000
"""Steps of a search on one node."""


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """A device for a place of a request. Without consumed amounts it is not shared."""

    candidate: Candidate
    alternative: Alternative
    consumed: Consumed | None


@dataclass(frozen=True, slots=True)
class Solution:
    """The devices of each claim, and the chosen alternative of each of its requests."""

    devices: tuple[tuple[ChosenDevice, ...], ...]
    alternatives: tuple[tuple[int, ...], ...]


class _Outcome(Enum):
    FAILED = auto()
    TOO_MANY = auto()  # every continuation would give the claim more devices than it can have
    EXHAUSTED = auto()  # the request needs more devices than there are, so other choices for it fail, too


@dataclass(frozen=True, slots=True)
class _Place:
    """One device to choose: the claim, its request, the alternative, or None before one is chosen."""

    claim: int
    request: int = 0
    alternative: int | None = None
    number: int = 0  # how many devices the alternative has got
    start: int = 0  # the first candidate to try: equal sets in another order are not tried

    def next_device(self, start: int) -> "_Place":
        """Return the place of the next device of the alternative."""
        return _Place(self.claim, self.request, self.alternative, self.number + 1, start)


_Visit = Generator[_Place | None, _Outcome, _Outcome]


class DeviceAllocator:
    """The state of all devices, for the search on any number of nodes.

    Args:
        allocated: the devices in use.
        selection: the expressions.
        rules: additional taints.
        only: the devices among which a claim gets those of requests for a number, by its place among the
            claims. Other claims can get any.

    """

    def __init__(
        self,
        allocated: DevicesInUse,
        selection: DeviceSelection,
        rules: Sequence[DeviceTaintRule] = (),
        only: Mapping[int, Collection[DeviceId]] = MappingProxyType({}),
    ) -> None:
        self.allocated = allocated
        self.selection = selection
        self.rules = rules
        self.only = only

    def allocate(
        self, claims: Sequence[PreparedClaim], devices: NodeDevices, most_steps: int = MOST_STEPS
    ) -> tuple[Solution | None, int]:
        """Return devices of a node for all claims, or None, and the number of steps that it took.

        Raises:
            AllocationError: a claim or class is invalid.
            SearchLimitError: the search took too many steps.

        """
        if not self.only and (first := self._first_devices(claims, devices)) is not None:
            return first, sum(map(len, first.devices))
        search = _Search(self, claims, devices, most_steps)
        solution = search.run()
        return solution, most_steps - search.steps_left

    def _first_devices(self, claims: Sequence[PreparedClaim], devices: NodeDevices) -> Solution | None:
        """Return the first devices for the first alternatives, if nothing but free devices is needed.

        That is where the search would arrive without ever going back, for most claims in a fraction of the
        time. Otherwise the result is None, and the search begins again. Claims are checked before any
        expression is asked, because the search would ask others first, and report their errors.
        """
        if not all(claim.plain for claim in claims):
            return None
        chosen: list[tuple[ChosenDevice, ...]] = []
        taken: set[DeviceId] = set()
        for claim in claims:
            count = len(taken)
            found: list[ChosenDevice] = []
            for request in claim.requests:
                wanted = request.alternatives[0]
                found += self._first_free(wanted, devices, taken)
                count += wanted.wanted.count
                if len(taken) < count:
                    return None
            chosen.append(tuple(found))
        return Solution(tuple(chosen), tuple((0,) * len(claim.requests) for claim in claims))

    def _first_free(
        self, wanted: Alternative, devices: NodeDevices, taken: set[DeviceId]
    ) -> Iterator[ChosenDevice]:
        """Yield devices for an alternative, up to the first one that is not plain, and note them as taken."""
        left = wanted.wanted.count
        for candidate in devices.candidates if left > 0 else ():
            name = candidate.id
            if (
                self.allocated.dedicated(name)
                or name in taken
                or not wanted.selects(self.selection, candidate)
            ):
                continue
            if not candidate.plain:
                return
            if wanted.tolerates(candidate, self.rules):
                taken.add(name)
                yield ChosenDevice(candidate, wanted, None)
                left -= 1
                if not left:
                    return


class _Search:
    def __init__(
        self,
        allocator: DeviceAllocator,
        claims: Sequence[PreparedClaim],
        devices: NodeDevices,
        most_steps: int,
    ) -> None:
        self._allocator = allocator
        self._allocated = allocator.allocated
        self._claims = claims
        self._devices = devices
        self._unused = [each for each in devices.candidates if not self._allocated.dedicated(each.id)]
        self._counted = any(each.device.consumes_counters for each in devices.candidates)
        self._all = self._all_devices()
        self._constraints = [claim.constraints() for claim in claims]
        self._chosen: list[list[ChosenDevice]] = [[] for _ in claims]
        self._alternatives = [[0] * len(claim.requests) for claim in claims]
        self._users: Counter[DeviceId] = Counter()  # dedicated devices, by the number of claims
        self._taken: set[tuple[int, DeviceId]] = set()  # the same, by claim
        self._shares: Counter[DeviceId] = Counter()
        self._consumed: defaultdict[DeviceId, Counter[str]] = defaultdict(Counter)
        self._counters: defaultdict[PoolId, Counter[tuple[str, str]]] = defaultdict(Counter)
        self._available: dict[PoolId, CounterSets] = {}
        self.steps_left = most_steps

    def run(self) -> Solution | None:
        """Visit places until all have a device."""
        stack = [self._visit(_Place(0))]
        outcome: _Outcome | None = None
        while stack:
            self._step()
            try:
                place = next(stack[-1]) if outcome is None else stack[-1].send(outcome)
            except StopIteration as end:
                stack.pop()
                outcome = end.value
                continue
            if place is None:
                return Solution(tuple(map(tuple, self._chosen)), tuple(map(tuple, self._alternatives)))
            stack.append(self._visit(place))
            outcome = None
        return None

    def _step(self) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise SearchLimitError(SEARCH_TIMED_OUT)

    def _all_devices(self) -> dict[tuple[int, int, int], list[Candidate]]:
        """Return the devices of the alternatives for "All", by their places. Check the number of devices."""
        found: dict[tuple[int, int, int], list[Candidate]] = {}
        for c, claim in enumerate(self._claims):
            size = 0
            for r, request in enumerate(claim.requests):
                counts = []
                for a, each in enumerate(request.alternatives):
                    count = each.wanted.count
                    if each.wanted.allocation_mode == ALL_DEVICES:
                        found[c, r, a] = all_devices(each, self._devices, self._allocator.selection)
                        count = len(found[c, r, a])
                    counts.append(count)
                size = size_with(claim, request, min(counts), size)
        return found

    def _visit(self, place: _Place) -> _Visit:
        """Yield the next place after each choice for this one, or None after the last place.

        It is resumed with the outcome if the continuation failed, and undoes the choice.
        """
        if place.claim == len(self._claims):
            yield None
            return _Outcome.FAILED
        requests = self._claims[place.claim].requests
        if place.request == len(requests):
            yield _Place(place.claim + 1)
            return _Outcome.FAILED  # another choice in this claim may leave devices for the next one
        if place.alternative is None:
            return (yield from self._visit_alternatives(place))
        wanted = requests[place.request].alternatives[place.alternative]
        return (yield from self._visit_devices(place, wanted, place.alternative))

    def _visit_devices(self, place: _Place, wanted: Alternative, alternative: int) -> _Visit:
        every = self._all.get((place.claim, place.request, alternative))
        count = wanted.wanted.count if every is None else len(every)
        if place.number >= count:
            if every is not None and not every:  # at least one is needed
                return _Outcome.FAILED
            return (yield _Place(place.claim, place.request + 1))
        if count - place.number > MOST_RESULTS - len(self._chosen[place.claim]):
            return _Outcome.TOO_MANY
        if every is not None:
            return (yield from self._visit_all(place, wanted, every[place.number]))
        return (yield from self._visit_exact(place, wanted))

    def _visit_alternatives(self, place: _Place) -> _Visit:
        alternatives = self._claims[place.claim].requests[place.request].alternatives
        outcomes = []
        for index in range(len(alternatives)):
            self._alternatives[place.claim][place.request] = index
            outcomes.append((yield _Place(place.claim, place.request, index)))
        too_many = all(each is _Outcome.TOO_MANY for each in outcomes)
        return _Outcome.TOO_MANY if too_many else _Outcome.FAILED

    def _visit_all(self, place: _Place, wanted: Alternative, candidate: Candidate) -> _Visit:
        if not self._choose(place.claim, wanted, candidate, must=True):
            return _Outcome.FAILED
        outcome = yield place.next_device(0)
        self._give_back(place.claim)
        return outcome

    def _visit_exact(self, place: _Place, wanted: Alternative) -> _Visit:
        candidates = self._devices.candidates if wanted.wanted.admin_access else self._unused
        only = None if wanted.wanted.admin_access else self._allocator.only.get(place.claim)
        exhausted = not self._counted and not self._constraints[place.claim]
        for index in range(place.start, len(candidates)):
            candidate = candidates[index]
            if only is not None and candidate.id not in only:
                continue
            self._step()
            if not self._free(place.claim, wanted, candidate):
                continue
            if not wanted.selects(self._allocator.selection, candidate):
                continue
            if not self._choose(place.claim, wanted, candidate):
                continue
            outcome = yield place.next_device(index + 1)
            self._give_back(place.claim)
            if outcome is _Outcome.TOO_MANY:
                return outcome
            exhausted &= outcome is _Outcome.EXHAUSTED
            if exhausted:
                break
        return _Outcome.EXHAUSTED if exhausted and place.number else _Outcome.FAILED

    # One device.

    def _free(self, claim: int, wanted: Alternative, candidate: Candidate) -> bool:
        if wanted.wanted.admin_access:
            return (claim, candidate.id) not in self._taken
        return not self._allocated.dedicated(candidate.id) and not self._users[candidate.id]

    def _choose(self, claim: int, wanted: Alternative, candidate: Candidate, *, must: bool = False) -> bool:
        """Take a selected device for a claim if it is free, and no limit or constraint prevents it.

        Raises:
            AllocationError: a constraint prevents it, although there `must` be this device.

        """
        device, name = candidate.device, candidate.id
        shared = device.allow_multiple_allocations
        consumed = wanted.consumed_of(candidate)
        suits = consumed is not None and fits(consumed, device, partial(self._consumption, name))
        counted = not (shared and self._in_use_as_shared(name))
        if (
            not self._free(claim, wanted, candidate)
            or not (suits or must)
            or (counted and not self._counters_suffice(candidate))
            or not wanted.tolerates(candidate, self._allocator.rules)
        ):
            return False
        if not self._constrain(claim, wanted, candidate):
            if must:
                problem = f"cannot add device {name} because a claim constraint would not be satisfied"
                raise AllocationError(f"{wanted.label}: {problem}")
            return False
        if consumed is None or not suits:
            self._unconstrain(claim, wanted)
            return False
        if counted:
            self._count(candidate, 1)
        if shared:
            self._shares[name] += 1
            self._consumed[name].update(consumed)
        else:
            self._users[name] += 1
            self._taken.add((claim, name))
        self._chosen[claim].append(ChosenDevice(candidate, wanted, consumed if shared else None))
        return True

    def _give_back(self, claim: int) -> None:
        """Undo the last choice for a claim."""
        chosen = self._chosen[claim].pop()
        name = chosen.candidate.id
        if chosen.consumed is None:
            self._users[name] -= 1
            self._taken.discard((claim, name))
            counted = True
        else:
            self._shares[name] -= 1
            self._consumed[name].subtract(chosen.consumed)
            counted = not self._in_use_as_shared(name)
        if counted:
            self._count(chosen.candidate, -1)
        self._unconstrain(claim, chosen.alternative)

    def _unconstrain(self, claim: int, wanted: Alternative) -> None:
        """Stop to count the last device in the constraints of its claim."""
        for constraint in self._constraints[claim]:
            constraint.remove(*_names(wanted))

    def _constrain(self, claim: int, wanted: Alternative, candidate: Candidate) -> bool:
        """Count a device in all constraints of its claim, or in none if one does not admit it."""
        names, constraints = _names(wanted), self._constraints[claim]
        for index, constraint in enumerate(constraints):
            if not constraint.add(*names, candidate.device, candidate.id.driver):
                for added in constraints[:index]:
                    added.remove(*names)
                return False
        return True

    def _consumption(self, device: DeviceId, capacity: str) -> int:
        own = self._consumed[device][capacity] if device in self._consumed else 0
        return own + self._allocated.consumed(device, capacity)

    def _in_use_as_shared(self, device: DeviceId) -> bool:
        """Return whether a share of a device exists, so its counters are consumed already."""
        return self._shares[device] > 0 or self._allocated.shared(device)

    # Counters.

    def _counters_suffice(self, candidate: Candidate) -> bool:
        """Return whether all counters of the pool suffice once a device is allocated, too."""
        if not candidate.device.consumes_counters:
            return True
        total = self._counters[candidate.pool.id].copy()
        for key, nanos in _consumption_of(candidate):
            total[key] += nanos
        return all(
            available >= total[group, name]
            for group, counters in self._available_counters(candidate).items()
            for name, available in counters.items()
        )

    def _count(self, candidate: Candidate, sign: int) -> None:
        counted = self._counters[candidate.pool.id]
        for key, nanos in _consumption_of(candidate):
            counted[key] += sign * nanos

    def _available_counters(self, candidate: Candidate) -> CounterSets:
        """Return the counters of a pool without the amounts of devices in use, which can be below 0."""
        pool = candidate.pool
        left = self._available.get(pool.id)
        if left is None:
            left = {group: dict(counters) for group, counters in pool.counters.items()}
            for name, device in pool.devices:
                if self._allocated.dedicated(name) or self._allocated.shared(name):
                    for consumed in device.consumes_counters:
                        for counter, each in consumed.counters.items():
                            left[consumed.counter_set][counter] -= each.nanos
            self._available[pool.id] = left
        return left


def _consumption_of(candidate: Candidate) -> Iterator[tuple[tuple[str, str], int]]:
    for consumed in candidate.device.consumes_counters:
        for name, counter in consumed.counters.items():
            yield (consumed.counter_set, name), counter.nanos


def _names(wanted: Alternative) -> tuple[str, str]:
    """Return the names of the request and of the alternative by which constraints know a device."""
    return wanted.name.partition("/")[0], wanted.name
