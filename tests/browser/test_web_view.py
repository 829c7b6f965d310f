"""The web view as a user sees it, in a real browser."""

import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from devcluster.loopback import free_ports
from tidelock.web.rows import ROWS
from webview.scene import Scene, large, ordinary
from webview.stage import STANDING_BY

pytestmark = pytest.mark.asyncio(loop_scope="module")
TIME = r"as of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


async def names(page: Page, table: str) -> list[str]:
    """Return the headers of the rows of a table."""
    return await page.locator(f"#{table} tbody th").all_inner_texts()


async def test_the_view_shows_the_cluster_and_follows_its_changes(page: Page) -> None:
    scene = ordinary()
    async with scene.stage.served() as address:
        await page.goto(address)
        await expect(page.get_by_role("status")).to_have_text(
            "Live: tidelock-7d9c5-x2x9p leads, leadership 3"
        )
        node = page.locator("#nodes tbody tr", has_text="gpu-3")
        await expect(node).to_contain_text("24 + 16 of 64")
        await expect(node).to_contain_text("24 free")
        reservation = page.locator("#reservations tbody tr:not(.below)", has_text="shop/train-6")
        await expect(reservation).to_contain_text("Pending")
        await expect(reservation).to_contain_text("rejected in")
        await expect(
            page.locator("#reservations tr.below", has_text="Insufficient nvidia.com/gpu")
        ).to_have_count(1)
        decision = page.locator("#decisions tbody tr:not(.below)", has_text="shop/huge-0")
        await expect(decision).to_contain_text("Unschedulable")

        scene.reservation("late-0", {"cpu": "1"}, nodeName="gpu-3")
        scene.stage.settle()

        await expect(node).to_contain_text("24 + 17 of 64")
        await expect(page.locator("#reservations tbody tr", has_text="shop/late-0")).to_contain_text("Active")


async def test_the_lengths_of_bars_show_the_shares(page: Page) -> None:
    scene = Scene()
    scene.node("node-a", {"cpu": "8", "memory": "8Gi", "pods": "9"}, scene.level(75, 10))
    scene.pod("web-0", {"cpu": "2"}, "node-a")
    scene.reservation("web-1", {"cpu": "4"})
    scene.stage.settle()
    async with scene.stage.served() as address:
        await page.goto(address)
        bar = page.locator("#nodes tbody tr td .bar").first
        await expect(bar).to_be_visible()
        shares = await bar.evaluate(
            """bar => {
                const whole = bar.getBoundingClientRect();
                return Object.fromEntries([...bar.children].map(part => {
                    const { left, width } = part.getBoundingClientRect();
                    return [part.className, [(left - whole.left) / whole.width, width / whole.width]];
                }));
            }"""
        )
    assert shares["requested"] == pytest.approx([0, 0.25], abs=0.01)
    assert shares["reserved"] == pytest.approx([0.25, 0.5], abs=0.01)
    assert shares["water"][0] == pytest.approx(0.75, abs=0.02)


async def test_filtering_and_sorting_work_by_keyboard_alone(page: Page) -> None:
    async with ordinary().stage.served() as address:
        await page.goto(address)
        await page.get_by_role("searchbox", name="Show only").focus()
        await page.keyboard.type("gpu-")
        await expect(page.locator("#nodes tbody tr")).to_have_count(4)
        head = page.get_by_role("columnheader", name="nvidia.com/gpu")
        await expect(head).to_have_attribute("aria-sort", "none")
        await head.get_by_role("button").focus()
        await page.keyboard.press("Enter")
        await expect(head).to_have_attribute("aria-sort", "descending")
        await expect(page.locator("#nodes tbody th").first).to_have_text("gpu-3")
        await expect(head.get_by_role("button")).to_be_focused()
        await page.keyboard.press("Space")
        await expect(head).to_have_attribute("aria-sort", "ascending")
        await expect(page.locator("#nodes tbody th").first).to_have_text("gpu-1")


