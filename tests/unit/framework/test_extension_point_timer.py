# ruff: noqa: ARG002 -- the framework passes the same arguments to every plugin.
"""Errors of plugins, and the durations of extension points."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import node, pod
from tidelock.cluster.columns import Rows
from tidelock.framework.api import (
    SUCCESS,
    Code,
    Filter,
    Mask,
    PostFilter,
    PostFilterResult,
    PreFilter,
    PreScore,
    Score,
    Scores,
    Status,
)
from tidelock.scheduler.core.queued_pod import QueueName
from unit.scheduler.machinery import Core

POINTS = "scheduler_framework_extension_point_duration_seconds_count"
PLUGINS = "scheduler_plugin_execution_duration_seconds_count"
FULL = "1"


class Faulty(PreFilter, Filter, PostFilter, PreScore, Score):
    """A plugin that fails at one point, by an exception or by a status."""

    name = "Faulty"
    at = ""
    by_status = False

    def pre_filter(self, *_: object) -> Status:
        return self._fail("PreFilter")

    def filter(self, state: object, pod: object, snapshot: Any) -> Mask:
        self._fail("Filter")
        return np.ones(len(snapshot), np.bool_)

    def reasons(self, *_: object) -> tuple[str, ...]:
        return ()

    def post_filter(self, *_: object) -> PostFilterResult:
        return PostFilterResult(self._fail("PostFilter"))

    def pre_score(self, *_: object) -> Status:
        return self._fail("PreScore")

    def score(self, state: object, pod: object, snapshot: object, rows: Rows) -> Scores:
        self._fail("Score")
        return np.zeros(len(rows))

    def _fail(self, point: str) -> Status:
        if point != self.at:
            return SUCCESS
        if self.by_status:
            return Status(Code.ERROR, ("LookupError: a bug",))
        raise LookupError("a bug")


def core_with(at: str, *, by_status: bool = False, cpu: str = "4", per_node: bool = False) -> Core:
    """Return a scheduler with two nodes, and a pod of 2 cpu with the faulty plugin in its profile."""
    core = Core(node("node-a", cpu=cpu), node("node-b", cpu=cpu))
    core.add(pod("web-0", requests={"cpu": "2"}))
    kind = type("Kind", (Faulty,), {"at": at, "by_status": by_status, "per_node": per_node})
    faulty = kind(core.decider.profile.filter[0].handle, {})
    waiting = core.queue.get("uid-web-0")
    assert waiting is not None
    profile = waiting.profile
    waiting.profile = replace(
        profile,
        pre_filter=(*profile.pre_filter, faulty),
        filter=(*profile.filter, faulty),
        post_filter=(faulty,),
        pre_score=(*profile.pre_score, faulty),
        score=(*profile.score, (faulty, 1)),
    )
    return core


@pytest.mark.parametrize("by_status", [False, True])
@pytest.mark.parametrize("at", ["PreFilter", "PreScore"])
def test_an_error_names_the_plugin_and_the_point(at: str, by_status: bool) -> None:
    core = core_with(at, by_status=by_status)
    diagnosis = core.refuse().diagnosis

    assert (diagnosis.error, diagnosis.message) == (True, f'running {at} plugin "Faulty": LookupError: a bug')
    assert core.queue.counts()[QueueName.BACKOFF] == 1
    assert core.metric(POINTS, extension_point=at, status="Error", profile="tidelock-scheduler") == 1


@pytest.mark.parametrize("per_node", [False, True])
@pytest.mark.parametrize("at", ["Filter", "Score"])
def test_an_exception_at_a_point_without_a_status_names_the_plugin_too(at: str, per_node: bool) -> None:
    core = core_with(at, per_node=per_node)
    assert core.refuse().diagnosis.message == f'running {at} plugin "Faulty": LookupError: a bug'


@pytest.mark.parametrize("at", ["Filter", "Score"])
def test_an_exception_about_the_one_changed_node_names_the_plugin_too(at: str) -> None:
    core = core_with("", per_node=True)
    for name in "cdef":
        core.event_handlers.nodes.upsert(None, node(f"node-{name}", cpu="4"))
    profile = core.place().profile
    core.add(pod("web-1", requests={"cpu": "2"}))
    waiting, faulty = core.queue.get("uid-web-1"), profile.filter[-1]
    assert waiting is not None
    assert isinstance(faulty, Faulty)
    waiting.profile, faulty.at = profile, at
    assert core.refuse().diagnosis.message == f'running {at} plugin "Faulty": LookupError: a bug'


def test_an_exception_in_post_filter_names_the_plugin_too() -> None:
    core = core_with("PostFilter", cpu=FULL)
    assert core.refuse().diagnosis.message == 'running PostFilter plugin "Faulty": LookupError: a bug'


def test_every_extension_point_of_a_decision_is_measured() -> None:
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="4"))
    core.clock.tick = 0.125
    core.add(pod("web-0", requests={"cpu": "2"}))
    core.place()

    for point in ("PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit"):
        labels = {"extension_point": point, "status": "Success", "profile": "tidelock-scheduler"}
        assert core.metric(POINTS, **labels) == 1, point
        assert core.metric(POINTS.replace("_count", "_sum"), **labels) >= 0.125  # type: ignore[operator]
        assert core.metric(POINTS.replace("_count", "_bucket"), le="0.0512", **labels) == 0
        assert core.metric(POINTS.replace("_count", "_bucket"), le="+Inf", **labels) == 1

    core.clock.tick = 0.0
    core.add(pod("web-1", requests={"cpu": "5"}))
    core.refuse()
    refused = {"status": "Unschedulable", "profile": "tidelock-scheduler"}
    assert core.metric(POINTS, extension_point="PostFilter", **refused) == 1


def test_the_only_node_that_fits_is_not_scored() -> None:
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="1"))
    core.add(pod("web-0", requests={"cpu": "2"}))
    core.place()

    passed = {"status": "Success", "profile": "tidelock-scheduler"}
    assert core.metric(POINTS, extension_point="Filter", **passed) == 1
    assert core.metric(POINTS, extension_point="Reserve", **passed) == 1
    assert core.metric(POINTS, extension_point="PreScore", **passed) is None
    assert core.metric(POINTS, extension_point="Score", **passed) is None


def test_plugins_are_measured_in_a_tenth_of_the_decisions() -> None:
    core = Core(node("node-a", cpu="64"), node("node-b", cpu="64"))
    for index in range(40):
        core.add(pod(f"web-{index}", requests={"cpu": "1"}))
        core.place()

    fit = {"plugin": "NodeResourcesFit", "status": "Success"}
    skipping = {"plugin": "InterPodAffinity", "status": "Skip"}
    sampled = core.metric(PLUGINS, extension_point="PreFilter", **fit)
    assert sampled is not None
    assert 0 < sampled < 20
    assert core.metric(PLUGINS, extension_point="PreFilter", **skipping) == sampled
    assert core.metric(PLUGINS, extension_point="Filter", **fit) == sampled
    assert core.metric(PLUGINS, extension_point="Score", **fit) == sampled
    reserve = {"plugin": "Reservation", "extension_point": "Reserve", "status": "Success"}
    assert core.metric(PLUGINS, **reserve) == sampled


def test_decisions_on_reservations_are_not_measured_as_those_on_pods() -> None:
    core = Core(node("node-a"))
    core.reservation()
    core.step()
    assert (
        core.metric(POINTS, extension_point="Filter", status="Success", profile="tidelock-scheduler") is None
    )
