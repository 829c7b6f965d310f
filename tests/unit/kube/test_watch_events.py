import asyncio
import logging

import msgspec
import pytest

from tidelock.kube.client import KubeClient
from tidelock.model.meta import Key
from unit.kube.following import Follower, Journal, Thing
from unit.kube.scripted import (
    ScriptedServer,
    bookmark,
    cut_watch,
    event,
    failure,
    page,
    pod,
    watch,
)


async def test_events_are_delivered_in_order(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(
        page(pod("a", 1), version=5),
        watch(
            event("ADDED", pod("b", 6)) + event("MODIFIED", pod("a", 7)),
            event("DELETED", pod("a", 8)),
            event("MODIFIED", pod("b", 9)),
        ),
    )

    lines = await Follower(client, server).until_script_ends()
    assert lines == ["+a@1", "synced", "+b@6", "a@1>a@7", "-a@7", "b@6>b@9"]


async def test_an_event_is_delivered_while_the_stream_stays_open(
    client: KubeClient, server: ScriptedServer
) -> None:
    class Signal(Journal):
        def __init__(self) -> None:
            super().__init__()
            self.received = asyncio.Event()

        def upsert(self, old: Thing | None, new: Thing) -> None:
            super().upsert(old, new)
            self.received.set()

    server.replays(page(version=5), server.quiet_watch(event("ADDED", pod("a", 6))))
    sink = Signal()
    run = asyncio.create_task(Follower(client, server, sink).reflector.run())

    await asyncio.wait_for(sink.received.wait(), 60)
    assert sink.lines == ["synced", "+a@6"]
    run.cancel()


async def test_slow_events_of_one_read_let_other_tasks_run(
    client: KubeClient, server: ScriptedServer
) -> None:
    """All events of one read were once handled in one turn of the loop, which with selectors took 30 s."""
    lines = b"".join(event("ADDED", pod(f"p-{number}", 6 + number)) for number in range(20))
    server.replays(page(version=5), watch(lines))
    now, turns = [0.0], [0]

    class Slow(Journal):
        def upsert(self, old: Thing | None, new: Thing) -> None:
            super().upsert(old, new)
            now[0] += 1.0
            self.turns.append(turns[0])

        def __init__(self) -> None:
            super().__init__()
            self.turns: list[int] = []

    async def others() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    sink, beside = Slow(), asyncio.create_task(others())
    await Follower(client, server, sink, clock=lambda: now[0]).until_script_ends()
    beside.cancel()
    assert len(set(sink.turns)) == 20


async def test_repeated_and_stale_events_are_ignored(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(
        page(pod("a", 3), version=5),
        watch(
            event("MODIFIED", pod("a", 3)),
            event("MODIFIED", pod("a", 7)) + event("MODIFIED", pod("a", 7)),
            event("MODIFIED", pod("a", 6)),
            event("DELETED", pod("a", 4)),
        ),
    )

    lines = await Follower(client, server).until_script_ends()
    assert lines == ["+a@3", "synced", "a@3>a@7"]


async def test_a_repeated_event_does_not_bring_a_removed_object_back(
    client: KubeClient, server: ScriptedServer
) -> None:
    added = event("ADDED", pod("a", 6))
    server.replays(page(version=5), watch(added, event("DELETED", pod("a", 7)), added))

    assert await Follower(client, server).until_script_ends() == ["synced", "+a@6", "-a@6"]


async def test_versions_are_compared_as_numbers(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(page(pod("a", 9), version=9), watch(event("MODIFIED", pod("a", 10))))

    assert await Follower(client, server).until_script_ends() == ["+a@9", "synced", "a@9>a@10"]


async def test_a_new_uid_with_a_known_name_is_another_object(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(
        page(pod("a", 1, uid="first"), version=5),
        watch(event("MODIFIED", pod("a", 8, uid="second"))),
    )

    assert await Follower(client, server).until_script_ends() == ["+a@1", "synced", "-a@1", "+a@8"]


async def test_the_deletion_of_an_unknown_object_is_ignored(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(page(version=5), watch(event("DELETED", pod("a", 6)), event("ADDED", pod("b", 7))))

    assert await Follower(client, server).until_script_ends() == ["synced", "+b@7"]


async def test_objects_of_the_same_name_in_two_namespaces_are_distinct(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(
        page(pod("a", 1, namespace="x"), pod("a", 2, namespace="y"), version=5),
        watch(event("DELETED", pod("a", 6, namespace="x"))),
    )
    follower = Follower(client, server)

    assert await follower.until_script_ends() == ["+a@1", "+a@2", "synced", "-a@1"]
    assert set(follower.reflector.store) == {Key("y", "a")}


async def test_a_watch_resumes_from_the_last_event_or_bookmark(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(
        page(version=5), watch(event("ADDED", pod("a", 8))), watch(bookmark(30)), cut_watch(bookmark(44))
    )
    follower = Follower(client, server)

    await follower.until_script_ends()
    assert [asked.query.get("resourceVersion") for asked in server.asked] == [None, "5", "8", "30", "44"]
    assert follower.reflector.relists == 1
    assert follower.reflector.watch_restarts == 4


async def test_an_event_cut_in_the_middle_is_read_again_after_the_resumption(
    client: KubeClient, server: ScriptedServer
) -> None:
    lost = event("ADDED", pod("b", 7))
    server.replays(page(version=5), cut_watch(event("ADDED", pod("a", 6)) + lost[:40]), watch(lost))
    follower = Follower(client, server)

    assert await follower.until_script_ends() == ["synced", "+a@6", "+b@7"]
    assert server.asked[2].query["resourceVersion"] == "6"


async def test_an_event_of_five_megabytes_is_read(client: KubeClient, server: ScriptedServer) -> None:
    big = pod("big", 6, padding="x" * 5_000_000)
    server.replays(page(version=5), watch(event("ADDED", big), event("ADDED", pod("a", 7))))

    assert await Follower(client, server).until_script_ends() == ["synced", "+big@6", "+a@7"]


async def test_malformed_data_ends_the_stream_but_not_the_reflector(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(
        page(version=5),
        watch(event("ADDED", pod("a", 6)), b"<html>bad gateway</html>\n"),
        watch(event("ADDED", pod("b", 7))),
    )

    assert await Follower(client, server).until_script_ends() == ["synced", "+a@6", "+b@7"]


@pytest.mark.parametrize(("code", "reason"), [(410, "Expired"), (500, "InternalError")])
async def test_an_error_within_the_stream_leads_to_a_new_list(
    client: KubeClient, server: ScriptedServer, code: int, reason: str
) -> None:
    server.replays(
        page(pod("a", 1), version=5), watch(event("ERROR", failure(code, reason))), page(version=9)
    )

    assert await Follower(client, server).until_script_ends() == ["+a@1", "synced", "-a@1", "synced"]


async def test_an_object_with_an_unreadable_field_is_delivered_without_that_field(
    client: KubeClient, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Such an object once stayed unknown or in its last good state, so the cordon of a node was not seen."""
    bad = pod("a", 7, size="large")
    server.replays(
        page(pod("a", 1), pod("never-good", 2, size="large"), version=5),
        watch(
            event("MODIFIED", bad), event("MODIFIED", pod("a", 8, size="large")), event("ERROR", failure(410))
        ),
        page(pod("a", 8, size="large"), version=9),
        watch(event("MODIFIED", pod("a", 10))),
    )
    noted: list[str] = []
    follower = Follower(
        client,
        server,
        on_faults=lambda resource, meta: noted.append(f"{resource.plural} {meta.key}: {meta.unreadable}"),
    )

    with caplog.at_level(logging.INFO, "tidelock.kube.watch"):
        lines = await follower.until_script_ends()
    assert lines == [
        "+a@1",
        "+never-good@2",
        "synced",
        "a@1>a@7",
        "a@7>a@8",
        "-never-good@2",
        "synced",
        "a@8>a@10",
    ]
    problem = "size: Expected `int`, got `str`"
    assert noted == [f"pods shop/never-good: {problem}", f"pods shop/a: {problem}"]
    told = [
        (entry.message, vars(entry)["object"]) for entry in caplog.records if "read in full" in entry.message
    ]
    assert told == [
        ("can't be read in full", "shop/never-good"),
        ("can't be read in full", "shop/a"),
        ("can be read in full again", "shop/a"),
    ]
    assert follower.reflector.faulty == {}


async def test_an_object_that_cannot_be_decoded_keeps_its_last_good_state_and_is_counted(
    client: KubeClient, server: ScriptedServer
) -> None:
    """The object may use capacity of a node, so without it this capacity would be given twice."""

    def decode(raw: bytes | msgspec.Raw) -> Thing:
        if b"broken" in bytes(raw):
            raise ValueError("broken")
        return msgspec.json.decode(raw, type=Thing)

    server.replays(
        page(pod("a", 1), version=5),
        watch(event("MODIFIED", pod("a", 7, note="broken")), event("ADDED", pod("b", 8, note="broken"))),
        watch(event("ERROR", failure(410))),
        page(pod("a", 7, note="broken"), version=9),
        watch(),
    )
    follower = Follower(client, server, decode=decode)

    assert await follower.until_script_ends() == ["+a@1", "synced", "synced"]
    assert {str(key): str(*faults) for key, faults in follower.reflector.faulty.items()} == {
        "shop/a": "broken"
    }


async def test_an_exception_of_the_event_handler_ends_the_run(
    client: KubeClient, server: ScriptedServer
) -> None:
    class Broken(Journal):
        def upsert(self, old: Thing | None, new: Thing) -> None:
            super().upsert(old, new)
            raise ValueError("a bug in the sink")

    server.replays(page(version=5), watch(event("ADDED", pod("a", 6))))

    with pytest.raises(ValueError, match="a bug in the sink"):
        await Follower(client, server, Broken()).until_script_ends()


@pytest.mark.parametrize(
    ("namespace", "told"),
    [
        ("", ["+a@5", "synced", "a@5>a@7", "a@7>a@8"]),
        ("shop", ["+a@5", "synced", "-a@5", "+a@7", "-a@7", "+a@8"]),
    ],
)
async def test_a_cluster_scoped_object_with_an_unreadable_uid_is_matched_by_name(
    server: ScriptedServer, client: KubeClient, namespace: str, told: list[str]
) -> None:
    """It once counted as another node, so its reservations were lost. Pods are distinguished by uid."""
    odd = pod("a", 7, namespace=namespace)
    odd["metadata"]["uid"] = 7
    server.replays(
        page(pod("a", 5, namespace=namespace), version=5),
        watch(event("MODIFIED", odd), event("MODIFIED", pod("a", 8, namespace=namespace))),
    )
    assert await Follower(client, server).until_script_ends() == told
