"""The timeline of nodes against sums that are computed instant by instant."""

from collections.abc import Iterable
from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders import node
from tidelock.cluster.columns import Columns
from tidelock.ledger.capacity.spans import Span
from tidelock.ledger.capacity.timeline import Timeline
from tidelock.model.quantities import NOTHING

NODES = ("node-a", "node-b", "node-c")
INSTANTS = (0.0, 3.0, 5.0, 8.0, 13.0)
GPU = "example.com/gpu"

Known = dict[int, tuple[str, Span]]

SPANS = st.builds(
    lambda start, length, cpu, gpu: Span(start, start + length, {"cpu": cpu, **({GPU: 1} if gpu else {})}),
    st.sampled_from(INSTANTS),
    st.sampled_from((2.0, 5.0, inf)),
    st.integers(1, 4),
    st.booleans(),
) | st.builds(lambda end, cpu: Span(-inf, end, {"cpu": cpu}), st.sampled_from(INSTANTS), st.integers(1, 4))
CHANGES = st.lists(st.tuples(st.integers(0, 7), st.sampled_from(NODES), SPANS | st.none()), max_size=24)
WINDOWS = st.tuples(st.sampled_from(INSTANTS), st.sampled_from((2.0, 6.0, inf)), st.sampled_from(INSTANTS))


def replayed(changes: Iterable[tuple[int, str, Span | None]]) -> tuple[Columns, Timeline, Known]:
    """Apply changes, where a change without a span removes one.

    The only node with the resource GPU comes and goes all the time, and is there at the end.
    """
    columns = Columns()
    for name in NODES:
        columns.put(node(name))
    timeline, known = Timeline(columns), Known()
    for number, (key, name, span) in enumerate(changes):
        if number % 3:
            columns.drop("gpu") if number % 3 == 1 else columns.put(node("gpu", **{GPU: "8"}))
        if span is None:
            timeline.drop(key)
            known.pop(key, None)
        else:
            timeline.put(key, name, span)
            known[key] = name, span
    columns.put(node("gpu", **{GPU: "8"}))
    return columns, timeline, known


def most(spans: Iterable[Span], resource: str, begin: float = -inf, end: float = inf) -> int:
    """Return the largest sum of spans, over the instants of a window at which a span begins."""
    there = list(spans)
    instants = {begin, *(span.start for span in there if begin < span.start < end)}
    return max(
        sum(span.amounts.get(resource, 0) for span in there if span.start <= instant < span.end)
        for instant in instants
    )


@given(CHANGES)
def test_the_columns_count_amounts_that_windows_share_only_once(
    changes: list[tuple[int, str, Span | None]],
) -> None:
    columns, timeline, known = replayed(changes)
    for name in NODES:
        spans = [span for where, span in known.values() if where == name]
        for resource in ("cpu", GPU):
            together = sum(span.amounts.get(resource, 0) for span in spans)
            shared = columns.named(columns.reserved[columns.row_of[name]]).get(resource, 0)
            assert -shared == together - most(spans, resource), (name, resource)
        assert timeline.shares(name) == bool(columns.reserved[columns.row_of[name]].any())


@given(CHANGES, WINDOWS)
def test_relief_is_the_capacity_in_use_only_before_or_after_a_window(
    changes: list[tuple[int, str, Span | None]], window: tuple[float, float, float]
) -> None:
    begin, length, now = window
    columns, timeline, known = replayed(changes)
    rows, amounts = timeline.unused_amounts(begin, begin + length, now)
    told = {int(row): columns.named(found) for row, found in zip(rows, amounts, strict=True)}
    for name in NODES:
        spans = [span for where, span in known.values() if where == name]
        # A pod that stays beyond its end may stay for ever.
        then = [each._replace(end=inf) if each.start == -inf and each.end <= now else each for each in spans]
        expected = {
            resource: units
            for resource in ("cpu", GPU)
            if (units := most(spans, resource) - most(then, resource, begin, begin + length))
        }
        found = told.get(columns.row_of[name], NOTHING)
        helps = any(units > 0 for units in expected.values())
        assert found == (expected if helps else NOTHING), name


@given(CHANGES)
def test_nothing_is_left_when_all_spans_have_gone(changes: list[tuple[int, str, Span | None]]) -> None:
    columns, timeline, known = replayed(changes)
    for key in known:
        timeline.drop(key)
    rows, _ = timeline.unused_amounts(-inf, inf, -inf)
    assert not timeline
    assert not len(rows)
    assert not np.any(columns.reserved)
