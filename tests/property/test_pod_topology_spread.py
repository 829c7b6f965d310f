"""PodTopologySpread over all nodes at once against the same rules for one node, domain and pod."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings

from builders import node, pod
from property.changes import assert_changes_count
from property.neighbours import DICE, HOSTNAME, ZONE, Dice, Json, World, without_none
from property.oracles import pod_topology_spread as oracle
from tidelock.framework.api import Code
from tidelock.model.pod_placement import SpreadConstraint
from tidelock.model.pods import Pod
from tidelock.model.selectors import LabelSelector
from tidelock.model.workloads import Service
from tidelock.plugins.pod_topology_spread.plugin import SPREAD_MISMATCH, PodTopologySpread


def neighbour(dice: Dice) -> Callable[[str], Pod]:
    """Return a function that draws pods and reserve pods, which count as pods."""
    return lambda name: dice.reserve_pod(dice.pod(name))


def constraint(dice: Dice, action: str) -> Json:
    return without_none(
        {
            "maxSkew": dice.one(1, 1, 2, 3),
            "topologyKey": dice.one(ZONE, HOSTNAME),
            "whenUnsatisfiable": action,
            "labelSelector": dice.selector(),
            "minDomains": dice.one(None, None, 1, 3, 4) if action == "DoNotSchedule" else None,
            "nodeAffinityPolicy": dice.one(None, "Honor", "Ignore"),
            "nodeTaintsPolicy": dice.one(None, "Honor", "Ignore"),
            "matchLabelKeys": dice.one(None, None, ["tier"], ["absent"]),
        }
    )


def spreading_pod(dice: Dice, action: str) -> Pod:
    """Draw a pod with constraints of one kind, and perhaps one of the other kind."""
    other = "ScheduleAnyway" if action == "DoNotSchedule" else "DoNotSchedule"
    constraints = dice.several(lambda: constraint(dice, action), 2, least=1)
    constraints += dice.one([], [], [constraint(dice, other)])
    return dice.pod(
        "web-0",
        topologySpreadConstraints=constraints,
        nodeSelector=dice.one({}, {}, {ZONE: "a"}),
        tolerations=dice.one([], [{"key": "dedicated", "operator": "Exists"}]),
    )


@given(DICE)
@settings(deadline=None)
def test_all_nodes_are_filtered_as_one_node_at_a_time(dice: Dice) -> None:
    world, wanting = dice.world(neighbour(dice)), spreading_pod(dice, "DoNotSchedule")
    judgement = world.scene().judge(PodTopologySpread, wanting)
    expected = oracle.verdicts(world, wanting)

    assert judgement.fitting == {name for name, why in expected.items() if why == oracle.MATCHES}
    for name, why in expected.items():
        if why:
            assert judgement.reasons(name) == (why,)
            assert judgement.preemption_may_help(name) == (why == SPREAD_MISMATCH)


@given(DICE)
@settings(deadline=None)
def test_scores_match_the_formula(dice: Dice) -> None:
    world, wanting = dice.world(neighbour(dice)), spreading_pod(dice, "ScheduleAnyway")
    feasible = dice.some(world.nodes, 1, 5)
    soft = oracle.constraints_of(wanting, "ScheduleAnyway")

    scores = world.scene().judge(PodTopologySpread, wanting).scores_among(*(each.name for each in feasible))

    assert scores == oracle.scores(world, wanting, feasible, soft)


@given(DICE)
@settings(deadline=None)
def test_default_constraints_count_the_pods_of_the_services(dice: Dice) -> None:
    """Check that the system defaults score a node without a zone by its name alone, unlike a list."""
    world, wanting, by_system = dice.world(neighbour(dice)), dice.pod("web-0"), dice.one(True, False)
    scene, selector = world.scene(), wanting.meta.labels
    metadata = {"name": "web", "namespace": wanting.meta.namespace}
    service = msgspec.convert({"metadata": metadata, "spec": {"selector": selector}}, Service)
    scene.objects.services.upsert(None, service)
    defaults = [(3, HOSTNAME), (5, ZONE)]
    plain = [
        {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"} for skew, key in defaults
    ]
    args: Json = {} if by_system else {"defaultingType": "List", "defaultConstraints": plain}
    read = [
        SpreadConstraint(skew, key, "ScheduleAnyway", LabelSelector(match_labels=selector))
        for skew, key in defaults
    ]

    judgement = scene.judge(PodTopologySpread, wanting, **args)

    assert judgement.status.code is Code.SKIP
    expected = oracle.scores(world, wanting, world.nodes, read, require_keys=not by_system)
    assert judgement.scores == (expected if selector else dict.fromkeys(expected, 0))


@given(DICE)
@settings(deadline=None)
def test_add_pod_and_remove_pod_give_the_same_answer_as_a_changed_cluster(dice: Dice) -> None:
    world, wanting = dice.world(neighbour(dice)), spreading_pod(dice, "DoNotSchedule")
    come = [(dice.pod(f"new-{index}"), dice.one(*world.nodes).name) for index in range(dice.one(1, 2, 3))]
    assert_changes_count(dice, world, PodTopologySpread, wanting, come, oracle.verdicts)


def test_the_formula_rates_emptier_domains_higher() -> None:
    """Check the oracle by hand: zones of 2, 1 and 0 pods with a weight of ln 5 are rounded to 3, 2 and 0."""
    placed = [(pod(f"other-{index}", labels={"app": "web"}), name) for index, name in enumerate("aab")]
    there = [node(name, labels={ZONE: name}) for name in "abc"]
    soft = SpreadConstraint(1, ZONE, "ScheduleAnyway", LabelSelector(match_labels={"app": "web"}))

    scores = oracle.scores(World(there, placed, {}), pod(), there, [soft])

    assert scores == pytest.approx({"a": 0, "b": 33, "c": 100})
