"""DefaultPreemption: makes room for a pod by evicting pods, and breaking locks, of lower priority.

Which nodes are tried, who is spared there and which node is chosen are as in kube-scheduler 1.36
(plugins/defaultpreemption and framework/preemption). Two things differ: where it draws an offset, this takes
one from the pod's uid; and locks are victims too, spared after all pods. A lock that is not below the pod
keeps its room, whatever that means for the pod.

Nodes are tried side by side: all lose their possible victims at once, then each gets its first one back,
then its second, and so on, and every time the filters judge all of these nodes together.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any
from zlib import crc32

import msgspec
import numpy as np

from tidelock.cluster.cache import Placed
from tidelock.cluster.columns import Amounts, Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    SUCCESS,
    Code,
    Filter,
    Handle,
    Mask,
    PostFilter,
    PostFilterResult,
    Status,
    Verdict,
    Victims,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.ownlocks import OwnLocks
from tidelock.framework.pluginargs import read_args
from tidelock.framework.whatif import WhatIf, apart, crowded
from tidelock.ledger.entry import Entry
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import CEILING

NEVER = "Never"

_PERCENTAGE, _ABSOLUTE = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
_NO_VICTIMS = "No preemption victims found for incoming pod"
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_BY_POLICY = "not eligible due to preemptionPolicy=Never."
_BY_TERMINATING = "not eligible due to a terminating pod on the nominated node."
# Added to each priority, so that many victims of negative priority weigh more than few.
_LIFT = 2**31


@dataclass(frozen=True, slots=True)
class _Resident:
    """A pod or a lock on a node, below the pod in priority; `started` in seconds since the epoch."""

    tenant: Placed | Entry
    priority: int
    started: float
    key: Key
    guarded: bool = False

    @property
    def rank(self) -> tuple[object, ...]:
        """Sorts pods before locks, and the more important first: by priority, then by age."""
        return isinstance(self.tenant, Entry), -self.priority, self.started, self.key


_Tenants = tuple[list[_Resident], Amounts]
"""ExpectedUse, and what each of them takes as a row for `WhatIf.shift`."""


@dataclass(frozen=True, slots=True)
class _Known:
    """All pods of a node by importance, as long as its `mark` is the same."""

    mark: tuple[int, int]
    pods: list[_Resident]
    descending: list[int]
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A node on which the pod fits once the victims are gone."""

    node_name: str
    victims: Victims
    cost: tuple[float, ...]


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    """DefaultPreemptionArgs."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class DefaultPreemption(PostFilter):
    """Nominates the node where evictions do the least harm."""

    name = "DefaultPreemption"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take how many candidates are enough: a share of the possible nodes in percent, and a number."""
        read = read_args(self.name, args, _Args)
        super().__init__(handle, {})
        self._known: dict[str, _Known] = {}
        self._percentage = read.min_candidate_nodes_percentage
        self._absolute = read.min_candidate_nodes_absolute
        if not 0 <= self._percentage <= 100:  # noqa: PLR2004 -- percent
            raise ValueError(f"pluginConfig of {self.name}: {_PERCENTAGE} is not in the range [0, 100]")
        if self._absolute < 0:
            raise ValueError(f"pluginConfig of {self.name}: {_ABSOLUTE} is not in the range [0, inf)")
        if not self._percentage and not self._absolute:
            raise ValueError(f"pluginConfig of {self.name}: {_PERCENTAGE} and {_ABSOLUTE} are both 0")

    def post_filter(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, verdict: Verdict
    ) -> PostFilterResult:
        """Find the victims whose eviction makes room, if the pod may evict any and none are on their way."""
        if obstacle := self._obstacle(state, pod, snapshot, verdict):
            return _refused(obstacle)
        rows = self._possible(state, pod, snapshot, verdict)
        counts: Counter[str] = Counter({_NOT_HELPFUL: len(snapshot) - len(rows)})
        found: list[_Candidate] = []
        for outcome in self._outcomes(state, pod, snapshot, verdict.filters, rows):
            if isinstance(outcome, _Candidate):
                found.append(outcome)
                if len(found) >= self._enough(len(rows)) and any(not c.victims.violations for c in found):
                    break
            else:
                counts.update(outcome)
        if not found:
            histogram = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items() if count))
            return _refused(f"0/{len(snapshot)} nodes are available: {histogram}.", nominated_node_name="")
        best = min(found, key=lambda candidate: candidate.cost)
        return PostFilterResult(SUCCESS, best.node_name, best.victims)

    def _obstacle(self, state: CycleState, pod: Pod, snapshot: Snapshot, verdict: Verdict) -> str:
        """Say why the pod may evict nobody now; empty if it may."""
        if pod.spec.preemption_policy == NEVER:
            return _BY_POLICY
        cache = self.handle.cache
        node_name = cache.nominator.node_of(pod.uid)
        row = snapshot.row(node_name)
        if row is None or not _resolvable(state, pod, snapshot, verdict, row):
            return ""
        going = any(
            placed.pod.spec.priority < pod.spec.priority
            and (placed.pod.uid in cache.evicting or placed.pod.preempted)
            for placed in cache.pods_on(node_name)
        )
        return _BY_TERMINATING if going else ""

    def _possible(self, state: CycleState, pod: Pod, snapshot: Snapshot, verdict: Verdict) -> Rows:
        """List the rows where evictions might help, by name, from an offset of the pod's own."""
        found = [np.empty(0, np.intp)]
        for plugin, mask in verdict.ruled_out:
            rows = mask.nonzero()[0]
            if verdict.views:
                helped = [_resolvable_by(plugin, state, pod, snapshot, verdict, int(row)) for row in rows]
                found.append(rows[np.array(helped, np.bool_)])
            else:
                found.append(rows[plugin.resolvables(state, pod, snapshot, rows)])
        rows = np.concatenate(found)
        rows = rows[np.argsort(snapshot.traits.name_rank[rows])]
        return np.roll(rows, -(crc32(pod.uid.encode()) % len(rows))) if len(rows) else rows

    def _enough(self, possible: int) -> int:
        """Tell how many candidates end the search."""
        return min(max(possible * self._percentage // 100, self._absolute), possible)

    def _outcomes(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, filters: Sequence[Filter], rows: Rows
    ) -> Iterator[_Candidate | tuple[str, ...]]:
        """Try row after row, as many at once as may be enough."""
        size = max(self._enough(len(rows)), 1)
        for group in apart(filters, rows):
            for start in range(0, len(group), size):
                yield from self._try(state, pod, snapshot, filters, group[start : start + size])

    def _try(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, filters: Sequence[Filter], rows: Rows
    ) -> Iterator[_Candidate | tuple[str, ...]]:
        """Try evictions on some rows: each is a candidate, or there are reasons why they don't help there."""
        own = state.read(OwnLocks)
        tenants = [self._tenants(pod, snapshot, snapshot.nodes[row].name, own) for row in rows]
        trial = _Trial(tenants, WhatIf(filters, state, pod, snapshot, rows))
        crowd = crowded(filters, state, pod, snapshot, rows, self.handle.cache.nominator)
        if crowd is not None:
            trial.add_world(*crowd)
        reasons = trial.evict(pod)
        spared = trial.reprieve(np.array([not texts for texts in reasons], np.bool_))
        for row, texts, (there, _), kept in zip(rows, reasons, tenants, spared, strict=True):
            gone = (
                [resident for place, resident in enumerate(there) if place not in kept] if not texts else []
            )
            yield texts or (_candidate(snapshot.nodes[row].name, gone) if gone else (_NO_VICTIMS,))

    def _tenants(self, pod: Pod, snapshot: Snapshot, node_name: str, own: OwnLocks | None) -> _Tenants:
        """List who might have to go from a node, in the order in which they are spared."""
        pods, amounts = self._pods_below(pod.spec.priority, snapshot, node_name)
        if len(self.handle.objects.pod_disruption_budgets) and pods:
            pods = self._guarded(pods)
            order = sorted(range(len(pods)), key=lambda place: not pods[place].guarded)
            pods, amounts = [pods[place] for place in order], amounts[order]
        locks = [
            _Resident(entry, entry.priority, entry.activated_at or inf, entry.key)
            for entry in (self.handle.book.held_on(node_name) if own is not None else ())
            if entry.priority < pod.spec.priority and own is not None and entry not in own.entries
        ]
        if not locks:
            return pods, amounts
        locks.sort(key=lambda each: each.rank)
        return pods + locks, np.concatenate((amounts, _laid_out(snapshot, locks)))

    def _pods_below(self, priority: int, snapshot: Snapshot, node_name: str) -> _Tenants:
        """List the pods of a node that are below a priority, the most important first."""
        cache = self.handle.cache
        mark = (cache.generation(node_name), len(snapshot.resources))
        known = self._known.get(node_name)
        if known is None or known.mark != mark:
            pods = [
                _Resident(
                    placed,
                    placed.pod.spec.priority,
                    placed.pod.status.start_time.timestamp() if placed.pod.status.start_time else inf,
                    placed.pod.key,
                )
                for placed in cache.pods_on(node_name)
            ]
            pods.sort(key=lambda each: each.rank)
            known = _Known(mark, pods, [-each.priority for each in pods], _laid_out(snapshot, pods))
            self._known[node_name] = known
        first = bisect_right(known.descending, -priority)
        return known.pods[first:], known.amounts[first:]

    def _guarded(self, pods: list[_Resident]) -> list[_Resident]:
        """Mark the pods whose eviction, after that of those before them, would violate a budget."""
        budgets = self.handle.objects.pod_disruption_budgets
        left: dict[Key, int] = {}
        marked = []
        for resident in pods:
            guarded = False
            for budget in budgets.of(resident.key.namespace):
                if isinstance(resident.tenant, Placed) and budget.counts(resident.tenant.pod):
                    key = budget.meta.key
                    left[key] = left.get(key, budget.status.disruptions_allowed) - 1
                    guarded |= left[key] < 0
            marked.append(replace(resident, guarded=True) if guarded else resident)
        return marked


class _Trial:
    """Evictions tried out on some nodes at once, in one or two worlds: a pod fits where it does in all."""

    def __init__(self, tenants: Sequence[_Tenants], plain: WhatIf) -> None:
        """Take the possible victims of each node, and these nodes as they are."""
        self._residents = [residents for residents, _ in tenants]
        self._counts = np.array([len(each) for each in self._residents], np.intp)
        most = int(self._counts.max(initial=0))
        width = tenants[0][1].shape[1]
        self._amounts: Amounts = np.zeros((len(tenants), most, width), np.int64)
        for index, (_, amounts) in enumerate(tenants):
            self._amounts[index, : len(amounts)] = amounts
        everywhere = np.arange(len(tenants))
        self._worlds = [(plain, everywhere)]

    def add_world(self, whatif: WhatIf, indexes: Rows) -> None:
        """Have the pod fit in another world too, which has the nodes of these indexes, in ascending order."""
        self._worlds.insert(0, (whatif, indexes))

    def evict(self, pod: Pod) -> list[tuple[str, ...]]:
        """Take all possible victims away; gives for each node why the pod does not fit even so."""
        everybody = self._amounts.sum(axis=1)
        reasons: list[tuple[str, ...]] = [() if each else (_NO_VICTIMS,) for each in self._residents]
        for world, indexes in self._worlds:
            world.shift(np.arange(len(indexes)), everybody[indexes], -1)
            if world.follows:
                world.remove(_pods(resident for index in indexes for resident in self._residents[index]))
            for plugin, mask in world.judge().ruled_out:
                for place in np.flatnonzero(mask):
                    index, view = indexes[place], world.view(int(place))
                    reasons[index] = reasons[index] or plugin.reasons(
                        view.state, pod, view.snapshot, view.row
                    )
        return reasons

    def reprieve(self, where: Mask) -> list[set[int]]:
        """Give back one victim after the other as long as the pod fits; tells which of each node may stay."""
        spared: list[set[int]] = [set() for _ in self._residents]
        for place in range(int(self._counts[where].max(initial=0))):
            tried = where & (self._counts > place)
            self._move(tried, place, 1)
            fits = tried.copy()
            for world, indexes in self._worlds:
                fits[indexes] &= world.judge().fits
            self._move(tried & ~fits, place, -1)
            for index in np.flatnonzero(fits):
                spared[index].add(place)
        return spared

    def _move(self, which: Mask, place: int, sign: int) -> None:
        """Give the victims in a place back to these nodes, or take them away again."""
        for world, indexes in self._worlds:
            here = np.flatnonzero(which[indexes])
            nodes = indexes[here]
            world.shift(here, self._amounts[nodes, place], sign)
            if world.follows:
                (world.add if sign > 0 else world.remove)(
                    _pods(self._residents[index][place] for index in nodes)
                )


def _laid_out(snapshot: Snapshot, residents: Sequence[_Resident]) -> Amounts:
    """Lay out what residents take, a row each, in the columns of `WhatIf.shift`."""
    width = len(snapshot.resources)
    amounts = np.zeros((len(residents), 2 * width + 2), np.int64)
    for row, resident in zip(amounts, residents, strict=True):
        tenant = resident.tenant
        shift, requests = (width, tenant.held) if isinstance(tenant, Entry) else (0, tenant.pod.requests)
        for name, units in requests.items():
            row[shift + snapshot.column(name)] = min(units, CEILING)
        if isinstance(tenant, Placed):
            row[-2:] = tenant.pod.nonzero
    return amounts


def _pods(residents: Iterable[_Resident]) -> list[Placed]:
    return [each.tenant for each in residents if isinstance(each.tenant, Placed)]


def _candidate(node_name: str, gone: Sequence[_Resident]) -> _Candidate:
    """Weigh the victims of a node: fewest violated budgets first, then least important, then youngest."""
    ordered = sorted(gone, key=lambda each: each.rank)
    violations = sum(each.guarded for each in ordered)
    highest = max(each.priority for each in ordered)
    oldest = min(each.started for each in ordered if each.priority == highest)
    locks = tuple(each.tenant for each in ordered if isinstance(each.tenant, Entry))
    return _Candidate(
        node_name,
        Victims(tuple(_pods(ordered)), locks, violations),
        (violations, highest, sum(each.priority + _LIFT for each in ordered), len(ordered), -oldest),
    )


def _resolvable(state: CycleState, pod: Pod, snapshot: Snapshot, verdict: Verdict, row: int) -> bool:
    """Whether evictions might make a row fit, by the filter that ruled it out."""
    return any(
        _resolvable_by(plugin, state, pod, snapshot, verdict, row)
        for plugin, mask in verdict.ruled_out
        if mask[row]
    )


def _resolvable_by(
    plugin: Filter, state: CycleState, pod: Pod, snapshot: Snapshot, verdict: Verdict, row: int
) -> bool:
    view = verdict.view(state, snapshot, row)
    return plugin.resolvable(view.state, pod, view.snapshot, view.row)


def _refused(text: str, nominated_node_name: str | None = None) -> PostFilterResult:
    return PostFilterResult(Status(Code.UNSCHEDULABLE, (f"preemption: {text}",)), nominated_node_name)
