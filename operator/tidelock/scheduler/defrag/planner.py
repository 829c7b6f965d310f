"""Plans which pods must move so that a reservation fits, and checks that they fit elsewhere.

The plan is the smallest: the fewest pods, then those of the lowest priority, then those with the smallest
requests. Each of them must fit on another node by the filters of its own scheduler, with all of them gone,
the reservation in their place and the earlier ones of the plan already there. Unlike in preemption, no budget
is violated.

The search is bounded in a cluster of any size. It tries the nodes with the smallest shortfall, a limited
number of sets of pods on each, and the nodes with the most free capacity for each pod.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import msgspec
import numpy as np

from tidelock.cluster.columns import Amounts, Rows
from tidelock.cluster.placed import Placed
from tidelock.cluster.snapshot import Snapshot, Wanted
from tidelock.framework.api import Handle, Mask, PreFilter
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.disruptions import permitted
from tidelock.framework.profile import Profile
from tidelock.ledger.lifecycle.migration import Migration, MigrationPlan, token_of
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod, PodStatus
from tidelock.scheduler.core.pipeline import Evaluation, FilterPipeline
from tidelock.scheduler.defrag.movable import may_be_moved

# Nodes on which evictions are considered.
_NODES = 32
# Of a node's pods, how many are considered for sets of each size: some 4,000 sets at most.
_PODS = {1: 256, 2: 90, 3: 29, 4: 18, 5: 14, 6: 13, 7: 13, 8: 13}
# Sets of each size that are tried out on a node, and on all nodes.
_SETS_A_NODE, _SETS = 8, 64
# Nodes to which a pod might go that are judged at once, and how many are judged at all.
_DESTINATIONS, _MOST_DESTINATIONS = 16, 128

Destination = tuple[Pod, str]
"""A pod, and the node on which it is taken to be."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A waiting reservation, as the filters judge it now."""

    entry: ReservationInfo
    evaluation: Evaluation
    wanted: Wanted

    @property
    def pod(self) -> Pod:
        """The reserve pod."""
        return self.evaluation.pod

    @property
    def snapshot(self) -> Snapshot:
        """The nodes as they are now."""
        return self.evaluation.snapshot


@dataclass(frozen=True, slots=True)
class _Site:
    """A node with the pods that may move from it, and the amounts that the reservation lacks there.

    Attributes:
        row: the row of the snapshot.
        going: pods that leave it in any case.
        amounts: P x W, the requests of each pod for each wanted resource.
        lacking: W, the shortfall of each wanted resource.

    """

    row: int
    name: str
    pods: Sequence[Placed]
    going: Sequence[Placed]
    amounts: Amounts
    lacking: Amounts


