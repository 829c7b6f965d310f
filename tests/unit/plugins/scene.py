"""A small cluster with reservations, and the results of one plugin for a pod."""

from collections.abc import Iterable
from copy import copy
from typing import Any

import msgspec
import numpy as np

from builders import NAMESPACE, NOW, quota, reservation
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.lister import Lister
from tidelock.cluster.objects import Objects
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.measurements import Measurements
from tidelock.framework.api import (
    SUCCESS,
    Code,
    Filter,
    Handle,
    Mask,
    Plugin,
    PreFilter,
    PreScore,
    Score,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import DecisionTime
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod


class Scene:
    """Nodes with their pods and reservations."""

    def __init__(self, *nodes: Node) -> None:
        self.columns = Columns()
        self.cache = Cache(self.columns)
        self.objects = Objects()
        self.objects.device_classes.on_backing(self.columns.back)
        self.objects.reservation_quotas.upsert(None, quota())
        self.ledger = Ledger(self.columns, quotas=Quotas(self.objects.reservation_quotas, Lister()))
        self.measurements = Measurements()
        for each in nodes:
            self.cache.put_node(each)

    @property
    def handle(self) -> Handle:
        return Handle(self.ledger.plugin_view, self.cache, self.objects, measurements=self.measurements)

    def reservation(self, name: str, node_name: str = "node-a", **spec: Any) -> ReservationInfo:
        """Place a reservation on a node."""
        self.ledger.upsert(reservation(name, **spec), NOW)
        entry = self.ledger.entries[Key(NAMESPACE, name)]
        self.ledger.placement.admit(entry, self.columns.nodes[self.columns.row_of[node_name]], NOW)
        return entry

    def judge(self, kind: type[Plugin], pod: Pod, *written: object, **args: Any) -> "Judgement":
        """Run PreFilter of a plugin with these args for a pod, with these values in the cycle state."""
        return self.judging(kind(self.handle, args), pod, *written)

    def judging(self, plugin: Plugin, pod: Pod, *written: object) -> "Judgement":
        """Run PreFilter of an existing plugin for a pod."""
        self.columns.vector(pod.requests)
        return Judgement(plugin, pod, Snapshot.of(self.columns), written)


class Judgement:
    """The results of a plugin for a pod, by the names of nodes."""

    def __init__(self, plugin: Plugin, pod: Pod, snapshot: Snapshot, written: Iterable[object]) -> None:
        self.plugin = plugin
        self.pod = pod
        self.snapshot = snapshot
        self.state = CycleState()
        self.state.write(DecisionTime(NOW))
        for value in written:
            self.state.write(value)
        self.status: Status = SUCCESS
        if isinstance(plugin, PreFilter):
            self.status = plugin.pre_filter(self.state, pod, snapshot)

    @property
    def mask(self) -> Mask:
        """Return the filter's result for each row of the snapshot. A skipped pod fits every row."""
        assert isinstance(self.plugin, Filter)
        if self.status.code is Code.SKIP:
            return np.ones(len(self.snapshot), np.bool_)
        mask = self.plugin.filter(self.state, self.pod, self.snapshot)
        for row in self._judged_alone():
            assert self.plugin.filter_one(self.state, self.pod, self.snapshot, row) == mask[row]
        return mask

    @property
    def fitting(self) -> set[str]:
        """Return the names of the nodes that fit."""
        return {self.snapshot.nodes[int(row)].name for row in np.flatnonzero(self.mask)}

    def copied(self) -> "Judgement":
        """Return a copy with its own cycle state, for a trial."""
        other = copy(self)
        other.state = self.state.clone()
        return other

    def narrowed(self, *names: str) -> "Judgement":
        """Return a copy for a few nodes only, with the state that PreFilter computed for all nodes."""
        other = self.copied()
        other.snapshot = self.snapshot.take(np.array([self._row(name) for name in names], np.intp))
        return other

    @property
    def scores(self) -> dict[str, float]:
        """Return the scores of all nodes."""
        return self.scores_among(*(node.name for node in self.snapshot.nodes))

    def scores_among(self, *names: str) -> dict[str, float]:
        """Return the scores of these nodes if no others fit. All are 0 if PreScore skips the pod."""
        assert isinstance(self.plugin, Score)
        rows = np.array([self._row(name) for name in names], np.intp)
        if isinstance(self.plugin, PreScore):
            status = self.plugin.pre_score(self.state, self.pod, self.snapshot, rows)
            if status.code is Code.SKIP:
                return dict.fromkeys(names, 0.0)
        raw = self.plugin.score(self.state, self.pod, self.snapshot, rows)
        for row, score in zip(rows.tolist(), raw.tolist(), strict=True):
            if row in self._judged_alone():
                assert self.plugin.score_one(self.state, self.pod, self.snapshot, row) == score
        scores = self.plugin.normalize(self.state, self.pod, raw)
        return dict(zip(names, scores.tolist(), strict=True))

    def reasons(self, name: str = "node-a") -> tuple[str, ...]:
        assert isinstance(self.plugin, Filter)
        reasons = self.plugin.reasons(self.state, self.pod, self.snapshot, self._row(name))
        assert msgspec.json.decode(msgspec.json.encode(reasons)) == list(reasons)
        return reasons

    def preemption_may_help(self, name: str = "node-a") -> bool:
        assert isinstance(self.plugin, Filter)
        return self.plugin.preemption_may_help(self.state, self.pod, self.snapshot, self._row(name))

    def detail(self, name: str = "node-a") -> str:
        assert isinstance(self.plugin, Filter)
        return self.plugin.detail(self.state, self.pod, self.snapshot, self._row(name))

    def _judged_alone(self) -> range:
        """Return the rows for which a plugin must give the same result when it judges one node alone."""
        whole = isinstance(self.snapshot.rows, slice)
        return range(len(self.snapshot) if whole and (self.plugin.per_node or self.status.cacheable) else 0)

    def _row(self, name: str) -> int:
        row = self.snapshot.row(name)
        assert row is not None, name
        return row
