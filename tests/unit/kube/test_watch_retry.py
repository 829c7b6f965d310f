import logging
from itertools import pairwise

import pytest

from tidelock.kube.client import KubeClient
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.kube.watch import WatchSettings
from unit.kube.following import Follower
from unit.kube.scripted import ScriptedServer, bookmark, cut_watch, event, fails, failure, page, pod, watch

TROUBLE = "can't watch for now"


async def test_each_watch_requests_a_random_timeout(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(page(version=5), *(watch(bookmark(version)) for version in range(6, 16)))

    await Follower(client, server).until_script_ends()
    seconds = [int(asked.query["timeoutSeconds"]) for asked in server.asked[1:]]
    assert all(300 <= value <= 600 for value in seconds)
    assert len(set(seconds)) > 5


async def test_a_watch_that_ends_after_events_is_resumed_at_once(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(page(version=5), watch(bookmark(6)), watch(event("ADDED", pod("a", 7))))
    follower = Follower(client, server)

    await follower.until_script_ends()
    assert follower.delays == [0.0, 0.0]


async def test_watches_that_end_without_events_are_resumed_with_growing_delays(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(page(version=5), *(watch(bookmark(5)) for _ in range(12)))
    follower = Follower(client, server)

    await follower.until_script_ends()
    assert 0.05 <= follower.delays[0] <= 0.1
    assert all(later > earlier for earlier, later in pairwise(follower.delays[:7]))
    assert all(5.0 <= delay <= 10.0 for delay in follower.delays[8:])


async def test_an_event_resets_the_back_off(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(*(fails(500) for _ in range(6)), page(version=5), cut_watch(bookmark(6)))
    follower = Follower(client, server)

    await follower.until_script_ends()
    assert follower.delays[5] > 1.0
    assert follower.delays[6] <= 0.1


async def test_a_failed_watch_request_is_repeated_without_a_new_list(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(page(version=5), fails(503), watch(event("ADDED", pod("a", 6))))
    follower = Follower(client, server)

    assert await follower.until_script_ends() == ["synced", "+a@6"]
    assert follower.reflector.relists == 1


async def test_an_expired_watch_request_leads_to_a_new_list(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(page(pod("a", 1), version=5), fails(410, "Expired"), page(version=9))

    assert await Follower(client, server).until_script_ends() == ["+a@1", "synced", "-a@1", "synced"]


async def test_retry_after_is_honoured(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(fails(429, "TooManyRequests", headers={"Retry-After": "7"}), page(version=5))
    follower = Follower(client, server)

    assert await follower.until_script_ends() == ["synced"]
    assert 7.0 <= follower.delays[0] <= 8.0


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_list_is_retried_with_long_delays(
    client: KubeClient, server: ScriptedServer, status: int
) -> None:
    server.replays(fails(status), fails(status), page(pod("a", 1), version=5))
    follower = Follower(client, server)

    assert await follower.until_script_ends() == ["+a@1", "synced"]
    assert all(5.0 <= delay <= 7.5 for delay in follower.delays)


async def test_a_malformed_stream_is_abandoned_and_resumed(
    client: KubeClient, server: ScriptedServer
) -> None:
    """A proxy that lost its API server sent an error page within a watch and kept the connection.

    In this case aiohttp raises no error and ends its time-out, so the watch delivered no more events.
    """
    follower = Follower(client, server, settings=WatchSettings(silence=0.1))
    lines = follower.journal.lines
    garbage = server.malformed_watch(
        event("ADDED", pod("a", 9)), b"HTTP/1.1 502\r\n", lambda: "+a@9" in lines
    )
    server.replays(page(version=5), garbage, watch(event("ADDED", pod("b", 10))))

    assert await follower.until_script_ends() == ["synced", "+a@9", "+b@10"]
    assert server.asked[2].query["resourceVersion"] == "9"


async def test_a_silent_stream_is_abandoned_and_resumed(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(page(version=5), server.quiet_watch(bookmark(9)), watch(event("ADDED", pod("a", 10))))
    follower = Follower(client, server, settings=WatchSettings(silence=0.1))

    assert await follower.until_script_ends() == ["synced", "+a@10"]
    assert server.asked[2].query["resourceVersion"] == "9"
    assert follower.reflector.relists == 1


async def test_a_watch_request_without_an_answer_is_abandoned(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(page(version=5), server.silence, watch(event("ADDED", pod("a", 10))))
    follower = Follower(client, server, settings=WatchSettings(silence=0.1))

    assert await follower.until_script_ends() == ["synced", "+a@10"]


async def test_a_failure_and_its_end_are_logged_once(
    client: KubeClient, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.replays(
        fails(403, "Forbidden"),
        fails(403, "Forbidden"),
        fails(403, "Forbidden"),
        fails(500),
        fails(500),
        page(version=5),
        watch(bookmark(6)),
        watch(bookmark(7)),
    )
    with caplog.at_level(logging.INFO, "tidelock.kube.watch"):
        await Follower(client, server).until_script_ends()

    told = [(entry.message, getattr(entry, "error", "")) for entry in caplog.records]
    assert told == [
        (TROUBLE, "403 Forbidden: no"),
        (TROUBLE, "500: no"),
        ("listed", ""),
        ("watching works again", ""),
    ]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (401, "log in again, or renew the ServiceAccount's token"),
        (
            403,
            "give it the rights of manifests/base, by your own kustomization or release",
        ),
        (404, "install the CRDs of this version: kubectl apply --server-side -k crds"),
        (500, None),
    ],
)
async def test_a_failure_that_a_user_must_fix_is_logged_with_advice(
    client: KubeClient,
    server: ScriptedServer,
    caplog: pytest.LogCaptureFixture,
    code: int,
    advice: str | None,
) -> None:
    server.replays(fails(code), fails(code))
    await Follower(client, server).until_script_ends()

    (told,) = [entry for entry in caplog.records if entry.message == TROUBLE]
    assert getattr(told, "advice", None) == advice


async def test_the_advice_for_a_kind_of_another_project_replaces_that_for_tidelocks_own(
    client: KubeClient, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.replays(fails(404), fails(403))
    advice = {NotFound: "install the other project"}
    await Follower(client, server, advice=advice).until_script_ends()

    told = [getattr(entry, "advice", None) for entry in caplog.records if entry.message == TROUBLE]
    assert told == [
        "install the other project",
        "give it the rights of manifests/base, by your own kustomization or release",
    ]


async def test_an_expired_version_is_not_logged_as_a_warning(
    client: KubeClient, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.replays(page(version=5), watch(event("ERROR", failure(410, "Expired"))), page(version=6))
    with caplog.at_level(logging.WARNING):
        await Follower(client, server).until_script_ends()

    assert TROUBLE not in caplog.text


async def test_the_last_activity_is_the_time_of_the_last_data(
    client: KubeClient, server: ScriptedServer
) -> None:
    readings = iter(range(100))
    server.replays(page(version=5), watch(bookmark(6)), fails(500), fails(500))
    follower = Follower(client, server, clock=lambda: float(next(readings)))

    await follower.until_script_ends()
    assert follower.reflector.last_activity == 3.0  # the start, the list and the bookmark, not the failures


async def test_an_optional_resource_has_no_objects_while_it_is_missing(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(page(pod("a", 3), version=5), watch(bookmark(6)), fails(404), fails(404))
    follower = Follower(client, server, absent_if=(NotFound,))

    await follower.until_script_ends()
    assert follower.journal.lines == ["+a@3", "synced", "-a@3", "synced", "synced"]


async def test_the_absence_of_an_expected_resource_is_no_failure(
    client: KubeClient, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Kubernetes 1.36 has no DeviceTaintRules of v1. Advice once said to install Tidelock's CRDs for them."""
    caplog.set_level(logging.INFO)
    server.replays(fails(404), fails(403), fails(404))
    follower = Follower(client, server, absent_if=(NotFound, Forbidden), expected=(NotFound,))

    await follower.until_script_ends()
    told = [(each.levelname, hasattr(each, "advice")) for each in caplog.records if each.message == TROUBLE]
    assert told == [("INFO", False), ("WARNING", True), ("INFO", False)]
    assert follower.reflector.lost is None
    assert follower.journal.lines == ["synced"] * 3


async def test_an_optional_resource_keeps_its_objects_while_reading_is_forbidden(
    client: KubeClient, server: ScriptedServer
) -> None:
    """Without the right to read WaterLevels, which only score nodes, decisions once waited forever."""
    server.replays(fails(403), page(pod("a", 3), version=5), watch(bookmark(6)), fails(403))
    follower = Follower(client, server, absent_if=(NotFound, Forbidden))

    await follower.until_script_ends()
    assert follower.journal.lines == ["synced", "+a@3", "synced", "synced"]


async def test_an_optional_resource_must_be_readable(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(fails(403), page(version=5))
    follower = Follower(client, server, absent_if=(NotFound,))

    await follower.until_script_ends()
    assert follower.journal.lines == ["synced"]


async def test_a_required_resource_that_the_server_does_not_know_is_waited_for(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(fails(404), fails(403), fails(404))
    follower = Follower(client, server)

    await follower.until_script_ends()
    assert follower.journal.lines == []
