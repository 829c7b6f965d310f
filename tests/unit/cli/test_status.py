import pytest

from builders import NOW, Json, reservation_json
from tidelock.cli.status import screen
from tidelock.cli.tables import Table, lines_of, span
from tidelock.model.instants import format_instant
from unit.cli.clouds import LOCKS as CLOUD_LOCKS
from unit.cli.clouds import WIDTHS
from unit.cli.scenes import LOCKS, active_json, condition, consumed_json, lock
from unit.cli.screens import assert_screen

LEVELS: list[Json] = [
    {
        "metadata": {"name": "workers"},
        "status": {
            "cpu": {"mean": 40, "min": 12, "max": 61, "standardDeviation": 16, "target": 30},
            "memory": {"mean": 55, "min": 50, "max": 63, "standardDeviation": 5, "target": 50},
            "nodesMeasured": 3,
            "nodesStale": 1,
            "nodesMissing": 0,
            "tide": "night",
            "sampledAt": format_instant(NOW),
            "conditions": [
                condition("Ready", "True", "Measured"),
                condition("MetricsStale", "True", "NodesStale", "node-d has not been measured for 1h"),
            ],
        },
    },
    {"metadata": {"name": "new"}, "spec": {}},
]


def test_reservations_and_water_levels_are_shown() -> None:
    reservations = [lock(each) for each in (*LOCKS, active_json("second", cpu="1", ends=NOW + 90))]
    assert_screen("status", screen(reservations, LEVELS, NOW + 30, everywhere=False, wide=False))


def test_all_namespaces_and_whole_messages_can_be_shown() -> None:
    reservations = [lock(each) for each in (*LOCKS, active_json("batch", namespace="bank"))]
    assert_screen("status-wide", screen(reservations, [], NOW + 30, everywhere=True, wide=True))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_reservation_is_one_line_on_any_terminal(width: int) -> None:
    shown = screen([lock(each) for each in CLOUD_LOCKS], [], NOW + 30, everywhere=True, wide=False)
    assert_screen(f"status-{width}", shown, width)
    first = lines_of(*shown, width=width).split("\n\n")[0].splitlines()
    assert len(first) == 1 + len(CLOUD_LOCKS)


def test_reservations_that_wait_come_first_and_those_that_ended_last() -> None:
    table, *_ = screen([lock(each) for each in CLOUD_LOCKS], [], NOW, everywhere=False, wide=False)
    assert isinstance(table, Table)
    phases = [row[1] for row in table.rows]
    assert phases == ["Pending", "Active", "Active", "Planned", "Consumed"]


def test_an_empty_cluster_is_shown_as_a_sentence() -> None:
    assert screen([], [], NOW, everywhere=False, wide=False) == [
        "No reservations in this namespace; -A shows all."
    ]
    assert screen([], [], NOW, everywhere=True, wide=False) == ["No reservations."]


def moving_json(name: str, **plan: Json | str) -> Json:
    """Return a waiting reservation with a plan of migrations."""
    moves = [{"namespace": "shop", "name": f"web-{number}", "uid": "u", "to": "node-b"} for number in (1, 2)]
    told = {"token": "5b1f0a9c3d27", "nodeName": "node-a", "evictions": moves, **plan}
    return reservation_json(name, status={"phase": "Pending", "observedGeneration": 1, "plan": told})


def test_planned_migrations_are_shown_with_their_approval_token() -> None:
    begun = moving_json("begun", begunAt=format_instant(NOW))
    reservations = [lock(each) for each in (moving_json("asks"), begun, moving_json("odd", token="x" * 99))]
    _, _, table = screen(reservations, [], NOW, everywhere=False, wide=False)
    assert isinstance(table, Table)
    assert table.rows == [
        ["asks", "approve 5b1f0a9c3d27", "shop/web-1", "node-a", "node-b"],
        ["", "", "shop/web-2", "node-a", "node-b"],
        ["begun", "under way", "shop/web-1", "node-a", "node-b"],
        ["", "", "shop/web-2", "node-a", "node-b"],
    ]
    _, _, table = screen(reservations[:1], [], NOW, everywhere=True, wide=False)
    assert isinstance(table, Table)
    assert table.rows[0][:2] == ["shop", "asks"]


def test_an_unreadable_status_is_still_shown() -> None:
    odd = reservation_json("odd", status={"phase": "Active", "expiresAt": "soon", "resources": {"cpu": "x"}})
    shown = screen([lock(odd), lock(consumed_json())], [], NOW, everywhere=False, wide=False)
    assert len(shown) == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (303, "5m3s"),
        (7200, "2h"),
        (7261, "2h1m"),
        (3 * 86_400 + 4 * 3600, "3d4h"),
        (-30, "-30s"),
    ],
)
def test_a_duration_is_written_as_kubectl_does(seconds: float, text: str) -> None:
    assert span(seconds) == text
