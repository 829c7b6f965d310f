"""A tenant writes selectors. None may hold up the decision loop, or end it with an error of Python's."""

import pytest

from tidelock.cel.device_selector import DeviceSelector
from tidelock.cel.errors import EvaluationError, ExpressionError
from unit.cel.selecting import DEVICE

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def chain(first: str, link: str, last: str, length: int) -> str:
    """Return nested bindings, of which each is made of the one before it."""
    expression = last.replace("#", str(length))
    for number in range(length, 0, -1):
        value = link.replace("#", str(number - 1))
        expression = f"cel.bind(v{number}, {value}, {expression})"
    return f"cel.bind(v0, {first}, {expression})"


def nested(levels: int) -> str:
    """Return loops in loops, of ten turns each."""
    expression = "int('1'.find('[0-9]*')) < 100"
    for level in range(levels):
        expression = f"{TEN}.all(x{level}, {expression})"
    return expression


COSTLY = {
    "loops in loops": nested(7),
    "a long loop": "lists.range(1000000).all(x, true)",
    "a square of loops": "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))",
    "a loop whose errors are absorbed": "lists.range(1000000).exists(x, 1 / 0 == 1) || true",
    "texts that double": chain("'xxxxxxxxxx'", "v# + v#", "v#.size() > 0", 60),
    "lists that double": chain("[1]", "v# + v#", "v#.size() > 0", 60),
    "lists in lists, compared": chain("[dyn(1)]", "[dyn(v#), dyn(v#)]", "v# == v#", 60),
    "lists in lists, searched": chain("[dyn(1)]", "[dyn(v#), dyn(v#)]", "dyn(1) in [v#]", 60),
    "lists in lists, as text": chain("[dyn(1)]", "[dyn(v#), dyn(v#)]", "'%s'.format([v#]) != ''", 60),
    "lists in lists, flattened": chain("[dyn(1)]", "[dyn(v#), dyn(v#)]", "v#.flatten(100).size() > 0", 60),
    "a text for each character": "'#'.replace('', '#').replace('', '#') != ''".replace("#", "x" * 2000),
    "a number of many decimals": "'%.999999999f'.format([1.0]) != ''",
    "many texts joined": f"lists.range(900000).map(x, '{'y' * 1000}').join().size() > 0",
    "sorting": "lists.range(100000).map(x, -x).sort().size() > 0",
    "equal elements": "lists.range(1000).distinct().size() > 0",
    "sets": "sets.contains(lists.range(1000), lists.range(1000))",
    "searches in a loop": "cel.bind(l, lists.range(1000), l.all(x, x in l))",
    "patterns compiled in a loop": r"lists.range(10000).all(x, !'a'.matches('\\pL{500}' + string(x)))",
    "a long match in a loop": f"lists.range(1000).all(x, !'{'a' * 4000}'.matches('(a*)*b'))",
    "a long search in a loop": f"lists.range(1000).all(x, '{'a' * 4000}'.findAll('a').size() > 0)",
}


@pytest.mark.parametrize("expression", COSTLY.values(), ids=COSTLY)
def test_an_evaluation_ends_at_the_limit_of_its_cost(expression: str) -> None:
    selector = DeviceSelector.compile(expression)
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        selector.matches(DEVICE)


DEEP = {
    "parentheses": "(" * 5000 + "true" + ")" * 5000,
    "lists": "[" * 3000 + "]" * 3000 + " == []",
    "maps": "{1:" * 2000 + "1" + "}" * 2000 + " == {}",
    "calls": "dyn(" * 2000 + "true" + ")" * 2000,
    "conditions": "true ? true : " * 700 + "true",
    "sums": "1" + "+1" * 4000 + " > 0",
    "fields": "device" + ".a" * 4000,
    "indices": "device" + "[0]" * 3000,
    "bindings": chain("1", "v#", "v# == 1", 400)[:10_000],
    "types that double": chain("1", "{v#: v#}", "v#.size() > 0", 60),
    "a pattern that is too large": r"'a'.matches('\\pL{1000}')",
    "an unfinished text": '"""' * 3000 + '"',
    "many large patterns": " || ".join([rf"'a'.matches(r'\pL{{3}}{each}')" for each in range(200)]),
    "a long number": "1" * 10_000 + " > 0",
    "many comparisons of unknown types": " && ".join(["[] == []"] * 800),
    "sums of unknown types": " && ".join(["[] + [] == []"] * 500),
}


@pytest.mark.parametrize("expression", DEEP.values(), ids=DEEP)
def test_an_expression_that_is_too_deep_or_too_large_is_refused(expression: str) -> None:
    with pytest.raises(ExpressionError):
        DeviceSelector.compile(expression)


WIDE = {
    "alternatives": " || ".join(["false"] * 1000 + ["true"]),
    "conditions": " && ".join(["1 < 2"] * 1000),
    "parentheses": "(" * 240 + "true" + ")" * 240,
    "lists": "[" * 200 + "]" * 200 + " == " + "[" * 200 + "]" * 200,
    "elements": "[" + ", ".join(["1"] * 3000) + "].size() == 3000",
    "signs": "!" * 10_000 + "true",
    "comparisons of unknown types": " && ".join(["[] == []"] * 200),
}


@pytest.mark.parametrize("expression", WIDE.values(), ids=WIDE)
def test_a_long_expression_is_evaluated(expression: str) -> None:
    assert DeviceSelector.compile(expression).matches(DEVICE)


def test_a_loop_over_all_pairs_of_attributes_is_within_the_limit() -> None:
    expression = "lists.range(32).all(x, lists.range(32).all(y, x == y || x != y && string(x) != string(y)))"
    assert DeviceSelector.compile(expression).matches(DEVICE)
