"""The index that compares a pod with only a few of thousands of budgets."""

from builders import budget, encode, pod
from tidelock.cluster.index.budgets import Budgets
from tidelock.cluster.placed import Placed
from tidelock.framework.disruptions import permitted, violating
from tidelock.model.budgets import PodDisruptionBudget, decode_budget
from tidelock.model.pods import Pod


def placed(each: Pod) -> Placed:
    return Placed(each, "node-a", assumed=False)


def shunning(number: int) -> PodDisruptionBudget:
    """Build a budget that selects nearly all pods by a selector of its own."""
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"none-{number}"]}]}
    metadata = {"name": f"shunning-{number}", "namespace": "shop", "uid": f"u-{number}"}
    return decode_budget(encode({"metadata": metadata, "spec": {"selector": selector}}))


def test_budgets_of_workloads_are_only_compared_with_their_own_pods() -> None:
    budgets = Budgets()
    for number in range(1000):
        labels = {"app.kubernetes.io/part-of": "shop", "app": f"app-{number}"}
        budgets.upsert(None, budget(f"b-{number}", labels=labels))
    one = pod(labels={"app.kubernetes.io/part-of": "shop", "app": "app-7"})
    found = budgets.about(one)
    assert found is not None
    assert {"b-7"} <= {each.meta.name for each in found} <= {"b-0", "b-7"}
    assert violating(budgets, [placed(one)]) == [True]


def test_a_pod_with_too_many_budgets_to_compare_counts_as_protected() -> None:
    budgets = Budgets()
    for number in range(1000):
        budgets.upsert(None, shunning(number))
    assert budgets.about(pod(labels={"app": "web"})) is None
    assert violating(budgets, [placed(pod()), placed(pod(namespace="other"))]) == [True, False]
    assert not permitted(budgets, [placed(pod())])
    assert permitted(budgets, [placed(pod(namespace="other"))])

    for number in range(1000):
        budgets.remove(shunning(number))
    assert violating(budgets, [placed(pod())]) == [False]