async def test_messages_are_shown_as_text_and_never_as_markup(page: Page) -> None:
    scene = Scene()
    scene.pod("web-0", {"cpu": "1"})
    scene.stage.settle()
    evil = "<img src=x onerror=alert(1)>"
    (decision,) = scene.stage.recent
    scene.stage.recent._note(decision._replace(why=evil))
    async with scene.stage.served() as address:
        await page.goto(address)
        await expect(page.locator("#decisions tr.below")).to_contain_text(evil)
        assert await page.locator("img").count() == 0


async def test_the_view_asks_for_the_token_until_it_is_accepted_and_keeps_it_for_the_tab(
    page: Page, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("right")
    async with ordinary().stage.served(file) as address:
        await page.goto(address)
        field = page.get_by_role("textbox", name="Token")
        for token in ("wrong", "right"):
            await expect(field).to_be_focused()
            await page.keyboard.type(token)
            await page.keyboard.press("Enter")
            if token == "wrong":  # noqa: S105 -- no secret
                await expect(page.get_by_text("This token is not accepted.")).to_be_visible()
        await expect(page.locator("#nodes tbody tr").first).to_be_visible()
        await page.reload()
        await expect(page.locator("#nodes tbody tr").first).to_be_visible()
        await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_a_lost_connection_is_reported_and_restored(page: Page) -> None:
    scene = ordinary()
    (port,) = free_ports(1)
    async with AsyncExitStack() as first:
        address = await first.enter_async_context(scene.stage.served(port=port))
        await page.goto(address)
        await expect(page.get_by_role("status")).to_contain_text("Live")
    await expect(page.get_by_role("status")).to_have_text("Connection lost, trying again")
    await expect(page.locator("#age")).to_have_text(re.compile(rf"{TIME}, \d+s old"))
    assert await page.locator("#nodes tbody tr").count() == 12
    async with scene.stage.served(port=port):
        await expect(page.get_by_role("status")).to_contain_text("Live")
        await expect(page.locator("#age")).to_have_text(re.compile(rf"{TIME}$"))


async def test_a_pause_freezes_the_shown_state(page: Page) -> None:
    scene = ordinary()
    async with scene.stage.served() as address:
        await page.goto(address)
        await expect(page.locator("#nodes tbody tr")).to_have_count(12)
        button = page.get_by_role("button", name="Pause")
        await button.click()
        await expect(page.get_by_role("status")).to_contain_text("Paused")
        scene.node("new", {"cpu": "1"})
        await expect(page.locator("#age")).to_contain_text("s old")  # a newer state has arrived meanwhile
        assert "new" not in await names(page, "nodes")
        await button.click()
        await expect(page.locator("#nodes tbody tr")).to_have_count(13)


async def test_a_standby_replica_names_the_leader(page: Page) -> None:
    scene = ordinary()
    scene.stage.replica = STANDING_BY
    async with scene.stage.served() as address:
        await page.goto(address)
        await expect(page.get_by_role("status")).to_have_text(
            "Live: tidelock-7d9c5-k4zqm stands by, tidelock-7d9c5-x2x9p leads"
        )
        await expect(page.get_by_text("Open the page of tidelock-7d9c5-x2x9p.")).to_be_visible()
        await expect(page.locator("#main")).to_be_hidden()


async def test_thousands_of_nodes_are_shown_in_pages(page: Page) -> None:
    async with large(5000).stage.served() as address:
        await page.goto(address)
        pages = page.get_by_role("navigation", name="Pages of nodes")
        await expect(pages).to_contain_text("1 to 50 of 5,000")
        await expect(pages.get_by_role("button", name="Previous")).to_be_disabled()
        await pages.get_by_role("button", name="Next").click()
        await expect(pages).to_contain_text("51 to 100 of 5,000")
        await expect(page.locator("#nodes tbody tr")).to_have_count(ROWS)
        assert (await names(page, "nodes"))[0] == "node-00050"
        await page.get_by_role("searchbox").fill("4999")
        await expect(pages).to_contain_text("1 to 1 of 1 that match, of 5,000")


async def test_the_view_follows_the_color_scheme_of_the_browser(page: Page) -> None:
    brightness = {}
    async with ordinary().stage.served() as address:
        await page.goto(address)
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            brightness[scheme] = sum(map(int, re.findall(r"\d+", colour)))
    assert brightness["light"] > 600
    assert brightness["dark"] < 150
