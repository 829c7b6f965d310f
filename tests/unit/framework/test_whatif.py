# ruff: noqa: ARG002 -- the framework passes the same arguments to every plugin.
"""Hypothetical changes of nodes, for filters with a state that follows other pods."""

from dataclasses import dataclass

import numpy as np

from builders import node, pod
from tidelock.cluster.placed import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    SUCCESS,
    Code,
    Filter,
    FilterResult,
    Mask,
    PreFilter,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.extension_point_timer import ExtensionPointTimer, MetricsRecorder
from tidelock.framework.whatif import WhatIf, filter_with_nominated_pods
from tidelock.model.pods import Pod
from tidelock.plugins.default_preemption.plugin import DefaultPreemption
from unit.plugins.scene import Scene


@dataclass
class Noise:
    """The number of noisy pods on each node."""

    counts: np.ndarray[tuple[int], np.dtype[np.int64]]

    def clone(self) -> "Noise":
        return Noise(self.counts.copy())


class QuietNode(PreFilter, Filter):
    """A filter that rules out nodes with noisy pods."""

    name = "QuietNode"
    per_node = True

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        state.write(Noise(np.zeros(len(snapshot), np.int64)))
        for each in snapshot.nodes:
            for placed in self.handle.cache.pods_on(each.name):
                self.add_pod(state, pod, placed, snapshot)
        return SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        self._count(state, other, snapshot, 1)

    def remove_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        self._count(state, other, snapshot, -1)

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        quiet: Mask = state.expect(Noise).counts[snapshot.rows] == 0
        return quiet

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        return ("it is loud",)

    @staticmethod
    def _count(state: CycleState, other: Placed, snapshot: Snapshot, sign: int) -> None:
        row = snapshot.row(other.node_name)
        if row is not None and "noisy" in other.pod.meta.labels:
            state.expect(Noise).counts[row] += sign


class QuietCluster(QuietNode):
    """A filter that rules out all nodes if any has noisy pods."""

    name = "QuietCluster"
    per_node = False

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        return np.full(len(snapshot), not state.expect(Noise).counts.any())


class Notes(MetricsRecorder):
    """A recorder that lists the measured plugins. Each measurement takes one tick of its clock."""

    def __init__(self, *, sampled: bool) -> None:
        self.sampled = sampled
        self.ticks = 0.0
        self.noted: list[tuple[str, str, Code, float]] = []

    def clock(self) -> float:
        self.ticks += 0.25
        return self.ticks

    def sample(self) -> bool:
        return self.sampled

    def passed(self, point: str, code: Code, profile: str, seconds: float) -> None:
        raise AssertionError(f"{point} is no part of what follows pods")

    def ran(self, plugin: str, point: str, code: Code, seconds: float) -> None:
        self.noted.append((plugin, point, code, seconds))


def scene(*noisy: str) -> Scene:
    """Build two nodes with a quiet pod each, and add a noisy pod to each named node."""
    made = Scene(node("node-a"), node("node-b"))
    for name in ("node-a", "node-b"):
        made.cache.upsert(pod(f"quiet-{name}", node_name=name))
    for name in noisy:
        made.cache.upsert(pod(f"noisy-{name}", node_name=name, labels={"noisy": "yes"}))
    return made


def judged(made: Scene, kind: type[QuietNode], wanting: Pod) -> tuple[CycleState, Snapshot, FilterResult]:
    plugin, state, snapshot = kind(made.handle, {}), CycleState(), Snapshot.of(made.columns)
    plugin.pre_filter(state, wanting, snapshot)
    return state, snapshot, WhatIf([plugin], state, wanting, snapshot, np.arange(2)).judge()


def preempted(made: Scene, kind: type[QuietNode]) -> list[str]:
    """Return the victims for a pod that needs quiet, or the reasons if there are none."""
    wanting = pod(priority=10)
    state, snapshot, filter_result = judged(made, kind, wanting)
    result = DefaultPreemption(made.handle, {}).post_filter(state, wanting, snapshot, filter_result)
    if result.victims is None:
        return [result.message]
    return [placed.pod.meta.name for placed in result.victims.pods]


def test_only_pods_that_the_filter_state_counts_are_victims() -> None:
    assert preempted(scene("node-a"), QuietCluster) == ["noisy-node-a"]
    assert preempted(scene("node-a", "node-b"), QuietNode) in (["noisy-node-a"], ["noisy-node-b"])


def test_evictions_on_one_node_do_not_count_for_another() -> None:
    """Check a filter that only the evictions on both nodes together would satisfy."""
    assert preempted(scene("node-a", "node-b"), QuietCluster) == [
        "preemption: 0/2 nodes are available: 2 it is loud."
    ]


