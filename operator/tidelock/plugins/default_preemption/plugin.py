"""DefaultPreemption: frees capacity for a pod by evicting pods and preempting reservations of lower priority.

The nodes under trial, the spared victims and the chosen node are as in kube-scheduler 1.37
(plugins/defaultpreemption and framework/preemption), with two differences. The random offset is one from the
pod's UID. Reservations are victims too, and are spared after all pods. A reservation that is not below the
pod keeps its capacity in any case.

An owner in a reusable reservation is as safe as the reservation, which would hold the freed amounts again. So
is a borrower of a reservation.

Many nodes are tried together: all lose their possible victims at once, then each gets its first one back,
then its second, and so on. Every time the filters judge all of these nodes together.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Rows
from tidelock.cluster.index.pods_by_importance import PodsByImportance, started
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    Code,
    Counts,
    FilterResult,
    Handle,
    PostFilter,
    PostFilterResult,
    Status,
    Victims,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.disruptions import violating
from tidelock.framework.extender import ExtenderAdviceData
from tidelock.framework.own_reservations import OwnReservations
from tidelock.framework.plugin_args import read_args
from tidelock.framework.rejections import nodes_by_reason
from tidelock.framework.whatif import (
    WhatIf,
    filter_rows_with_nominated_pods,
)
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pod_limits import looks_around
from tidelock.model.pods import PREEMPTED_CONDITION, Pod
from tidelock.plugins.default_preemption.pod_victims import PodVictim, PodVictims, VictimGrouping, pods_of
from tidelock.plugins.default_preemption.trial import NO_VICTIMS, Matrix, PotentialVictims, Trial

_PERCENTAGE, _ABSOLUTE = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
PREEMPTION_NOT_HELPFUL = "Preemption is not helpful for scheduling"
PREEMPTION_LATER = "Preemption is tried on in a later attempt"
NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
VICTIM_TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_CANDIDATE = "no candidate node for preemption"
# Added to each priority, so that many victims of negative priority weigh more than few.
_LIFT = 2**31
# In which order victims are spared.
_GUARDED, _POD, _LOCK, _EMPTY = range(4)
# Nodes that are tried at once, on top of as many as candidates are missing and an eighth of that.
_FEW, _SPARE = 16, 8
# How much is done in an attempt for a pod that looks at others, each some 5 us: nodes, by their pods, by
# the checks of each of these.
_WORK, _EACH = 30_000, 4
# For how many pods it is remembered how far an attempt got.
_REMEMBERED = 1_024
_NONE: npt.NDArray[np.float64] = np.zeros((0, 5))


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The nodes of a batch on which the pod fits once its victims have gone.

    Attributes:
        rows: T, the nodes of the batch.
        indexes: C, which of them are candidates.
        harms: C x 5, the compared values, column after column (`_harms`).

    """

    snapshot: Snapshot
    rows: Rows
    potential: PotentialVictims
    gone: Matrix
    indexes: Rows
    harms: npt.NDArray[np.float64]

    def only(self, candidates: Rows) -> "_Candidates":
        """Return some of the candidates, by their places."""
        return replace(self, indexes=self.indexes[candidates], harms=self.harms[candidates])

    def victims(self, candidate: int) -> tuple[str, Victims]:
        """Return the node of a candidate, and its victims by importance."""
        index = int(self.indexes[candidate])
        potential = self.potential
        gone = self.gone[index]
        going = [potential.occupants[index][place] for place in sorted(potential.place[index, gone].tolist())]
        pods = (each for each in going if not isinstance(each, ReservationInfo))
        reservations = tuple(each for each in going if isinstance(each, ReservationInfo))
        victims = Victims(
            tuple(placed for each in pods for placed in pods_of(each)),
            reservations,
            int(potential.violations[index, gone].sum()),
        )
        return self.snapshot.nodes[self.rows[index]].name, victims


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
        self._residents = PodsByImportance(handle.cache)
        self._grouping = VictimGrouping(handle.cache, handle.objects.pod_groups)
        self._reached: dict[str, int] = {}
        self._budgeted: dict[str, tuple[object, list[bool]]] = {}
        self._percentage = read.min_candidate_nodes_percentage
        self._absolute = read.min_candidate_nodes_absolute
        if not 0 <= self._percentage <= 100:  # noqa: PLR2004 -- percent
            raise ValueError(f"pluginConfig of {self.name}: {_PERCENTAGE} is not in the range [0, 100]")
        if self._absolute < 0:
            raise ValueError(f"pluginConfig of {self.name}: {_ABSOLUTE} is not in the range [0, inf)")
        if not self._percentage and not self._absolute:
            raise ValueError(f"pluginConfig of {self.name}: {_PERCENTAGE} and {_ABSOLUTE} are both 0")

    def post_filter(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, filter_result: FilterResult
    ) -> PostFilterResult:
        """Return a node and its victims, if the pod may preempt and no victims are terminating."""
        if obstacle := self._obstacle(state, pod, snapshot, filter_result):
            return _refused(obstacle)
        advice = state.read(ExtenderAdviceData)
        if advice is not None and advice.victims is not None:
            return self._advised(advice.victims, advice.error)
        rows = self._possible(state, pod, snapshot, filter_result)
        counts: Counter[str] = Counter({PREEMPTION_NOT_HELPFUL: len(snapshot) - len(rows)})
        if self._has_nothing_below(pod.spec.priority):
            counts[NO_VICTIMS], rows = len(rows), rows[:0]  # on a full cluster that is all that is asked
        all_rows, rows = rows, self._some(pod, rows)
        counts[PREEMPTION_LATER] = len(all_rows) - len(rows)
        found: list[_Candidates] = []
        obstacles: set[str] = set()
        enough = max(self._enough(len(rows)), 1)
        start, missing = 0, enough
        while missing and start < len(rows):
            size = missing + missing // _SPARE + _FEW
            found.append(
                self._try(state, pod, snapshot, filter_result, rows[start : start + size], counts, obstacles)
            )
            start, missing = start + size, _missing(found, enough)
        harms = np.concatenate([_NONE, *(batch.harms for batch in found)])
        if not len(harms):
            return PostFilterResult(
                Status(Code.UNSCHEDULABLE),
                "",
                obstacles=frozenset(obstacles),
                unfinished=len(rows) < len(all_rows),
                message=f"preemption: {nodes_by_reason(len(snapshot), +counts)}",
            )
        batch, place = _each(found)[int(np.lexsort(harms.T[::-1])[0])]
        node_name, victims = batch.victims(place)
        return PostFilterResult(_found(node_name, victims), node_name, victims, lambda: _all_victims(found))

    def _has_nothing_below(self, priority: int) -> bool:
        """Return whether no pod and no reservation has a lower priority."""
        lowest = min(self._residents.lowest, self.handle.reservations.lowest_priority())
        return priority <= lowest and not self._grouping.reaches_below(priority)

    def _advised(self, candidates: Mapping[str, Victims], error: str) -> PostFilterResult:
        """Choose among the candidates that extenders have left."""
        if error:
            return _refused(error)
        cache = self.handle.cache
        left = {}
        for node_name, victims in candidates.items():
            here = {entry.uid for entry in self.handle.reservations.held_on(node_name)}
            placed = (cache.get(each.pod.uid) for each in victims.pods)
            there = (each for each in placed if each is not None and each.node_name == node_name)
            pods = self._grouping.completed(there)
            reservations = tuple(entry for entry in victims.reservations if entry.uid in here)
            if pods or reservations:  # else they have gone meanwhile, which wakes the pod
                left[node_name] = replace(victims, pods=pods, reservations=reservations)
        if not left:
            return _refused(NO_CANDIDATE)
        node_name, victims = min(left.items(), key=lambda candidate: _harm(candidate[1]))
        return PostFilterResult(_found(node_name, victims), node_name, victims)

    def _obstacle(self, state: CycleState, pod: Pod, snapshot: Snapshot, filter_result: FilterResult) -> str:
        """Return why the pod may not preempt now, or an empty text."""
        if not pod.spec.may_preempt:
            return NEVER_PREEMPTS
        cache = self.handle.cache
        node_name = cache.nominator.node_of(pod.uid)
        row = snapshot.row(node_name)
        if row is None or not _resolvable(state, pod, snapshot, filter_result, row):
            return ""
        going = any(
            self._grouping.priority(placed.pod) < pod.spec.priority
            and (placed.pod.uid in cache.evicting or _is_preempted(placed.pod))
            for placed in cache.pods_on(node_name)
        )
        return VICTIM_TERMINATING if going else ""

    def _possible(self, state: CycleState, pod: Pod, snapshot: Snapshot, filter_result: FilterResult) -> Rows:
        """List the rows where evictions might help, by name, from an offset of the pod's own."""
        possible = np.zeros(len(snapshot), np.bool_)
        for plugin, mask in filter_result.ruled_out:
            for view in filter_result.views(mask, state, snapshot):
                possible[view.at] = plugin.preemption_may_help_on(view.state, pod, view.snapshot, view.rows)
        by_name = np.empty(len(snapshot), np.intp)
        by_name[snapshot.traits.name_rank] = np.arange(len(snapshot))
        rows = by_name[possible[by_name]]
        return np.roll(rows, -(crc32(pod.uid.encode()) % len(rows))) if len(rows) else rows

    def _some(self, pod: Pod, rows: Rows) -> Rows:
        """Return the rows of one attempt, from where the pod's last attempt ended."""
        terms = looks_around(pod)
        most = max(int(_WORK / (terms + _EACH) / (1 + self._residents.mean)), 1)
        if not terms or len(rows) <= most:
            return rows
        start = self._reached.pop(pod.uid, 0) % len(rows)
        self._reached[pod.uid] = start + most
        if len(self._reached) > _REMEMBERED:
            del self._reached[next(iter(self._reached))]
        return np.roll(rows, -start)[:most]

    def _enough(self, possible: int) -> int:
        """Return the number of candidates that ends the search."""
        return min(max(possible * self._percentage // 100, self._absolute), possible)

    def _try(
        self,
        state: CycleState,
        pod: Pod,
        snapshot: Snapshot,
        filter_result: FilterResult,
        rows: Rows,
        counts: Counter[str],
        obstacles: set[str],
    ) -> _Candidates:
        """Try evictions on some rows. Count the reasons why they don't help on others, and the filters."""
        filters = filter_result.filters
        potential = self._potential_victims(pod, snapshot, rows, state.read(OwnReservations))
        trial = Trial(potential, WhatIf(filters, state, pod, snapshot, rows))
        crowd = filter_rows_with_nominated_pods(filters, state, pod, snapshot, rows, filter_result.rivals)
        if crowd is not None:
            trial.add_world(*crowd)
        fits, reasons = trial.evict(pod)
        gone = potential.there & ~trial.reprieve(fits) & fits[:, np.newaxis]
        indexes = np.flatnonzero(gone.any(axis=1))
        counts += reasons
        obstacles |= trial.obstacles
        counts[NO_VICTIMS] += int(fits.sum()) - len(indexes)
        return _Candidates(snapshot, rows, potential, gone, indexes, _harms(potential, gone)[indexes])

    def _potential_victims(
        self, pod: Pod, snapshot: Snapshot, rows: Rows, own: OwnReservations | None
    ) -> PotentialVictims:
        """Lay out the possible victims of some nodes."""
        on_nodes, width = self._grouping.victims(self._residents.of(rows)), len(snapshot.resources)
        reservations = self._reservations_below(pod, snapshot, rows, own) if own is not None else {}
        shape = (len(rows), on_nodes.there.shape[1] + max(map(len, reservations.values()), default=0))
        pods = (slice(None), slice(on_nodes.there.shape[1]))
        order = np.full(shape, _EMPTY, np.int8)
        order[pods][on_nodes.there & (on_nodes.priority < pod.spec.priority)] = _POD
        for index, column in (
            self._protected_by_reservations(pod, snapshot, rows, on_nodes, own) if own is not None else ()
        ):
            order[index, column] = _EMPTY
        priority, started = np.zeros(shape, np.int64), np.full(shape, inf)
        priority[pods], started[pods] = on_nodes.priority, on_nodes.started
        amounts = np.zeros((*shape, 2 * width + 2), np.int64)
        amounts[pods][..., :width] = on_nodes.amounts[..., :width]
        amounts[pods][..., -2:] = on_nodes.amounts[..., width:]
        amounts[order == _EMPTY] = 0
        occupants: list[Sequence[PodVictim | ReservationInfo]] = list(on_nodes.pods)
        sizes, violations = np.ones(shape, np.int64), np.zeros(shape, np.int64)
        sizes[pods] = on_nodes.sizes
        if len(self.handle.objects.pod_disruption_budgets):
            violations[pods] = self._violations(snapshot, rows, on_nodes, order[pods] == _POD)
            order[violations > 0] = _GUARDED
        for index, entries in reservations.items():
            here = slice(len(occupants[index]), len(occupants[index]) + len(entries))
            order[index, here] = _LOCK
            priority[index, here] = [entry.priority for entry in entries]
            started[index, here] = [entry.activated_at or inf for entry in entries]
            amounts[index, here, width : 2 * width] = [snapshot.vector(entry.held) for entry in entries]
            occupants[index] = [*occupants[index], *entries]
        place = np.argsort(order, axis=1, kind="stable")
        place = place[:, : int((order < _EMPTY).sum(axis=1).max(initial=0))]
        order = np.take_along_axis(order, place, axis=1)
        return PotentialVictims(
            occupants=occupants,
            place=place,
            there=order < _EMPTY,
            priority=np.take_along_axis(priority, place, axis=1),
            started=np.take_along_axis(started, place, axis=1),
            sizes=np.take_along_axis(sizes, place, axis=1),
            violations=np.take_along_axis(violations, place, axis=1),
            amounts=np.take_along_axis(amounts, place[..., np.newaxis], axis=1),
        )

    def _protected_by_reservations(
        self, pod: Pod, snapshot: Snapshot, rows: Rows, on_nodes: PodVictims, own: OwnReservations
    ) -> Iterator[tuple[int, int]]:
        """Yield the places of victims on some rows that use a reservation which is not below the pod."""
        shared = self.handle.reservations.shared
        if not shared:
            return

        @cache
        def safe(node_name: str) -> set[str]:
            entries = (
                each
                for each in shared.occupied_on(node_name)
                if each.priority >= pod.spec.priority and each not in own and not each.lends_to(pod)
            )
            return {uid for entry in entries for uid in entry.occupants}

        for index, row in enumerate(rows.tolist()):
            asked = index in on_nodes.grouped or safe(snapshot.nodes[row].name)
            for column, victim in enumerate(on_nodes.pods[index]) if asked else ():
                if any(placed.pod.uid in safe(placed.node_name) for placed in pods_of(victim)):
                    yield index, column

    def _reservations_below(
        self, pod: Pod, snapshot: Snapshot, rows: Rows, own: OwnReservations
    ) -> dict[int, list[ReservationInfo]]:
        """Return the reservations below a pod on each of some rows, the most important first."""
        found = {}
        for index in np.flatnonzero(snapshot.reserved[rows].any(axis=1)).tolist():
            reservations, name = self.handle.reservations, snapshot.nodes[rows[index]].name
            if reservations.shares_windows(name):
                continue  # freed amounts may belong to another one at that time
            entries = [
                entry
                for entry in reservations.held_on(name)
                if entry.priority < pod.spec.priority
                and entry not in own
                and not entry.lends_to(pod)  # it is free capacity for the pod already
            ]
            if entries:
                entries.sort(key=lambda entry: (-entry.priority, entry.activated_at or inf, entry.key))
                found[index] = entries
        return found

    def _violations(self, snapshot: Snapshot, rows: Rows, on_nodes: PodVictims, below: Matrix) -> Counts:
        """Count the pods of each victim whose eviction, after more important ones, would violate a budget."""
        counts = np.zeros(below.shape, np.int64)
        budgets = self.handle.objects.pod_disruption_budgets
        firsts = np.argmax(below, axis=1) if below.shape[1] else ()  # no pods at all have no first
        for index in np.flatnonzero(np.logical_or.reduce(below, axis=1)).tolist():
            first = int(firsts[index])
            victims = on_nodes.pods[index][first:]
            pods = [placed for victim in victims for placed in pods_of(victim)]
            if index in on_nodes.grouped:  # pods of other nodes count, so nothing is remembered
                violates = iter(violating(budgets, pods))
                here = [sum(next(violates) for _ in pods_of(victim)) for victim in victims]
                counts[index, first : first + len(here)] = here
                continue
            name = snapshot.nodes[rows[index]].name
            mark = (self.handle.cache.generations([name]), first, budgets.version)
            known = self._budgeted.get(name)
            if known is None or known[0] != mark:
                known = self._budgeted[name] = (mark, violating(budgets, pods))
            counts[index, first : first + len(known[1])] = known[1]
        return np.where(below, counts, 0)


def _harms(victims: PotentialVictims, gone: Matrix) -> npt.NDArray[np.float64]:
    """Weigh the victims of each node. The first column in which nodes differ decides, and less is better.

    The columns: violated budgets, the highest priority, the sum of the priorities, how many there are, and
    how long the oldest of the highest priority has run.
    """
    highest = victims.priority.max(axis=1, initial=-_LIFT, where=gone)
    among = gone & (victims.priority == highest[:, np.newaxis])
    return np.column_stack(
        (
            victims.violations.sum(axis=1, where=gone),
            highest,
            ((victims.priority + _LIFT) * victims.sizes).sum(axis=1, where=gone),
            victims.sizes.sum(axis=1, where=gone),
            -victims.started.min(axis=1, initial=inf, where=among),
        )
    )


def _harm(victims: Victims) -> tuple[float, ...]:
    """Weigh victims as `_harms` does."""
    going = [(each.pod.spec.priority, started(each)) for each in victims.pods]
    going += [(entry.priority, entry.activated_at or inf) for entry in victims.reservations]
    highest = max(priority for priority, _ in going)
    oldest = min(since for priority, since in going if priority == highest)
    total = sum(priority + _LIFT for priority, _ in going)
    return (victims.violations, highest, total, len(going), -oldest)


def _missing(found: list[_Candidates], enough: int) -> int:
    """Return how many candidates are missing. Drop the surplus ones of the last batch.

    The search goes on until a candidate violates no budget. Of those that do, only `enough` count.
    """
    *earlier, last = found
    before = sum(len(batch.indexes) for batch in earlier)
    unclean_before = sum(np.count_nonzero(batch.harms[:, 0]) for batch in earlier)
    clean = last.harms[:, 0] == 0
    last = last.only(np.flatnonzero(clean | (unclean_before + np.cumsum(~clean) <= enough)))
    clean_by = np.logical_or.accumulate(last.harms[:, 0] == 0) | (unclean_before < before)
    ends = np.flatnonzero(clean_by & (before + 1 + np.arange(len(last.indexes)) >= enough))
    end = int(ends[0]) + 1 if len(ends) else len(last.indexes)
    found[-1] = last.only(np.arange(end))
    return 0 if len(ends) else max(enough - before - end, 1)


def _each(found: Sequence[_Candidates]) -> list[tuple[_Candidates, int]]:
    """List the candidates of all batches, each by its batch and its place there."""
    return [(batch, place) for batch in found for place in range(len(batch.indexes))]


def _all_victims(found: Sequence[_Candidates]) -> dict[str, Victims]:
    """Return all candidates by node."""
    return dict(batch.victims(place) for batch, place in _each(found))


def _resolvable(
    state: CycleState, pod: Pod, snapshot: Snapshot, filter_result: FilterResult, row: int
) -> bool:
    """Return whether evictions may make a row fit, by the filter that rejected it."""
    view = filter_result.view(state, snapshot, row)
    return any(
        plugin.preemption_may_help(view.state, pod, view.snapshot, int(view.rows[0]))
        for plugin, mask in filter_result.ruled_out
        if mask[row]
    )


def _is_preempted(pod: Pod) -> bool:
    """Return whether a scheduler has asked a pod to end, for a pod of higher priority."""
    return pod.meta.deletion_timestamp is not None and any(
        (each.type, each.status, each.reason) == PREEMPTED_CONDITION for each in pod.status.conditions
    )


def _refused(text: str) -> PostFilterResult:
    return PostFilterResult(_status(text))


def _found(node_name: str, victims: Victims) -> Status:
    count = len(victims.pods) + len(victims.reservations)
    text = f"found a potential placement for pod on node {node_name}, preempting {count} victims"
    return _status(text, Code.SUCCESS)


def _status(text: str, code: Code = Code.UNSCHEDULABLE) -> Status:
    return Status(code, (f"preemption: {text}",))
