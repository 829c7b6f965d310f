"""Pods that differ from their group, plugins that fail or refuse, and extenders."""

from dataclasses import replace
from typing import Any

import pytest

from builders import node
from tidelock.framework.api import SUCCESS, Code, Permit, Reserve, Status
from tidelock.framework.config_file import Extender
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod
from tidelock.scheduler.core.outcomes import ExtenderCall, Unschedulable
from unit.scheduler.machinery import Core
from unit.scheduler.pod_groups import (
    GROUPS,
    configured,
    decide_one_step,
    deliver,
    grouping,
    member,
    members,
    placed,
    pod_group,
    refusals,
)


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        ({"priority": 5}, "the same priority, which is that of the group: found 0 and 5"),
        ({"preemptionPolicy": "Never"}, "the same preemption policy: found Never and PreemptLowerPriority"),
    ],
)
def test_pods_that_differ_from_their_group_keep_it_back(odd: dict[str, Any], text: str) -> None:
    core = grouping(node(cpu="4"))
    deliver(core, pod_group(min_count=2))
    wrong = member("odd", **odd)
    core.add(*members(2), wrong)

    outcome, (found,) = decide_one_step(core)

    assert isinstance(outcome, Unschedulable)
    assert text in outcome.diagnosis.message
    assert (found.scheduled, found.reason) == (False, "SchedulerError")
    assert placed(core.decide()) == []
    core.event_handlers.pods.remove(wrong)
    core.clock.advance(1.0)
    assert len(placed(core.decide())) == 2


class Broken(Reserve):
    """A plugin that fails at Reserve for one pod."""

    name = "Broken"

    def reserve(self, _state: CycleState, pod: Pod, node_name: str, _now: float) -> Status:
        if pod.meta.name == "broken":
            raise RuntimeError(node_name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> None:
        """Do nothing."""


def test_an_error_of_one_pod_leaves_nothing_reserved() -> None:
    core = Core(node(cpu="4"), configuration=configured(Broken))
    deliver(core, pod_group(min_count=2))
    core.add(member("a"), member("broken"))

    outcomes = core.decide()

    assert core.used() == 0
    assert set(refusals(outcomes).values()) == {'running Reserve plugin "Broken": RuntimeError: node-a'}
    assert all(each.diagnosis.error for each in outcomes if isinstance(each, Unschedulable))


class Denying(Permit):
    """A plugin that denies the permit of one pod."""

    name = "Denying"

    def permit(self, _state: CycleState, pod: Pod, _node_name: str) -> tuple[Status, float]:
        if pod.meta.name == "broken":
            raise RuntimeError(pod.meta.name)
        denied = pod.meta.name == "denied"
        return (Status(Code.UNSCHEDULABLE, ("denied",)) if denied else SUCCESS), 0.0


def test_a_pod_without_a_permit_is_refused_alone() -> None:
    core = Core(node(cpu="4"), configuration=configured(Denying))
    deliver(core, pod_group(min_count=2))
    core.add(member("a"), member("denied"))

    outcomes = core.decide()

    assert placed(outcomes) == ["a"]
    assert list(refusals(outcomes)) == ["denied"]
    assert core.used() == 1000


def test_an_error_about_a_permit_costs_its_pod_alone() -> None:
    core = Core(node(cpu="4"), configuration=configured(Denying))
    deliver(core, pod_group(min_count=2))
    core.add(member("a"), member("broken"))

    outcomes = core.decide()

    assert placed(outcomes) == ["a"]
    assert refusals(outcomes) == {"broken": 'running Permit plugin "Denying": RuntimeError: broken'}
    assert core.used() == 1000


def test_a_gang_without_any_node_waits_for_one() -> None:
    core = grouping()
    deliver(core, pod_group(min_count=2))
    core.add(*members(2))
    assert len(refusals(core.decide())) == 2

    core.event_handlers.nodes.upsert(None, node(cpu="2"))
    core.clock.advance(1.0)

    assert len(placed(core.decide())) == 2


def test_extenders_are_asked_about_pods_that_are_decided_alone() -> None:
    extender = Extender.model_validate({"urlPrefix": "http://extender", "filterVerb": "filter"})
    core = Core(node(cpu="4"), configuration=replace(GROUPS, extenders=(extender,)))
    deliver(core, pod_group(min_count=None))
    core.add(member("train-0"))

    outcome, results = decide_one_step(core)

    assert isinstance(outcome, ExtenderCall)
    assert results == []


def test_an_extender_of_other_pods_keeps_no_gang_back() -> None:
    managed = [{"name": "example.com/gpu"}]
    extender = Extender.model_validate(
        {"urlPrefix": "http://extender", "filterVerb": "filter", "managedResources": managed}
    )
    core = Core(node(cpu="4"), configuration=replace(GROUPS, extenders=(extender,)))
    deliver(core, pod_group(min_count=2))
    core.add(*members(2))
    assert len(placed(core.decide())) == 2


def test_extenders_are_not_asked_about_gangs() -> None:
    extender = Extender.model_validate({"urlPrefix": "http://extender", "filterVerb": "filter"})
    core = Core(node(cpu="4"), configuration=replace(GROUPS, extenders=(extender,)))
    deliver(core, pod_group(min_count=2))
    core.add(*members(2))

    found = refusals(core.decide())

    assert "extenders can't be asked" in found["train-0"]
    assert core.used() == 0
