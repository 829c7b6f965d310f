"""Expressions by generated examples: two implementations agree, and no error of Python's arises."""

import re
from collections.abc import Callable
from contextlib import suppress

import celpy
from celpy.evaluation import CELEvalError
from hypothesis import given
from hypothesis import strategies as st

from tidelock.cel.device_selector import DeviceSelector, SelectedDevice, Version
from tidelock.cel.errors import EvaluationError, ExpressionError
from tidelock.cel.library import OVERLOADS

DEVICE = SelectedDevice("d", {"i": 3, "s": "abc", "b": True, "v": Version("1.2.3")}, {"q": "5"})
_CELPY = celpy.Environment()


def result_of(expression: str) -> bool | None:
    """Return the result of an expression, or None for an error."""
    try:
        return DeviceSelector.compile(expression).matches(DEVICE)
    except EvaluationError:
        return None


def other_result_of(expression: str) -> bool | None:
    """Return the result of celpy, or None for an error."""
    try:
        return bool(_CELPY.program(_CELPY.compile(expression)).evaluate({}))
    except CELEvalError:
        return None


integers = st.integers(-4, 4).map(lambda number: f"({number})")
texts = st.sampled_from(["''", "'a'", "'ab'", "'b'"])


def _numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(inner, st.sampled_from("+-*/%"), inner).map(lambda parts: f"({' '.join(parts)})")


numbers = st.recursive(integers, _numbers, max_leaves=4)
lists = st.lists(numbers, min_size=1, max_size=3).map(lambda elements: f"[{', '.join(elements)}]")
comparisons = st.one_of(
    st.tuples(numbers, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), numbers).map(" ".join),
    st.tuples(texts, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), texts).map(" ".join),
    st.tuples(numbers, st.just("in"), lists).map(" ".join),
    st.tuples(texts, st.sampled_from(["contains", "startsWith", "endsWith"]), texts).map(
        lambda parts: f"{parts[0]}.{parts[1]}({parts[2]})"
    ),
    st.tuples(lists, st.sampled_from(["all", "exists"]), integers).map(
        lambda parts: f"{parts[0]}.{parts[1]}(x, x > {parts[2]})"
    ),
    st.tuples(lists, integers, integers).map(
        lambda parts: f"{parts[0]}.filter(x, x >= {parts[1]}).map(x, x * {parts[2]}).size() > 1"
    ),
)


def _booleans(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda parts: f"({' '.join(parts)})")
    choices = st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})")
    return pairs | choices | inner.map(lambda operand: f"!({operand})")


booleans = st.recursive(comparisons.map(lambda comparison: f"({comparison})"), _booleans, max_leaves=5)


@given(booleans)
def test_two_implementations_agree(expression: str) -> None:
    assert result_of(expression) == other_result_of(expression)


@given(booleans, booleans)
def test_the_order_of_the_operands_of_logic_does_not_matter(left: str, right: str) -> None:
    assert result_of(f"({left}) && ({right})") == result_of(f"({right}) && ({left})")
    assert result_of(f"!(({left}) || ({right}))") == result_of(f"!({left}) && !({right})")


_WORDS = re.findall(
    r"\S+",
    """
device attributes driver x 'd' i s v q 1 2u 1.5 'a' b'a' null true false + - * / % < == != && || ! ? :
in . .? [ [? ] ( ) { } , size all map filter has cel bind dyn quantity semver matches split join format sum
sort optional of none orValue int string type lists range
""",
)
_VALUES = re.findall(
    r"\S+",
    """
1 2u 1.5 0.0/0.0 'a' b'a' null true [1] ['a'] {'a':1} [] {} int quantity('1') semver('1.0.0') ip('::1')
cidr('::/0') url('/') optional.of(1) optional.none() duration('1s') timestamp(0) format.uuid() device
device.attributes 9223372036854775807
""",
)
_values = st.sampled_from(_VALUES)


@given(st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join))
def test_any_sequence_of_words_is_evaluated_or_refused(expression: str) -> None:
    with suppress(ExpressionError):
        result_of(expression)


def _called(name: str, is_method: bool, count: int) -> st.SearchStrategy[str]:
    """Return calls of a function with values of any types, which are known only at run time."""
    arguments = st.lists(_values.map(lambda value: f"dyn({value})"), min_size=count, max_size=count)

    def written(values: list[str]) -> str:
        return f"{values[0]}.{name}({', '.join(values[1:])})" if is_method else f"{name}({', '.join(values)})"

    return arguments.map(written)


_FUNCTIONS = sorted(key for key in OVERLOADS if key[0][0].isalpha())


@given(st.sampled_from(_FUNCTIONS).flatmap(lambda key: _called(*key)))
def test_any_function_takes_values_of_any_type_or_refuses_them(call: str) -> None:
    with suppress(ExpressionError):
        result_of(f"dyn({call}) == 1")


_OPERATORS: list[Callable[[str, str], str]] = [
    *(lambda a, b, sign=sign: f"dyn({a}) {sign} dyn({b}) == 1" for sign in "+-*/%"),
    *(lambda a, b, sign=sign: f"dyn({a}) {sign} dyn({b})" for sign in ("<", ">=", "==", "in")),
    lambda a, b: f"dyn({a})[dyn({b})] == 1",
    lambda a, b: f"dyn({a})[?dyn({b})] == 1",
    lambda a, b: f"[dyn({a}), dyn({b})].sort() == [dyn({a})].map(x, dyn({b}))",
    lambda a, b: f"[dyn({a})].transformMap(i, v, dyn({b})) == dyn({b}).transformMapEntry(i, v, dyn({a}))",
    lambda a, b: f"'%s %d %f %x'.format([dyn({a}), dyn({b}), dyn({a}), dyn({b})]) == ''",
    lambda a, b: f"-dyn({a}) == 1 ? !dyn({b}) : dyn({a}).a.?b == 1",
]


@given(st.sampled_from(_OPERATORS), _values, _values)
def test_any_operator_takes_values_of_any_type_or_refuses_them(
    write: Callable[[str, str], str], left: str, right: str
) -> None:
    with suppress(ExpressionError):
        result_of(write(left, right))
