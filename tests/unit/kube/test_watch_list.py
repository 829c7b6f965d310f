import asyncio

import pytest

from tidelock.kube.client import KubeClient
from tidelock.kube.watch import WatchSettings
from tidelock.model.meta import Key
from unit.kube.following import Follower, Journal, Thing
from unit.kube.scripted import (
    ScriptedServer,
    answers,
    cut_page,
    event,
    fails,
    failure,
    page,
    pod,
    watch,
)

EXPIRED = event("ERROR", failure(410, "Expired", "too old resource version"))


async def test_a_list_in_pages_is_delivered_in_order_and_then_synced(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(
        page(pod("a", 3), pod("b", 9), version=12, more="2+/="),
        page(pod("c", 5), version=12),
    )
    follower = Follower(client, server, settings=WatchSettings(page_limit=2))

    assert await follower.until_script_ends() == ["+a@3", "+b@9", "+c@5", "synced"]
    first, second, watching = server.asked
    assert first.path == "/api/v1/pods"
    assert first.query == {"limit": "2"}
    assert second.query == {"limit": "2", "continue": "2+/="}
    assert watching.query["resourceVersion"] == "12"
    assert follower.reflector.synced.is_set()
    assert [str(thing) for thing in follower.reflector.store.values()] == ["a@3", "b@9", "c@5"]


async def test_an_empty_collection_is_synced(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(answers({"metadata": {"resourceVersion": "4"}, "items": None}))

    assert await Follower(client, server).until_script_ends() == ["synced"]


async def test_the_version_of_a_list_is_told_after_it(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(page(pod("a", 3), version=12), watch(EXPIRED), page(version=20))
    journal = Journal()

    def listed(version: int) -> tuple[()]:
        journal.lines.append(f"listed {version}")
        return ()

    await Follower(client, server, journal, on_listed=listed).until_script_ends()
    assert journal.lines == ["+a@3", "synced", "listed 12", "-a@3", "synced", "listed 20"]


async def test_selectors_and_namespace_apply_to_list_and_watch(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(page(version=1))
    options = {"namespace": "shop", "field_selector": "spec.nodeName!=", "label_selector": "app=web"}

    await Follower(client, server, **options).until_script_ends()
    assert len(server.asked) > 1  # a list, then watches
    for asked in server.asked:
        assert asked.path == "/api/v1/namespaces/shop/pods"
        assert asked.query["fieldSelector"] == "spec.nodeName!="
        assert asked.query["labelSelector"] == "app=web"


async def test_a_relist_delivers_only_the_difference_with_removals_last(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(
        page(pod("a", 1), pod("b", 2), pod("c", 3), version=5),
        watch(EXPIRED),
        page(pod("b", 2), pod("c", 8), pod("d", 9), version=10),
    )
    follower = Follower(client, server)

    lines = await follower.until_script_ends()
    assert lines[4:] == ["c@3>c@8", "+d@9", "-a@1", "synced"]
    assert set(follower.reflector.store) == {Key("shop", "b"), Key("shop", "c"), Key("shop", "d")}
    assert follower.reflector.relists == 2


async def test_an_object_recreated_between_two_lists_is_removed_and_added(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(
        page(pod("a", 1, uid="first"), version=5),
        watch(EXPIRED),
        page(pod("a", 8, uid="second"), version=10),
    )

    lines = await Follower(client, server).until_script_ends()
    assert lines[2:] == ["-a@1", "+a@8", "synced"]


async def test_a_continue_token_that_expires_restarts_the_list(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(
        page(pod("a", 1), version=5, more="next"),
        fails(410, "Expired"),
        page(pod("b", 6), version=7),
    )
    follower = Follower(client, server)

    assert await follower.until_script_ends() == ["+a@1", "+b@6", "-a@1", "synced"]
    assert "continue" not in server.asked[2].query
    assert follower.reflector.relists == 1


async def test_a_list_cut_in_the_middle_is_requested_again(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(cut_page(pod("a", 1), pod("b", 2), version=5), page(pod("a", 1), pod("b", 2), version=5))

    assert await Follower(client, server).until_script_ends() == ["+a@1", "+b@2", "synced"]


async def test_a_list_that_is_older_after_a_restored_backup_replaces_the_store(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(
        page(pod("a", 90), version=100),
        watch(EXPIRED),
        page(pod("a", 40), version=50),
        watch(event("MODIFIED", pod("a", 60))),
    )

    lines = await Follower(client, server).until_script_ends()
    assert lines[2:] == ["a@90>a@40", "synced", "a@40>a@60"]


@pytest.mark.parametrize(
    "body", ["<html>login</html>", '{"items": []}', '{"metadata": {"resourceVersion": "x"}}']
)
async def test_an_invalid_answer_to_a_list_is_requested_again(
    client: KubeClient, server: ScriptedServer, body: str
) -> None:
    server.replays(answers(body), page(pod("a", 1), version=5))

    assert await Follower(client, server).until_script_ends() == ["+a@1", "synced"]


async def test_a_long_list_lets_the_event_loop_run(client: KubeClient, server: ScriptedServer) -> None:
    class Pinger(Journal):
        def upsert(self, old: Thing | None, new: Thing) -> None:
            if not self.lines:
                asyncio.get_running_loop().call_soon(self.lines.append, "turn of the loop")
            super().upsert(old, new)

    server.replays(page(*(pod(f"p{number}", number + 1) for number in range(450)), version=500))
    sink = Pinger()

    await Follower(
        client, server, sink, settings=WatchSettings(yield_every=200, turn=60.0)
    ).until_script_ends()
    assert sink.lines.index("turn of the loop") == 200


async def test_the_next_page_is_requested_while_one_is_delivered(
    client: KubeClient, server: ScriptedServer
) -> None:
    class Slow(Journal):
        def __init__(self) -> None:
            super().__init__()
            self.asked_by_then: list[int] = []

        def upsert(self, old: Thing | None, new: Thing) -> None:
            self.asked_by_then.append(len(server.asked))
            super().upsert(old, new)

    things = [pod(f"p{number:03}", number + 1) for number in range(200)]
    server.replays(page(*things, version=500, more="next"), page(pod("z", 300), version=500))
    sink = Slow()

    await Follower(client, server, sink, settings=WatchSettings(yield_every=1)).until_script_ends()
    assert sink.asked_by_then[0] == 1
    assert sink.asked_by_then[199] == 2  # before the page was delivered in full


async def test_a_failure_of_the_next_page_restarts_the_list(
    client: KubeClient, server: ScriptedServer
) -> None:
    things = [pod(f"p{number:03}", number + 1) for number in range(3)]
    server.replays(page(*things, version=5, more="next"), fails(410, "Expired"), page(*things[:2], version=6))
    follower = Follower(client, server)

    lines = await follower.until_script_ends()
    assert lines == ["+p000@1", "+p001@2", "+p002@3", "-p002@3", "synced"]
