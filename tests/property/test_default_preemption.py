"""DefaultPreemption for all nodes at once, against its rules for one node and one victim at a time."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW, budget, node, pod
from property.oracles.default_preemption import Plan, Room, fits, plans
from sampling import sample
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.budgets import PodDisruptionBudget
from tidelock.model.instants import format_instant
from tidelock.model.nodes import Node
from tidelock.model.pods import REQUIRE_RESERVATION, Pod
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.outcomes import Unschedulable
from tidelock.scheduler.core.preemption import PreemptionAttempt
from unit.scheduler.machinery import Core

PRIORITIES = st.sampled_from([1, 0, 2, 1, -1, 3])
AMOUNTS = st.sampled_from(["1", "500m", "1500m"])
STATUSES = st.sampled_from([{"startTime": format_instant(NOW - age)} for age in (0, 1, 2)] + [{}])
LABELS: st.SearchStrategy[Mapping[str, str]] = st.sampled_from([{"app": "a"}, {"app": "b"}, {}])
OWNERS = st.sampled_from(["db-0", "db-1", "db-2", "web-0"])


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    size = st.fixed_dictionaries(
        {
            "cpu": st.sampled_from(["4", "3500m", "3"]),
            "pods": st.sampled_from(["110", "110", "4"]),
            "labels": st.sampled_from([{"zone": "a"}, {"zone": "a"}, {"zone": "a"}, {}]),
            "cordoned": st.sampled_from([False] * 9 + [True]),
        }
    )
    return [node(name, **draw(size)) for name in draw(st.permutations(["node-a", "node-b"]))]


PLACES = st.sampled_from(["node-a", "node-b"])
LOCKS = st.lists(st.tuples(PLACES, AMOUNTS, PRIORITIES, OWNERS), max_size=4)
RESIDENT = st.tuples(PLACES, AMOUNTS, PRIORITIES, STATUSES, LABELS)
RESIDENTS = st.lists(RESIDENT, min_size=6, max_size=10) | st.lists(RESIDENT, max_size=2)
NOMINATED = st.lists(st.tuples(PLACES, AMOUNTS, PRIORITIES), max_size=1)


@st.composite
def budgets(draw: st.DrawFn) -> list[PodDisruptionBudget]:
    allowed, disrupted = st.integers(-1, 1), st.sampled_from([{}, {}, {"other-0": "2027-01-15T08:00:00Z"}])
    drawn = draw(st.lists(st.tuples(allowed, LABELS, disrupted), max_size=2))
    return [
        budget(f"budget-{index}", allowed=allowed, labels=labels, disrupted=disrupted)
        for index, (allowed, labels, disrupted) in enumerate(drawn)
    ]


@st.composite
def wanting_pods(draw: st.DrawFn) -> Pod:
    return pod(
        "web-0",
        requests={"cpu": draw(st.sampled_from(["2", "2500m", "1", "3"]))},
        annotations=draw(st.sampled_from([{}] * 9 + [{REQUIRE_RESERVATION: "true"}])),
        priority=draw(st.sampled_from([2, 3, 2, 1])),
        nodeSelector=draw(st.sampled_from([{}, {"zone": "a"}])),
    )


@given(nodes(), LOCKS, RESIDENTS, budgets(), NOMINATED, wanting_pods())
@settings(deadline=None, max_examples=sample(40, 100))
def test_the_least_harmful_victims_that_suffice_are_chosen(
    there: list[Node],
    reservations: list[tuple[str, str, int, str]],
    residents: list[tuple[str, str, int, dict[str, Any], dict[str, str]]],
    limits: list[PodDisruptionBudget],
    nominated: list[tuple[str, str, int]],
    wanting: Pod,
) -> None:
    core = Core(*there)
    placed = furnish(core, reservations, residents, limits, nominated)
    holdings = seen(core, there, placed)
    own = core.ledger.ownership.of(wanting)
    waits = wanting.requires_reservation and not any(
        entry.held for entry in own
    )  # a claimed reservation is not held
    expected = plans(holdings, wanting, own, limits)
    free = any(fits(room, [*room.pods, *room.reservations], wanting, own) for room in holdings)

    core.add(wanting)
    outcome = core.step()
    if waits:
        assert outcome is None, "a pod that waits for its reservation is not tried"
        return

    (attempt,) = core.take_preemptions() or (None,)
    assert isinstance(outcome, AssumedPod) == free
    if free:
        assert attempt is None
        return
    assert isinstance(outcome, Unschedulable)
    assert attempt is not None
    assert bool(attempt.node_name) == bool(expected), outcome.diagnosis.message
    assert core.cache.nominator.node_of(wanting.uid) == attempt.node_name
    if expected:
        check_choice(core, wanting, attempt, holdings, expected)


def furnish(
    core: Core,
    reservations: list[tuple[str, str, int, str]],
    residents: list[tuple[str, str, int, dict[str, Any], dict[str, str]]],
    limits: list[PodDisruptionBudget],
    nominated: list[tuple[str, str, int]],
) -> list[Pod]:
    """Add reservations, pods, budgets and nominations to a cluster, and return the pods that fit."""
    for index, (name, cpu, priority, owner) in enumerate(reservations):
        core.reservation(
            f"lock-{index}", nodeName=name, resources={"cpu": cpu}, priority=priority, owner=owner
        )
        core.step()
        core.clock.advance(1)
    placed = []
    for index, (name, cpu, priority, status, labels) in enumerate(residents):
        fields: dict[str, Any] = {"priority": priority, "status": status, "labels": labels}
        each = pod(f"other-{index}", requests={"cpu": cpu}, node_name=name, **fields)
        if core.decider.columns.fits(name, each.requests):
            core.add(each)
            placed.append(each)
    for limit in limits:
        core.decider.objects.pod_disruption_budgets.upsert(None, limit)
    for index, (name, cpu, priority) in enumerate(nominated):
        core.cache.nominator.nominate(
            pod(f"nominated-{index}", requests={"cpu": cpu}, priority=priority), name
        )
    return placed


def check_choice(
    core: Core, wanting: Pod, attempt: PreemptionAttempt, holdings: list[Room], expected: dict[str, Plan]
) -> None:
    """Check that the plan of least harm is carried out, and that it helps."""
    chosen = expected[attempt.node_name]
    assert chosen.cost == min(each.cost for each in expected.values())
    assert [victim.meta.name for victim in attempt.victims] == chosen.pods
    assert broken(core) == set(chosen.reservations)
    assert all(
        core.ledger.entries[entry.key].phase is Phase.ACTIVE
        for room in holdings
        for entry in room.reservations
        if entry.key.name not in chosen.reservations
    )
    if all(
        entry.priority <= wanting.spec.priority for entry in core.ledger.waiting_reservations.waiting.values()
    ):
        check_that_evictions_help(core, wanting, attempt.node_name, chosen)


def seen(core: Core, there: list[Node], placed: list[Pod]) -> list[Room]:
    """Return the pods, reservations and nominated pods of each node."""
    return [
        Room(
            each,
            [resident for resident in placed if resident.node_name == each.name],
            list(core.ledger.holdings.held_on(each.name)),
            list(core.cache.nominator.on(each.name)),
        )
        for each in there
    ]


def broken(core: Core) -> set[str]:
    return {key.name for key, entry in core.ledger.entries.items() if entry.reason == reasons.PREEMPTED}


def check_that_evictions_help(core: Core, wanting: Pod, node_name: str, chosen: Plan) -> None:
    """Check that the pod gets the capacity of its victims, and no preempted reservation does."""
    outcomes = [core.step()]
    for name in chosen.pods:
        core.event_handlers.pods.remove(
            next(p.pod for p in core.cache.pods_on(node_name) if p.pod.meta.name == name)
        )
    core.clock.advance(10)
    outcomes += [core.step() for _ in range(4)]
    placed = [
        each.node_name for each in outcomes if isinstance(each, AssumedPod) and each.pod.uid == wanting.uid
    ]
    assert placed == [node_name]
