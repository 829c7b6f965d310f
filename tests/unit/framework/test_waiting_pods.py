import pytest

from builders import pod
from tidelock.framework.waiting_pods import MAX_WAIT, WaitingPod, WaitingPods, format_duration, timeout_text


def waiting(**waits: float) -> WaitingPod:
    return WaitingPod(pod(), "node-a", waits or {"quota": 10.0, "gang": 60.0})


def test_a_pod_is_allowed_when_every_plugin_has_allowed_it() -> None:
    told: list[str] = []
    each = waiting()
    each.when_decided(lambda: told.append("decided"))
    each.allow("quota")
    each.allow("quota")
    assert (each.pending, each.decided, told) == (("gang",), False, [])

    each.allow("gang")
    assert (each.pending, each.decided, told) == ((), True, ["decided"])
    assert each.rejected_by is None


def test_one_plugin_is_enough_to_reject_a_pod() -> None:
    told: list[str] = []
    each = waiting()
    each.when_decided(lambda: told.append("decided"))

    assert each.reject("gang", "too few members")
    assert (each.rejected_by, each.reason, told) == ("gang", "too few members", ["decided"])


def test_a_decision_is_final() -> None:
    allowed, rejected = waiting(quota=1.0), waiting(quota=1.0)
    allowed.allow("quota")
    rejected.reject("quota", "no")

    assert not allowed.reject("quota", "too late")
    assert not rejected.reject("gang", "twice")
    rejected.allow("quota")
    allowed.time_out("quota")
    assert allowed.rejected_by is None
    assert (rejected.rejected_by, rejected.reason) == ("quota", "no")


def test_a_callback_that_is_added_after_the_decision_is_called() -> None:
    told: list[str] = []
    each = waiting(quota=1.0)
    each.allow("quota")
    each.when_decided(lambda: told.append("decided"))

    assert told == ["decided"]


def test_a_plugin_that_times_out_rejects_the_pod() -> None:
    each = waiting()
    each.allow("quota")
    each.time_out("quota")
    assert not each.decided

    each.time_out("gang")
    assert each.rejected_by == "gang"
    assert each.reason == timeout_text("gang", "1m0s")


def test_no_plugin_can_let_a_pod_wait_for_more_than_15_minutes() -> None:
    assert waiting(gang=3600.0).waits == {"gang": MAX_WAIT} == {"gang": 900.0}


def test_waiting_pods_are_found_by_their_uid() -> None:
    pods, each = WaitingPods(), waiting()
    pods.add(each)
    assert pods.get("uid-web-0") is each
    assert (list(pods), len(pods)) == ([each], 1)

    pods.remove("uid-web-0")
    pods.remove("uid-web-0")
    assert pods.get("uid-web-0") is None


def test_a_removed_pod_is_rejected() -> None:
    pods, each = WaitingPods(), waiting()
    pods.add(each)
    pods.reject_removed("uid-web-1")
    assert not each.decided

    pods.reject_removed("uid-web-0")
    assert (each.rejected_by, each.reason) == ("", "removed")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.5, "500ms"),
        (10, "10s"),
        (1.5, "1.5s"),
        (90, "1m30s"),
        (900, "15m0s"),
        (3600, "1h0m0s"),
    ],
)
def test_durations_are_written_as_in_go(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
