"""The web view over a socket: its files, its stream of events, and its access control."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from builders import node
from devcluster.loopback import HOST
from tidelock.serving import serve
from tidelock.web import site
from tidelock.web.site import MOST_OF_CLIENT, MOST_STREAMS, pause_after
from unit.web.watched import Watched
from webview.stage import LEADING, STANDING_BY

PATIENCE = 60.0
TOKEN = {"Authorization": "Bearer first"}

News = dict[str, Any]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check for changes at once, not after a second."""
    monkeypatch.setattr(site, "_PAUSE", 0.01)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


@pytest.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE)) as session:
        yield session


async def event(response: aiohttp.ClientResponse) -> News:
    """Read the next event."""
    line, end = await response.content.readline(), await response.content.readline()
    assert (line[:6], end) == (b"data: ", b"\n")
    news: News = msgspec.json.decode(line[6:])
    return news


async def until_event(response: aiohttp.ClientResponse, what: str) -> News:
    """Read events until one contains this field."""
    async with asyncio.timeout(PATIENCE):
        while True:
            news = await event(response)
            if what in news:
                return news


FILES = ["", "page.css", "page.js", "screens.js", "parts.js"]


async def test_the_page_consists_of_a_few_files(browser: aiohttp.ClientSession) -> None:
    async with Watched().stage.served() as address:
        kinds = {}
        for name in FILES:
            async with browser.get(address + name) as response:
                assert response.status == 200
                assert len(await response.text()) > 1000
                kinds[name] = response.headers["Content-Type"]
    assert kinds == {
        "": "text/html; charset=utf-8",
        "page.css": "text/css; charset=utf-8",
        "page.js": "text/javascript; charset=utf-8",
        "screens.js": "text/javascript; charset=utf-8",
        "parts.js": "text/javascript; charset=utf-8",
    }


async def test_the_root_leads_to_the_page(browser: aiohttp.ClientSession) -> None:
    async with Watched().stage.served() as address:
        root = address.removesuffix("web/")
        for path in ("", "web"):
            async with browser.get(root + path, allow_redirects=False) as response:
                assert (response.status, response.headers["Location"]) == (302, "web/")
            async with browser.get(root + path) as response:
                assert (response.status, str(response.url)) == (200, address)