def test_a_hypothetical_pod_only_counts_on_its_node() -> None:
    """Check a filter that depends on one node, and a filter that depends on all nodes."""
    made, noisy = scene(), pod("noisy", labels={"noisy": "yes"})
    for kind in (QuietNode, QuietCluster):
        plugin, state, snapshot = kind(made.handle, {}), CycleState(), Snapshot.of(made.columns)
        plugin.pre_filter(state, pod(), snapshot)
        whatif = WhatIf([plugin], state, pod(), snapshot, np.arange(2))
        whatif.add(1, [Placed(noisy, snapshot.nodes[1].name, assumed=True)])
        assert whatif.judge().fits.tolist() == [True, False]
        assert whatif.still_fit(np.array([True, True])).tolist() == [True, False]
        assert whatif.still_fit(np.array([False, True])).tolist() == [False, False]
        (view,) = whatif.views(np.array([False, True]))
        assert view.at.tolist() == [1]
        assert plugin.reasons(view.state, pod(), view.snapshot, int(view.rows[0])) == ("it is loud",)
        assert view.state.expect(Noise).counts.tolist() == [0, 1]
        assert list(whatif.views(np.array([False, False]))) == []


def test_only_filters_that_depend_on_placement_run_again() -> None:
    made = scene("node-a")
    deaf = type("Deaf", (QuietNode,), {"depends_on_placement": False})(made.handle, {})
    state, snapshot = CycleState(), Snapshot.of(made.columns)
    deaf.pre_filter(state, pod(), snapshot)
    whatif = WhatIf([deaf], state, pod(), snapshot, np.arange(2))
    assert whatif.judge().fits.tolist() == [False, True]
    assert whatif.still_fit(np.array([True, True])).tolist() == [True, True]


def test_a_trial_leaves_the_state_and_the_cluster_as_they_are() -> None:
    made = scene("node-a")
    requested = made.columns.requested.copy()
    state, _, _ = judged(made, QuietNode, pod(priority=10))
    preempted(made, QuietNode)

    assert state.expect(Noise).counts.tolist() == [1, 0]
    assert np.array_equal(made.columns.requested, requested)


def test_a_nominated_pod_counts_on_its_node_alone() -> None:
    made = scene()
    made.cache.nominator.nominate(pod("next", labels={"noisy": "yes"}, priority=10), "node-a")
    made.cache.nominator.nominate(pod("nowhere", priority=10), "node-z")

    def fits(kind: type[QuietNode], wanting: Pod) -> list[bool]:
        state, snapshot, filter_result = judged(made, kind, wanting)
        filter_result = filter_with_nominated_pods(
            filter_result, made.cache.nominator, state, wanting, snapshot
        )
        return [bool(fit) for fit in filter_result.fits]

    for kind in (QuietNode, QuietCluster):
        assert fits(kind, pod(priority=10)) == [False, True]
        assert fits(kind, pod(priority=11)) == [True, True]
        assert fits(kind, pod("next", priority=10)) == [True, True]


def test_the_reason_is_the_one_that_holds_with_the_nominated_pod() -> None:
    made, wanting = scene(), pod()
    made.cache.nominator.nominate(pod("next", labels={"noisy": "yes"}), "node-b")
    state, snapshot, filter_result = judged(made, QuietNode, wanting)
    filter_result = filter_with_nominated_pods(filter_result, made.cache.nominator, state, wanting, snapshot)

    ((plugin, mask),) = filter_result.ruled_out
    assert (plugin.name, mask.tolist()) == ("QuietNode", [False, True])
    view = filter_result.view(state, snapshot, 1)
    assert view.state.expect(Noise).counts.tolist() == [0, 1]
    assert (len(view.snapshot), view.rows.tolist(), view.at.tolist()) == (1, [0], [1])
    assert filter_result.view(state, snapshot, 0).snapshot is snapshot


def test_plugins_that_follow_pods_are_measured_in_sampled_decisions() -> None:
    def noted(*, sampled: bool) -> list[tuple[str, str, Code, float]]:
        made, notes = scene("node-a"), Notes(sampled=sampled)
        plugin, state, snapshot = QuietNode(made.handle, {}), CycleState(), Snapshot.of(made.columns)
        state.write(ExtensionPointTimer("mine", notes))
        plugin.pre_filter(state, pod(), snapshot)
        whatif = WhatIf([plugin], state, pod(), snapshot, np.arange(2))
        noisy = list(made.cache.pods_on("node-a"))[-1:]
        whatif.remove(0, noisy)
        whatif.add(0, noisy)
        return notes.noted

    assert noted(sampled=False) == []
    assert noted(sampled=True) == [
        ("QuietNode", "PreFilterExtensionRemovePod", Code.SUCCESS, 0.25),
        ("QuietNode", "PreFilterExtensionAddPod", Code.SUCCESS, 0.25),
    ]
