from typing import Any

import pytest

from builders import NAMESPACE, NOW, node_json, pod_json, reservation_json
from tidelock.cli.cluster_state import ClusterState, configuration_of
from tidelock.cli.failure import Failure
from tidelock.cli.layout import UNBOUNDED
from tidelock.cli.tables import lines_of
from tidelock.cli.why import answer_for
from tidelock.cli.why_tables import WhyAnswer, plain, screen
from tidelock.ledger.owners.awaited import NAMED_BY_NONE
from tidelock.model.meta import Key
from tidelock.model.quantities import CPU
from tidelock.plugins.reservation.plugin import insufficient_beside
from unit.cli.clouds import GKE, NAMES, WIDTHS, cloud_world
from unit.cli.scenes import LOCKS, active_json, raw, world
from unit.cli.screens import assert_screen


def about(name: str, word: str = "", cluster: ClusterState | None = None) -> WhyAnswer:
    return answer_for(cluster or world(), configuration_of(""), (word, Key(NAMESPACE, name)), NOW)


@pytest.mark.parametrize("wide", [False, True])
def test_a_waiting_pod_is_explained(*, wide: bool) -> None:
    shown = screen(about("web-0"), limit=0, wide=wide, width=UNBOUNDED)
    assert_screen(f"why-pod{'-wide' if wide else ''}", shown)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["web-0", "checkout-7f9c-0"])
def test_each_node_is_explained_without_a_broken_word(name: str, width: int) -> None:
    answer = about(name, cluster=cloud_world())
    shown = screen(answer, limit=0, wide=False, width=width)
    assert_screen(f"why-{name}-{width}", shown, width)
    if width < 140:
        nodes = [line for line in lines_of(*shown, width=width).splitlines() if line[:2] in ("  ", "* ")]
        assert len(nodes) == len(NAMES)


def test_nodes_with_equal_verdicts_are_grouped() -> None:
    lines = lines_of(*screen(about("web-0", cluster=cloud_world()), limit=0, wide=False, width=80), width=80)
    assert "2 nodes: TaintToleration: taint gpu=yes:NoSchedule\n" in lines
    assert "3 nodes: fits\n" in lines


def test_groups_count_the_nodes_that_are_not_shown() -> None:
    shown = screen(about("web-0", cluster=cloud_world()), limit=1, wide=False, width=80)
    lines = lines_of(*shown, width=80)
    assert "3 nodes: fits\n" in lines
    assert "and 7 more nodes: --limit 0 shows all" in lines


def test_reserved_amounts_of_planned_windows_count_as_in_decisions() -> None:
    told = about("web-0", cluster=cloud_world())
    assert told.holdings[GKE[0]].reserved["cpu"] == 1500


@pytest.mark.parametrize("wide", [False, True])
def test_an_active_reservation_is_explained(*, wide: bool) -> None:
    assert_screen(
        f"why-lock{'-wide' if wide else ''}", screen(about("batch"), limit=0, wide=wide, width=UNBOUNDED)
    )


def test_a_waiting_reservation_is_explained() -> None:
    assert_screen("why-lock-that-waits", screen(about("large"), limit=2, wide=False, width=UNBOUNDED))


def test_a_bound_pod_is_explained_as_if_it_were_not_bound_yet() -> None:
    told = about("resident")

    assert told.node == "node-d"
    assert told.story[0] == "It is bound to node-d; the table shows the cluster without it."
    assert told.holdings["node-d"].used["cpu"] == 0
    assert [each.node.name for each in told.reports if not each.rejections] == ["node-d"]


def test_the_explanation_of_an_owner_names_its_reservation() -> None:
    told = about("other", cluster=world(pod_json("other", requests={"cpu": "2"})))

    assert "Its reservation shop/batch is Active on node-a, with cpu=2,memory=1Gi." in told.story
    assert told.reports[0].node.name == "node-a"


def test_the_explanation_names_a_gate() -> None:
    gated = pod_json("gated", annotations={"tidelock.dev/require-reservation": "true"})
    told = about("gated", cluster=world(gated))
    assert told.story == (f"Reservation: {NAMED_BY_NONE}",)


