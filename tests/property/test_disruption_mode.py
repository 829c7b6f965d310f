"""DefaultPreemption with PodGroups for all nodes at once, against its rules for one victim at a time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW, budget, node, pod
from property.oracles.disruption_mode import plan
from sampling import sample
from tidelock.model.budgets import PodDisruptionBudget
from tidelock.model.instants import format_instant
from tidelock.model.pod_group import PodGroup
from tidelock.model.pods import Pod
from unit.scheduler.pod_groups import deliver, grouping, member, pod_group

NODES = ("node-a", "node-b", "node-c")
GROUPS = ("one", "two")
PRIORITIES = st.sampled_from([0] * 7 + [1])


@st.composite
def groups(draw: st.DrawFn) -> dict[str, PodGroup]:
    """Draw PodGroups. A pod may also name one that does not exist."""
    names = draw(st.sampled_from([GROUPS, GROUPS, GROUPS[:1]]))
    modes = st.sampled_from(["all", "all", "single", ""])
    return {name: pod_group(name, None, disruption=draw(modes), priority=draw(PRIORITIES)) for name in names}


@st.composite
def residents(draw: st.DrawFn, known: dict[str, PodGroup]) -> list[Pod]:
    """Draw bound pods of different ages. Those of a group have its priority."""
    made = []
    for number in range(draw(st.integers(8, 12))):
        fields = {
            "node_name": draw(st.sampled_from(NODES)),
            "requests": {"cpu": draw(st.sampled_from(["1", "500m"]))},
            "labels": {"app": draw(st.sampled_from("ab"))},
            "status": {"startTime": format_instant(NOW - number)},
        }
        of = draw(st.sampled_from(["", *GROUPS, *GROUPS]))
        priority = known[of].spec.priority if of in known else draw(PRIORITIES)
        name = f"pod-{number}"
        made.append(
            member(name, of, priority=priority, **fields) if of else pod(name, priority=priority, **fields)
        )
    return made


BUDGETS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab")), max_size=2)


@given(st.data(), groups(), BUDGETS, st.sampled_from([2, 2, 1]), st.sampled_from(["2", "2500m", "1500m"]))
@settings(deadline=None, max_examples=sample(60, 150))
def test_the_least_harmful_victims_are_chosen(
    data: st.DataObject,
    known: dict[str, PodGroup],
    limits: list[tuple[int, str]],
    priority: int,
    cpu: str,
) -> None:
    core = grouping(*(node(name, cpu="3") for name in NODES))
    deliver(core, *known.values())
    placed = []
    for each in data.draw(residents(known)):
        if core.decider.columns.fits(each.node_name, each.requests):
            core.add(each)
            placed.append(each)
    budgets: list[PodDisruptionBudget] = []
    for number, (allowed, app) in enumerate(limits):
        budgets.append(budget(f"budget-{number}", allowed=allowed, labels={"app": app}))
        core.decider.objects.pod_disruption_budgets.upsert(None, budgets[-1])
    wanting = pod("urgent", requests={"cpu": cpu}, priority=priority)
    fits = any(core.decider.columns.fits(name, wanting.requests) for name in NODES)
    made = {name: plan(name, 3000, placed, wanting, known, budgets) for name in NODES}
    expected = {name: each for name, each in made.items() if each is not None}

    core.add(wanting)
    core.decide()
    attempts = core.take_preemptions()
    if fits:
        assert not attempts
        return
    (attempt,) = attempts
    assert bool(attempt.node_name) == bool(expected)
    if expected:
        chosen = expected[attempt.node_name]
        assert chosen.cost == min(each.cost for each in expected.values())
        assert {each.meta.name for each in attempt.victims} == chosen.victims
