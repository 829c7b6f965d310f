"""Admission check for other binders, over the cache and the ledger of Tidelock's own decisions.

Other schedulers ask beforehand (`filter`, `own_nodes`, `preempt`), and every binding is checked once more at
the last moment (`admit`). All these are plain calls between two decisions, and so in one order with pods and
reservations. An admitted binding is assumed at once, like one of our own:

    unbound --admit--> assumed --seen--> bound
                           |
                           +--lapse, gone--> forgotten, its reservations restored

Pure: time is a parameter.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tidelock.binders.claim_check import ClaimCheck
from tidelock.cluster.columns import Amounts, Rows
from tidelock.cluster.rollback import undone_on_failure
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Filter, Mask
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import ASSIGNED_POD_DELETE, RESOURCE_CLAIM_DELETE
from tidelock.framework.rejections import numbers_of, reasons_of
from tidelock.ledger.lifecycle.steady_clock import SteadyClock
from tidelock.ledger.messages import binding_text
from tidelock.model.devices import DeviceId
from tidelock.model.meta import Key
from tidelock.model.pods import Pod, assigned_to
from tidelock.model.resource_claims import ResourceClaim
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.reservation.plugin import ReservationPlugin
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.pipeline import run_filters

# How long an admitted binding may stay unseen. The API server gives up a request after 60 s, so the binding
# can't happen later. The rest is for the watch.
UNSEEN_SECONDS = 65.0
# How long a pod is expected to be bound to one of the nodes that the filter returned for it.
CHOOSING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Admitted:
    pod: Pod
    node_name: str
    until: float


@dataclass(frozen=True, slots=True)
class _Choosing:
    """A pod for which another scheduler now chooses among nodes, and those of them with reservations.

    `rows` are their positions in the columns, as long as the columns have that `version`.
    """

    pod: Pod
    names: tuple[str, ...]
    rows: Rows
    version: int
    until: float


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The nodes that are left for a pod, and why others are not. Eviction can't help `hopeless` ones."""

    names: tuple[str, ...]
    failed: Mapping[str, str]
    hopeless: Mapping[str, str]


