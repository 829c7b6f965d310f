import pytest

from tidelock.model.usage_annotations import (
    CraneReading,
    NodeLevel,
    PodUsage,
    Quality,
    Stat,
    Unreadable,
    decode_crane,
    decode_crane_hot_value,
    decode_node_level,
    decode_pod_usage,
    encode_crane,
    encode_crane_hot_value,
    encode_node_level,
    encode_pod_usage,
    quality,
)

NOON = 1_796_126_400.0


def level_text(**stat: object) -> str:
    numbers = ", ".join(
        f'"{name}": {value}' for name, value in ({"mean": 1, "max": 2, "p95": 2} | stat).items()
    )
    return f'{{"at": "2026-12-01T12:00:00Z", "windows": {{"1h": {{"cpu": {{{numbers}}}}}}}}}'


def test_a_level_is_written_in_utc_and_compactly() -> None:
    level = NodeLevel(NOON, {"15m": {"cpu": Stat(42.123456, 80.0, 70.5)}})
    assert encode_node_level(level) == (
        '{"at":"2026-12-01T12:00:00Z","windows":{"15m":{"cpu":{"mean":42.12,"max":80,"p95":70.5}}}}'
    )


def test_use_of_a_pod_is_written_in_cores_and_bytes() -> None:
    usage = PodUsage(NOON, {"1d": {"cpu": Stat(0.25, 1, 0.51239), "memory": Stat(2.0**30, 2.0**31, 1.5)}})
    assert encode_pod_usage(usage) == (
        '{"at":"2026-12-01T12:00:00Z","windows":{"1d":{"cpu":{"mean":0.25,"max":1,"p95":0.5124},'
        '"memory":{"mean":1073741824,"max":2147483648,"p95":2}}}}'
    )


def test_a_time_of_another_zone_is_read() -> None:
    assert decode_node_level(level_text().replace("T12:00:00Z", "T13:00:00+01:00")) == NodeLevel(
        NOON, {"1h": {"cpu": Stat(1, 2, 2)}}
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "truncated"),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "missing required field `at`"),
        ('{"at": "2026-12-01T12:00:00Z"}', "missing required field `windows`"),
        ('{"at": "2026-12-01T12:00:00Z", "windows": {}}', "windows has no measurement"),
        ('{"at": "2026-12-01T12:00:00Z", "windows": {"1h": {}}}', "windows has no measurement"),
        (level_text().replace("1h", "2h"), "'2h'"),
        (level_text().replace("cpu", "disk"), "'disk'"),
        (level_text().replace("12:00:00Z", "12:00:00"), "has no time zone"),
        (level_text().replace("2026-12-01T12:00:00Z", "noon"), "noon"),
        (level_text().replace("2026", "1926"), "is before 1970"),
        (level_text(mean="NaN"), "malformed"),
        (level_text(max="Infinity"), "malformed"),
        (level_text(max="1e999"), "out of range"),
        (level_text(p95=-0.1), "Expected `float` >= 0"),
        (level_text(p95='"5"'), "Expected `float`, got `str`"),
        (level_text(p95="true"), "Expected `float`, got `bool`"),
        (level_text(p95="null"), "Expected `float`, got `null`"),
        (level_text(p95=100.01), "windows.1h.cpu.p95 is 100.01, more than 100"),
    ],
)
def test_an_invalid_level_is_unreadable_and_never_zero(text: str, problem: str) -> None:
    answer = decode_node_level(text)
    assert isinstance(answer, Unreadable)
    assert problem in answer.problem


def test_the_use_of_a_pod_can_exceed_100_but_not_the_plausible_maximum() -> None:
    assert decode_pod_usage(level_text(max=101)) == PodUsage(NOON, {"1h": {"cpu": Stat(1, 101, 2)}})
    assert decode_pod_usage(level_text(max=100_001)) == Unreadable(
        "windows.1h.cpu.max is 100001, more than 100000"
    )


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (None, Quality.MISSING),
        (NOON, Quality.FRESH),
        (NOON - 180, Quality.FRESH),
        (NOON - 181, Quality.STALE),
        (NOON + 180, Quality.FRESH),
        (NOON + 181, Quality.INVALID),
    ],
)
def test_the_quality_of_a_measurement_depends_on_its_time(at: float | None, expected: Quality) -> None:
    assert quality(at, now=NOON, staleness_seconds=180) is expected


def test_values_of_crane_scheduler_are_read_and_written() -> None:
    assert decode_crane("0.63012,2023-10-17T15:04:32Z") == CraneReading(0.63012, 1697555072.0)
    assert encode_crane(CraneReading(0.63012, 1697555072.9)) == "0.63012,2023-10-17T15:04:32Z"
    assert decode_crane_hot_value("3,2023-10-17T15:04:32Z") == CraneReading(3, 1697555072.0)
    assert encode_crane_hot_value(CraneReading(3, 1697555072.0)) == "3,2023-10-17T15:04:32Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0.5",
        "0.5,",
        "0.5,yesterday",
        "0.5,2023-10-17T15:04:32",
        "NaN,2023-10-17T15:04:32Z",
        "+Inf,2023-10-17T15:04:32Z",
        "-0.1,2023-10-17T15:04:32Z",
        "1.00001,2023-10-17T15:04:32Z",
        "0_1,2023-10-17T15:04:32Z",
        ",2023-10-17T15:04:32Z",
    ],
)
def test_an_invalid_value_of_crane_scheduler_is_unreadable_and_never_zero(text: str) -> None:
    assert isinstance(decode_crane(text), Unreadable)
