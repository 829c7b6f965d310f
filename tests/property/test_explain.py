"""What is told of every node is what is decided: on clusters with everything that pods can ask for."""

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW
from differential.scenarios import make_scenario
from property.test_whole_cycle import furnished, stored
from tidelock.model.pods import decode_pod
from tidelock.plugins.registry import REGISTRY
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.explain import explain_pod


@given(st.integers(0, 100_000))
@settings(deadline=None, max_examples=25)
def test_the_node_that_is_told_first_is_the_one_that_is_chosen(seed: int) -> None:
    scenario = make_scenario(seed, frozenset(REGISTRY), 3)
    core = furnished(scenario)
    for raw in stored(scenario.wanting):
        pod = decode_pod(raw)
        profile = core.decider.profiles[pod.spec.scheduler_name]
        opinions = explain_pod(core.decider.pipeline, profile, pod, NOW)
        core.add(pod)
        outcome = core.step()

        if isinstance(outcome, AssumedPod):
            assert outcome.node_name == opinions[0].node.name
            assert not opinions[0].rejections
        else:
            assert all(each.rejections for each in opinions)
        for each in opinions:
            assert all(objection.reasons for objection in each.rejections)
            assert bool(each.points) != bool(each.rejections)
