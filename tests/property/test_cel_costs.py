"""No call of a function takes longer than its cost says, whatever the values.

The limit of an evaluation's cost bounds its time only if that holds. This is the one test that judges time:
that of a thread's CPU, as a multiple of that of a loop on the same machine, and the shortest of several runs.
"""

import gc
import os
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice, product
from math import prod
from time import thread_time

import pytest

from property.hostile_values import (
    ANY,
    ARGUMENTS,
    VALUES,
    CompiledCall,
    Make,
    constant,
    cost_of,
    part_of,
    text,
    values_for,
)
from tidelock.cel.compiler import STEP
from tidelock.cel.errors import EvaluationError, LimitError
from tidelock.cel.functions import Overload
from tidelock.cel.library import OVERLOADS
from tidelock.cel.limits import MAX_ELEMENTS, MAX_TEXT
from tidelock.cel.values import MAX_COST

# With "all", each function is called with all combinations of values.
_ALL = os.environ.get("TIDELOCK_CEL_SWEEP") == "all"
_SMALL, _LARGE = 4_000, 64_000
# A call in a loop costs a turn, and two nodes at least.
_CALL = 3 * STEP
# A unit of a call's cost may take this many times as long as that of a loop's turns.
_SLOWEST = 25
# Sixteen times the size makes a unit of a quadratic call take sixteen times as long.
_GROWTH = 6
_TRIES = 7
_MANY = 50_000
_LARGEST = min(MAX_TEXT, MAX_ELEMENTS)

_Sizes = tuple[object, object]
"""A small value and a large one."""
_SYNTAX = {
    "[]": "a[b]",
    "[?]": "a[?b]",
    "?:": "a ? b : c",
    "-_": "-a",
    "!_": "!a",
    "in": "a in b",
}
_MACROS = (
    *("a.all(x, true)", "a.exists(x, false)", "a.exists_one(x, false)", "a.filter(x, true)", "a.map(x, x)"),
    *("a.map(x, true, x)", "a.transformList(i, v, v)", "a.transformMap(i, v, v)", "a.sortBy(x, x)"),
    *("[1].transformMapEntry(i, v, a)", "[a, a].exists(x, {1: 1}.transformMapEntry(k, v, x) == 1)"),
    *("cel.bind(x, a, x)", "a.optMap(x, x)", "a.optFlatMap(x, x)", "has(a.x)", "a.?x", "[a]", "{1: a}"),
    *("{a: 1}", "{}[a] == 1 || true", "[1].all(x, {a: x}.exists(y, y == a))", "a == a", "a < a", "a.x"),
)
_LITERAL_PATTERNS = ("(a*)*b", "(.*)(.*)(.*)(.*)(.*)[ab]{50}c", "[a-q][^u-z]{13}x", "a*?$|b", r"[a-z]{15}")


def _written(name: str, is_method: bool, count: int) -> str:
    if name in _SYNTAX:
        return _SYNTAX[name]
    if not name[0].isalpha():
        return f"a {name} b"
    arguments = list(ARGUMENTS[:count])
    if is_method:
        return f"a.{name}({', '.join(arguments[1:])})"
    return f"{name}({', '.join(arguments)})"


def _combinations(values: Sequence[Sequence[_Sizes]]) -> Iterator[tuple[_Sizes, ...]]:
    """Return all combinations, or as many of them that each value is in one.

    Of hundreds of thousands, one in eleven is returned.
    """
    if _ALL:
        return islice(product(*values), 0, None, 11 if prod(map(len, values)) > _MANY else 1)
    longest = max(map(len, values), default=1)
    return (
        tuple(each[(turn * (place * 2 + 1) + place) % len(each)] for place, each in enumerate(values))
        for turn in range(longest)
    )


def _time(call: CompiledCall, values: Sequence[object]) -> tuple[float, int]:
    """Return the seconds and the cost of a call. One that exceeds a limit has the cost of the limit."""
    frame, result = call.frame(values), None
    begin = thread_time()
    try:
        result = call.run(frame)
    except LimitError:
        return thread_time() - begin, MAX_COST
    except (EvaluationError, RecursionError):
        pass
    seconds = thread_time() - begin
    assert not isinstance(result, str | bytes | list | dict) or len(result) <= _LARGEST
    return seconds, cost_of(frame)


@cache
def _seconds_of_a_unit() -> float:
    """Return the seconds that a unit of cost takes here, in a loop."""
    call = CompiledCall("a.all(x, x + x >= x)")
    runs = [_time(call, [list(range(5_000))]) for _ in range(20)]
    return min(seconds / cost for seconds, cost in runs)


