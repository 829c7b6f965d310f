from builders import node, pod
from tidelock.plugins.taint_toleration import TaintToleration
from unit.plugins.scene import Scene

HARD = Scene(
    node("node-a"),
    node("node-b", taints=["dedicated=batch:NoSchedule"]),
    node("node-c", taints=["dedicated=batch:NoExecute", "gpu:NoSchedule"]),
    node("node-d", taints=["spot:PreferNoSchedule"]),
)
SOFT = Scene(
    node("node-a"),
    node("node-b", taints=["spot:PreferNoSchedule"]),
    node("node-c", taints=["spot:PreferNoSchedule", "old:PreferNoSchedule", "far:PreferNoSchedule"]),
)


def test_hard_taints_keep_away_pods_that_do_not_tolerate_them_all() -> None:
    dedicated = {"key": "dedicated", "value": "batch"}

    assert HARD.judge(TaintToleration, pod()).fitting == {"node-a", "node-d"}
    assert HARD.judge(TaintToleration, pod(tolerations=[dedicated])).fitting == {"node-a", "node-b", "node-d"}
    everything = HARD.judge(TaintToleration, pod(tolerations=[{"operator": "Exists"}]))
    assert everything.fitting == {"node-a", "node-b", "node-c", "node-d"}


def test_the_first_untolerated_taint_is_named() -> None:
    dedicated = {"key": "dedicated", "operator": "Exists"}

    assert HARD.judge(TaintToleration, pod()).reasons("node-c") == (TaintToleration.reason,)
    assert HARD.judge(TaintToleration, pod()).detail("node-c") == "taint dedicated=batch:NoExecute"
    assert HARD.judge(TaintToleration, pod(tolerations=[dedicated])).detail("node-c") == (
        "taint gpu=:NoSchedule"
    )
    assert not HARD.judge(TaintToleration, pod()).preemption_may_help("node-c")


def test_fewer_soft_taints_score_higher() -> None:
    assert SOFT.judge(TaintToleration, pod()).scores == {"node-a": 100, "node-b": 67, "node-c": 0}


def test_tolerated_soft_taints_do_not_count() -> None:
    spot = {"key": "spot", "operator": "Exists", "effect": "PreferNoSchedule"}
    judgement = SOFT.judge(TaintToleration, pod(tolerations=[spot]))
    assert judgement.scores == {"node-a": 100, "node-b": 100, "node-c": 0}


def test_a_toleration_of_hard_taints_does_not_cover_soft_ones() -> None:
    spot = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
    assert SOFT.judge(TaintToleration, pod(tolerations=[spot])).scores["node-b"] == 67


def test_the_worst_of_the_scored_nodes_sets_the_scale() -> None:
    assert SOFT.judge(TaintToleration, pod()).scores_among("node-a", "node-b") == {"node-a": 100, "node-b": 0}
    assert SOFT.judge(TaintToleration, pod()).scores_among("node-a") == {"node-a": 100}