class AdmissionCheck:
    """Keeps reserved capacity, and capacity that Tidelock has given to pods, from other binders.

    Attributes:
        claims: the same for devices.

    """

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._cache = decider.cache
        self._ledger = decider.ledger
        # The plugins that check Tidelock's own pods for capacity.
        self._filters = tuple(
            plugin
            for plugin in decider.profile.filter
            if isinstance(plugin, (NodeResourcesFit, ReservationPlugin))
        )
        self.claims = ClaimCheck(decider.objects.resource_claims, self._reserved_devices, UNSEEN_SECONDS)
        self._steady = SteadyClock()
        self._admitted: dict[str, _Admitted] = {}
        self._choosing: dict[str, _Choosing] = {}

    # Bindings.

    def admit(self, pod: Pod, node_name: str, now: float, *, dry_run: bool = False) -> str:
        """Admit the binding of a pod to a node, and count the pod there, or return why not.

        It is refused if the capacity of the node beside the reservations of other pods does not suffice. A
        kubelet would also refuse a pod that exceeds the node itself. A dry run counts nothing.
        """
        placed = self._cache.get(pod.uid)
        if placed is not None:
            # The API server itself answers for a pod that is certainly bound.
            if placed.node_name == node_name or not placed.assumed:
                return ""
            return binding_text(pod.key, placed.node_name)
        refusal = self._diagnosis(pod, node_name)
        if refusal or dry_run:
            return refusal
        queued = self._decider.queue.get(pod.uid)
        with self._ledger.recovery.undone(now), undone_on_failure() as undo:
            if queued is not None:
                undo(partial(self._decider.queue.upsert, queued.pod, now))
                self._decider.queue.remove(pod.uid)
            # The pod is forgotten first, so its reservations get the capacity back.
            undo(partial(self._ledger.claims.unclaim, pod.uid, now))
            undo(partial(self._cache.forget, pod.uid))
            self._cache.assume(pod, node_name, now)
            self._ledger.claims.claim(pod, node_name, now)
            self._admitted[pod.uid] = _Admitted(pod, node_name, self._steady.at(now) + UNSEEN_SECONDS)
        self._choosing.pop(pod.uid, None)
        return ""

    def knows(self, uid: str) -> bool:
        """Whether a watch has shown a pod, so it can't be about to be created."""
        placed = self._cache.get(uid) is not None and uid not in self._admitted
        return placed or self._decider.queue.get(uid) is not None

    def seen(self, pod: Pod, now: float) -> None:
        """Note that a pod has been seen bound, which ends the reservations that it has claimed."""
        self._choosing.pop(pod.uid, None)
        if pod.uid in self._admitted:
            with self._ledger.recovery.undone(now):
                self._ledger.claims.owner_bound(pod, pod.node_name, now)
            del self._admitted[pod.uid]

    def gone(self, uid: str, now: float) -> None:
        """Note that a pod is gone, which restores the reservations that it has claimed."""
        self._choosing.pop(uid, None)
        if (admitted := self._admitted.get(uid)) is not None:
            with self._ledger.recovery.undone(now):
                self._cache.forget(uid)
                self._ledger.claims.unclaim(uid, now)
                self._ledger.placement.settle_unseen(admitted.node_name, now)
            del self._admitted[uid]

    def lapse(self, now: float) -> bool:
        """Forget admitted bindings and allocations that never appeared. Return whether there were any."""
        at = self._steady.at(now)
        for uid in [uid for uid, each in self._choosing.items() if each.until <= at]:
            del self._choosing[uid]
        lapsed = [each for each in self._admitted.values() if each.until <= at]
        for each in lapsed:
            pod = each.pod
            with self._ledger.recovery.isolated("bindings", "Pod", pod.meta, now) as attempt:
                self.gone(pod.uid, now)
                self._decider.queue.notify(ASSIGNED_POD_DELETE, assigned_to(pod, each.node_name), None, now)
                if not pod.node_name:
                    self._decider.queue.upsert(pod, now)
            if attempt.error is not None:  # all steps come again, unless a watch shows the pod before
                self._admitted[pod.uid] = replace(each, until=at + attempt.pause)
        unseen = self.claims.lapse(now)
        self._cache.columns.freed += len(unseen)
        for claim in unseen:
            with self._ledger.recovery.isolated("bindings", "", claim.meta, now):
                self._decider.queue.notify(RESOURCE_CLAIM_DELETE, claim, None, now)
        return bool(lapsed or unseen)

    # Queries of other schedulers.

    def filter(
        self, pod: Pod, names: Iterable[str], now: float, *, patient: bool = False
    ) -> CheckResult | None:
        """Return which of these nodes have capacity for a pod beside the reservations of other pods.

        Pods for which a scheduler has just chosen a node count beside reservations on any node. If that alone
        leaves no node, a patient caller gets None, and asks again when more is known.
        """
        self._choosing.pop(pod.uid, None)
        names = tuple(names)
        admitted = self._admitted.get(pod.uid)
        if admitted is not None:
            text = f"the pod is being bound to {admitted.node_name}"
            others = {name: text for name in names if name != admitted.node_name}
            return CheckResult(tuple(name for name in names if name not in others), {}, others)
        snapshot = self._cache.snapshot()
        chosen = self._chosen_elsewhere(now)
        found = self._filtered(pod, names, snapshot, chosen)
        if chosen is not None and patient and not found.names:
            if self._filtered(pod, names, snapshot, None).names:
                return None
        elif guarded := tuple(set(self._ledger.holdings.nodes_with_reservations()).intersection(found.names)):
            rows, version = _rows(snapshot, guarded), self._cache.columns.version
            until = self._steady.at(now) + CHOOSING_SECONDS
            self._choosing[pod.uid] = _Choosing(pod, guarded, rows, version, until)
        return found

    def own_nodes(self, pod: Pod) -> set[str]:
        """Return the names of the nodes on which a pod has a reservation."""
        return {entry.node for entry in self._ledger.ownership.of(pod) if entry.held}

    def preempt(self, pod: Pod, victims: Mapping[str, Collection[str]]) -> list[str]:
        """Return the nodes on which the pod would fit beside reservations without these victims, by uid."""
        judged, index_of = _taken(self._cache.snapshot(), victims)
        own = self._ledger.ownership.of(pod)
        for name, index in index_of.items():
            for placed in self._cache.pods_on(name):
                if placed.pod.uid in victims[name]:
                    judged.requested[index] -= judged.vector(placed.pod.requests)
            for entry in self._ledger.holdings.sharing.occupied_on(name):
                for uid in entry.occupants.keys() & victims[name] if entry not in own else ():
                    judged.reserved[index] += judged.vector(entry.occupants[uid].uses)
        _, verdicts = self._judge(pod, judged)
        return [name for name, index in index_of.items() if all(mask[index] for _, mask in verdicts)]

    # Internals.

    def _reserved_devices(self, claim: ResourceClaim) -> list[tuple[DeviceId, Key]]:
        return [(device, entry.key) for device, entry in self._decider.taken_devices.by(claim)]

    def _judge(self, pod: Pod, snapshot: Snapshot) -> tuple[CycleState, list[tuple[Filter, Mask]]]:
        state = CycleState()
        return state, run_filters(self._filters, state, pod, snapshot)

    def _diagnosis(self, pod: Pod, node_name: str) -> str:
        """Return why a node has no capacity for a pod, with numbers. An unknown node has no reservations."""
        if not pod.requires_reservation and self._cache.columns.fits(node_name, pod.requests):
            return ""  # the common case, without a snapshot: it fits beside all reservations
        judged, index_of = _taken(self._cache.snapshot(), (node_name,))
        if not index_of:
            return ""
        state, verdicts = self._judge(pod, judged)
        for plugin, mask in verdicts:
            if not mask[0]:
                reasons = ", ".join(reasons_of(plugin, state, pod, judged, 0))
                numbers = numbers_of(plugin, state, pod, judged, 0)
                return f"{node_name}: {reasons}" + (f" ({numbers})" if numbers else "")
        return ""

    def _filtered(
        self, pod: Pod, names: tuple[str, ...], snapshot: Snapshot, chosen: Amounts | None
    ) -> CheckResult:
        judged, index_of = _taken(snapshot, names)
        if chosen is not None:
            judged.reserved[:] += chosen[judged.rows]
        failed = dict.fromkeys((name for name in names if name not in index_of), "node(s) not seen yet")
        hopeless: dict[str, str] = {}
        state, verdicts = self._judge(pod, judged)
        left: Mask = np.ones(len(judged), np.bool_)
        for plugin, mask in verdicts:
            for index in np.flatnonzero(left & ~mask).tolist():
                preemption_may_help = plugin.preemption_may_help(state, pod, judged, index)
                reasons = ", ".join(reasons_of(plugin, state, pod, judged, index))
                (failed if preemption_may_help else hopeless)[judged.nodes[index].name] = reasons
            left &= mask
        return CheckResult(
            tuple(name for name in names if name in index_of and left[index_of[name]]), failed, hopeless
        )

    def _chosen_elsewhere(self, now: float) -> Amounts | None:
        """Sum by row the capacity of pods for which a scheduler has just chosen a node.

        That scheduler already counts them, but not beside reservations. Their nodes are unknown here.
        """
        columns, at = self._cache.columns, self._steady.at(now)
        pending = [
            each for uid, each in self._choosing.items() if each.until > at and self._cache.get(uid) is None
        ]
        if not pending:
            return None
        total = np.zeros((len(columns), len(columns.resources)), np.int64)
        for each in pending:
            known = each.version == columns.version
            rows = each.rows if known else _rows(Snapshot.of(columns), each.names)
            total[rows] += columns.vector(each.pod.requests)
        return total


def _rows(snapshot: Snapshot, names: Iterable[str]) -> Rows:
    """Return the rows of the known nodes among these names."""
    return np.array([row for name in names if (row := snapshot.row(name)) is not None], np.intp)


def _taken(snapshot: Snapshot, names: Iterable[str]) -> tuple[Snapshot, dict[str, int]]:
    """Copy the rows of some nodes, and return the index of each known one by its name."""
    row_of = {name: row for name in names if (row := snapshot.row(name)) is not None}
    taken = snapshot.take(np.fromiter(row_of.values(), np.intp, len(row_of)))
    return taken, {name: index for index, name in enumerate(row_of)}
