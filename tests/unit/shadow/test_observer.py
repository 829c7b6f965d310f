import pytest

from tidelock.shadow.world import Outcome
from unit.shadow.trace import Trace

DAEMON_SET = "apps/v1/DaemonSet/agent"


def two_nodes() -> Trace:
    return Trace({"a": {"cpu": "4"}, "b": {"cpu": "4"}})


def test_pods_of_before_are_no_decisions() -> None:
    trace = Trace({"a": {"cpu": "4"}}, begin=False)
    trace.create("old", "1")
    trace.bind("old", "a")
    trace.create("waits", "9")
    trace.refuse("waits")
    trace.begin()
    trace.at(30)

    results = trace.results
    assert results.decisions.judged == 0
    assert results.run.pods == 1
    # A pod that waits since before counts from the start, as does its refusal.
    assert (results.waiting.pods, results.decisions.refusals) == (1, 1)
    assert results.waiting.pod_seconds == 20


def test_pods_without_a_choice_are_left_out() -> None:
    trace = two_nodes()
    trace.create("agent", "1", controller=DAEMON_SET)
    trace.bind("agent", "a")
    trace.create("static", "1", node_name="b")

    decisions = trace.results.decisions
    assert (decisions.of_daemon_sets, decisions.created_bound, decisions.judged) == (1, 1, 0)
    assert decisions.apart == 0


def test_a_decision_sees_the_pods_before_it_and_not_itself() -> None:
    """Node a has room for one pod, and the second one is bound there all the same."""
    trace = Trace({"a": {"cpu": "1"}, "b": {"cpu": "64"}})
    for name in ("first", "second"):
        trace.create(name, "1")
        trace.bind(name, "a")

    decisions = trace.results.decisions
    assert decisions.outcomes[Outcome.RULED_OUT] == 1
    assert decisions.rejecters == {"NodeResourcesFit": 1}
    (ruled_out,) = (each for each in decisions.examples if each.outcome is Outcome.RULED_OUT)
    assert (ruled_out.pod, ruled_out.profile_node) == ("shop/second", "b")


def test_a_refusal_is_judged_once_when_it_is_first_seen() -> None:
    trace = two_nodes()
    trace.create("huge", "9")
    trace.create("small", "1")
    for name in ("huge", "small", "huge", "small"):
        trace.refuse(name)

    decisions = trace.results.decisions
    assert (decisions.refusals, decisions.refusals_fitting) == (2, 1)


def test_a_status_of_a_bound_pod_changes_no_count() -> None:
    trace = two_nodes()
    trace.create("one", "1")
    trace.bind("one", "b")
    before = trace.results.decisions
    trace.bind("one", "b")
    trace.finish("one")
    trace.delete("one")

    assert trace.results.decisions.outcomes == before.outcomes
    assert trace.results.run.pods == 0
    assert trace.results.decisions.apart == 0


def test_the_nominated_node_of_a_pod_keeps_others_away() -> None:
    trace = Trace({"a": {"cpu": "4"}})
    trace.create("preemptor", "4", priority=10, status={"nominatedNodeName": "a"})
    trace.create("other", "1")
    trace.bind("other", "a")

    assert trace.results.decisions.outcomes == {Outcome.NO_NODE: 1}


def test_bindings_of_a_list_after_a_lost_watch_are_missed() -> None:
    trace = two_nodes()
    trace.create("one", "1")
    trace.observer.live = lambda: False
    trace.bind("one", "a")
    trace.create("unseen", "1", node_name="b")
    trace.observer.live = lambda: True
    trace.at(5)

    decisions = trace.results.decisions
    assert (decisions.missed, decisions.judged, decisions.created_bound) == (2, 0, 0)
    assert trace.results.run.pods == 2


def test_a_gap_counts_from_the_last_response_and_no_mean_covers_it() -> None:
    trace = two_nodes()
    trace.create("waits", "9")
    trace.at(20)
    trace.clock.seconds = 40
    trace.observer.look(lost_since=trace.clock.now() - 15, reason="Unreachable")
    assert trace.results.run.gap_count == 1  # it still goes on
    trace.at(50)
    trace.at(60)

    run = trace.results.run
    assert [(each.ended - each.begun, each.reason) for each in run.gaps] == [(30.0, "Unreachable")]
    assert (run.gap_seconds, run.watched_seconds) == (30.0, 30.0)
    assert trace.results.waiting.pod_seconds == 20


def test_a_process_that_stood_still_has_a_gap() -> None:
    trace = two_nodes()
    trace.at(5)
    trace.at(1000)
    trace.at(1005)
    (gap,) = trace.results.run.gaps
    assert (gap.ended - gap.begun, gap.reason) == (995.0, "the process stood still")
    assert trace.results.run.watched_seconds == 10


def test_a_pod_without_a_node_in_the_replayed_world_gets_one_when_there_is_room() -> None:
    """The scheduler's last pod fits where the profile has put the others apart."""
    trace = Trace({"a": {"cpu": "4"}, "b": {"cpu": "4"}})
    for name in ("one", "two"):
        trace.create(name, "2")
        trace.bind(name, "a")
    trace.create("big", "4")
    trace.bind("big", "b")
    decisions = trace.results.decisions
    assert (decisions.unplaced, decisions.unplaced_now, decisions.apart) == (1, 1, 1)

    trace.delete("one")
    trace.at(5)
    decisions = trace.results.decisions
    assert (decisions.unplaced, decisions.unplaced_now) == (1, 0)


def test_a_pod_that_has_ended_is_on_no_other_node() -> None:
    trace = Trace({"a": {"cpu": "4"}, "b": {"cpu": "4"}})
    for name in ("one", "two"):
        trace.create(name, "2")
        trace.bind(name, "a")
    assert trace.results.decisions.apart == 1
    for name in ("one", "two"):
        trace.finish(name)
    assert trace.results.decisions.apart == 0


def test_results_can_be_taken_at_any_time_and_change_nothing() -> None:
    trace = two_nodes()
    trace.create("one", "1")
    trace.bind("one", "a")
    trace.at(20)
    assert trace.results == trace.results


def test_nothing_is_looked_at_before_the_cluster_is_known() -> None:
    trace = Trace({"a": {"cpu": "4"}}, begin=False)
    trace.at(100)
    trace.begin()
    trace.at(105)
    assert trace.results.run.watched_seconds == 5


@pytest.mark.parametrize("times", [1, 3])
def test_a_pod_that_comes_again_under_its_name_is_another_pod(times: int) -> None:
    trace = two_nodes()
    for number in range(times):
        trace.create("web-0", "1", uid=f"uid-{number}")
        trace.bind("web-0", "a")
        trace.delete("web-0")
    assert trace.results.decisions.judged == times
