# ruff: noqa: ARG002 -- a plugin has all parameters of its extension point

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import NAMESPACE, NOW, node, pod
from cycles import pod_cycle
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import SUCCESS, Filter, Handle, Mask, PreFilter, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.extension_point_timer import PluginError
from tidelock.framework.pod_claims import claim_not_found
from tidelock.framework.rejections import shortage_text
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.plugins.node_unschedulable import NodeUnschedulable
from tidelock.plugins.taint_toleration import TaintToleration
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.diagnosis import beside_text
from tidelock.scheduler.core.explain import NodeReport, explain_pod, explain_reservation
from unit.scheduler.machinery import Core


def reports(core: Core, **fields: Any) -> dict[str, NodeReport]:
    return {
        each.node.name: each
        for each in explain_pod(core.decider.pipeline, core.decider.profile, pod(**fields), NOW)
    }


def test_the_report_of_a_node_has_the_rejections_of_all_filters() -> None:
    core = Core(node("a", cpu="1", cordoned=True, taints=["gpu=yes:NoSchedule"]))
    (told,) = reports(core, requests={"cpu": "2"}).values()

    assert [(each.plugin, each.reasons, each.preemption_may_help) for each in told.rejections] == [
        ("NodeUnschedulable", (NodeUnschedulable.reason,), False),
        ("TaintToleration", (TaintToleration.reason,), False),
        ("NodeResourcesFit", (insufficient(CPU),), False),
    ]
    assert told.rejections[2].detail == shortage_text("cpu", "2", "1")
    assert told.total == 0


def test_a_reservation_in_the_way_is_named() -> None:
    core = Core(node("a", cpu="4"))
    core.reservation("other", resources={"cpu": "3"}, owner="other")
    core.step()
    (told,) = reports(core, requests={"cpu": "2"}).values()

    assert [(each.plugin, each.detail) for each in told.rejections] == [
        ("Reservation", f"{shortage_text('cpu', '2', '1')}, 3 reserved by shop/other")
    ]


def test_nodes_that_fit_come_first_in_the_order_of_their_scores() -> None:
    core = Core(node("small", cpu="2"), node("a", cpu="1"), node("large", cpu="8"))

    told = reports(core, requests={"cpu": "2"})

    assert list(told) == ["large", "small", "a"]
    assert told["large"].total > told["small"].total > 0
    assert told["large"].total == sum(told["large"].points.values())
    assert set(told["large"].points) == set(told["small"].points) >= {"NodeResourcesFit"}


def test_the_reservation_of_an_owner_is_no_rejection_and_adds_to_its_score() -> None:
    core = Core(node("a", cpu="2"), node("b", cpu="8"))
    core.reservation("mine", resources={"cpu": "2"}, owner="web-0", nodeName="a")
    core.step()

    told = reports(core, name="web-0", requests={"cpu": "2"})

    assert list(told) == ["a", "b"]
    assert told["a"].points["Reservation"] == 500_000
    assert told["b"].points["Reservation"] == 0


def test_a_reservation_is_not_rejected_because_of_itself() -> None:
    core = Core(node("a", cpu="2"))
    entry = core.reservation("mine", resources={"cpu": "2"})
    core.step()
    reserve_pod = entry.reservation.pod
    assert reserve_pod is not None

    (told,) = explain_reservation(core.decider.reservation_cycle, core.decider.profile, entry, NOW)
    (without,) = explain_pod(core.decider.pipeline, core.decider.profile, reserve_pod, NOW)

    assert told.rejections == ()
    assert [each.plugin for each in without.rejections] == ["Reservation"]


def test_nodes_that_fit_beside_that_of_the_owners_of_a_reservation_have_no_rejections() -> None:
    core = Core(node("node-a", cpu="2"), node("node-b", cpu="8"))
    core.add(pod("web-0", requests={"cpu": "2"}, node_name="node-a"))
    entry = core.reservation("mine", resources={"cpu": "2"}, owner="web-0", reuse="Always")

    told = explain_reservation(core.decider.reservation_cycle, core.decider.profile, entry, NOW)

    assert [(each.node.name, each.rejections) for each in told] == [("node-a", ()), ("node-b", ())]
    assert told[1].total > 0


def test_a_pod_that_prefilter_refuses_is_refused_by_each_node() -> None:
    core = Core(node("a"), node("b"))
    claim = {"name": "gone", "persistentVolumeClaim": {"claimName": "gone"}}

    told = reports(core, volumes=[claim])

    assert {each.rejections[0].reasons for each in told.values()} == {(claim_not_found("gone"),)}
    assert list(told) == ["a", "b"]


def test_capacity_that_is_being_freed_for_another_pod_is_a_rejection() -> None:
    core = Core(node("a", cpu="2"))
    core.add(pod("low", requests={"cpu": "2"}, node_name="a", priority=-10))
    core.add(pod("high", requests={"cpu": "2"}, priority=10))
    core.refuse()
    core.event_handlers.pods.remove(pod("low", requests={"cpu": "2"}, node_name="a", priority=-10))

    (told,) = reports(core, name="late", requests={"cpu": "1"}).values()

    assert [each.plugin for each in told.rejections] == ["NodeResourcesFit"]
    assert told.rejections[0].detail == (f"{shortage_text('cpu', '1', '0')}, {beside_text('shop/high')}")


