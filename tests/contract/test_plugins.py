"""The contract of every plugin, whatever it decides."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from builders import NOW, encode, node, pod
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP_ALIKE,
    SUCCESS,
    Bind,
    Code,
    Filter,
    Mask,
    Plugin,
    PostFilter,
    PreEnqueue,
    PreFilter,
    PreScore,
    QueueSort,
    Reserve,
    Score,
    Scores,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.profile import PluginFactory
from tidelock.model.nodes import decode_node
from tidelock.model.pods import Pod
from tidelock.plugins.registry import DEFAULT_PLUGINS, REGISTRY
from unit.plugins.scene import Scene

GPU = "nvidia.com/gpu"

OPTIONAL = {
    "TargetLoadPacking",
    "LoadVariationRiskBalancing",
    "LowRiskOverCommitment",
    "DynamicLoad",
    "LoadAware",
    "WorkloadTopologySpread",
    "GangScheduling",
}
"""Plugins that are in no profile unless a configuration enables them."""

RESERVING = [kind for kind in REGISTRY.values() if isinstance(kind, type) and issubclass(kind, Reserve)]

every_plugin = pytest.mark.parametrize("factory", REGISTRY.values(), ids=REGISTRY.keys())


def busy() -> Scene:
    """Build nodes of all kinds, with pods and reservations."""
    scene = Scene(
        node("node-d", cpu="4", memory="8Gi", labels={"zone": "a"}),
        node("node-a", cpu="2", memory="4Gi", taints=["spot:PreferNoSchedule"], **{GPU: "2"}),
        node("node-c", cordoned=True, taints=["dedicated=batch:NoSchedule"]),
        node("node-b", cpu="1", memory="32Gi", labels={"zone": "b"}, ready=False),
    )
    scene.cache.assume(pod("other", requests={"cpu": "1", "memory": "1Gi"}), "node-d")
    scene.reservation("mine", "node-d", resources={"cpu": "1"}, owner="web-0")
    scene.reservation("foreign", "node-d", resources={"cpu": "1"}, owner="db-0")
    scene.reservation("larger", "node-a", resources={"cpu": "2"}, owner="db-0")
    return scene


def bare() -> Scene:
    """Build nodes with an incomplete status: without allocatable, or without any of a resource."""
    silent = decode_node(encode({"metadata": {"name": "node-a", "uid": "1"}}))
    return Scene(silent, node("node-b", cpu="0", memory="0", pods="0"))


PREFERRED = [{"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]
WORLDS: dict[str, Callable[[], Scene]] = {"busy": busy, "bare": bare, "empty": Scene}
NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
PODS = {
    "for a node by name": pod(
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NAMED]}}
        }
    ),
    "ordinary": pod("web-0", requests={"cpu": "500m", "memory": "1Gi"}),
    "greedy": pod("web-0", requests={"cpu": "64", "memory": "1Ti"}),
    "without requests": pod("best-effort", requests={}),
    "wanting what nobody has": pod("odd", requests={"example.com/unicorn": "1"}),
    "choosy": pod(
        "web-1",
        node_name="node-x",
        nodeSelector={"zone": "a"},
        affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}},
        annotations={"tidelock.dev/require-reservation": "true"},
    ),
}

everywhere = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
for_every_pod = pytest.mark.parametrize("wanting", PODS.values(), ids=PODS.keys())


def state_of_now() -> CycleState:
    """Return a new state with the decision time, as the scheduling cycle does."""
    state = CycleState()
    state.write(DecisionTime(NOW))
    return state


def prepared(
    factory: PluginFactory, world: Callable[[], Scene], wanting: Pod
) -> tuple[Plugin, CycleState, Snapshot]:
    """Return a plugin in a new scene, with the state and the snapshot of a decision about a pod."""
    scene = world()
    scene.columns.vector(wanting.requests)
    return factory(scene.handle, {}), state_of_now(), Snapshot.of(scene.columns)


class Run:
    """All results of a plugin for a pod before a node is chosen."""

    def __init__(self, plugin: Plugin, pod: Pod, scene: Scene) -> None:
        scene.columns.vector(pod.requests)
        self.snapshot = snapshot = Snapshot.of(scene.columns)
        state = state_of_now()
        self.mask: Mask = np.ones(len(snapshot), np.bool_)
        self.scores: Scores = np.zeros(len(snapshot))
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.tally: Counter[str] = Counter()
        self.allowed: Mask | None = None
        skipped = False
        if isinstance(plugin, PreFilter):
            skipped = plugin.pre_filter(state, pod, snapshot).code is Code.SKIP
            self.allowed = None if skipped else plugin.allowed(state, pod, snapshot)
        if isinstance(plugin, Filter) and not skipped:
            self.mask = plugin.filter(state, pod, snapshot)
            self.texts = [
                (
                    plugin.reasons(state, pod, snapshot, int(row)),
                    plugin.detail(state, pod, snapshot, int(row)),
                )
                for row in np.flatnonzero(~self.mask)
            ]
            self.tally = plugin.tally(state, pod, snapshot, np.flatnonzero(~self.mask))
        if isinstance(plugin, Score):
            raw = plugin.score(state, pod, snapshot, np.arange(len(snapshot)))
            self.scores = plugin.normalize(state, pod, raw)


@every_plugin
@everywhere
@for_every_pod
def test_a_plugin_answers_for_every_node_whatever_is_missing(
    factory: PluginFactory, world: Callable[[], Scene], wanting: Pod
) -> None:
    scene = world()
    run = Run(factory(scene.handle, {}), wanting, scene)

    assert run.mask.shape == run.scores.shape == (len(scene.columns),)
    assert run.mask.dtype == np.bool_
    assert run.allowed is None or not (run.mask & ~run.allowed).any(), "barred nodes are ruled out"
    assert run.scores.dtype == np.float64
    assert ((run.scores >= 0) & (run.scores <= MAX_NODE_SCORE)).all()
    assert all(reasons and all(reasons) for reasons, _ in run.texts), "a node is ruled out for a reason"
    assert run.tally == Counter(reason for reasons, _ in run.texts for reason in reasons)


@every_plugin
@for_every_pod
def test_a_plugin_that_skips_all_pods_of_a_kind_does_so_in_every_cluster(
    factory: PluginFactory, wanting: Pod
) -> None:
    answers = set()
    for world in WORLDS.values():
        plugin, state, snapshot = prepared(factory, world, wanting)
        filters = plugin.pre_filter(state, wanting, snapshot) if isinstance(plugin, PreFilter) else SUCCESS
        scores = SUCCESS
        if isinstance(plugin, PreScore):
            scores = plugin.pre_score(state, wanting, snapshot, snapshot.indexes)
        answers.add((filters == SKIP_ALIKE, scores == SKIP_ALIKE))

    assert len(answers) == 1


@every_plugin
@everywhere
@for_every_pod
def test_the_answer_whether_preemption_may_help_is_equal_for_one_node_and_for_many(
    factory: PluginFactory, world: Callable[[], Scene], wanting: Pod
) -> None:
    plugin, state, snapshot = prepared(factory, world, wanting)
    if isinstance(plugin, PreFilter) and plugin.pre_filter(state, wanting, snapshot).code is Code.SKIP:
        return
    if isinstance(plugin, Filter):
        rows = np.flatnonzero(~plugin.filter(state, wanting, snapshot))
        one_by_one = [plugin.preemption_may_help(state, wanting, snapshot, int(row)) for row in rows]
        assert plugin.preemption_may_help_on(state, wanting, snapshot, rows).tolist() == one_by_one


@every_plugin
@everywhere
@for_every_pod
def test_a_plugin_returns_equal_results_for_one_node_and_for_many(
    factory: PluginFactory, world: Callable[[], Scene], wanting: Pod
) -> None:
    plugin, state, snapshot = prepared(factory, world, wanting)
    rows = range(len(snapshot))
    skipped = isinstance(plugin, PreFilter) and plugin.pre_filter(state, wanting, snapshot).code is Code.SKIP
    if isinstance(plugin, Filter) and not skipped:
        mask = plugin.filter(state, wanting, snapshot)
        assert [plugin.filter_one(state, wanting, snapshot, row) for row in rows] == mask.tolist()
    if isinstance(plugin, Score):
        scores = plugin.score(state, wanting, snapshot, np.arange(len(snapshot)))
        assert [plugin.score_one(state, wanting, snapshot, row) for row in rows] == scores.tolist()


@every_plugin
@for_every_pod
def test_a_plugin_returns_equal_results_when_it_runs_again(factory: PluginFactory, wanting: Pod) -> None:
    scene = busy()
    plugin = factory(scene.handle, {})
    first, again, other = (
        Run(plugin, wanting, scene),
        Run(plugin, wanting, scene),
        Run(factory(scene.handle, {}), wanting, scene),
    )

    for run in (again, other):
        assert np.array_equal(run.mask, first.mask)
        assert np.array_equal(run.scores, first.scores)
        assert run.texts == first.texts


@every_plugin
@for_every_pod
def test_a_plugin_changes_neither_the_snapshot_nor_the_ledger(factory: PluginFactory, wanting: Pod) -> None:
    scene = busy()
    scene.columns.vector(wanting.requests)
    before = Snapshot.of(scene.columns)
    copies = [array.copy() for array in arrays(before)]
    phases = {key: (entry.phase, dict(entry.held)) for key, entry in scene.ledger.entries.items()}
    changes = len(scene.ledger.effects.transitions)

    run = Run(factory(scene.handle, {}), wanting, scene)

    assert all(map(np.array_equal, arrays(run.snapshot), copies))
    assert not any(array.flags.writeable for array in arrays(run.snapshot))
    assert {key: (entry.phase, dict(entry.held)) for key, entry in scene.ledger.entries.items()} == phases
    assert len(scene.ledger.effects.transitions) == changes


@every_plugin
def test_the_caller_can_change_the_results_of_a_plugin(factory: PluginFactory) -> None:
    scene = busy()
    plugin = factory(scene.handle, {})
    first = Run(plugin, PODS["ordinary"], scene)
    mask, scores = first.mask.copy(), first.scores.copy()
    first.mask[:] = ~mask
    first.scores[:] = -1

    again = Run(plugin, PODS["ordinary"], scene)

    assert np.array_equal(again.mask, mask)
    assert np.array_equal(again.scores, scores)


@pytest.mark.parametrize("kind", RESERVING, ids=lambda kind: kind.name)
def test_a_plugin_undoes_what_it_reserved_and_nothing_else(kind: type[Reserve]) -> None:
    scene = busy()
    plugin = kind(scene.handle, {})
    owner, state = PODS["ordinary"], CycleState()
    reserved = scene.columns.reserved.copy()

    plugin.unreserve(state, owner, "node-d", NOW)
    assert np.array_equal(scene.columns.reserved, reserved)

    plugin.reserve(state, owner, "node-d", NOW)
    for _ in range(2):
        plugin.unreserve(state, owner, "node-d", NOW)
    assert np.array_equal(scene.columns.reserved, reserved)


@every_plugin
def test_a_plugin_refuses_unknown_args_by_name(factory: PluginFactory) -> None:
    scene = Scene()
    name = factory(scene.handle, {}).name
    with pytest.raises(ValueError, match=rf"^pluginConfig of {name}: unknown args \['unheardOf'\]$"):
        factory(scene.handle, {"unheardOf": 1})


def test_the_registry_calls_each_plugin_by_its_own_name() -> None:
    points = (PreEnqueue, QueueSort, PreFilter, Filter, PostFilter, Score, Reserve, Bind)
    assert REGISTRY
    for name, factory in REGISTRY.items():
        plugin = factory(Scene().handle, {})
        assert plugin.name == name
        assert isinstance(plugin, points), f"{name} implements no extension point"


def test_the_default_profile_enables_registered_plugins_once_each() -> None:
    names = [enabled.name for enabled in DEFAULT_PLUGINS]
    assert len(set(names)) == len(names)
    assert REGISTRY.keys() - set(names) == OPTIONAL


def arrays(snapshot: Snapshot) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.generic]], ...]:
    traits = snapshot.traits
    return (
        snapshot.allocatable,
        snapshot.requested,
        snapshot.reserved,
        snapshot.nonzero,
        traits.cordoned,
        traits.name_rank,
        traits.taint_set_of,
    )