def _rate(call: CompiledCall, values: Sequence[object]) -> float:
    """Return the time of a unit of a call's cost, as a multiple of that in a loop."""
    seconds, cost = _time(call, values)
    return seconds / (cost + _CALL) / _seconds_of_a_unit()


def _both(make: Make) -> _Sizes:
    return make(_SMALL), make(_LARGE)


def _fault(call: CompiledCall, values: Sequence[_Sizes]) -> str:
    """Return why a call is too slow with values of two sizes, or an empty text."""
    small, large = [each for each, _ in values], [each for _, each in values]
    slowest = grown = 0.0
    for _ in range(_TRIES):  # until one is fast enough
        small_rate, large_rate = _rate(call, small), _rate(call, large)
        rate = max(small_rate, large_rate)
        growth = large_rate / max(small_rate, 1.0)
        slowest = min(rate, slowest or rate)
        grown = min(growth, grown or growth)
        if slowest <= _SLOWEST and grown <= _GROWTH:
            return ""
    shown = ", ".join(each[:40] if isinstance(each, str) else type(each).__name__ for each in large)
    return f"{slowest:.1f} times as slow as its cost says, {grown:.1f} times with larger values: {shown}"


def _sweep(expression: str, values: Sequence[Sequence[Make]]) -> list[str]:
    call, sizes = CompiledCall(expression), [list(map(_both, each)) for each in values]
    gc.disable()
    try:
        return [fault for each in _combinations(sizes) if (fault := _fault(call, each))]
    finally:
        gc.enable()


def _parameters(overload: Overload) -> tuple[str, ...]:
    return tuple(each.name if each.name in VALUES else "" for each in overload.parameters)


@pytest.mark.parametrize("key", OVERLOADS, ids=lambda key: _written(*key))
def test_a_call_takes_no_longer_than_its_cost_says(key: tuple[str, bool, int]) -> None:
    for parameters in dict.fromkeys(map(_parameters, OVERLOADS[key])):
        values = [values_for(key[0], each, index) for index, each in enumerate(parameters)]
        assert _sweep(_written(*key), values) == []


@pytest.mark.parametrize("expression", _MACROS)
def test_a_macro_takes_no_longer_than_its_cost_says(expression: str) -> None:
    assert _sweep(expression, [ANY]) == []


@pytest.mark.parametrize("pattern", _LITERAL_PATTERNS)
@pytest.mark.parametrize("function", ["matches", "find", "findAll"])
def test_a_literal_pattern_takes_no_longer_than_its_cost_says(function: str, pattern: str) -> None:
    assert (
        _sweep(f"a.{function}('{pattern}')", [[text("a"), text("ab"), text("\U0001f600"), text("x")]]) == []
    )


_FORMERLY_SLOW: dict[str, list[Make]] = {
    "a.lastIndexOf(b)": [text("a"), part_of(text("a", before="ab"), 2)],
    "double(a)": [text("1", after="x")],
    "duration(a)": [text("1h")],
    "url(a).getQuery()": [text("a=b&", before="https://a/?")],
    "url(a)": [text("é", before="https://a/")],
    "timestamp(0).getHours(a)": [text("Ab/")],
    "semver(a).compareTo(semver(a))": [text("a.", before="1.0.0-", after="a")],
    "a.format(b)": [text("%"), constant([])],
    "{1: 1}.transformMapEntry(k, v, a).size()": [VALUES["map"][1]],
}


@pytest.mark.parametrize(("expression", "makes"), _FORMERLY_SLOW.items(), ids=_FORMERLY_SLOW)
def test_what_took_minutes_takes_as_long_as_its_cost_says(expression: str, makes: list[Make]) -> None:
    """A search by `str.rfind`, or a number by a regular expression that goes back, stopped all threads."""
    assert _fault(CompiledCall(expression), list(map(_both, makes))) == ""


@pytest.mark.parametrize(
    ("slow", "fault"),
    [
        (lambda size: [character for _ in range(20) for character in "a" * size], "times as slow"),
        (lambda size: [number for outer in range(size // 100) for number in range(outer)], "larger values"),
    ],
)
def test_the_sweep_finds_a_call_that_is_slow(slow: Make, fault: str) -> None:
    class Slow(CompiledCall):
        def run(self, frame: list[object]) -> object:
            slow(len(str(frame[2])))
            return None

    assert fault in _fault(Slow("a"), [_both(text("a"))])
