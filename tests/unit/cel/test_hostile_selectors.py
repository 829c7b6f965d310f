"""A tenant writes selectors. None may hold up the decision loop, or end it with an error of Python's."""

import pytest

from tidelock.cel import device_selector
from tidelock.cel.compiler import STEP
from tidelock.cel.device_selector import DeviceSelector
from tidelock.cel.errors import EvaluationError, ExpressionError
from tidelock.cel.values import MAX_COST
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
    "a long loop": "lists.range(60000).all(x, true)",
    "a square of loops": "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))",
    "a loop whose errors are absorbed": "lists.range(60000).exists(x, 1 / 0 == 1) || true",
    "lists in lists, compared": chain("[dyn(1)]", "[dyn(v#), dyn(v#)]", "v# == v#", 60),
    "lists in lists, searched": chain("[dyn(1)]", "[dyn(v#), dyn(v#)]", "dyn(1) in [v#]", 60),
    "lists in lists, as text": chain("[dyn(1)]", "[dyn(v#), dyn(v#)]", "'%s'.format([v#]) != ''", 60),
    "lists in lists, flattened": chain("[dyn(1)]", "[dyn(v#), dyn(v#)]", "v#.flatten(100).size() > 0", 60),
    "a number of many decimals": "'%.999999999f'.format([1.0]) != ''",
    "sorting": "lists.range(60000).map(x, -x).sort().size() > 0",
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


OVERSIZED = {
    "texts that double": chain("'xxxxxxxxxx'", "v# + v#", "v#.size() > 0", 60),
    "bytes that double": chain("b'xxxxxxxxxx'", "v# + v#", "v#.size() > 0", 60),
    "lists that double": chain("[1]", "v# + v#", "v#.size() > 0", 60),
    "a long range": "lists.range(1000000).size() > 0",
    "a text for each character": "'#'.replace('', '#').replace('', '#') != ''".replace("#", "x" * 2000),
    "many texts joined": f"lists.range(100).map(x, '{'y' * 1000}').join().size() > 0",
    "a long separator": f"lists.range(5000).map(x, '').join('{'y' * 1000}').size() > 0",
    "a list as text": f"'%s'.format([lists.range(100).map(x, '{'y' * 1000}')]) != ''",
    "a map as text": f"'%s'.format([[1].transformMap(i, v, lists.range(100).map(x, '{'y' * 1000}'))]) != ''",
    "many decimals": f"'{'%.9999f' * 10}'.format([{', '.join(['1.0'] * 10)}]) != ''",
    "quotes that double": chain("'\"'", "strings.quote(v#)", "v#.size() > 0", 60),
    "bytes of wide characters": chain("'😀'", "v# + v#", "bytes(v#).size() > 0", 15),
}


@pytest.mark.parametrize("expression", OVERSIZED.values(), ids=OVERSIZED)
def test_a_value_that_is_too_large_is_not_made(expression: str) -> None:
    """A text could grow to a million characters, and one search in it held up all threads for minutes."""
    selector = DeviceSelector.compile(expression)
    with pytest.raises(EvaluationError, match=r"^a (text|list or map) of more than 65536 "):
        selector.matches(DEVICE)
    with pytest.raises(EvaluationError, match=r"^a (text|list or map) of more than 65536 "):
        DeviceSelector.compile(f"{expression} || true").matches(DEVICE)


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


LONG = chain("'a'", "v# + v#", "@", 15)
MESSAGES = {
    "a missing key": LONG.replace("@", "device.attributes['x'][v15] == 1"),
    "a missing key of a map": LONG.replace("@", "{'b': 1}[v15] == 1"),
    "a key that is there": LONG.replace("@", "[v15, v15].transformMapEntry(i, v, {v: 1}) == {}"),
    "a time zone": LONG.replace("@", "timestamp(0).getHours(v15) == 1"),
    "an address with a zone": LONG.replace("@", "ip('fe80::1%' + v15).family() == 6"),
    "a URL": LONG.replace("@", "url(v15).getHost() == ''"),
    "a version": LONG.replace("@", "semver(v15).major() == 1"),
    "a quantity": LONG.replace("@", "quantity(v15).isInteger()"),
    "a number": LONG.replace("@", "double(v15) == 1.0"),
}


