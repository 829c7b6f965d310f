"""The two plugins that score by resources, against integer arithmetic, up to sums beyond exact floats."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builders import node, pod
from property.oracles import node_resources_balanced_allocation as balanced
from property.oracles import node_resources_fit as fit
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import CEILING, plus
from tidelock.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tidelock.plugins.node_resources_fit import NodeResourcesFit, insufficient, whole_percent
from unit.plugins.scene import Scene

GPU = "nvidia.com/gpu"
RESOURCES = ["cpu", "memory", "ephemeral-storage", GPU]

AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.integers(0, 9000).map(lambda units: f"{units}m"),
        "memory": (st.integers(0, 2**33) | st.integers(2**45, 2**47)).map(str),
        "ephemeral-storage": st.integers(0, 100).map(str),
        GPU: st.integers(0, 4).map(str),
    },
)
SIZES = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["0", "1", "4", "7", "9"]),
        "memory": st.sampled_from(["0", "1", "8Gi", "10000000000", str(2**46 - 1), str(2**47 + 1)]),
    },
    optional={"ephemeral-storage": st.sampled_from(["0", "100"]), GPU: st.sampled_from(["0", "3", "8"])},
)
WEIGHTS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from([*RESOURCES, "pods", "example.com/none"])})
    | st.fixed_dictionaries({"name": st.sampled_from(RESOURCES), "weight": st.integers(0, 100)}),
    max_size=4,
)


@st.composite
def strategies(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]))
    strategy: dict[str, Any] = {"type": kind, "resources": draw(WEIGHTS)}
    if kind == "RequestedToCapacityRatio":
        utilizations = sorted(draw(st.sets(st.integers(0, 100), min_size=1, max_size=4)))
        strategy["requestedToCapacityRatio"] = {
            "shape": [{"utilization": each, "score": draw(st.integers(0, 10))} for each in utilizations]
        }
    return strategy


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Scene, dict[str, fit.Use]]:
    nodes = [node(f"node-{index}", **draw(SIZES)) for index in range(draw(st.integers(1, 5)))]
    scene = Scene(*nodes)
    places = st.tuples(AMOUNTS, st.sampled_from(nodes))
    placed = [
        (pod(f"other-{index}", requests=amounts), where)
        for index, (amounts, where) in enumerate(draw(st.lists(places, max_size=5)))
    ]
    for each, where in placed:
        scene.cache.assume(each, where.name)
    uses = {each.name: use(each, [other for other, where in placed if where is each]) for each in nodes}
    return scene, uses


def use(on: Node, pods: Iterable[Pod]) -> fit.Use:
    requested: dict[str, int] = {}
    nonzero = {"cpu": 0, "memory": 0}
    for each in pods:
        requested = plus(requested, each.requests)
        nonzero = plus(nonzero, dict(zip(("cpu", "memory"), each.nonzero, strict=True)))
    return fit.Use(on.allocatable, requested, nonzero)


@given(scenes(), AMOUNTS, strategies())
@settings(deadline=None)
def test_fit_scores_by_its_strategy(
    world: tuple[Scene, dict[str, fit.Use]], requests: dict[str, str], strategy: dict[str, Any]
) -> None:
    scene, uses = world
    wanting = pod(requests=requests)

    judgement = scene.judge(NodeResourcesFit, wanting, scoringStrategy=strategy)

    assert judgement.scores == {name: fit.score(wanting, used, strategy) for name, used in uses.items()}
    assert judgement.scores_among("node-0") == {"node-0": fit.score(wanting, uses["node-0"], strategy)}


@given(
    scenes(),
    AMOUNTS,
    st.lists(st.sampled_from([GPU, "cpu"]), max_size=1),
    st.lists(st.sampled_from(["nvidia.com", "memory"]), max_size=1),
)
@settings(deadline=None)
def test_fit_rules_out_nodes_that_lack_a_resource(
    world: tuple[Scene, dict[str, fit.Use]], requests: dict[str, str], ignored: list[str], groups: list[str]
) -> None:
    scene, uses = world
    wanting = pod(requests=requests)

    judgement = scene.judge(NodeResourcesFit, wanting, ignoredResources=ignored, ignoredResourceGroups=groups)

    short = {name: fit.shortages(wanting, used, ignored, groups) for name, used in uses.items()}
    assert judgement.fitting == {name for name, resources in short.items() if not resources}
    for name, resources in short.items():
        told = {insufficient(each) for each in resources}
        assert set(judgement.reasons(name)) == told
        assert judgement.preemption_may_help(name) == all(resources.values())


@given(scenes(), AMOUNTS, st.lists(st.sampled_from([*RESOURCES, "pods", "example.com/none"]), unique=True))
@settings(deadline=None)
def test_balanced_allocation_scores_by_its_formula(
    world: tuple[Scene, dict[str, fit.Use]], requests: dict[str, str], names: list[str]
) -> None:
    scene, uses = world
    wanting = pod(requests=requests)

    judgement = scene.judge(
        NodeResourcesBalancedAllocation, wanting, resources=[{"name": name} for name in names]
    )

    counted = names or ["cpu", "memory"]
    expected = {
        name: balanced.score(wanting, used.allocatable, used.requested, counted)
        for name, used in uses.items()
    }
    assert judgement.scores == expected
    assert judgement.scores_among("node-0") == {"node-0": expected["node-0"]}


@given(st.integers(1, CEILING), st.floats(0, 1), st.integers(-2, 2))
@example(2**46 - 1, 0.29, 0)
@example(2**46, 0.58, 0)
def test_percents_are_exact(whole: int, share: float, off: int) -> None:
    """Check the quotients next to a whole percent, which rounding could get wrong."""
    near = min(max(int(share * 100) * whole // 100 + off, 0), whole)
    for amount in (near, int(share * whole)):
        found = whole_percent(np.array([amount], np.int64), np.array([whole], np.int64))
        assert found.tolist() == [amount * 100 // whole]


@given(scenes(), AMOUNTS, st.booleans())
@settings(deadline=None)
def test_devices_provide_a_resource_only_where_a_node_has_nothing_of_it(
    drawn: tuple[Scene, dict[str, fit.Use]], amounts: dict[str, str], backed: bool
) -> None:
    scene, uses = drawn
    scene.columns.back(dict.fromkeys((GPU, "example.com/none"), "gpu") if backed else {})
    wanting = pod(requests=amounts | {"example.com/none": "1"} if backed else amounts)
    judged = scene.judge(NodeResourcesFit, wanting)
    for row, each in enumerate(judged.snapshot.nodes):
        has, used = each.allocatable, uses[each.name].requested
        provided = {name for name in (GPU, "example.com/none") if backed and not has.get(name)}
        short = {
            name
            for name, units in wanting.requests.items()
            if units > 0 and name not in provided and used.get(name, 0) + units > has.get(name, 0)
        }
        assert judged.mask[row] == (not short)
        assert {reason.removeprefix("Insufficient ") for reason in judged.reasons(each.name)} == short
        assert scene.columns.fits(each.name, wanting.requests) == (not short)
        over = {name: units - has.get(name, 0) for name, units in used.items() if units > has.get(name, 0)}
        assert scene.columns.shortfall(each.name) == {
            name: units for name, units in over.items() if name not in provided
        }
