"""InterPodAffinity over all nodes at once against the same rules for one node and pod."""

from collections.abc import Callable

from hypothesis import given, settings

from property.changes import assert_changes_count
from property.neighbours import DICE, Dice
from property.oracles import inter_pod_affinity as oracle
from tidelock.model.pods import Pod
from tidelock.plugins.inter_pod_affinity import POD_AFFINITY_MISMATCH, InterPodAffinity


def neighbour(dice: Dice) -> Callable[[str], Pod]:
    """Return a function that draws pods and reserve pods with affinity terms."""
    return lambda name: dice.reserve_pod(dice.demanding_pod(name))


@given(DICE)
@settings(deadline=None)
def test_all_nodes_are_filtered_as_one_node_at_a_time(dice: Dice) -> None:
    world, wanting = dice.world(neighbour(dice), most=4), neighbour(dice)("web-0")
    judgement = world.scene().judge(InterPodAffinity, wanting)
    expected = oracle.verdicts(world, wanting)

    assert judgement.fitting == {name for name, why in expected.items() if why == oracle.MATCHES}
    for name, why in expected.items():
        if why:
            assert judgement.reasons(name) == (why,)
            assert judgement.preemption_may_help(name) == (why != POD_AFFINITY_MISMATCH)


@given(DICE)
@settings(deadline=None)
def test_scores_match_the_formula(dice: Dice) -> None:
    world, wanting = dice.world(neighbour(dice), most=4), neighbour(dice)("web-0")
    feasible, hard, ignore = dice.some(world.nodes, 1, 5), dice.one(1, 0, 100), dice.one(False, True)
    judgement = world.scene().judge(
        InterPodAffinity, wanting, hardPodAffinityWeight=hard, ignorePreferredTermsOfExistingPods=ignore
    )

    scores = judgement.scores_among(*(each.name for each in feasible))

    assert scores == oracle.scores(world, wanting, feasible, hard=hard, ignore=ignore)


@given(DICE)
@settings(deadline=None)
def test_add_pod_and_remove_pod_give_the_same_answer_as_a_changed_cluster(dice: Dice) -> None:
    world, wanting = dice.world(neighbour(dice), most=4), neighbour(dice)("web-0")
    come = [(neighbour(dice)(f"new-{index}"), dice.one(*world.nodes).name) for index in range(2)]
    assert_changes_count(dice, world, InterPodAffinity, wanting, come, oracle.verdicts)