def test_a_gate_that_is_also_a_condition_is_named_once() -> None:
    text = NAMED_BY_NONE
    gated = pod_json("gated", annotations={"tidelock.dev/require-reservation": "true"})
    gated["status"] = {
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": text}
        ]
    }
    assert about("gated", cluster=world(gated)).story == (f"Reservation: {text}",)


def test_a_pod_of_another_scheduler_is_explained_as_well() -> None:
    told = about("foreign", cluster=world(pod_json("foreign", scheduler="default-scheduler")))
    assert told.story == ("Its scheduler is default-scheduler; this is the answer of tidelock-scheduler.",)


def test_a_pod_takes_precedence_over_a_reservation_of_its_name() -> None:
    cluster = world(reservations=(*LOCKS, active_json("web-0")))
    assert about("web-0", cluster=cluster).title == "pod shop/web-0"
    assert about("web-0", "reservation", cluster).title == "reservation shop/web-0"


@pytest.mark.parametrize(
    ("name", "word", "told"),
    [
        ("none", "", "there is no pod and no reservation shop/none: "),
        ("batch", "pod", "there is no pod shop/batch: "),
        ("web-0", "reservation", "there is no reservation shop/web-0: "),
    ],
)
def test_a_missing_object_is_an_error(name: str, word: str, told: str) -> None:
    with pytest.raises(Failure, match=told):
        about(name, word)


def test_a_reservation_with_an_unreadable_spec_is_an_error() -> None:
    bad = reservation_json("bad", ttlSeconds=0)
    with pytest.raises(Failure, match=r"reservation shop/bad can't be read: spec\.ttlSeconds: "):
        about("bad", cluster=world(reservations=(bad,)))


def test_objects_that_cannot_be_read_are_named_and_not_used() -> None:
    bad, nameless = node_json("odd"), node_json("")
    bad["status"]["allocatable"]["cpu"] = "many"
    del nameless["metadata"]["name"]
    told = about("web-0", cluster=world(nodes=(node_json("good"), bad, nameless)))

    assert {each.node.name: [objection.plugin for objection in each.rejections] for each in told.reports} == {
        "good": [],
        "odd": ["UnreadableObjects", "NodeResourcesFit"],
    }
    assert told.story[-2].startswith(
        "Not used, as it can't be read: nodes odd: status.allocatable.cpu: cpu: 'many' is not a quantity"
    )
    assert told.story[-1].startswith("Not used, as it can't be read: nodes without a name: Object missing")


def test_resources_that_may_not_be_listed_are_named() -> None:
    objects = {**world().objects, "nodes": raw(node_json("a", cpu="1"))}
    told = about("web-0", cluster=ClusterState(objects, ("csinodes", "services")))
    assert told.story[0] == (
        "You may not list csinodes, services: plugins that read them assume that there are none."
    )


def test_machine_readable_output_has_all_details() -> None:
    told: dict[str, Any] = plain(about("web-0"))

    by_name = {each["name"]: each for each in told["nodes"]}
    assert told["needs"] == {"cpu": "3", "memory": "1Gi"}
    assert by_name["node-a"]["locks"] == {"shop/batch": {"cpu": "2", "memory": "1Gi"}}
    assert by_name["node-a"]["locked"]["cpu"] == "2"
    assert by_name["node-d"]["used"]["cpu"] == "6"
    assert by_name["node-a"]["objections"] == [
        {
            "plugin": "Reservation",
            "reasons": [insufficient_beside(CPU)],
            "numbers": "cpu 3 needed, 2 free, 2 reserved by shop/batch",
            "evictionsMayHelp": True,
        }
    ]


def test_a_configuration_of_the_operator_is_used(tmp_path: Any) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: tidelock-scheduler, plugins: {score: {disabled: [{name: '*'}]}}}]"
    )
    answer = answer_for(world(), configuration_of(str(file)), ("reservation", Key(NAMESPACE, "batch")), NOW)
    assert set(answer.reports[0].points) == {"Reservation"}


@pytest.mark.parametrize(
    ("text", "told"), [("kind: Pod", "--config: .*: apiVersion: Required value"), (None, "No such file")]
)
def test_an_invalid_configuration_is_an_error(tmp_path: Any, text: str | None, told: str) -> None:
    file = tmp_path / "config.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(Failure, match=told):
        configuration_of(str(file))
