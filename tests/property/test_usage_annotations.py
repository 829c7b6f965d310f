"""Usage annotations: written values are read back, and an invalid measurement never reads as zero."""

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidelock.model.usage_annotations import (
    FULL,
    MOST_BYTES,
    MOST_CORES,
    WINDOW_SECONDS,
    CraneReading,
    NodeLevel,
    PodUsage,
    Stat,
    Unreadable,
    Windows,
    decode_crane,
    decode_crane_hot_value,
    decode_node_level,
    decode_pod_usage,
    encode_crane,
    encode_crane_hot_value,
    encode_node_level,
    encode_pod_usage,
)

INSTANTS = st.integers(0, 4_000_000_000_000).map(lambda milliseconds: milliseconds / 1000)


def _stats(most: float) -> st.SearchStrategy[Stat]:
    value = st.floats(0, most)
    return st.builds(Stat, mean=value, max=value, p95=value)


def _windows(most_cpu: float, most_memory: float) -> st.SearchStrategy[Any]:
    uses = st.fixed_dictionaries({}, optional={"cpu": _stats(most_cpu), "memory": _stats(most_memory)})
    return st.dictionaries(st.sampled_from(sorted(WINDOW_SECONDS)), uses.filter(bool), min_size=1)


def _near(one: Windows, other: Windows, steps: dict[str, float]) -> bool:
    return one.keys() == other.keys() and all(
        one[window].keys() == other[window].keys()
        and all(
            abs(getattr(one[window][resource], name) - getattr(other[window][resource], name))
            <= steps[resource] * 0.501
            for resource in one[window]
            for name in ("mean", "max", "p95")
        )
        for window in one
    )


@given(INSTANTS, _windows(FULL, FULL))
def test_the_level_of_a_node_is_read_back_to_a_hundredth_of_a_percent(at: float, windows: Windows) -> None:
    text = encode_node_level(NodeLevel(at, windows))
    level = decode_node_level(text)
    assert isinstance(level, NodeLevel)
    assert level.at == at
    assert _near(level.windows, windows, {"cpu": 0.01, "memory": 0.01})
    assert encode_node_level(level) == text


@given(INSTANTS, _windows(MOST_CORES, MOST_BYTES))
def test_the_use_of_a_pod_is_read_back_to_a_tenth_of_a_millicore_and_a_byte(
    at: float, windows: Windows
) -> None:
    text = encode_pod_usage(PodUsage(at, windows))
    usage = decode_pod_usage(text)
    assert isinstance(usage, PodUsage)
    assert usage.at == at
    assert _near(usage.windows, windows, {"cpu": 0.0001, "memory": 1.0})
    assert encode_pod_usage(usage) == text


@given(st.floats(0, 1), st.integers(0, 4_000_000_000))
def test_a_value_of_crane_is_read_back(value: float, at: int) -> None:
    reading = decode_crane(encode_crane(CraneReading(value, at)))
    assert isinstance(reading, CraneReading)
    assert reading.at == at
    assert math.isclose(reading.value, value, abs_tol=0.51e-5)


@given(st.integers(0, 1000), st.integers(0, 4_000_000_000))
def test_a_hot_value_of_crane_is_read_back(value: int, at: int) -> None:
    assert decode_crane_hot_value(encode_crane_hot_value(CraneReading(value, at))) == CraneReading(value, at)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(max_value=-1e-9)
    | st.just(math.nan)
    | st.floats(min_value=MOST_BYTES * 2)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JUNK, st.sampled_from(["mean", "max", "p95"]), st.sampled_from(["cpu", "memory"]))
def test_a_bad_number_anywhere_makes_the_whole_annotation_unreadable(
    junk: Any, name: str, resource: str
) -> None:
    stat = {"mean": 1, "max": 2, "p95": 2} | {name: junk}
    text = json.dumps({"at": "2026-12-01T00:00:00Z", "windows": {"1h": {resource: stat}}})
    assert isinstance(decode_node_level(text), Unreadable)
    assert isinstance(decode_pod_usage(text), Unreadable)


@given(st.text() | JUNK.map(json.dumps))
def test_random_text_is_unreadable_with_a_problem(text: str) -> None:
    for answer in (decode_node_level(text), decode_pod_usage(text), decode_crane(text)):
        assert isinstance(answer, Unreadable)
        assert answer.problem
