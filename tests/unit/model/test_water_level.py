from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from builders import encode, water_level
from tidelock.model.api.water_level import Target, WaterLevelSpec
from tidelock.model.selectors import NodeSelectorTerm, Requirement
from tidelock.model.water_level import decode_water_level, level_in_force, weight_of


def test_a_water_level_applies_to_all_nodes_unless_it_selects_some() -> None:
    assert water_level().nodes is None
    assert water_level(nodeSelector={}).nodes is None
    assert water_level(nodeSelector={"matchLabels": {}, "matchExpressions": []}).nodes is None
    selector = {
        "matchLabels": {"pool": "a"},
        "matchExpressions": [
            {"key": "zone", "operator": "NotIn", "values": ["b"]},
            {"key": "x", "operator": "Exists"},
        ],
    }
    assert water_level(nodeSelector=selector).nodes == NodeSelectorTerm(
        (Requirement("pool", "In", ("a",)), Requirement("zone", "NotIn", ("b",)), Requirement("x", "Exists"))
    )


def test_an_unreadable_spec_is_a_problem_and_no_error() -> None:
    broken = decode_water_level(encode({"metadata": {"name": "all"}, "spec": {"source": {}, "windows": 1}}))
    assert broken.spec is None
    assert broken.nodes is None
    assert broken.problem.startswith("spec.windows: ")


@pytest.mark.parametrize(
    ("status", "part"),
    [
        ({"unexplainedPercent": 40}, 0.4),
        ({"unexplainedPercent": 400}, 1),
        ({"unexplainedPercent": "40"}, 1),
        ({}, 1),
        (None, 1),
        ([], 1),
    ],
)
def test_the_learned_part_is_read_from_the_status(status: object, part: float) -> None:
    raw = {"metadata": {"name": "all"}, "spec": {"source": {"metricsServer": {}}}, "status": status}
    level = decode_water_level(encode(raw))
    assert level.spec is not None
    assert level.unexplained == part


@pytest.mark.parametrize(("learn", "weight"), [(True, 0.2), (False, 0.5)])
def test_a_learned_part_multiplies_the_weight_if_that_is_wanted(learn: bool, weight: float) -> None:
    assert weight_of(spec(weightPercent=50, learnWeight=learn), 0.4) == weight


# Tides.

NIGHT: dict[str, Any] = {
    "name": "night",
    "start": "0 22 * * *",
    "end": "0 6 * * *",
    "timeZone": "Europe/Berlin",
    "target": {"mode": "Static", "percent": 70},
}
NOON = {"name": "noon", "start": "0 12 * * *", "end": "0 13 * * *", "weightPercent": 50}


def berlin(hour: int) -> float:
    return datetime(2027, 6, 1, hour, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()


def spec(**fields: Any) -> WaterLevelSpec:
    found = water_level(**fields)
    assert found.spec is not None, found.problem
    return found.spec


def test_a_tide_replaces_the_settings_that_it_names_while_it_is_in_force() -> None:
    tidal = spec(tides=[NIGHT, NOON], overloadLimits={"cpuPercent": 80}, weightPercent=90)

    day = level_in_force(tidal, berlin(9))
    assert (day.spec, day.tide, day.until) == (tidal, "", berlin(14))  # noon is by UTC

    noon = level_in_force(tidal, berlin(14))
    assert (noon.tide, noon.spec.weight_percent, noon.spec.target) == ("noon", 50, tidal.target)

    night = level_in_force(tidal, berlin(22))
    assert night.tide == "night"
    assert night.spec.target == Target(mode="Static", percent=70)
    assert night.spec.overload_limits == tidal.overload_limits
    assert night.spec.weight_percent == 90


def test_settings_hold_until_the_next_change() -> None:
    day = level_in_force(spec(tides=[NIGHT]), berlin(9))
    assert day.holds(berlin(9))
    assert day.holds(berlin(22) - 1)
    assert not day.holds(berlin(22))
    assert not day.holds(berlin(8))  # the clock was set back
    assert level_in_force(spec(), berlin(9)).holds(1e15)


OVERLAP = (
    "spec.tides: 'noon' (tides[1].start) begins before the end of 'night' (tides[0].end), such as at"
    " 2028-03-26T20:30:00Z"  # when 20:30 UTC is 22:30 in Berlin
)


@pytest.mark.parametrize(
    ("tides", "problem"),
    [
        (
            [NIGHT, {**NOON, "start": "30 20 * * *", "end": "0 21 * * *"}],
            OVERLAP,
        ),
        (
            [NIGHT, {**NOON, "name": "night"}],
            "spec.tides: 'night' (tides[1].name) is the name of another tide",
        ),
        ([NIGHT, {**NOON, "end": "0 25 * * *"}], "spec.tides[1].end: '0 25 * * *': its hour can't be read"),
        ([{**NIGHT, "timeZone": "Berlin"}], "spec.tides[0].timeZone: 'Berlin' should be a time zone"),
        ([{**NIGHT, "target": {"mode": "Up"}}], "spec.tides[0].target.mode: "),
        (
            [{**NOON, "start": "* * * * *", "end": "*/5 * * * *"}],
            "spec.tides: a tide should begin at most 1000 times a year",
        ),
        ([], "spec.tides: "),
    ],
)
def test_a_problem_of_tides_names_their_fields(tides: list[Any], problem: str) -> None:
    assert water_level(tides=tides).problem.startswith(problem)
