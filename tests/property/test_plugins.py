"""The vectorised plugins against the same rules written for one node at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NAMESPACE, NOW, node, pod
from cycles import pod_cycle
from tidelock.framework.api import Filter, Plugin, Score
from tidelock.framework.own_reservations import OwnReservations
from tidelock.framework.profile import ProfileSettings, build_profile
from tidelock.model.nodes import Node
from tidelock.model.pods import REQUIRE_RESERVATION, Pod
from tidelock.model.quantities import Resources, parse_resources, plus
from tidelock.model.selectors import Taint
from tidelock.plugins.node_declared_features import NodeDeclaredFeatures
from tidelock.plugins.node_name import NodeName
from tidelock.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.node_unschedulable import NodeUnschedulable
from tidelock.plugins.registry import DEFAULT_PLUGINS, REGISTRY
from tidelock.plugins.reservation.plugin import ReservationPlugin
from tidelock.plugins.taint_toleration import TaintToleration
from tidelock.plugins.unreadable_objects import UnreadableObjects
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.diagnosis import Diagnosis
from unit.plugins.scene import Scene

GPU = "nvidia.com/gpu"
NAMES = ["node-a", "node-b", "node-c", "node-d", "node-e"]
TAINTS = ["dedicated=batch:NoSchedule", "old:NoExecute", "spot:PreferNoSchedule", "far=1:PreferNoSchedule"]


@dataclass(frozen=True)
class Lock:
    name: str
    node_name: str
    amounts: dict[str, str]
    owner: str


@dataclass(frozen=True)
class World:
    nodes: list[Node]
    placed: list[tuple[Pod, str]]
    reservations: list[Lock]

    def scene(self) -> Scene:
        """Build a scene of this cluster for plugins."""
        scene = Scene(*self.nodes)
        for each, node_name in self.placed:
            scene.cache.assume(each, node_name)
        for reservation in self.reservations:
            scene.reservation(
                reservation.name,
                reservation.node_name,
                resources=reservation.amounts,
                owner=reservation.owner,
            )
        return scene

    def used(self, on: Node) -> Resources:
        return total(each.requests for each, node_name in self.placed if node_name == on.name)

    def reserved(self, on: Node, *, but_for: str = "") -> Resources:
        """Sum the reserved amounts of a node, without the reservations of one owner."""
        return total(
            {**parse_resources(reservation.amounts), "pods": 1}
            for reservation in self.reservations
            if reservation.node_name == on.name and reservation.owner != but_for
        )

    def owns_reservation_on(self, wanting: Pod, on: Node) -> bool:
        return any(
            reservation.owner == wanting.meta.name and reservation.node_name == on.name
            for reservation in self.reservations
        )


def total(amounts: Any) -> Resources:
    added: Resources = {}
    for each in amounts:
        added = plus(added, each)
    return added


# The rules, one node at a time.


def fits_beside(wanting: Pod, on: Node, taken: Resources) -> bool:
    return all(
        units <= on.allocatable.get(name, 0) - taken.get(name, 0)
        for name, units in wanting.requests.items()
        if units > 0
    )


def tolerated(wanting: Pod, taint: Taint) -> bool:
    return any(
        toleration.key in ("", taint.key) and toleration.effect in ("", taint.effect)
        for toleration in wanting.spec.tolerations
    )


def may_run(world: World, wanting: Pod, on: Node) -> bool:
    if not world.reservations and not wanting.requires_reservation:
        return True  # NodeResourcesFit checks the use of pods alone
    own = world.owns_reservation_on(wanting, on)
    taken = plus(world.used(on), world.reserved(on, but_for=wanting.meta.name))
    return fits_beside(wanting, on, taken) and (own or not wanting.requires_reservation)


FILTERS: dict[type[Plugin], Callable[[World, Pod, Node], bool]] = {
    NodeName: lambda _, wanting, on: wanting.node_name in ("", on.name),
    NodeDeclaredFeatures: lambda _, wanting, on: (
        "UserNamespacesHostNetworkSupport" in on.declared_features
        or not wanting.spec.host_network
        or wanting.spec.host_users in (None, True)
    ),
    NodeUnschedulable: lambda _, wanting, on: (
        not on.unschedulable or tolerated(wanting, Taint("node.kubernetes.io/unschedulable", "NoSchedule"))
    ),
    TaintToleration: lambda _, wanting, on: all(
        taint.effect == "PreferNoSchedule" or tolerated(wanting, taint) for taint in on.taints
    ),
    NodeResourcesFit: lambda world, wanting, on: fits_beside(wanting, on, world.used(on)),
    ReservationPlugin: may_run,
    UnreadableObjects: lambda world, _, on: (
        not on.meta.faults and not any(each.meta.faults for each, name in world.placed if name == on.name)
    ),
}


def least_allocated(world: World, wanting: Pod, on: Node) -> int:
    points = []
    for index, resource in enumerate(("cpu", "memory")):
        weighed = sum(each.nonzero[index] for each, name in world.placed if name == on.name)
        taken = weighed + world.reserved(on).get(resource, 0) + wanting.container_weights[index]
        if (room := on.allocatable[resource]) > 0:
            points.append(max(room - taken, 0) * 100 // room)
    return sum(points) // len(points) if points else 0


def balanced(world: World, wanting: Pod, on: Node) -> int:
    if not wanting.requests.get("cpu") and not wanting.requests.get("memory"):
        return 0
    before = plus(world.used(on), world.reserved(on))
    return 50 + (50 + evenness(on, plus(before, wanting.requests)) - evenness(on, before)) // 2


def evenness(on: Node, taken: Resources) -> int:
    shares = [
        min(taken.get(resource, 0) / on.allocatable[resource], 1.0)
        for resource in ("cpu", "memory")
        if on.allocatable[resource]
    ]
    return int((1 - abs(shares[0] - shares[1]) / 2) * 100) if len(shares) == 2 else 100


def few_soft_taints(world: World, wanting: Pod, on: Node) -> int:
    def count(each: Node) -> int:
        return sum(
            taint.effect == "PreferNoSchedule" and not tolerated(wanting, taint) for taint in each.taints
        )

    if not any(taint.effect == "PreferNoSchedule" for each in world.nodes for taint in each.taints):
        return 0  # the plugin is skipped
    if not any(taint.effect == "PreferNoSchedule" for each in world.nodes for taint in each.taints):
        return 0  # the plugin does not score then, so all nodes are equal
    most = max(map(count, world.nodes))
    return 100 - 100 * count(on) // most if most else 100


SCORES: dict[type[Plugin], Callable[[World, Pod, Node], int]] = {
    NodeResourcesFit: least_allocated,
    NodeResourcesBalancedAllocation: balanced,
    TaintToleration: few_soft_taints,
    ReservationPlugin: lambda world, wanting, on: 100 if world.owns_reservation_on(wanting, on) else 0,
}


# Worlds.

ZONES = st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}])
LABELS: st.SearchStrategy[Any] = st.one_of(ZONES, st.just({"unreadable": 1}))
AMOUNTS = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["500m", "1", "1500m", "3"])},
    optional={"memory": st.sampled_from(["1Gi", "3G", "7Gi"]), GPU: st.sampled_from(["1", "2"])},
)
REQUESTS = AMOUNTS | st.sampled_from([{}, {"cpu": "0"}, {GPU: "1"}, {"memory": "5Gi"}])
OWNERS = st.sampled_from(["web-0", "db-0"])


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    sizes = st.fixed_dictionaries(
        {
            "cpu": st.sampled_from(["0", "2", "4", "7"]),
            "memory": st.sampled_from(["0", "4Gi", "10G"]),
            "pods": st.sampled_from(["2", "110"]),
            "labels": LABELS,
            "taints": st.lists(st.sampled_from(TAINTS), unique=True),
            "cordoned": st.booleans(),
            "features": st.sampled_from([[], ["Other"], ["Other", "UserNamespacesHostNetworkSupport"]]),
        },
        optional={GPU: st.sampled_from(["1", "4"])},
    )
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    return [node(name, **draw(sizes)) for name in names]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    there = draw(nodes())
    places = st.sampled_from([each.name for each in there])
    placed = [
        (pod(f"other-{index}", requests=amounts, labels=labels), node_name)
        for index, (amounts, labels, node_name) in enumerate(
            draw(st.lists(st.tuples(REQUESTS, LABELS, places), max_size=4))
        )
    ]
    reservations = [
        Lock(f"lock-{index}", *drawn)
        for index, drawn in enumerate(draw(st.lists(st.tuples(places, AMOUNTS, OWNERS), max_size=4)))
    ]
    return World(there, placed, reservations)


@st.composite
def wanting_pods(draw: st.DrawFn) -> Pod:
    keys = st.sampled_from(["", "dedicated", "old", "spot", "far", "node.kubernetes.io/unschedulable"])
    effects = st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"])
    tolerations = draw(st.lists(st.tuples(keys, effects), max_size=3))
    preferences = draw(st.lists(st.tuples(st.integers(1, 100), st.sampled_from(["a", "b", "x"])), max_size=3))
    preferred = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]},
        }
        for weight, zone in preferences
    ]
    return pod(
        "web-0",
        requests=draw(REQUESTS),
        node_name=draw(st.sampled_from(["", "", *NAMES])),
        nodeSelector=draw(ZONES),
        tolerations=[{"key": key, "operator": "Exists", "effect": effect} for key, effect in tolerations],
        affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        annotations=draw(st.sampled_from([{}, {}, {REQUIRE_RESERVATION: "true"}])),
        hostNetwork=draw(st.booleans()),
        hostUsers=draw(st.sampled_from([None, True, False])),
    )


# Tests.


def test_every_filter_and_score_has_its_reference() -> None:
    """Check that the reference is here, or in a module of the oracles."""
    plugins = [factory(Scene().handle, {}) for factory in REGISTRY.values()]
    alone = {path.stem for path in (Path(__file__).parent / "oracles").glob("*.py")}
    shared = [type(plugin) for plugin in plugins if type(plugin).__module__.split(".")[2] not in alone]
    assert {kind for kind in shared if issubclass(kind, Filter)} <= FILTERS.keys()
    assert {kind for kind in shared if issubclass(kind, Score)} <= SCORES.keys()


@given(worlds(), wanting_pods())
@settings(deadline=None)
def test_filters_rule_out_the_same_nodes_as_their_rules(world: World, wanting: Pod) -> None:
    scene = world.scene()
    assert FILTERS
    for kind, rule in FILTERS.items():
        expected = {each.name for each in world.nodes if rule(world, wanting, each)}
        assert scene.judge(kind, wanting).fitting == expected, kind.name


@given(worlds(), wanting_pods())
@settings(deadline=None)
def test_scores_match_their_formulas(world: World, wanting: Pod) -> None:
    scene = world.scene()
    assert SCORES
    for kind, formula in SCORES.items():
        expected = {each.name: formula(world, wanting, each) for each in world.nodes}
        assert scene.judge(kind, wanting).scores == expected, kind.name


@given(worlds(), wanting_pods(), st.data())
@settings(deadline=None)
def test_the_order_of_nodes_does_not_change_a_decision(
    world: World, wanting: Pod, data: st.DataObject
) -> None:
    shuffled = World(data.draw(st.permutations(world.nodes)), world.placed, world.reservations)

    for kind in FILTERS:
        assert shuffled.scene().judge(kind, wanting).fitting == world.scene().judge(kind, wanting).fitting
    for kind in SCORES:
        assert shuffled.scene().judge(kind, wanting).scores == world.scene().judge(kind, wanting).scores
    assert outcome(shuffled, wanting) == outcome(world, wanting)


@given(st.permutations(NAMES))
@settings(deadline=None)
def test_among_equal_nodes_the_first_name_is_chosen(names: list[str]) -> None:
    assert outcome(World([node(name) for name in names], [], []), pod()) == min(NAMES)


@given(worlds(), wanting_pods(), st.data())
@settings(deadline=None)
def test_the_order_of_a_pods_own_reservations_does_not_change_the_filter_result(
    world: World, wanting: Pod, data: st.DataObject
) -> None:
    """Check that in any order none of a pod's own reservations counts against the pod."""
    scene = world.scene()
    own = scene.ledger.ownership.of(wanting)
    permuted = OwnReservations(tuple(data.draw(st.permutations(own))))
    admitted_otherwise = World(
        world.nodes, world.placed, data.draw(st.permutations(world.reservations))
    ).scene()

    expected = filter_result(scene, wanting, world.nodes)

    assert filter_result(scene, wanting, world.nodes, permuted) == expected
    assert filter_result(admitted_otherwise, wanting, world.nodes) == expected


def outcome(world: World, wanting: Pod) -> str:
    """Return the node of a pod, or the message of its refusal."""
    scene = world.scene()
    profile = build_profile(ProfileSettings(NAMESPACE, DEFAULT_PLUGINS), REGISTRY, scene.handle)
    found = pod_cycle(scene.cache, scene.ledger).schedule(profile, wanting, NOW)
    if isinstance(found, AssumedPod):
        return found.node_name
    assert isinstance(found, Diagnosis)
    return found.message


def filter_result(scene: Scene, wanting: Pod, there: Sequence[Node], *written: object) -> object:
    judgement = scene.judge(ReservationPlugin, wanting, *written)
    return judgement.fitting, [(judgement.reasons(each.name), judgement.detail(each.name)) for each in there]
