"""The screen of top for a fixed or replaced cluster state, on a terminal of fixed size."""

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot

from builders import NOW, Json, level, node
from tidelock.cli.top_app import NamespaceView, Pane, Top
from tidelock.cli.top_tables import BAR_SIGNS, TopState
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.quantities import Resources, parse_resources
from tidelock.model.usage_annotations import NODE_LEVEL
from tidelock.model.water_level import WaterLevel
from unit.cli.scenes import active_json, consumed_json, lock, pending_json
from unit.cli.screens import assert_terminal, text_of

SIZE = (130, 26)

SHOP: tuple[tuple[Node, Resources], ...] = tuple(
    (
        node(
            name,
            cpu="16",
            memory="64Gi",
            cordoned=name == "worker-5",
            ready=name != "worker-4",
            annotations={NODE_LEVEL: level(*water, at=NOW - age)} if water else {},
        ),
        parse_resources({"cpu": cpu, "memory": memory}),
    )
    for name, cpu, memory, water, age in (
        ("worker-1", "9500m", "40Gi", (41, 63), 0),
        ("worker-2", "13", "31Gi", (72, 48), 0),
        ("worker-3", "4", "12Gi", (22, 20), 7200),
        ("worker-4", "15500m", "60Gi", (), 0),
        ("worker-5", "0", "0", (3, 5), 0),
        ("worker-6", "17", "20Gi", (95, 40), 0),
    )
)
LOCKS = (
    active_json("checkout-0", "worker-1", cpu="4", owner="checkout-0", ends=NOW + 95),
    active_json("checkout-1", "worker-2", cpu="2", owner="checkout-1", ends=NOW + 1725),
    active_json("nightly", "worker-5", cpu="12", owner="nightly", ends=NOW + 8000, namespace="batch"),
    pending_json("large"),
    consumed_json("paid"),
)


def world(
    nodes: Iterable[tuple[Node, Resources]] = SHOP,
    reservations: Iterable[Json] = LOCKS,
    levels: Iterable[WaterLevel] = (),
) -> TopState:
    nodes = list(nodes)
    return TopState(
        {each.meta.key: each for each, _ in nodes},
        {each.name: used for each, used in nodes},
        {each.key: each for each in map(lock, reservations)},
        {each.meta.key: each for each in levels},
    )


class Scene:
    """A source with a cluster state that a test can replace."""

    def __init__(self, world: TopState | None) -> None:
        self.world = world
        self.trouble = ""
        self.instant = NOW + 30
        self.news = True

    def changed(self) -> bool:
        news, self.news = self.news, False
        return news

    def now(self) -> float:
        return self.instant

    async def explain(self, reservation: Key, width: int) -> str:
        return f"why of {reservation} in {width} cells"


def screen(scene: Scene, *, everywhere: bool = True) -> Top:
    return Top(scene, NamespaceView("shop", everywhere))


def shown(app: App[None]) -> list[str]:
    return text_of(app.export_screenshot(simplify=True)).splitlines()


def names(app: App[None], beginning: str) -> list[str]:
    """Return the visible words with this beginning, from top to bottom."""
    return re.findall(rf"\b{beginning}[\w-]*", "\n".join(shown(app)))


async def settle(pilot: Pilot[None]) -> None:
    """Wait until all key presses have been drawn, and the footer with the keys, which appears late."""
    async with asyncio.timeout(60):
        while not pilot.app.query("FooterKey"):
            await pilot.pause()
    for _ in range(2):
        await pilot.pause()


async def until_shown(pilot: Pilot[None], *texts: str) -> None:
    async with asyncio.timeout(60):
        while not all(text in "\n".join(shown(pilot.app)) for text in texts):
            await pilot.pause()


async def test_nodes_and_reservations_are_shown() -> None:
    app = screen(Scene(world()))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert_terminal("top", app, picture=True)


async def test_keys_select_memory_sort_and_filter() -> None:
    app = screen(Scene(world()), everywhere=False)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("m", "s", "slash", *"r-", "enter", "tab", "s")
        await settle(pilot)
        assert_terminal("top-memory", app)


async def test_the_help_opens_and_closes() -> None:
    app = screen(Scene(world()))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("question_mark")
        await settle(pilot)
        assert_terminal("top-help", app)
        await pilot.press("question_mark")
        await settle(pilot)
        assert "worker-1" in "\n".join(shown(app))


async def test_a_lost_connection_is_reported_above_the_last_state() -> None:
    scene = Scene(world())
    app = screen(scene)
    async with app.run_test(size=SIZE) as pilot:
        scene.trouble = (
            "This is the cluster of 45s ago; trying again: no answer from the API server (connection "
            "refused): check that the cluster runs and can be reached, or choose another with --context."
        )
        app.look()
        await settle(pilot)
        assert_terminal("top-lost", app, picture=True)
        scene.trouble = ""
        app.look()
        await settle(pilot)
        assert "trying again" not in "\n".join(shown(app))


async def test_a_message_is_shown_until_the_cluster_has_been_read() -> None:
    scene = Scene(None)
    app = screen(scene)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert "reading the cluster" in shown(app)[0]
        scene.world, scene.news = world(), True
        app.look()
        await settle(pilot)
        assert len(names(app, "worker-1")) == 2  # As a node, and as the node of a reservation.