@pytest.mark.parametrize("expression", MESSAGES.values(), ids=MESSAGES)
def test_a_message_shows_the_beginning_of_a_long_value(expression: str) -> None:
    """One message had 32,768 characters of a key, and was kept for each node and each queued pod."""
    with pytest.raises(EvaluationError, match=r"^.{20,200}$"):
        DeviceSelector.compile(expression).matches(DEVICE)


@pytest.mark.parametrize(
    "expression",
    [
        "a" * 10_000,
        f"device.{'a' * 10_000}",
        "1" * 10_000,
        f"1 {'a' * 10_000}",
        f"{'a' * 10_000}()",
        f"{'{1: ' * 100}1{'}' * 100} == 1",
    ],
)
def test_the_message_of_an_invalid_expression_is_short(expression: str) -> None:
    with pytest.raises(ExpressionError, match=r"^.{20,200}$"):
        DeviceSelector.compile(expression)


DEEP_VALUES = chain("dyn(l)", f"{'[' * 100}dyn(v#){']' * 100}", "v# == v#", 30)
_WITHOUT_RESULT = r"no such overload|division by zero|nested too deeply"


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000).map(x, x) == [1] || dyn(1)",
        "dyn(lists.range(1000).map(x, x).size())",
        "lists.range(1000).all(x, x >= 0) && 1 / 0 == 1",
        f"cel.bind(l, lists.range(1000).map(x, x), {DEEP_VALUES})",
    ],
)
def test_an_evaluation_without_a_result_has_its_whole_cost(expression: str) -> None:
    """One that ended with no boolean, or with a value that is nested too deeply, counted as free."""
    with pytest.raises(EvaluationError, match=_WITHOUT_RESULT) as failed:
        DeviceSelector.compile(expression).matches(DEVICE)
    assert failed.value.cost >= 1000 * STEP


def test_what_would_cost_too_much_is_not_done_and_does_not_count() -> None:
    selector = DeviceSelector.compile(LONG.replace("@", "v15.contains('b' + v15.substring(20000))"))
    with pytest.raises(EvaluationError, match="actual cost limit exceeded") as failed:
        selector.matches(DEVICE)
    assert failed.value.cost < 1.1 * MAX_COST


def test_each_node_of_an_expression_counts_though_it_is_no_loop() -> None:
    """An expression of full length took 5 ms for a device, and was free."""
    short, long = (" && ".join(["device.driver != ''"] * count) for count in (1, 400))
    assert (
        DeviceSelector.compile(long).evaluate(DEVICE)[1]
        > 300 * DeviceSelector.compile(short).evaluate(DEVICE)[1]
    )


@pytest.mark.parametrize(
    "zone",
    ["../Europe/Berlin", "/etc/localtime", "posix/Europe/Berlin", "Europe", "Europe/Berlin/", "1" * 90],
)
def test_only_names_of_time_zones_are_looked_up(zone: str) -> None:
    with pytest.raises(EvaluationError, match="unknown time zone"):
        DeviceSelector.compile(f"timestamp(0).getHours('{zone}') == 1").matches(DEVICE)


def test_text_that_an_expression_makes_is_not_kept() -> None:
    """A cache kept 16,384 versions and quantities, each as long as the author of a pod liked."""
    for kept in (device_selector.known_quantity, device_selector.known_version):
        before = kept.cache_info().currsize
        call = "semver('1.0.' + string(x)).major() == 1 && quantity(string(x)).isInteger()"
        assert DeviceSelector.compile(f"lists.range(50).all(x, {call})").matches(DEVICE)
        assert kept.cache_info().currsize == before