class DefragmentationPlanner:
    """Looks for moves over the cache and the ledger, which stay as they are."""

    def __init__(self, handle: Handle, profiles: Mapping[str, Profile], pipeline: FilterPipeline) -> None:
        self._handle = handle
        self._cache = handle.cache
        self._profiles = profiles
        self._profile = next(iter(profiles.values()))
        self._pipeline = pipeline

    def find(
        self, entry: ReservationInfo, now: float, settled: Sequence[Destination] = ()
    ) -> MigrationPlan | None:
        """Return the plan with the fewest moves, or None if there is no plan or none is needed.

        Args:
            entry: a waiting reservation.
            now: the current time.
            settled: pods that leave for other nodes, for other reservations.

        """
        case = self._case(entry, now)
        if case is None or case.evaluation.result.fits.any() or not entry.moves_left:
            return None
        sites = list(self._sites(case))
        if any(site.going and self._frees_enough(case, site, ()) for site in sites):
            return None  # it is coming by itself
        for size in range(1, entry.moves_left + 1):
            found = [choice for site in sites for choice in _sets(case, site, size)]
            for _, site, pods in sorted(found, key=lambda each: each[0])[:_SETS]:
                plan = self._plan(case, site, pods, settled)
                if plan is not None:
                    return plan
        return None

    def renew(
        self, entry: ReservationInfo, plan: MigrationPlan, now: float, settled: Sequence[Destination] = ()
    ) -> MigrationPlan | None:
        """Return a plan as it would be made now, maybe with other nodes, or None if it is no longer valid."""
        case = self._case(entry, now)
        row = None if case is None or case.evaluation.result.fits.any() else case.snapshot.row(plan.node)
        placed = [self._cache.get(move.uid) for move in plan.moves]
        there = [each for each in placed if each is not None and each.node_name == plan.node]
        if case is None or row is None or len(there) < len(plan.moves) or len(there) > entry.moves_left:
            return None
        site = self._site(case, row)
        if not all(may_be_moved(self._handle, each, entry) for each in there) or self._nominated(case, row):
            return None
        if any(self._frees_enough(case, site, [*there[:at], *there[at + 1 :]]) for at in range(len(there))):
            return None  # fewer would do
        return self._plan(case, site, there, settled)

    def still_helps(self, entry: ReservationInfo, plan: MigrationPlan, now: float) -> bool:
        """Return whether a plan under way still frees enough capacity once all of its pods have gone."""
        case = self._case(entry, now)
        row = None if case is None else case.snapshot.row(plan.node)
        if case is None or row is None or self._nominated(case, row):
            return False
        site = self._site(case, row)
        uids = {move.uid for move in plan.moves}
        left = [each for each in self._cache.pods_on(plan.node) if each.pod.uid in uids]
        return self._frees_enough(case, site, [each for each in left if each not in site.going])

    def movable(self, uid: str, entry: ReservationInfo) -> bool:
        """Return whether a pod may move for a reservation, or has gone."""
        placed = self._cache.get(uid)
        if placed is None or placed.pod.leaving or uid in self._cache.evicting:
            return True
        return may_be_moved(self._handle, placed, entry)

    def _case(self, entry: ReservationInfo, now: float) -> _Case | None:
        """Return a reservation as the filters judge it, or None if a rejection concerns no single node."""
        pod = entry.reservation.pod
        if pod is None:
            return None
        with self._pipeline.evaluate(self._profile, pod, now, own=(entry,)) as evaluation:
            result = evaluation.filter()
        if not result.filters:
            return None
        return _Case(entry, evaluation, evaluation.snapshot.wanted(pod.requests))

    def _sites(self, case: _Case) -> Iterator[_Site]:
        """Yield nodes on which moves may help, those with the smallest shortfall first."""
        snapshot, evaluation = case.snapshot, case.evaluation
        possible: Mask = np.zeros(len(snapshot), np.bool_)
        for plugin, mask in evaluation.result.ruled_out:
            for view in evaluation.result.views(mask, evaluation.state, snapshot):
                possible[view.at] = plugin.preemption_may_help_on(
                    view.state, case.pod, view.snapshot, view.rows
                )
        possible &= evaluation.fitting_apart_from_placement()
        rows = possible.nonzero()[0]
        short = np.zeros(len(rows))
        for column, units in case.wanted:
            free = snapshot.allocatable[rows, column] - snapshot.requested[rows, column]
            free -= snapshot.reserved[rows, column]
            short += np.maximum(units - free, 0) / units
        order = np.lexsort((snapshot.traits.name_rank[rows], short))
        for row in rows[order[:_NODES]].tolist():
            if not self._nominated(case, row):
                yield self._site(case, row)

    def _site(self, case: _Case, row: int) -> _Site:
        snapshot, name = case.snapshot, case.snapshot.nodes[row].name
        here = sorted(self._cache.pods_on(name), key=lambda each: each.pod.key)
        evicting = self._cache.evicting
        going = [each for each in here if each.pod.leaving or each.pod.uid in evicting]
        pods = [each for each in here if may_be_moved(self._handle, each, case.entry)]
        columns = [column for column, _ in case.wanted]
        vectors = [snapshot.vector(each.pod.requests)[columns] for each in pods]
        free = snapshot.allocatable[row] - snapshot.requested[row] - snapshot.reserved[row]
        for each in going:
            free = free + snapshot.vector(each.pod.requests)
        lacking = np.array([units - free[column] for column, units in case.wanted], np.int64)
        amounts = np.array(vectors, np.int64).reshape(len(pods), len(columns))
        return _Site(row, name, pods, going, amounts, lacking)

    def _nominated(self, case: _Case, row: int) -> bool:
        """Return whether capacity of a node is being freed for others."""
        nominated = self._cache.nominator.on(case.snapshot.nodes[row].name)
        return any(pod.uid != case.pod.uid for pod in nominated)

    def _plan(
        self, case: _Case, site: _Site, pods: Sequence[Placed], settled: Sequence[Destination]
    ) -> MigrationPlan | None:
        """Return the plan to move these pods, if that frees enough and they fit elsewhere."""
        if not permitted(self._handle.objects.pod_disruption_budgets, pods):
            return None
        if not self._frees_enough(case, site, pods):
            return None
        ordered = sorted(pods, key=lambda each: (-_weight(case, each), each.pod.key))
        gone = [*site.going, *pods]
        elsewhere = list(settled)
        for mover in ordered:
            name = self._destination(mover, gone, elsewhere, site.name, case.evaluation.now)
            if name is None:
                return None
            elsewhere.append((mover.pod, name))
        moves = tuple(Migration(pod.key, pod.uid, name) for pod, name in elsewhere[len(settled) :])
        node_uid = case.snapshot.nodes[site.row].meta.uid
        return MigrationPlan(
            site.name, token_of(case.entry.uid, node_uid, (move.uid for move in moves)), moves
        )

    def _frees_enough(self, case: _Case, site: _Site, pods: Sequence[Placed]) -> bool:
        """Return whether the reservation fits on a node without these pods and those that leave anyway."""
        gone = [*site.going, *pods]
        whatif = case.evaluation.whatif(np.array([site.row]))
        whatif.shift(_taken(case.snapshot, [each.pod for each in gone]), -1)
        if whatif.follows:
            whatif.remove(0, gone)
        return bool(whatif.judge().fits[0])

    def _destination(
        self,
        mover: Placed,
        gone: Sequence[Placed],
        settled: Sequence[Destination],
        source: str,
        now: float,
    ) -> str | None:
        """Return the node for a pod's replacement, or None if it fits on no other."""
        pod = _replacement(mover.pod)
        profile = self._profiles.get(pod.spec.scheduler_name, self._profile)
        with self._pipeline.evaluate(profile, pod, now) as evaluation:
            if not evaluation.filter().filters:
                return None
            evaluation.state = _as_if(evaluation, gone, settled)
            fits = np.zeros(len(evaluation.snapshot), np.bool_)
            for rows in self._open_to(evaluation, source):
                whatif = evaluation.whatif(rows)
                whatif.shift(_arrivals(evaluation.snapshot, rows, settled), 1)
                fits[rows[whatif.judge().fits]] = True
                if fits.any():
                    break
            chosen = evaluation.choose(fits)
        return None if chosen is None else chosen.name

    def _open_to(self, evaluation: Evaluation, source: str) -> Iterator[Rows]:
        """Yield nodes with free capacity for a pod, a few at a time, those with the most first."""
        snapshot = evaluation.snapshot
        wanted = snapshot.wanted(evaluation.pod.requests)
        fits = snapshot.free_for(wanted, beside_reservations=True)
        fits &= evaluation.fitting_apart_from_placement()
        fits &= ~snapshot.called({source, *self._cache.nominator.nodes})
        rows = fits.nonzero()[0]
        spare = snapshot.multiples(wanted, beside_reservations=True)[rows]
        rows = rows[np.lexsort((snapshot.traits.name_rank[rows], -spare))]
        for start in range(0, min(len(rows), _MOST_DESTINATIONS), _DESTINATIONS):
            yield np.sort(rows[start : start + _DESTINATIONS])


