import asyncio
import logging
from collections.abc import Callable

import pytest

from tidelock.kube.client import KubeClient
from tidelock.kube.events import EventRecorder, ObjectReference
from unit.kube.scripted import ScriptedServer, answers, fails

NOW = 1_790_000_000.25
POD = ObjectReference(api_version="v1", kind="Pod", name="web-0", namespace="shop", uid="u1")
NODE = ObjectReference(api_version="v1", kind="Node", name="n1")


def _recorder(
    client: KubeClient,
    capacity: int = 1000,
    busy: Callable[[], bool] = lambda: False,
    monotonic: Callable[[], float] = lambda: 0.0,
) -> EventRecorder:
    return EventRecorder(
        client,
        "tidelock.dev/scheduler",
        "tidelock-0",
        capacity=capacity,
        workers=1,
        busy=busy,
        monotonic=monotonic,
        now=lambda: NOW,
    )


async def test_an_event_is_posted_in_the_form_of_the_api(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(answers("{}", status=201))

    async with _recorder(client) as recorder:
        recorder.record(POD, "Normal", "Scheduled", "Binding", "Successfully assigned shop/web-0 to n1")
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/shop/events")
    assert asked.json == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"web-0.{1_790_000_000_250_000:x}", "namespace": "shop"},
        "eventTime": "2026-09-21T14:13:20.250000Z",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "Successfully assigned shop/web-0 to n1",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "namespace": "shop", "uid": "u1"},
        "reportingController": "tidelock.dev/scheduler",
        "reportingInstance": "tidelock-0",
    }


async def test_an_event_names_the_component_that_reports_it_and_a_related_object(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(answers("{}", status=201))

    async with _recorder(client) as recorder:
        recorder.record(POD, "Normal", "Preempted", "Preempting", "by n1", controller="batch", related=NODE)
    (asked,) = server.asked
    assert asked.json["reportingController"] == "batch"
    assert asked.json["related"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


async def test_events_of_cluster_scoped_objects_go_to_the_default_namespace(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(answers("{}", status=201))

    async with _recorder(client) as recorder:
        recorder.record(NODE, "Warning", "Overcommitted", "Checking", "too much")
    (asked,) = server.asked
    assert asked.path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert asked.json["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


async def test_a_long_note_is_truncated_between_characters(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(answers("{}", status=201))

    async with _recorder(client) as recorder:
        recorder.record(POD, "Normal", "Scheduled", "Binding", "x" + "ä" * 1000)
    assert server.asked[0].json["note"] == "x" + "ä" * 509 + " ..."  # 1,023 bytes: another letter makes 1,025


async def test_the_event_of_a_long_name_has_a_valid_name(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(answers("{}", status=201))
    long = ObjectReference(api_version="v1", kind="Node", name="n" * 238 + "-." + "n" * 13)

    async with _recorder(client) as recorder:
        recorder.record(long, "Normal", "Reason", "Action", "note")
    assert server.asked[0].json["metadata"]["name"] == "n" * 238 + f".{1_790_000_000_250_000:x}"


async def test_two_events_of_one_moment_have_different_names(
    client: KubeClient, server: ScriptedServer
) -> None:
    """The API server would refuse the second one."""
    server.replays(answers("{}", status=201), answers("{}", status=201))

    async with _recorder(client) as recorder:
        recorder.record(POD, "Normal", "Scheduled", "Binding", "to n1")
        recorder.record(POD, "Warning", "InternalError", "Isolating", "a bug")
    assert len({asked.json["metadata"]["name"] for asked in server.asked}) == 2


async def test_repeated_events_are_not_sent(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(answers("{}"), answers("{}"), answers("{}"))

    async with _recorder(client) as recorder:
        for note in ("no room", "no room", "no node", "no room"):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", note)
    assert [asked.json["note"] for asked in server.asked] == ["no room", "no node"]


async def test_the_oldest_events_are_dropped_if_too_many_wait(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(answers("{}"), answers("{}"))

    async with _recorder(client, capacity=2) as recorder:
        for note in ("a", "b", "c", "d"):
            recorder.record(POD, "Normal", "Reason", "Action", note)
    assert [asked.json["note"] for asked in server.asked] == ["c", "d"]
    assert recorder.dropped == 2


async def test_a_failed_event_is_counted_and_logged_at_debug_level(
    client: KubeClient, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.replays(fails(403, "Forbidden", "namespace is being terminated"), answers("{}"))

    with caplog.at_level(logging.DEBUG):
        async with _recorder(client) as recorder:
            recorder.record(POD, "Normal", "Reason", "Action", "a")
            recorder.record(POD, "Normal", "Reason", "Action", "b")
    assert [asked.json["note"] for asked in server.asked] == ["a", "b"]
    assert recorder.failed == 1
    (entry,) = [entry for entry in caplog.records if entry.name == "tidelock.kube.events"]
    assert entry.levelno == logging.DEBUG
    assert vars(entry)["error"] == "403 Forbidden: namespace is being terminated"


async def test_closing_waits_at_most_for_the_deadline(client: KubeClient, server: ScriptedServer) -> None:
    recorder = _recorder(client)
    async with asyncio.timeout(8), recorder:
        recorder.record(POD, "Normal", "Reason", "Action", "never answered")
        await server.finished.wait()
        await recorder.aclose(deadline_seconds=0.05)
    assert len(server.asked) == 1


async def test_events_wait_for_more_urgent_requests(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(answers("{}"), answers("{}"))
    looks: list[int] = []
    busy = iter((True, True, False, False))

    def look() -> bool:
        looks.append(len(server.asked))
        return next(busy)

    async with _recorder(client, busy=look) as recorder:
        recorder.record(POD, "Normal", "Reason", "Action", "a")
        recorder.record(POD, "Normal", "Reason", "Action", "b")
    assert looks == [0, 0, 0, 1]
    assert [asked.json["note"] for asked in server.asked] == ["a", "b"]


async def test_events_wait_for_urgent_requests_at_most_three_seconds(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(answers("{}"))
    seconds = iter((100.0, 102.9, 103.1))  # recorded, and two looks

    async with _recorder(client, busy=lambda: True, monotonic=lambda: next(seconds)) as recorder:
        recorder.record(POD, "Normal", "Reason", "Action", "a")
    assert [asked.json["note"] for asked in server.asked] == ["a"]