def test_of_many_nominated_pods_some_are_named() -> None:
    core = Core(node("a", cpu="5"))
    for index in range(5):
        nominated = pod(f"high-{index}", requests={"cpu": "1"}, priority=10)
        core.add(nominated)
        core.decider.cache.nominator.nominate(nominated, "a")

    (told,) = reports(core, name="late", requests={"cpu": "1"}).values()

    beside = beside_text("shop/high-0, shop/high-1, shop/high-2 and 2 more")
    assert told.rejections[0].detail == f"{shortage_text('cpu', '1', '0')}, {beside}"


def test_an_explanation_changes_nothing() -> None:
    core = Core(node("a", cpu="2"))
    core.reservation("mine", resources={"cpu": "1"}, owner="web-0")
    core.step()
    before = core.used("a"), core.reserved("a")

    reports(core, name="web-0", requests={"cpu": "2"})

    assert (core.used("a"), core.reserved("a")) == before
    assert core.ledger.entries[Key(NAMESPACE, "mine")].phase == "Active"


def test_a_reservation_that_grows_stays_on_its_node() -> None:
    """Regression: the decision pins it to its node, but `why` reported that it fits on another one."""
    core = Core(node("node-a", cpu="2"), node("node-b", cpu="1"))
    entry = core.reservation("mine", resources={"cpu": "2"}, nodeName=None, owner="nobody")
    core.step()
    assert entry.node == "node-a"
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="8", version=2))
    core.reservation("mine", resources={"cpu": "4"}, owner="nobody", generation=2, version=2)
    core.step()
    assert (entry.growing, entry.node) == (True, "node-a")

    cycle, profile = core.decider.reservation_cycle, core.decider.profile
    told = {each.node.name: each for each in explain_reservation(cycle, profile, entry, core.clock.now())}

    assert [each.plugin for each in told["node-b"].rejections] == ["NodeName"]
    assert "Reservation" in [each.plugin for each in told["node-a"].rejections]


def test_a_pod_with_a_deadline_fits_beside_a_window() -> None:
    """Regression: the decision places it before the window, but `why` reported that CPU is insufficient."""
    core = Core(node("node-a", cpu="4"))
    begins = format_instant(core.clock.now() + 3600)
    core.reservation("later", startAt=begins, resources={"cpu": "3"}, ttlSeconds=600, owner="nobody")
    core.step()
    short: dict[str, Any] = {"requests": {"cpu": "2"}, "annotations": {"tidelock.dev/run-seconds": "1800"}}

    (told,) = reports(core, **short).values()
    (endless,) = reports(core, requests={"cpu": "2"}).values()

    assert told.rejections == ()
    assert [each.plugin for each in endless.rejections] == ["Reservation"]
    core.add(pod(**short))
    outcome = core.step()
    assert isinstance(outcome, AssumedPod)
    assert outcome.node_name == "node-a"


class OnlyNodeA(PreFilter, Filter):
    """A plugin that narrows a pod to node-a before any filter runs."""

    name = "OnlyNodeA"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        return SUCCESS

    def allowed(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        return np.array([each.name == "node-a" for each in snapshot.nodes], np.bool_)

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        return np.ones(len(snapshot), np.bool_)

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        return ("node(s) are not node-a",)


def test_a_plugin_that_narrows_the_nodes_rejects_the_others() -> None:
    """Regression: the decision follows `allowed`, but `why` reported that the other nodes fit."""
    core = Core(node("node-a", cpu="2"), node("node-b", cpu="8"))
    plugin = OnlyNodeA(Handle(core.ledger.plugin_view, core.cache), {})
    profile = core.decider.profile
    profile = replace(profile, pre_filter=(*profile.pre_filter, plugin), filter=(*profile.filter, plugin))

    told = explain_pod(core.decider.pipeline, profile, pod(), NOW)
    outcome = pod_cycle(core.cache, core.ledger).schedule(profile, pod(), NOW)

    assert [(each.node.name, [why.plugin for why in each.rejections]) for each in told] == [
        ("node-a", []),
        ("node-b", ["OnlyNodeA"]),
    ]
    assert isinstance(outcome, AssumedPod)
    assert outcome.node_name == "node-a"


class Speechless(OnlyNodeA):
    """A plugin that rejects nodes, and fails when it must give the reasons."""

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        raise ValueError("no words")


def test_a_plugin_that_fails_to_give_reasons_is_named() -> None:
    """Regression: the command ended with a traceback."""
    core = Core(node("node-a"), node("node-b"))
    profile = core.decider.profile
    plugin = Speechless(Handle(core.ledger.plugin_view, core.cache), {})
    profile = replace(profile, pre_filter=(*profile.pre_filter, plugin), filter=(*profile.filter, plugin))

    with pytest.raises(PluginError, match='running Filter plugin "OnlyNodeA": ValueError: no words'):
        explain_pod(core.decider.pipeline, profile, pod(), NOW)