async def test_a_narrow_terminal_leaves_columns_out() -> None:
    app = screen(Scene(world()))
    async with app.run_test(size=(80, 26)) as pilot:
        await settle(pilot)
        assert_terminal("top-80", app)


async def test_enter_shows_the_details_of_a_reservation() -> None:
    app = screen(Scene(world()))
    async with app.run_test(size=(100, 40)) as pilot:
        await settle(pilot)
        await pilot.press("tab", "down", "enter")
        await until_shown(pilot, "why of shop/checkout-0")
        assert_terminal("top-reservation", app)
        await pilot.press("escape")
        await settle(pilot)
        assert len(names(app, "worker-1")) == 2


async def test_enter_shows_the_details_of_a_node() -> None:
    app = screen(Scene(world()))
    async with app.run_test(size=(100, 20)) as pilot:
        await settle(pilot)
        await pilot.press("enter")
        await until_shown(pilot, "Node worker-1", "shop/checkout-0", "Back to the tables")
        assert_terminal("top-node", app)


async def test_an_ended_reservation_is_not_explained() -> None:
    app = screen(Scene(world()))
    async with app.run_test(size=(100, 40)) as pilot:
        await settle(pilot)
        await pilot.press("tab", "end", "enter")
        await until_shown(pilot, "Reservation shop/paid", "Back to the tables")
        assert "why of" not in "\n".join(shown(app))


async def test_the_selection_stays_with_its_object() -> None:
    scene = Scene(world())
    app = screen(scene)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await pilot.press("down", "down")
        scene.world, scene.news = world(SHOP[1:]), True
        app.look()
        await pilot.press("enter")
        await until_shown(pilot, "Node worker-3")


async def test_the_selected_row_is_reversed_except_for_its_bar() -> None:
    """A reversed bar showed its used part as empty."""
    app = screen(Scene(world()))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        drawn = [
            (BAR_SIGNS.issuperset(segment.text), bool(segment.style and segment.style.reverse))
            for segment in app.query(Pane).first().render_line(1)
        ]
    assert set(drawn) == {(True, False), (False, True)}


async def test_enter_in_an_empty_table_shows_nothing() -> None:
    app = screen(Scene(world(reservations=())))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await pilot.press("tab", "down", "enter")
        await settle(pilot)
        assert names(app, "worker-1")


async def test_only_the_visible_of_thousands_of_nodes_are_drawn() -> None:
    many: list[tuple[Node, Resources]] = [(node(f"n{place:04}"), {}) for place in range(3000)]
    app = screen(Scene(world(many, ())))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert names(app, "n0")[0] == "n0000"
        await pilot.press("end")
        await settle(pilot)
        assert "n2999" in names(app, "n2")
        assert not names(app, "n0")


async def test_the_time_left_counts_down_and_changes_are_shown() -> None:
    scene = Scene(world())
    app = screen(scene)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert any("checkout-0" in line and "65s" in line for line in shown(app))
        scene.instant += 40
        app.look()
        await settle(pilot)
        assert any("checkout-0" in line and "25s" in line for line in shown(app))

        scene.world, scene.news = world(SHOP[:2], LOCKS[1:]), True
        app.look()
        await settle(pilot)
        assert not names(app, "checkout-0")
        assert not names(app, "worker-3")


@pytest.mark.parametrize(
    ("presses", "expected"),
    [
        (0, [1, 2, 3, 4, 5, 6]),  # by name
        (1, [6, 4, 2, 1, 3, 5]),  # least free first
    ],
)
async def test_keys_change_the_sorting_of_nodes(presses: int, expected: list[int]) -> None:
    app = screen(Scene(world(reservations=())))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*["s"] * presses)
        await settle(pilot)
        assert names(app, "worker-")[:6] == [f"worker-{number}" for number in expected]


async def test_reservations_of_one_or_all_namespaces_are_shown() -> None:
    app = screen(Scene(world()), everywhere=False)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert not names(app, "nightly")
        await pilot.press("a")
        await settle(pilot)
        assert names(app, "nightly")


async def test_escape_removes_a_filter() -> None:
    app = screen(Scene(world()))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("slash", *"-3")
        await settle(pilot)
        assert "worker-1" not in "\n".join(shown(app)).split("Reservations")[0]
        await pilot.press("escape")
        await settle(pilot)
        assert "worker-1" in "\n".join(shown(app)).split("Reservations")[0]


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quit_keys_end_the_screen(key: str) -> None:
    app = screen(Scene(world()))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(key)
    assert app.return_code == 0


async def test_no_color_disables_all_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    scene = Scene(world())
    scene.trouble = "lost"
    app = screen(scene)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        colours = {
            colour
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            if segment.style is not None
            for colour in (segment.style.color, segment.style.bgcolor)
        }
    assert all(colour is None or colour.is_default for colour in colours), colours


def test_pictures_refer_to_no_external_resources() -> None:
    pictures = list((Path(__file__).parents[3] / "docs" / "images").glob("*.svg"))
    assert pictures
    for picture in pictures:
        text = picture.read_text(encoding="utf-8")
        assert set(re.findall(r"\w+://[^\"'\s)]+", text)) == {"http://www.w3.org/2000/svg"}, picture