@pytest.mark.parametrize("path", [*FILES, "events", "none"])
async def test_headers_forbid_other_sources_and_frames(browser: aiohttp.ClientSession, path: str) -> None:
    async with Watched().stage.served() as address, browser.get(address + path) as response:
        policy = response.headers["Content-Security-Policy"].split("; ")
        assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
        assert not [part for part in policy if "unsafe" in part or "http" in part or "*" in part]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize("path", [*FILES, "events"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_write_methods_are_refused(browser: aiohttp.ClientSession, path: str, method: str) -> None:
    async with Watched().stage.served() as address, browser.request(method, address + path) as response:
        assert response.status == 405


async def test_the_web_view_is_not_served_by_default(browser: aiohttp.ClientSession) -> None:
    async with serve(HOST, 0, CollectorRegistry(), alive=bool, ready=bool) as port:
        for path in ("", "web", "web/", "web/events", "web/page.js"):
            async with browser.get(f"http://{HOST}:{port}/{path}") as response:
                assert response.status == 404


async def test_a_stream_sends_a_page_and_then_changes(browser: aiohttp.ClientSession) -> None:
    core = Watched(node("node-a"))
    async with core.stage.served() as address, browser.get(f"{address}events") as response:
        first, second = await event(response), await event(response)
        core.reservation(owner="nobody")
        core.stage.settle()
        core.clock.advance(5)
        third = await until_event(response, "page")

    assert response.headers["Content-Type"] == "text/event-stream"
    assert first["replica"] == {
        "state": "leading",
        "instance": "tidelock-7d9c5-x2x9p",
        "leader": "tidelock-7d9c5-x2x9p_1",
        "epoch": 3,
        "silence": 0,
    }
    assert [row["name"] for row in first["page"]["nodes"]] == ["node-a"]
    assert second == {"now": first["now"]}
    assert third["now"] == first["now"] + 5
    assert [row["name"] for row in third["page"]["reservations"]] == ["shop/lock"]
    assert [row["verdict"] for row in third["page"]["decisions"]] == ["Active"]


async def test_a_stream_follows_its_query(browser: aiohttp.ClientSession) -> None:
    core = Watched(node("node-a"), node("node-b"))
    query = "events?text=NODE-&sort=-name"
    async with core.stage.served() as address, browser.get(address + query) as response:
        first = await event(response)
    assert [row["name"] for row in first["page"]["nodes"]] == ["node-b", "node-a"]


async def test_a_stream_can_show_another_page(browser: aiohttp.ClientSession) -> None:
    core = Watched(node("node-a"))
    core.reservation(owner="nobody")
    core.stage.settle()
    pages = {}
    async with core.stage.served() as address:
        for query in (
            "view=node&name=node-a",
            "view=reservation&namespace=shop&name=lock",
            "view=groups",
            "view=schedules",
            "view=quotas",
        ):
            async with browser.get(f"{address}events?{query}") as response:
                page = (await event(response))["page"]
            pages[page["view"]] = page
    assert pages["node"]["node"]["name"] == "node-a"
    assert pages["reservation"]["reservation"]["phase"] == "Active"
    assert sorted(pages) == ["groups", "node", "quotas", "reservation", "schedules"]


async def test_an_invalid_query_is_refused(browser: aiohttp.ClientSession) -> None:
    async with Watched().stage.served() as address, browser.get(f"{address}events?nodes=few") as response:
        assert response.status == 400
        assert await response.text() == "nodes: Invalid value: 'few': expected a whole number, such as 0"


async def test_a_standby_shows_only_the_leader(browser: aiohttp.ClientSession) -> None:
    core = Watched(node("node-a"))
    core.stage.replica = STANDING_BY
    async with core.stage.served() as address, browser.get(f"{address}events") as response:
        first = await event(response)
        core.stage.replica = LEADING
        second = await until_event(response, "replica")

    assert (first["replica"]["state"], first["replica"]["leader"]) == ("standby", LEADING.leader)
    assert first["page"] is None
    assert second["page"]["nodes"][0]["name"] == "node-a"


async def test_events_need_the_token_and_files_do_not(browser: aiohttp.ClientSession, file: Path) -> None:
    statuses = {}
    async with Watched().stage.served(file) as address:
        for name, headers in {"none": {}, "wrong": {"Authorization": "Bearer x"}, "right": TOKEN}.items():
            async with browser.get(f"{address}events", headers=headers) as response:
                statuses[name] = response.status
        async with browser.get(address) as response:
            statuses["page"] = response.status
    assert statuses == {"none": 401, "wrong": 401, "right": 200, "page": 200}


@asynccontextmanager
async def client_at(address: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Connect from one of the addresses of the loopback."""
    connector = aiohttp.TCPConnector(local_addr=(address, 0))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE), connector=connector) as opened:
        yield opened


async def status(browser: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    """Request a stream, close it at once, and return the status and the text of a refusal."""
    async with browser.get(url) as response:
        return response.status, "" if response.status == 200 else await response.text()


async def test_one_client_cannot_use_all_streams() -> None:
    """One client could once use all streams, so all others were refused."""
    async with Watched().stage.served() as address, AsyncExitStack() as clients:
        url = f"{address}events"
        first, second, third = [
            await clients.enter_async_context(client_at(f"127.0.0.{number}")) for number in (1, 2, 3)
        ]
        streams = [await first.get(url) for _ in range(MOST_OF_CLIENT)]
        assert await status(first, url) == (
            503,
            f"{MOST_OF_CLIENT} browsers of 127.0.0.1 are already connected",
        )
        streams += [await second.get(url) for _ in range(MOST_STREAMS - MOST_OF_CLIENT)]
        assert await status(third, url) == (503, f"{MOST_STREAMS} browsers are already connected")
        streams.pop().close()
        async with asyncio.timeout(PATIENCE):
            while (await status(third, url))[0] != 200:  # noqa: ASYNC110 -- no event is set
                await asyncio.sleep(0.01)
        for stream in streams:
            stream.close()


async def test_streams_end_with_the_server(browser: aiohttp.ClientSession) -> None:
    @asynccontextmanager
    async def followed() -> AsyncIterator[aiohttp.ClientResponse]:
        async with Watched(node("node-a")).stage.served() as address:
            response = await browser.get(f"{address}events")
            await event(response)
            yield response

    async with asyncio.timeout(PATIENCE):
        async with followed() as response:
            pass
        await response.read()  # to a proper end, not a broken connection
    assert response.content.at_eof()


def test_all_browsers_together_use_at_most_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "_PAUSE", 1.0)
    assert [pause_after(spent, 1) for spent in (0.001, 0.1, 0.2)] == [1.0, 1.0, 2.0]
    assert [pause_after(spent, 10) for spent in (0.001, 0.1, 0.2)] == [1.0, 10.0, 20.0]
