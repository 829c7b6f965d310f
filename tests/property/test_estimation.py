"""Estimates equal quotes where both exist, never exceed the best packing, and leave no trace."""

from itertools import accumulate
from operator import mul

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NAMESPACE, NOW, encode, node, pod
from property.oracles.packing import Amounts, most_sets
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, MEMORY, PODS
from tidelock.model.reservation_quote import decode_quote
from tidelock.scheduler.core.estimation import CapacityEstimator, PodSet
from unit.scheduler.machinery import Core

RESOURCES = CPU, MEMORY, PODS
GIBIBYTE = 2**30
SMALL = st.integers(0, 5)
DEMANDS = st.tuples(st.integers(1, 3), st.integers(0, 3))
"""Cores and gibibytes of a pod."""
MEMBER = st.tuples(DEMANDS, st.integers(1, 2))
MEMBERS = st.lists(MEMBER, min_size=1, max_size=2)


@st.composite
def worlds(draw: st.DrawFn) -> Core:
    """Draw nodes with pods and reservations, and decide all reservations."""
    nodes = [
        node(
            f"node-{number}",
            cpu=str(draw(SMALL)),
            memory=f"{draw(SMALL)}Gi",
            pods=str(draw(SMALL)),
            cordoned=draw(st.integers(0, 5)) == 0,
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    core = Core(*nodes)
    for number, each in enumerate(nodes):
        if draw(st.booleans()):
            core.add(pod(f"pod-{number}", node_name=each.name, requests={"cpu": "1"}))
    for number in range(draw(st.integers(0, 2))):
        core.reservation(f"lock-{number}", owner=f"none-{number}", resources={"cpu": "1"})
    core.step()
    return core


def ask(demands: tuple[int, int]) -> Pod:
    """Return the reserve pod of a quote."""
    cores, gibibytes = demands
    amounts = {"cpu": str(cores)} | ({"memory": f"{gibibytes}Gi"} if gibibytes else {})
    metadata = {"name": "ask", "namespace": NAMESPACE, "uid": "uid-ask", "generation": 1}
    quote = decode_quote(encode({"metadata": metadata, "spec": {"resources": amounts}}))
    assert quote.pod is not None
    return quote.pod


def needs(demands: tuple[int, int]) -> Amounts:
    return demands[0] * 1000, demands[1] * GIBIBYTE, 1


def free(core: Core) -> list[Amounts]:
    """Return the amounts of each node that takes pods, without those of its pods and reservations."""
    found = []
    for each in core.decider.columns.nodes:
        taken = [placed.pod.requests for placed in core.cache.pods_on(each.name)]
        taken += [entry.held for entry in core.ledger.holdings.held_on(each.name)]
        if not each.unschedulable:
            found.append(
                tuple(
                    each.allocatable.get(name, 0) - sum(amounts.get(name, 0) for amounts in taken)
                    for name in RESOURCES
                )
            )
    return found


def pod_sets(members: list[tuple[tuple[int, int], int]]) -> list[PodSet]:
    return [PodSet(ask(demands), count) for demands, count in members]


def counted(core: Core) -> object:
    columns = core.decider.columns
    return columns.requested.tolist(), columns.reserved.tolist(), columns.clock, columns.freed


def estimator(core: Core) -> CapacityEstimator:
    return core.decider.estimator


@given(worlds(), DEMANDS, st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_equal_pods_are_counted_as_quotes_and_the_best_packing_count_them(
    core: Core, demands: tuple[int, int], size: int
) -> None:
    before, profile = counted(core), core.decider.profile

    replicas = estimator(core).replicas(profile, ask(demands), (), NOW)
    sets = estimator(core).sets(profile, [PodSet(ask(demands), size)], (), NOW)

    assert counted(core) == before
    assert replicas == core.decider.quote(ask(demands), NOW).count
    assert replicas == most_sets(free(core), [(needs(demands), 1)])
    assert sets == replicas // size


@given(worlds(), MEMBERS, MEMBER)
@settings(deadline=None, max_examples=60)
def test_sets_never_exceed_the_best_packing(
    core: Core, members: list[tuple[tuple[int, int], int]], assumed: tuple[tuple[int, int], int]
) -> None:
    wanted = [(needs(demands), count) for demands, count in members]
    before, profile = counted(core), core.decider.profile

    alone = estimator(core).sets(profile, pod_sets(members), (), NOW)
    left = estimator(core).sets(profile, pod_sets(members), pod_sets([assumed]), NOW)

    assert counted(core) == before
    assert alone <= most_sets(free(core), wanted)
    assert left <= most_sets(free(core), wanted, placed(core, assumed))


@given(
    st.lists(st.integers(0, 9), max_size=3),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=3),
    st.permutations(range(3)),
)
@settings(deadline=None, max_examples=60)
def test_pods_of_which_each_size_divides_the_next_are_packed_as_well_as_possible(
    cores: list[int], factors: list[tuple[int, int]], order: list[int]
) -> None:
    core = Core(*(node(f"node-{number}", cpu=str(each)) for number, each in enumerate(cores)))
    sizes = list(accumulate((factor for factor, _ in factors), mul))
    members = [((size, 0), count) for size, (_, count) in zip(sizes, factors, strict=True)]
    members = [members[at] for at in order if at < len(members)]

    found = estimator(core).sets(core.decider.profile, pod_sets(members), (), NOW)

    assert found == most_sets(free(core), [(needs(demands), count) for demands, count in members])


@given(worlds(), DEMANDS, MEMBER)
@settings(deadline=None, max_examples=60)
def test_assumed_pods_are_taken_off_before_replicas_are_counted(
    core: Core, demands: tuple[int, int], assumed: tuple[tuple[int, int], int]
) -> None:
    profile = core.decider.profile
    alone = estimator(core).replicas(profile, ask(demands), (), NOW)
    left = estimator(core).replicas(profile, ask(demands), pod_sets([assumed]), NOW)

    assert left <= alone
    assert left <= most_sets(free(core), [(needs(demands), 1)], placed(core, assumed))
    if assumed[0] == demands:
        assert left == max(alone - assumed[1], 0)


def placed(core: Core, assumed: tuple[tuple[int, int], int]) -> list[Amounts]:
    """Return the amounts of those assumed pods that fit."""
    demands, count = assumed
    return [needs(demands)] * min(most_sets(free(core), [(needs(demands), 1)]), count)
