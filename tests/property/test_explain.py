# ruff: noqa: ARG002 -- every plugin gets all arguments of the framework
"""The reports of `why` agree with the decision, on clusters with every feature that pods can ask for."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW, node
from builders import pod as make_pod
from cycles import pod_cycle
from differential.scenarios import make_scenario
from property.test_whole_cycle import furnished, stored
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import SUCCESS, Filter, Handle, Mask, PreFilter, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.profile import Profile
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.pods import Pod, decode_pod
from tidelock.plugins.registry import REGISTRY
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.explain import explain_pod, explain_reservation
from unit.scheduler.machinery import Core


@given(st.integers(0, 100_000))
@settings(deadline=None, max_examples=25)
def test_the_first_reported_node_is_the_chosen_one(seed: int) -> None:
    scenario = make_scenario(seed, frozenset(REGISTRY), 3)
    core = furnished(scenario)
    for raw in stored(scenario.wanting):
        pod = decode_pod(raw)
        profile = core.decider.profiles[pod.spec.scheduler_name]
        reports = explain_pod(core.decider.pipeline, profile, pod, NOW)
        core.add(pod)
        outcome = core.step()

        if isinstance(outcome, AssumedPod):
            assert outcome.node_name == reports[0].node.name
            assert not reports[0].rejections
        else:
            assert all(each.rejections for each in reports)
        for each in reports:
            assert all(rejection.reasons for rejection in each.rejections)
            assert bool(each.points) != bool(each.rejections)


CPU = st.sampled_from(["1", "2", "3", "6"])
NODES = ("a", "b", "c")


class Narrowing(PreFilter, Filter):
    """A plugin that leaves some nodes to a pod before any filter runs."""

    name = "Narrowing"
    left: frozenset[str] = frozenset(NODES)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        return SUCCESS

    def allowed(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        return np.array([each.name in self.left for each in snapshot.nodes], np.bool_)

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        return np.ones(len(snapshot), np.bool_)

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        return ("node(s) are left to others",)


STEPS = st.one_of(
    st.tuples(st.just("reserve"), CPU, st.sampled_from([None, *NODES]), st.sampled_from([0, 600, 1200])),
    st.tuples(st.just("grow"), CPU, st.none(), st.integers(0, 3)),
    st.tuples(st.just("pod"), CPU, st.sampled_from([None, "300", "900"]), st.just(0)),
    st.tuples(st.just("resize"), CPU, st.sampled_from(NODES), st.just(0)),
)


def narrowed(core: Core, left: frozenset[str]) -> Profile:
    plugin = Narrowing(Handle(core.ledger.plugin_view, core.cache), {})
    plugin.left = left
    profile = core.decider.profile
    return replace(profile, pre_filter=(*profile.pre_filter, plugin), filter=(*profile.filter, plugin))


def judge_pod(core: Core, profile: Profile, wanting: Pod) -> None:
    """Compare the reports on a pod with the decision, and with the nodes that extenders are asked about."""
    cycle = pod_cycle(core.cache, core.ledger)
    reports = explain_pod(core.decider.pipeline, profile, wanting, core.clock.now())
    fitting = {each.node.name for each in reports if not each.rejections}
    feasible = {each.name for each in cycle.feasible(profile, wanting, core.clock.now())}
    outcome = cycle.schedule(profile, wanting, core.clock.now())
    assert fitting == feasible or not feasible  # if none is feasible, some may fit for a limited time
    if isinstance(outcome, AssumedPod):
        assert reports[0].node.name == outcome.node_name
        assert outcome.node_name in fitting
    else:
        assert not fitting


def judge_reservation(core: Core, entry: ReservationInfo) -> None:
    """Compare the reports on a reservation that is tried next with the decision."""
    cycle, profile = core.decider.reservation_cycle, core.decider.profile
    reports = explain_reservation(cycle, profile, entry, core.clock.now())
    fitting = {each.node.name for each in reports if not each.rejections}
    cycle.place(profile, entry, core.clock.now())
    if entry.phase is Phase.PENDING or entry.growing:
        assert not fitting
    else:
        assert reports[0].node.name == entry.node
        assert entry.node in fitting


@given(st.lists(STEPS, min_size=1, max_size=12), st.sets(st.sampled_from(NODES), min_size=1).map(frozenset))
@settings(deadline=None, max_examples=100)
def test_reports_agree_with_decisions_for_reservations_deadlines_and_narrowed_nodes(
    steps: list[tuple[str, str, str | None, int]], left: frozenset[str]
) -> None:
    core = Core(*(node(name, cpu="4") for name in NODES))
    profile = narrowed(core, left)
    version = 1
    for number, (kind, cpu, where, after) in enumerate(steps):
        version += 1
        if kind == "pod":
            annotations = {"tidelock.dev/run-seconds": where} if where else {}
            judge_pod(
                core, profile, make_pod(f"pod-{number}", requests={"cpu": cpu}, annotations=annotations)
            )
            continue
        if kind == "resize":
            core.event_handlers.nodes.upsert(None, node(str(where), cpu=cpu, version=version))
        elif kind == "reserve":
            spec: dict[str, Any] = {"resources": {"cpu": cpu}, "nodeName": where, "owner": "nobody"}
            if after:
                spec |= {"startAt": format_instant(NOW + after), "ttlSeconds": 300}
            judge_reservation(core, core.reservation(f"lock-{number}", **spec))
        elif entries := sorted(core.ledger.entries.values(), key=lambda each: each.key.name):
            entry = entries[after % len(entries)]
            if entry.phase is Phase.ACTIVE:
                core.reservation(
                    entry.key.name,
                    resources={"cpu": cpu},
                    nodeName=entry.reservation.spec and entry.reservation.spec.node_name,
                    owner="nobody",
                    generation=version,
                    version=version,
                )
                if entry.growing:
                    judge_reservation(core, entry)
