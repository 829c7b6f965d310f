"""Tidelock's metrics, events and conditions of pods agree with kube-scheduler's."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import Metric

from cluster.api import Api
from cluster.crds import install_crds
from cluster.operator_process import OperatorProcess
from cluster.world import SCHEDULER, World
from devcluster import LocalCluster
from devcluster.loopback import HOST
from differential.observability import Exporter, Json, Side, exporter_of, replay
from differential.profiles import DISABLED
from differential.scenario import UPSTREAM

DIFFERENCES = Path(__file__).resolve().parents[2] / "docs" / "differences.md"
# The metrics of kube-scheduler count a gated pod as a Success.
OUR_POINTS = {("PreEnqueue", "UnschedulableAndUnresolvable")}
OUR_PLUGINS = {("Reservation",), ("UnreadableObjects",), ("WaterLevelBalance",)} | {
    (name,) for name in DISABLED
}
# A tenth of all decisions are measured. This plugin runs in few, and kube-scheduler may measure none of them.
SELDOM = {("DefaultPreemption",)}
# Queues of groups of pods.
OF_GROUPS = {"incomplete", "pending"}
# Events that depend on whether a pod's backoff was over at some instant.
BY_THE_CLOCK = {("BackoffComplete",), ("PopFromBackoffQ",)}
Sides = tuple[Side, Side]


@pytest.fixture(scope="module")
def sides(scheduled_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Replay the same story for pods of kube-scheduler and for pods of Tidelock."""
    install_crds(scheduled_cluster)
    folder = tmp_path_factory.mktemp("operator")
    api = Api(scheduled_cluster.kubeconfig)
    with (
        OperatorProcess(scheduled_cluster.kubeconfig, folder) as operator,
        closing(World(api)) as theirs,
        closing(World(api)) as ours,
    ):
        metrics = Exporter(f"http://{HOST}:{operator.port}/metrics", {}, None)
        both = (
            Side(UPSTREAM, theirs, exporter_of(scheduled_cluster, folder)),
            Side(SCHEDULER, ours, metrics),
        )
        replay(both)
        yield both


def left_out() -> set[str]:
    """Return the metrics of kube-scheduler that Tidelock lacks by its documentation."""
    section = DIFFERENCES.read_text().partition("\n## Metrics\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`scheduler_[^|]+) \|", section, re.MULTILINE)
    return {name.removesuffix("_total") for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def buckets(family: Metric) -> set[float]:
    return {float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}


def labels(family: Metric) -> set[str]:
    return {name for sample in family.samples for name in sample.labels}


def test_every_metric_of_kube_scheduler_is_exported_or_its_absence_is_documented(sides: Sides) -> None:
    theirs, ours = sides
    missing = left_out()
    assert theirs.families.keys() - ours.families.keys() <= missing
    assert not missing & ours.families.keys()


def test_every_metric_with_the_prefix_scheduler_exists_in_kube_scheduler(sides: Sides) -> None:
    theirs, ours = sides
    assert {name for name, family in ours.families.items() if family.samples} <= theirs.families.keys()


def test_types_labels_and_buckets_are_equal(sides: Sides) -> None:
    theirs, ours = sides
    shared = theirs.families.keys() & ours.families.keys()
    assert len(shared) > 10

    def described(side: Side, name: str) -> tuple[str, set[str], set[float]]:
        family = side.families[name]
        return family.type, labels(family), buckets(family)

    for name in shared:
        assert described(ours, name) == described(theirs, name), name


def moved(side: Side, family: str, *names: str) -> set[tuple[str, ...]]:
    """Return the values of these labels in the series that have changed."""
    return {tuple(dict(series)[name] for name in names) for series in side.moved[family]}


@pytest.mark.parametrize(
    ("family", "label"),
    [
        ("scheduler_schedule_attempts", "result"),
        ("scheduler_scheduling_attempt_duration_seconds", "result"),
        ("scheduler_unschedulable_pods", "plugin"),
    ],
)
def test_the_same_story_changes_series_with_the_same_labels(sides: Sides, family: str, label: str) -> None:
    theirs, ours = sides
    assert moved(ours, family, label) == moved(theirs, family, label)


def test_queues_and_the_events_that_move_pods_there_have_the_same_names(sides: Sides) -> None:
    theirs, ours = sides
    family = "scheduler_queue_incoming_pods"
    assert waiting_pods(ours) == waiting_pods(theirs) - OF_GROUPS
    assert moved(ours, family, "event") - BY_THE_CLOCK == moved(theirs, family, "event") - BY_THE_CLOCK
    added = [
        {queue for queue, event in moved(side, family, "queue", "event") if event == "UnscheduledPodAdd"}
        for side in sides
    ]
    assert added[0] == added[1] == {"active", "unschedulable"}


def waiting_pods(side: Side) -> set[str]:
    return {sample.labels["queue"] for sample in side.families["scheduler_pending_pods"].samples}


def test_extension_points_and_their_outcomes_have_the_same_names(sides: Sides) -> None:
    points = [
        moved(side, "scheduler_framework_extension_point_duration_seconds", "extension_point", "status")
        for side in sides
    ]
    theirs, ours = points
    assert theirs - ours == set()
    assert ours - theirs == OUR_POINTS


def test_plugins_have_the_same_names(sides: Sides) -> None:
    plugins = [moved(side, "scheduler_plugin_execution_duration_seconds", "plugin") for side in sides]
    theirs, ours = plugins
    assert {("NodeResourcesFit",), ("DefaultBinder",)} <= ours
    assert ours - OUR_PLUGINS - SELDOM <= theirs


@pytest.mark.parametrize("pod", ["small-0", "victim", "large", "gated", "urgent"])
def test_every_event_has_the_same_reason_and_text(sides: Sides, pod: str) -> None:
    theirs, ours = sides
    assert theirs.events[pod]
    for told in theirs.events[pod]:
        assert any(same(told, each, "note") for each in ours.events[pod]), (told, ours.events[pod])
    assert {each["reason"] for each in ours.events[pod]} == {each["reason"] for each in theirs.events[pod]}


@pytest.mark.parametrize("pod", ["small-0", "victim", "large", "gated", "urgent"])
def test_every_condition_has_the_same_status_and_text(sides: Sides, pod: str) -> None:
    theirs, ours = ({each["type"]: each for each in side.conditions[pod]} for side in sides)
    assert theirs.keys() == ours.keys() > set()
    for kind, condition in theirs.items():
        assert same(condition, ours[kind], "message"), (condition, ours[kind])


def same(theirs: Json, ours: Json, text: str) -> bool:
    """Return whether both are equal, except for Tidelock's numbers between reasons and preemption."""
    if theirs | {text: ""} != ours | {text: ""}:
        return False
    if theirs[text] == ours[text]:
        return True
    reasons, preemption, rest = theirs[text].partition(" preemption: ")
    told: str = ours[text]
    return reasons.startswith("0/") and told.startswith(reasons) and told.endswith(preemption + rest)
