from typing import Any

import pytest

from tidelock.load.source import FailureReason, SourceError
from tidelock.load.status import GroupSummary, LevelSurvey, aspects, render_level
from tidelock.model.api.water_level import WaterLevelSpec, WaterLevelStatus
from tidelock.model.conditions import dated
from tidelock.model.usage_annotations import NodeLevel, Quality, Stat

NOW = 1_800_000_000.0
FAILURE = SourceError(FailureReason.UNREACHABLE, "no route to host")


def spec(**fields: Any) -> WaterLevelSpec:
    return WaterLevelSpec.model_validate({"source": {"metricsServer": {}}, "stalenessSeconds": 180, **fields})


def level(cpu: float, at: float = NOW, window: str = "15m") -> NodeLevel:
    return NodeLevel(at, {window: {"cpu": Stat(cpu, cpu, cpu)}})  # type: ignore[dict-item]


def survey(*levels: NodeLevel | None, invalid: tuple[str, ...] = (), **fields: Any) -> LevelSurvey:
    summary = GroupSummary(spec(**fields), invalid, NOW)
    for number, each in enumerate(levels):
        summary.add(f"node-{number}", each)
    return summary.survey()


def conditions(
    found: LevelSurvey, failure: SourceError | None = None, *problems: str
) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in aspects(found, failure, problems)}


def test_the_level_of_a_group_covers_only_its_fresh_nodes() -> None:
    found = survey(level(20), level(40), level(60), level(0, NOW - 181), level(0, NOW + 181), None)

    assert list(found.qualities.values()) == [
        *[Quality.FRESH] * 3,
        Quality.STALE,
        Quality.INVALID,
        Quality.MISSING,
    ]
    spread = found.spreads["cpu"]
    assert (spread.mean, spread.min, spread.max) == (40, 20, 60)
    assert spread.target == (40 + 20) / 2
    assert spread.standard_deviation == pytest.approx(16.33, abs=0.01)
    assert "memory" not in found.spreads


@pytest.mark.parametrize(("weight", "expected"), [(0, 35.0), (0.2, 29.167), (1, 17.5), (2, 11.667)])
def test_a_dynamic_target_is_computed_from_the_mean_and_the_lowest_node(
    weight: float, expected: float
) -> None:
    levels = [level(percent) for percent in (0, 4, 24, 49, 98)]
    found = survey(*levels, target={"mode": "Dynamic", "minWeight": weight})

    assert found.spreads["cpu"].target == pytest.approx(expected, abs=0.001)


def test_a_static_target_is_not_changed() -> None:
    assert survey(level(20), target={"mode": "Static", "percent": 0}).spreads["cpu"].target == 0


def test_the_shortest_window_counts() -> None:
    windows = [{"duration": "1d", "weight": 1}, {"duration": "1h", "weight": 1}]
    found = survey(level(20, window="1h"), level(60, window="15m"), windows=windows)

    assert found.spreads["cpu"].mean == 20


def test_a_refused_value_makes_a_node_invalid_unless_it_is_still_fresh() -> None:
    found = survey(level(20), level(20, NOW - 200), None, invalid=("node-0", "node-1", "node-2"))

    assert list(found.qualities.values()) == [Quality.FRESH, Quality.INVALID, Quality.INVALID]


def test_conditions_show_how_a_group_is_measured() -> None:
    stale = level(20, NOW - 200)
    assert conditions(survey(level(20), level(30))) == {
        "Ready": ("True", "Measured"),
        "MetricsStale": ("False", "Fresh"),
    }
    assert conditions(survey(level(20), stale)) == {
        "Ready": ("True", "Measured"),
        "MetricsStale": ("False", "PartlyFresh"),
    }
    assert conditions(survey(stale, None)) == {
        "Ready": ("False", "NotMeasured"),
        "MetricsStale": ("True", "NothingFresh"),
    }
    assert conditions(survey(stale), FAILURE) == {
        "Ready": ("False", "SourceUnreachable"),
        "MetricsStale": ("True", "NothingFresh"),
    }
    assert conditions(survey()) == {"Ready": ("False", "NoNodes"), "MetricsStale": ("False", "Fresh")}


def test_a_message_has_the_numbers_and_the_problems() -> None:
    found = survey(level(20, NOW - 200), None, invalid=("node-1",))
    ready, stale = aspects(found, FAILURE, ["podCPU: a store did not answer"])

    assert ready.message == (
        "0 of 2 nodes are measured, 1 stale, 1 invalid; no route to host; podCPU: a store did not answer"
    )
    assert stale.message == "0 of 2 nodes are measured, 1 stale, 1 invalid: pods are placed by their requests"


def rendered(stored: dict[str, Any], found: LevelSurvey, now: float = NOW) -> dict[str, Any]:
    return render_level(stored, 3, found, aspects(found, None, ()), now)


def test_a_status_has_all_fields_and_is_valid_by_the_crd() -> None:
    status = rendered({}, survey(level(20.4), level(41, NOW - 30), None))

    assert status["cpu"] == {"mean": 31, "min": 20, "max": 41, "standardDeviation": 10, "target": 26}
    assert (status["nodesMeasured"], status["nodesMissing"], status["nodesStale"]) == (2, 1, 0)
    assert status["sampledAt"] == "2027-01-15T08:00:00Z"
    assert status["observedGeneration"] == 3
    assert WaterLevelStatus.model_validate(status).nodes_invalid == 0


def test_a_status_has_the_settings_of_the_tide_that_is_in_force() -> None:
    """It is 08:00 UTC."""
    tide = {
        "name": "work",
        "start": "0 8 * * *",
        "end": "30 8 * * *",
        "target": {"mode": "Static", "percent": 60},
        "overloadLimits": {"cpuPercent": 70},
        "weightPercent": 40,
    }
    fields: dict[str, Any] = {"overloadLimits": {"memoryPercent": 90}, "tides": [tide]}
    status = rendered({}, survey(level(20), **fields))
    assert (status["tide"], status["nextTideChange"]) == ("work", "2027-01-15T08:30:00Z")
    assert (status["weightPercent"], status["cpu"]["target"], status["cpu"]["limit"]) == (40, 60, 70)

    fields["tides"] = [{**tide, "start": "0 9 * * *", "end": "0 10 * * *"}]
    status = rendered({}, survey(level(20), **fields))
    assert "tide" not in status
    assert status["nextTideChange"] == "2027-01-15T09:00:00Z"
    assert status["weightPercent"] == 100
    assert "limit" not in status["cpu"]


def test_a_status_is_unchanged_until_a_number_moves_by_a_point() -> None:
    first = rendered({}, survey(level(20.4)))

    assert rendered(first, survey(level(20.9, NOW + 60)), NOW + 60) == first
    moved = rendered(first, survey(level(21.0, NOW + 60)), NOW + 60)
    assert moved["cpu"]["mean"] == 21
    assert moved["sampledAt"] == "2027-01-15T08:01:00Z"
    assert moved["conditions"] == first["conditions"]


def test_numbers_of_a_group_without_a_fresh_node_are_removed() -> None:
    first = rendered({}, survey(level(20)))

    assert "cpu" not in rendered(first, survey(level(20, NOW - 200)))


def test_a_changed_condition_gets_a_new_transition_time() -> None:
    found = survey(level(20))
    first = dated(aspects(found, None, ()), {}, 1, NOW)
    later = dated(aspects(survey(None), None, ()), {"conditions": first}, 2, NOW + 60)

    assert [each["lastTransitionTime"] for each in later] == ["2027-01-15T08:01:00Z"] * 2
    assert [each["observedGeneration"] for each in later] == [2, 2]
