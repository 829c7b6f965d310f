"""The plugins that are called for pods of one kind."""

from typing import Any

import pytest

from builders import node, pod
from cycles import pod_cycle
from tidelock.framework.api import (
    SKIP,
    SKIP_ALIKE,
    SUCCESS,
    SUCCESS_ALIKE,
    Filter,
    Handle,
    Mask,
    PreFilter,
    PreScore,
    Score,
    Scores,
    Status,
)
from tidelock.framework.profile import Enabled, Profile, ProfileSettings, build_profile
from tidelock.plugins.registry import DEFAULT_PLUGINS, REGISTRY
from tidelock.scheduler.core.active_plugins import ActivePlugins
from tidelock.scheduler.core.cycle import AssumedPod
from unit.plugins.scene import Scene


class Choosy(PreFilter, Filter, PreScore, Score):
    """A plugin with fixed answers before filters and scorers. It notes its calls."""

    name = "Choosy"
    filters: Status = SUCCESS
    scores: Status = SUCCESS

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        super().__init__(handle, args)
        self.asked: list[str] = []

    def pre_filter(self, *_: object) -> Status:
        self.asked.append("PreFilter")
        return self.filters

    def filter(self, _state: object, _pod: object, snapshot: Any) -> Mask:
        self.asked.append("Filter")
        mask: Mask = snapshot.indexes >= 0
        return mask

    def filter_one(self, *_: object) -> bool:
        self.asked.append("fits")
        return True

    def reasons(self, *_: object) -> tuple[str, ...]:
        return ()

    def pre_score(self, *_: object) -> Status:
        self.asked.append("PreScore")
        return self.scores

    def score(self, _state: object, _pod: object, _snapshot: object, rows: Any) -> Scores:
        self.asked.append("Score")
        scores: Scores = rows * 0.0
        return scores


def asked_of_each(filters: Status, scores: Status) -> list[list[str]]:
    """Decide on two equal pods and one of another kind. Return the calls of the plugin for each."""
    scene = Scene(*(node(f"node-{name}") for name in "abcdefgh"))
    kind = type("Kind", (Choosy,), {"filters": filters, "scores": scores})
    settings = ProfileSettings("mine", (*DEFAULT_PLUGINS, Enabled(Choosy.name)))
    profile = build_profile(settings, {**REGISTRY, Choosy.name: kind}, scene.handle)
    choosy = profile.plugins[Choosy.name]
    assert isinstance(choosy, Choosy)
    cycle = pod_cycle(scene.cache, scene.ledger)
    asked = []
    for name, cpu in (("web-0", "1"), ("web-1", "1"), ("db-0", "2")):
        assert isinstance(cycle.schedule(profile, pod(name, requests={"cpu": cpu}), 0.0), AssumedPod)
        asked.append(choosy.asked)
        choosy.asked = []
    return asked


ALL = ["PreFilter", "Filter", "PreScore", "Score"]


@pytest.mark.parametrize(
    ("filters", "scores", "asked"),
    [
        (SUCCESS, SUCCESS, [ALL, ALL, ALL]),
        (SKIP, SKIP, [["PreFilter", "PreScore"]] * 3),
        (SKIP_ALIKE, SKIP_ALIKE, [["PreFilter", "PreScore"], [], ["PreFilter", "PreScore"]]),
        (SKIP_ALIKE, SUCCESS, [["PreFilter", "PreScore", "Score"], ["PreScore", "Score"]]),
        (SUCCESS_ALIKE, SKIP_ALIKE, [["PreFilter", "Filter", "PreScore"], ["PreFilter", "fits"]]),
    ],
)
def test_a_plugin_is_not_called_again_if_its_answer_holds_for_all_equal_pods(
    filters: Status, scores: Status, asked: list[list[str]]
) -> None:
    assert asked_of_each(filters, scores)[: len(asked)] == asked


def default_profile() -> Profile:
    return build_profile(ProfileSettings("mine", DEFAULT_PLUGINS), REGISTRY, Scene().handle)


def test_kinds_of_pods_that_skip_the_same_plugins_share_their_active_plugins() -> None:
    plan = ActivePlugins(default_profile())
    narrower = plan.without(filters=("NodePorts",))

    assert plan.without(filters=("NodePorts",)) is narrower
    assert "NodePorts" not in {each.name for each in narrower.pre_filter}
    assert "NodePorts" not in {each.name for each in narrower.filters((), ()).judging}
    assert narrower.pre_score == plan.pre_score
    assert narrower.scorers(()) == plan.scorers(())
