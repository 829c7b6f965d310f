"""The scheduling cycle of a reservation: its reserve pod is placed by the same pipeline as any pod.

Nothing here waits or does I/O, so a cycle is one step of the serial decision loop.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Rows
from tidelock.cluster.index.labels import Label
from tidelock.cluster.placed import Placed
from tidelock.framework.api import Counts, Mask
from tidelock.framework.devices_to_hold import DevicesToHold
from tidelock.framework.profile import Profile
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.owners.matching import owner_names, owners_among
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase, ReservationSpec
from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.reserve_pod import ReservePod, pinned_to
from tidelock.plugins.node_unschedulable import NodeUnschedulable
from tidelock.plugins.taint_toleration import TaintToleration
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.pipeline import CAPACITY_PLUGINS, Evaluation, FilterPipeline, PluginAnswers
from tidelock.scheduler.core.preemption import Preemptor

# Nodes with owners that are tried for a reusable reservation. A try counts as so many compared pods.
_MOST_HOMES = 32
_A_HOME = 64


class PlacementTarget(NamedTuple):
    """The place of a reservation: a node, and devices to which the node has access."""

    node: Node
    devices: tuple[ReservedDevice, ...] = ()


class ReservationCycle:
    """Decides one reservation at a time over the pipeline's cache and ledger.

    Attributes:
        compared: how many pods were compared with reservations for reuse so far, as many take long.

    """

    def __init__(self, cache: Cache, ledger: Ledger, pipeline: FilterPipeline, preemptor: Preemptor) -> None:
        self._cache = cache
        self._ledger = ledger
        self._pipeline = pipeline
        self._preemptor = preemptor
        self.compared = 0

    def place(self, profile: Profile, entry: ReservationInfo, now: float) -> Diagnosis | None:
        """Reserve capacity for a waiting reservation, or note why there is none.

        Raises:
            PluginError: a plugin failed. Nothing is held.

        """
        with self.evaluate(profile, entry, now) as evaluation:
            node = self.find(entry, evaluation)
            site = None if node is None else _target_on(evaluation, node)
            if site is None:
                diagnosis, pod = evaluation.diagnose(), evaluation.pod
                if _may_preempt(entry, pod):
                    result = self._preemptor.run_post_filters(evaluation)
                    diagnosis = self._preemptor.preempt(
                        profile, pod, diagnosis, result, now, kind="reservation"
                    )
                elif entry.plan is None or not entry.plan.under_way:
                    self._cache.nominator.remove(pod.uid)
                self.refuse(entry, diagnosis, now)
                return diagnosis
        self._ledger.placement.admit(entry, site.node, now, site.devices)
        return None

    def evaluate(self, profile: Profile, entry: ReservationInfo, now: float) -> Evaluation:
        """Begin to evaluate a reservation by its reserve pod. Its own capacity does not count against it."""
        return self._pipeline.evaluate(profile, placed_reserve_pod(entry), now, own=(entry,))

    def find(
        self, entry: ReservationInfo, evaluation: Evaluation, answers: PluginAnswers | None = None
    ) -> Node | None:
        """Filter, and return the node of its owners, otherwise the best node, or the best for its time."""
        result = evaluation.filter(sound_only=entry.moving, answers=answers)
        home = self._home(entry, evaluation) if result.filters else None
        if home is not None:
            return home
        return evaluation.choose(answers=answers) or evaluation.choose_between(
            *lifetime.needed_from(entry, evaluation.now), answers=answers
        )

    def find_node(
        self,
        profile: Profile,
        entry: ReservationInfo,
        now: float,
        among: Mask | None = None,
        narrow: Callable[[Mask], Mask] | None = None,
    ) -> PlacementTarget | Diagnosis:
        """Return the best node for a reservation that waits for its first capacity. Nothing is held.

        Args:
            profile: the plugins.
            entry: the reservation.
            now: the decision time.
            among: the nodes that count. All by default.
            narrow: chooses, of the nodes that fit, those among which the best is taken.

        """
        with self.evaluate(profile, entry, now) as evaluation:
            fits = evaluation.filter(among=among).fits
            if narrow is not None and fits.any():
                fits = narrow(fits)
            node = evaluation.choose(fits)
            return evaluation.diagnose() if node is None else _target_on(evaluation, node)

    def capacities(self, profile: Profile, entry: ReservationInfo, now: float) -> Counts:
        """Return for each node how many reservations like a waiting one it can take at most."""
        with self.evaluate(profile, entry, now) as evaluation:
            evaluation.filter()
            return evaluation.capacities()

    def fitting_if_empty(self, profile: Profile, entry: ReservationInfo, now: float) -> Mask:
        """Return the nodes short of capacity that a waiting reservation would fit if they were empty."""
        with self.evaluate(profile, entry, now) as evaluation:
            evaluation.filter()
            return evaluation.fitting_if_empty()

    def label(self, key: str) -> Label:
        """Return a label of the nodes by its key."""
        return self._cache.columns.labels.of(key)

    def rows(self, names: Iterable[str]) -> Rows:
        """Return the rows of those of the named nodes that exist."""
        row_of = self._cache.columns.row_of
        return np.array([row_of[name] for name in names if name in row_of], np.intp)

    def refuse(self, entry: ReservationInfo, diagnosis: Diagnosis, now: float) -> None:
        """Note why a reservation gets no capacity."""
        self._ledger.admission.refuse(
            entry, self.reason(entry, diagnosis), diagnosis.message, now, diagnosis.plugins
        )

    def reason(self, entry: ReservationInfo, diagnosis: Diagnosis) -> str:
        """Return the condition reason of a reservation that waits."""
        return reason_of(self._cache, placed_reserve_pod(entry), diagnosis)

    def _home(self, entry: ReservationInfo, evaluation: Evaluation) -> Node | None:
        """Return the node of owners of a reusable reservation, if it fits beside the amounts in use."""
        if not entry.reservation.reusable or entry.ahead or entry.reservation.spec is None:
            return None
        snapshot, kept = evaluation.snapshot, evaluation.nominated_above()
        placed = self._placed_owners(entry, entry.reservation.spec)
        # The capacity of an owner that is being bound belongs to another reservation again if that fails.
        names = {each.node_name for each in placed} - {each.node_name for each in placed if each.assumed}
        for name in sorted(names, key=lambda name: (name != entry.node, name))[:_MOST_HOMES]:
            self.compared += _A_HOME
            row = snapshot.row(name)
            credit = self._ledger.holdings.sharing.credit(entry, name, entry.reservation.requests)
            if row is None or not credit or row in kept:
                continue
            if entry.moving and not snapshot.nodes[row].sound:
                continue
            whatif = evaluation.whatif(np.array([row]))
            whatif.release(0, credit)
            whatif.remove(0, (each for each in placed if each.node_name == name))
            if whatif.judge().fits.all():
                return snapshot.nodes[row]
        return None

    def _placed_owners(self, entry: ReservationInfo, spec: ReservationSpec) -> list[Placed]:
        """List the owners of a reservation that are on nodes, or are being bound there."""
        names = owner_names(entry.key, spec)
        if names is not None:
            found = (self._cache.named(name) for name in dict.fromkeys(names))
            candidates = [placed for placed in found if placed is not None]
        else:
            candidates = list(self._cache.pods_in(entry.key.namespace))
        self.compared += len(candidates)
        owners = owners_among(spec, [each.pod for each in candidates])
        return [each for each in candidates if each.pod.uid in owners]


def _target_on(evaluation: Evaluation, node: Node) -> PlacementTarget:
    """Return a node that fits, with the devices that the reservation would hold there."""
    found = evaluation.state.read(DevicesToHold)
    return PlacementTarget(node, () if found is None else found.on(node.name))


def placed_reserve_pod(entry: ReservationInfo) -> ReservePod:
    """Return the pod as which a reservation is placed. One that only grows stays on its node.

    Raises:
        ValueError: the reservation's spec can't be read, so it has none.

    """
    pod = entry.reservation.pod
    if pod is None:
        raise ValueError(f"{entry.key} waits for capacity, but its spec cannot be read")
    return pinned_to(pod, entry.node) if entry.growing and not entry.moving else pod


def reason_of(cache: Cache, pod: Pod, diagnosis: Diagnosis) -> str:
    """Return the condition reason of a reservation without capacity, by its reserve pod."""
    columns = cache.columns
    row = columns.row_of.get(pod.spec.node_name)
    if pod.spec.node_name and row is None:
        return reasons.NODE_NOT_FOUND
    if diagnosis.plugins & CAPACITY_PLUGINS:
        return reasons.INSUFFICIENT_CAPACITY
    if row is not None and NodeUnschedulable.name in diagnosis.plugins:
        return reasons.NODE_CORDONED
    if row is not None and TaintToleration.name in diagnosis.plugins and not columns.nodes[row].ready:
        return reasons.NODE_NOT_READY
    return reasons.NO_MATCHING_NODE


def _may_preempt(entry: ReservationInfo, pod: Pod) -> bool:
    """Return whether a reservation can preempt: as its spec says, while it waits for its first capacity."""
    spec = entry.reservation.spec
    waits = entry.phase is Phase.PENDING and not entry.ahead and not entry.unseen
    waits = waits and spec is not None and spec.pending_deadline_seconds > 0
    return waits and pod.spec.may_preempt
