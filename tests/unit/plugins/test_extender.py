"""The answers of extenders as a filter and a score."""

from builders import node, pod
from tidelock.framework.extender import ExtenderAdviceData, ExtenderFailure
from tidelock.plugins.extender import ExtenderAdvice
from unit.plugins.scene import Judgement, Scene

ADVICE = ExtenderAdviceData(
    names=frozenset({"node-a", "node-d"}),
    failed={
        "node-b": ExtenderFailure("too hot", preemption_may_help=True),
        "node-c": ExtenderFailure("broken", preemption_may_help=False),
    },
    scores={"node-a": 30, "node-x": 100},
)


def judged() -> Judgement:
    nodes = (node(f"node-{letter}") for letter in "abcde")
    return Scene(*nodes).judge(ExtenderAdvice, pod(), ADVICE)


def preemption_may_help(judgement: Judgement, name: str) -> bool:
    row = judgement.snapshot.row(name)
    assert row is not None
    assert isinstance(judgement.plugin, ExtenderAdvice)
    return judgement.plugin.preemption_may_help(judgement.state, judgement.pod, judgement.snapshot, row)


def test_only_nodes_that_all_extenders_accept_fit() -> None:
    assert judged().fitting == {"node-a", "node-d"}


def test_a_node_has_the_reason_that_its_extender_gave() -> None:
    assert [judged().reasons(f"node-{letter}") for letter in "bce"] == [("too hot",), ("broken",), ()]


def test_evictions_may_help_where_an_extender_refused_without_ruling_them_out() -> None:
    assert [preemption_may_help(judged(), f"node-{letter}") for letter in "bce"] == [True, False, False]


def test_priorities_are_scores_and_a_missing_priority_is_zero() -> None:
    assert judged().scores_among("node-a", "node-d") == {"node-a": 30.0, "node-d": 0.0}
