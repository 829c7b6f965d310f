"""What Tidelock tells of pods, in metrics, events and conditions, is what kube-scheduler tells of its own."""

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
from differential.profiles import DISABLED
from differential.scenario import UPSTREAM
from differential.told import Exporter, Json, Side, exporter_of, play

DIFFERENCES = Path(__file__).resolve().parents[2] / "docs" / "differences.md"
# Kept apart from what plugins say of a pod; and a pod that is gated is a Success in kube-scheduler's metrics.
THEIR_POINTS = {("PreBindPreFlight", "Skip")}
OUR_POINTS = {("PreEnqueue", "UnschedulableAndUnresolvable")}
OUR_PLUGINS = {("Reservation",), ("UnreadableObjects",), ("WaterLevelBalance",)} | {
    (name,) for name in DISABLED
}
# A tenth of all decisions are measured; it has a part in few, of which kube-scheduler may measure none.
SELDOM = {("DefaultPreemption",)}
# Whether a pod's backoff was over when something happened.
BY_THE_CLOCK = {("BackoffComplete",), ("PopFromBackoffQ",)}
Sides = tuple[Side, Side]


@pytest.fixture(scope="module")
def sides(scheduled_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """kube-scheduler and Tidelock, after the same has happened to the pods of each."""
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
        play(both)
        yield both


def left_out() -> set[str]:
    """Give the metrics of kube-scheduler that the documentation says Tidelock does not have."""
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


def test_every_metric_of_that_name_is_one_of_kube_scheduler(sides: Sides) -> None:
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
    """Give the labels of these names that series have which moved."""
    return {tuple(dict(series)[name] for name in names) for series in side.moved[family]}


@pytest.mark.parametrize(
    ("family", "label"),
    [
        ("scheduler_schedule_attempts", "result"),
        ("scheduler_scheduling_attempt_duration_seconds", "result"),
        ("scheduler_unschedulable_pods", "plugin"),
    ],
)
def test_the_same_labels_are_given_to_the_same_happenings(sides: Sides, family: str, label: str) -> None:
    theirs, ours = sides
    assert moved(ours, family, label) == moved(theirs, family, label)


def test_queues_and_what_brings_pods_there_have_the_same_names(sides: Sides) -> None:
    theirs, ours = sides
    family = "scheduler_queue_incoming_pods"
    assert waiting_pods(ours) == waiting_pods(theirs)
    assert moved(ours, family, "event") - BY_THE_CLOCK == moved(theirs, family, "event") - BY_THE_CLOCK
    added = [
        {queue for queue, event in moved(side, family, "queue", "event") if event == "UnschedulablePodAdd"}
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
    assert theirs - ours == THEIR_POINTS
    assert ours - theirs == OUR_POINTS


def test_plugins_have_the_same_names(sides: Sides) -> None:
    plugins = [moved(side, "scheduler_plugin_execution_duration_seconds", "plugin") for side in sides]
    theirs, ours = plugins
    assert {("NodeResourcesFit",), ("DefaultBinder",)} <= ours
    assert ours - OUR_PLUGINS - SELDOM <= theirs


@pytest.mark.parametrize("pod", ["small-0", "victim", "large", "gated", "urgent"])
def test_every_event_is_told_in_the_same_words(sides: Sides, pod: str) -> None:
    theirs, ours = sides
    assert theirs.events[pod]
    for told in theirs.events[pod]:
        assert any(same(told, each, "note") for each in ours.events[pod]), (told, ours.events[pod])
    assert {each["reason"] for each in ours.events[pod]} == {each["reason"] for each in theirs.events[pod]}


@pytest.mark.parametrize("pod", ["small-0", "victim", "large", "gated", "urgent"])
def test_every_condition_is_written_in_the_same_words(sides: Sides, pod: str) -> None:
    theirs, ours = ({each["type"]: each for each in side.conditions[pod]} for side in sides)
    assert theirs.keys() == ours.keys() > set()
    for kind, condition in theirs.items():
        assert same(condition, ours[kind], "message"), (condition, ours[kind])


def same(theirs: Json, ours: Json, text: str) -> bool:
    """Whether both are equal, but for the numbers that Tidelock adds between reasons and preemption."""
    if theirs | {text: ""} != ours | {text: ""}:
        return False
    if theirs[text] == ours[text]:
        return True
    reasons, preemption, rest = theirs[text].partition(" preemption: ")
    told: str = ours[text]
    return reasons.startswith("0/") and told.startswith(reasons) and told.endswith(preemption + rest)
