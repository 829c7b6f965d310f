"""Each screen of the web view: on small and large screens, light and dark, by keyboard, with axe-core."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from webview import axe
from webview.scene import Scene
from webview.variety import AKS, EKS, EVIL, GKE, varied

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCREENS = {
    "overview": ("#/", "1 to 3 of 3"),
    "filtered": ("#/?namespace=shop&text=train", "1 to 2 of 2 that match"),
    "node": (f"#/nodes/{EKS}", "Reservations over time"),
    "reservation": ("#/reservations/shop/lapsed", "not renewed since"),
    "missing": ("#/reservations/shop/gone", "There is no such reservation now."),
    "groups": ("#/groups", "shop/large"),
    "schedules": ("#/schedules", "shop/nightly"),
    "quotas": ("#/quotas", "guests/strict"),
}
"""The address of each screen, and a text by which it is known."""
WIDTHS = (400, 700, 1400)

# Words over two lines that have no place to break, and the pixels by which the page is too wide.
_BROKEN = """() => {
    const broken = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode;
        if (!text.parentElement.checkVisibility() || text.parentElement.closest('.skip, noscript')) continue;
        for (const word of text.data.matchAll(/[^\\s./,:;?&=-]+/g)) {
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            const lines = new Set([...range.getClientRects()].map(each => Math.round(each.top)));
            if (lines.size > 1) broken.push(word[0]);
        }
    }
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    return wide > 0 ? [...broken, `the page is ${wide} px too wide`] : broken;
}"""


@pytest.fixture(scope="module")
def scene() -> Scene:
    return varied()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(scene: Scene) -> AsyncIterator[str]:
    async with scene.stage.served() as served:
        yield served


async def visit(page: Page, address: str, screen: str) -> None:
    """Open a screen as a new document, and wait for its content."""
    path, _ = SCREENS.get(screen, (screen, ""))
    await page.goto("about:blank")
    await page.goto(address + path)
    await expect(page.locator("#main")).to_be_visible()


async def move(page: Page, screen: str) -> None:
    """Open a screen in the same document, and wait for its content."""
    path, text = SCREENS[screen]
    await page.evaluate("hash => { location.hash = hash; }", path)
    await expect(page.locator("#main").get_by_text(text).locator("visible=true").first).to_be_visible()


async def barriers(page: Page, rules: str) -> list[tuple[str, Any]]:
    """Return the rules of axe-core that the page breaks, with the elements. `rules` are its options."""
    result = await page.evaluate(f"axe.run(document, {rules})")
    assert result["passes"]
    return [(each["id"], [node["target"] for node in each["nodes"]]) for each in result["violations"]]


# Colours, names and roles are the same at each width.
@pytest.mark.parametrize(
    "width", [each if each == 700 else pytest.param(each, marks=pytest.mark.nightly) for each in WIDTHS]
)
async def test_axe_finds_no_barrier_in_light_and_dark_colours(page: Page, address: str, width: int) -> None:
    if not axe.script().exists():
        pytest.skip("axe-core is not there: make axe fetches it, and says why if it can't")
    await page.set_viewport_size({"width": width, "height": 900})
    await page.goto(address)
    await page.evaluate(axe.script().read_text())
    found = {}
    for screen in SCREENS:
        await move(page, screen)
        await page.emulate_media(color_scheme="light")
        found[screen, "light"] = await barriers(page, "{}")
        await page.emulate_media(color_scheme="dark")
        found[screen, "dark"] = await barriers(page, "{runOnly: ['color-contrast']}")
    assert {where: what for where, what in found.items() if what} == {}
    assert len(found) == 2 * len(SCREENS)


@pytest.mark.parametrize("width", WIDTHS)
async def test_everything_fits_and_no_word_is_broken(page: Page, address: str, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 900})
    await page.goto(address)
    for screen in SCREENS:
        await move(page, screen)
        assert await page.evaluate(_BROKEN) == [], screen


async def test_the_state_and_the_nearest_end_of_each_reservation_are_shown(page: Page, address: str) -> None:
    await visit(page, address, "overview")
    for name, state, event, reason in (
        ("lapsed", "Active LeaseLapsed", "lease lost in 9m", "NotRenewed: not renewed since"),
        ("uncommitted", "Active AwaitingCommit", "commit due in 1", "AwaitingCommit: to be committed"),
        ("growing", "Active ResizePending", "ends in 5", "ResizePending: 0/3 nodes"),
        ("lent", "Active Lent", "ends in 5", ""),
        ("violated", "Active Violated", "ends in 5", "CapacityTaken: pod shop/intruder took"),
        ("cordoned", "Active NodeCordoned", "ends in 5", "NodeCordoned: node"),
        ("planned", "Planned", "begins in 1h5", "Planned: cpu 1, memory 2Gi held"),
        ("renewed", "Active", "lease lapses in ", ""),
        ("waiting", "Pending", "rejected in ", "InsufficientCapacity: "),
        ("expired", "Expired", "ended just now", "Expired: spec.ttlSeconds has passed"),
    ):
        link = page.get_by_role("link", name=f"shop/{name}", exact=True).first
        row = page.locator("#reservations tbody tr", has=link)
        await expect(row.locator("td").nth(0)).to_have_text(state.replace(" ", ""))
        await expect(row.locator("td").nth(1)).to_contain_text(event)
        if reason:
            below = row.locator("xpath=following-sibling::tr[1]")
            await expect(below).to_have_class("below")
            await expect(below).to_contain_text(reason)


async def test_the_page_of_a_node_shows_its_reservations_over_time(
    page: Page, address: str, scene: Scene
) -> None:
    await visit(page, address, "node")
    await expect(page.get_by_role("heading", name=EKS)).to_be_visible()
    row = page.locator("#timeline tbody tr", has_text="shop/planned")
    bar = row.locator(".span")
    left, width = await bar.evaluate(
        """bar => {
            const whole = bar.getBoundingClientRect();
            const part = bar.querySelector('.ahead').getBoundingClientRect();
            return [(part.left - whole.left) / whole.width, part.width / whole.width];
        }"""
    )
    hours = int(await page.get_by_label("Time shown").input_value())
    assert hours == 6  # it ends in less than three hours, and more than one
    assert left == pytest.approx(0.5 + (7200 - 60) / (2 * hours * 3600), abs=0.01)
    assert width == pytest.approx(3600 / (2 * hours * 3600), abs=0.01)
    await expect(row).to_contain_text("2026-11-30 02:53:20 UTC")

    scene.reservation("new", {"cpu": "1"}, nodeName=EKS)
    scene.stage.settle()
    await expect(page.locator("#timeline tbody tr", has_text="shop/new")).to_contain_text("Active")


async def test_the_page_of_a_reservation_shows_life_conditions_and_decisions(
    page: Page, address: str
) -> None:
    await visit(page, address, "reservation")
    await expect(page.locator("#reservation-state")).to_contain_text("lease lost in")
    await expect(page.locator("#reservation-why")).to_contain_text("NotRenewed: not renewed since")
    life = page.locator("#life tbody tr")
    await expect(life.filter(has_text="lease lapsed")).to_contain_text("2026-11-30 00:53:50 UTC")
    await expect(page.locator("#conditions tbody tr", has_text="LeaseLapsed").first).to_contain_text("True")
    await expect(page.locator("#decisions tbody tr").first).to_contain_text("shop/lapsed")
    await expect(page.locator("#search")).to_be_hidden()
    assert await page.title() == "shop/lapsed - Tidelock"


async def test_links_lead_to_objects_and_back(page: Page, address: str) -> None:
    await visit(page, address, "groups")
    await expect(page.locator("#groups tbody")).to_contain_text("2 of 2 held")
    await page.get_by_role("link", name="shop/train", exact=True).click()
    await expect(page.locator("#reservations tbody th")).to_have_text(
        ["shop/train-worker-0", "shop/train-worker-1"]
    )
    await expect(page.get_by_role("searchbox", name="Show only")).to_have_value("train")
    await page.locator("#reservations").get_by_role("link", name="shop/train-worker-1").click()
    await expect(page.locator("#reservation-title")).to_be_focused()
    await page.locator("#facts").get_by_role("link", name=EKS).click()
    await expect(page.locator("#node-title")).to_have_text(EKS)
    await page.go_back()
    await page.locator("#facts").get_by_role("link", name="train", exact=True).click()
    await expect(page.locator("#groups tbody th")).to_have_text(["shop/train"])


async def test_a_deep_link_keeps_filter_namespace_and_order(page: Page, address: str) -> None:
    await visit(page, address, "#/?namespace=shop&text=lapsed&sort=-cpu")
    await expect(page.get_by_label("Namespace")).to_have_value("shop")
    await expect(page.get_by_role("searchbox")).to_have_value("lapsed")
    await expect(page.locator("#reservations tbody th")).to_have_text(["shop/lapsed"])
    head = page.get_by_role("columnheader", name="cpu")
    await expect(head).to_have_attribute("aria-sort", "ascending")


async def test_schedules_and_quotas_are_shown(page: Page, address: str) -> None:
    await visit(page, address, "schedules")
    schedule = page.locator("#schedules tbody tr", has_text="shop/nightly").first
    await expect(schedule).to_contain_text("30 * * * * Europe/Berlin, 10m each")
    await expect(schedule).to_contain_text("begins in 2")
    await expect(schedule.get_by_role("link", name="nightly-29933364")).to_be_visible()
    await page.get_by_role("link", name="Quotas").click()
    await expect(page.locator("#quotas tbody tr", has_text="shop/team")).to_contain_text("of 80")
    await page.get_by_label("Namespace").select_option("guests")
    await expect(page.locator("#quotas tbody th")).to_have_text(["guests/broken", "guests/strict"])


async def test_all_is_reached_by_keyboard_alone(page: Page, address: str) -> None:
    await visit(page, address, "overview")
    await page.keyboard.press("Tab")
    skip = page.get_by_role("button", name="Skip to the content")
    await expect(skip).to_be_focused()
    await expect(skip).to_be_in_viewport()
    await page.keyboard.press("Enter")
    await expect(page.locator("#cluster-title")).to_be_focused()
    await reach(page, AKS)
    await page.keyboard.press("Enter")
    await expect(page.locator("#node-title")).to_be_focused()
    await reach(page, "shop/cordoned")
    await page.keyboard.press("Enter")
    await expect(page.locator("#reservation-title")).to_be_focused()
    await page.keyboard.press("Alt+ArrowLeft")
    await expect(page.locator("#node-title")).to_have_text(AKS)
    await page.get_by_role("link", name="Overview").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#cluster-title")).to_be_focused()
    await page.get_by_label("Namespace").focus()
    await page.keyboard.press("s")
    await expect(page.get_by_label("Namespace")).to_have_value("shop")


async def reach(page: Page, name: str) -> None:
    """Press Tab until the link of that name has the focus."""
    for _ in range(100):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.textContent") == name:
            return
    pytest.fail(f"{name} is not reached")


async def test_hostile_names_are_shown_as_text(page: Page, address: str) -> None:
    await visit(page, address, "#/reservations/shop/invalid")
    await expect(page.locator("#reservation-why")).to_contain_text(EVIL)
    await visit(page, address, "quotas")
    await expect(page.locator("#quotas tbody")).to_contain_text(EVIL)
    await visit(page, address, "#/nodes/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    await expect(page.locator("#node-title")).to_have_text(EVIL)
    await expect(page.get_by_text("There is no such node now.")).to_be_visible()
    await visit(page, address, "#/nodes/%E0%A4%A")  # no valid text
    await expect(page.locator("#node-title")).to_have_text("%E0%A4%A")
    assert await page.locator("img").count() == 0


async def test_a_paused_page_still_opens_others(page: Page, address: str) -> None:
    await visit(page, address, "overview")
    await page.get_by_role("button", name="Pause").click()
    await page.get_by_role("link", name="Groups").click()
    await expect(page.locator("#groups tbody")).to_contain_text("shop/train")
    await expect(page.get_by_role("status")).to_contain_text("Paused")


async def test_the_root_leads_to_the_page(page: Page, address: str) -> None:
    await page.goto(address.removesuffix("web/"))
    await expect(page.locator("#nodes tbody")).to_contain_text(GKE)
    assert page.url.startswith(address)
