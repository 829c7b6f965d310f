"""The index of budgets finds by labels every budget that selects or counts a pod."""

from hypothesis import given
from hypothesis import strategies as st

from builders import Json, encode, pod
from tidelock.cluster.index.budgets import Budgets
from tidelock.model.budgets import PodDisruptionBudget, decode_budget

KEYS, VALUES, NAMESPACES = ("app", "tier"), ("a", "b", "c"), ("shop", "other")

_LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2)


@st.composite
def _expressions(draw: st.DrawFn) -> Json:
    operator = draw(st.sampled_from(["In", "In", "NotIn", "Exists", "DoesNotExist"]))
    few = st.lists(st.sampled_from(VALUES), min_size=1, max_size=2)
    values = draw(few) if operator in ("In", "NotIn") else []
    return {"key": draw(st.sampled_from(KEYS)), "operator": operator, "values": values}


@st.composite
def _budgets(draw: st.DrawFn) -> PodDisruptionBudget:
    selector: Json | None = None
    if draw(st.integers(0, 4)):
        selector = {
            "matchLabels": draw(_LABELS),
            "matchExpressions": draw(st.lists(_expressions(), max_size=2)),
        }
    if draw(st.integers(0, 9)) == 0:
        selector = {"matchLabels": 7}  # unreadable
    metadata = {
        "name": f"budget-{draw(st.integers(0, 5))}",
        "namespace": draw(st.sampled_from(NAMESPACES)),
        "uid": "u",
        "resourceVersion": "1",
    }
    return decode_budget(encode({"metadata": metadata, "spec": {"selector": selector}}))


@given(
    changes=st.lists(st.tuples(st.booleans(), _budgets()), max_size=12),
    labels=_LABELS,
    namespace=st.sampled_from(NAMESPACES),
)
def test_the_index_finds_every_budget_that_selects_or_counts_a_pod(
    changes: list[tuple[bool, PodDisruptionBudget]], labels: dict[str, str], namespace: str
) -> None:
    budgets = Budgets()
    for removed, budget in changes:
        if removed:
            budgets.remove(budget)
        else:
            budgets.upsert(None, budget)
    asked = pod(namespace=namespace, labels=labels)
    found = budgets.about(asked)
    assert found is not None
    names = [budget.meta.name for budget in found]
    assert len(names) == len(set(names))
    for budget in budgets.of(namespace):
        assert budget.meta.name in names or not (budget.selects(asked) or budget.counts(asked))