_Choice = tuple[tuple[float, float, float, int, tuple[int, ...]], _Site, Sequence[Placed]]
"""A set of pods that frees the shortfall, with its cost."""


def _sets(case: _Case, site: _Site, size: int) -> Iterator[_Choice]:
    """Yield some of the cheapest sets of so many pods that free the shortfall."""
    useful = np.minimum(site.amounts, np.maximum(site.lacking, 0))
    usefulness = (useful / np.maximum(site.lacking, 1)).sum(axis=1)
    order = np.argsort(-usefulness, kind="stable")[: _PODS[size]]
    if len(order) < size:
        return
    sets = order[_combinations(len(order), size)]
    sets = sets[(site.amounts[sets].sum(axis=1) >= site.lacking).all(axis=1)]
    if not len(sets):
        return
    priority = np.array([each.pod.spec.priority for each in site.pods])[sets]
    weight = np.array([_weight(case, each) for each in site.pods])[sets].sum(axis=1)
    highest, total = priority.max(axis=1), priority.sum(axis=1)
    rank = int(case.snapshot.traits.name_rank[site.row])
    for index in np.lexsort((weight, total, highest))[:_SETS_A_NODE].tolist():
        places = tuple(sorted(sets[index].tolist()))
        cost = (float(highest[index]), float(total[index]), float(weight[index]))
        yield (*cost, rank, places), site, [site.pods[place] for place in places]


@lru_cache(maxsize=256)
def _combinations(count: int, size: int) -> Rows:
    return np.array(list(combinations(range(count), size)), np.intp)


def _as_if(evaluation: Evaluation, gone: Collection[Placed], settled: Sequence[Destination]) -> CycleState:
    """Return the state in which filters count some pods as gone, and others where they are going."""
    state, pod, snapshot = evaluation.state.clone(), evaluation.pod, evaluation.snapshot
    for plugin in evaluation.result.filters:
        if isinstance(plugin, PreFilter):
            for each in gone:
                plugin.remove_pod(state, pod, each, snapshot)
            for other, name in settled:
                plugin.add_pod(state, pod, Placed(other, name, assumed=True), snapshot)
    return state


def _replacement(pod: Pod) -> Pod:
    """Return the pod with which a controller replaces one that is gone."""
    meta = msgspec.structs.replace(pod.metadata, uid=f"{pod.uid}-replaced")
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return Pod(metadata=meta, spec=spec, status=PodStatus())


def _arrivals(snapshot: Snapshot, rows: Rows, settled: Sequence[Destination]) -> Amounts:
    """Return the requests of arriving pods on some nodes, as rows for `WhatIf.shift`."""
    amounts = np.zeros((len(rows), 2 * len(snapshot.resources) + 2), np.int64)
    for pod, name in settled:
        amounts[rows == snapshot.row(name)] += _taken(snapshot, [pod])[0]
    return amounts


def _taken(snapshot: Snapshot, pods: Sequence[Pod]) -> Amounts:
    """Return the sum of requests, as the one row for `WhatIf.shift`."""
    width = len(snapshot.resources)
    amounts = np.zeros((1, 2 * width + 2), np.int64)
    for pod in pods:
        amounts[0, :width] += snapshot.vector(pod.requests)
        amounts[0, 2 * width :] += pod.nonzero
    return amounts


def _weight(case: _Case, placed: Placed) -> float:
    """Return the size of a pod relative to a reservation: the sum of its shares in the requests."""
    vector = case.snapshot.vector(placed.pod.requests)
    return sum(int(vector[column]) / units for column, units in case.wanted)
