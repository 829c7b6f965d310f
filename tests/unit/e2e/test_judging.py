from e2e.judging import judge
from faults.histories import START, HistoryBuilder
from tidelock.model.instants import format_instant


def history() -> HistoryBuilder:
    made = HistoryBuilder()
    made.node()
    return made


def test_a_pod_in_reserved_capacity_is_a_violation() -> None:
    made = history()
    made.reservation()
    made.bound("stranger", cpu="2")
    (found,) = judge(made.changes).violations
    assert "a has given {'cpu': '1'} twice, beside ['lock']" in found


def test_the_owner_in_its_own_capacity_is_none() -> None:
    made = history()
    made.reservation()
    made.bound("web")
    made.reservation(reason="Consumed")
    made.bound("stranger", cpu="1")
    assert judge(made.changes).violations == []


def test_a_pod_that_was_bound_by_others_counts_too() -> None:
    made = history()
    made.pod("foreign", cpu="2")
    made.reservation()
    assert len(judge(made.changes).violations) == 1


def test_a_pod_in_capacity_whose_reservation_has_expired_is_none() -> None:
    made = history()
    made.reservation(expiresAt=format_instant(START + 1))
    made.bound("stranger")
    assert judge(made.changes).violations == []


def test_a_reservation_that_ends_without_a_reason_is_lost() -> None:
    made = history()
    made.reservation()
    made.reservation(reason="Pending")
    (found,) = judge(made.changes).violations
    assert found.startswith("lock was lost: it was active, and is Pending (Pending)")


def test_a_deletion_by_another_than_a_user_is_a_loss() -> None:
    made = history()
    made.reservation()
    made.gone()
    assert len(judge(made.changes).violations) == 1
    assert judge(made.changes, deleted={"lock"}).violations == []


def test_a_reservation_of_a_failed_node_may_end() -> None:
    made = history()
    made.reservation()
    node = made.changes[0].state
    unready = {**node["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}
    made.tell("nodes", {**node, "status": unready})
    made.reservation(reason="NodeLost")
    assert judge(made.changes).violations == []


def test_a_wait_lasts_from_the_creation_to_the_binding() -> None:
    made = history()
    made.pod("first", node="", cpu="1")
    made.pod("late", node="", cpu="1")
    made.pod("first", cpu="1")
    judged = judge(made.changes)
    assert [(wait.name, wait.seconds, wait.done) for wait in judged.pods] == [
        ("first", 2.0, True),
        ("late", 1.0, False),
    ]
    assert "2 pods: longest wait first 2.00 s, median 1.50 s" in judged.lines()
