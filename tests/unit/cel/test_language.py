"""The language by cel-spec: literals, operators, macros, and the rules of types and errors."""

import pytest

from tidelock.cel.device_selector import DeviceSelector
from tidelock.cel.errors import EvaluationError, ExpressionError
from unit.cel.selecting import DEVICE, matches

TRUE = [
    # literals
    "0x10 == 16 && -0x10 == -16",
    "-9223372036854775808 < 0",
    "18446744073709551615u > 0u && 0xFFu == 255u",
    "1e3 == 1000.0 && .5 == 0.5 && 1.5e-3 == 0.0015",
    "'a' == \"a\" && '''a'b''' == \"a'b\" && \"\"\"a\nb\"\"\" == 'a\\nb'",
    r'"\x41\u0042\U00000043\104\n".size() == 5',
    r"""r'\n' == '\\n' && R"\d".size() == 2""",
    r"b'\x00\xff'.size() == 2 && b'ä'.size() == 2 && br'\n'.size() == 2",
    r"b'\303\244' == b'ä'",
    "null == null",
    "[1, 2,] == [1, 2] && {'a': 1,}.a == 1",
    "true // a comment\n && true",
    # arithmetic
    "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 - 2 - 1 == 4",
    "7 / 2 == 3 && -7 / 2 == -3 && 7 % 3 == 1 && -7 % 3 == -1",
    "7u / 2u == 3u && 7.0 / 2.0 == 3.5",
    "1.0 / 0.0 > 1e308 && -1.0 / 0.0 < -1e308",
    "0.0 / 0.0 != 0.0 / 0.0",
    "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && [1] + [2] == [1, 2]",
    "-(-3) == 3 && --3 == 3 && !!true",
    # comparison
    "1 < 2 && 2u >= 2u && 'a' < 'b' && b'a' < b'b' && false < true",
    "1 < 1.5 && 1u < 2 && 1.5 > 1u && -1 < 0u",
    "dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1.0) == 1u",
    "dyn(1) != 'a' && dyn(true) != 1 && dyn(null) != 0",
    "dyn([1, 2]) == [1.0, 2.0] && dyn({'a': 1}) == {'a': 1u}",
    "dyn([true]) != [1]",
    "{'a': 1, 'b': 2} == {'b': 2, 'a': 1}",
    "1 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1}",
    "dyn(1.0) in [1, 2] && dyn('a') in ['a'] && !(dyn('a') in [1])",
    # maps: numbers are one key whatever their type, and booleans are no numbers
    "{1: 'a'}[dyn(1u)] == 'a' && {1: 'a'}[dyn(1.0)] == 'a'",
    "{true: 'a', false: 'b'}[true] == 'a' && !(dyn(1) in {true: 'a'}) && !(dyn(true) in {1: 'a'})",
    "{true: 1}.all(key, key)",
    # precedence and the conditional
    "true || false && false",
    "1 == 1 ? true : false ? false : false",
    "(false ? 1 : 2) == 2",
    # errors are absorbed
    "false && 1 / 0 == 0 ? false : true",
    "1 / 0 == 0 || true",
    "true || 1 / 0 == 0",
    "!(1 / 0 == 0 && false)",
    "[1, 0].exists(x, 1 / x == 1) && [0, 1].exists(x, 1 / x == 1)",
    "![0, 2].all(x, 1 / x == 1)",
    "dyn('a') || true",
    # macros
    "[1, 2].all(x, x > 0) && [].all(x, false)",
    "[1, 2].exists_one(x, x > 1) && [1, 2].existsOne(x, x > 1) && ![1, 2].exists_one(x, x > 0)",
    "[1, 2, 3].filter(x, x > 1) == [2, 3]",
    "[1, 2].map(x, x * 2) == [2, 4] && [1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
    "{'a': 1, 'b': 2}.filter(k, k != 'a') == ['b'] && {'a': 1}.map(k, k) == ['a']",
    "[1, 2].all(x, [3, 4].all(y, x < y))",
    "[1].all(x, [2].all(x, x == 2) && x == 1)",
    "[1, 2].all(i, v, v == i + 1) && {'a': 1}.exists(k, v, k == 'a' && v == 1)",
    "[1, 2].exists_one(i, v, i == 1 && v == 2) && [1].existsOne(i, v, i == 0)",
    "[1, 2].transformList(i, v, i + v) == [1, 3] && [1, 2].transformList(i, v, i > 0, v) == [2]",
    "[1, 2].transformMap(i, v, v) == {0: 1, 1: 2} && {'a': 1}.transformMap(k, v, v > 1, v) == {}",
    "[1, 2].transformMapEntry(i, v, {v: i}) == {1: 0, 2: 1}",
    "cel.bind(x, 1 + 1, x * x) == 4",
    "['ccc', 'a', 'bb'].sortBy(s, s.size()) == ['a', 'bb', 'ccc']",
    "has({'a': 1}.a) && !has({'a': 1}.b)",
    # optionals
    "{'a': 1}.?a == optional.of(1) && {'a': 1}.?b == optional.none()",
    "{'a': {'b': 1}}.?a.b.orValue(0) == 1 && {'a': {'b': 1}}.?x.b.orValue(0) == 0",
    "{'a': {'b': 1}}.?a.?c.or(optional.of(2)).value() == 2",
    "{'a': [1]}.?a[0] == optional.of(1) && {'a': [1]}.?a[9] == optional.none()",
    "[1, 2][?1] == optional.of(2) && ![1, 2][?5].hasValue()",
    "[1, ?{'a': 2}.?a, ?{'a': 2}.?b] == [1, 2] && {'x': 1, ?'y': optional.none()} == {'x': 1}",
    "optional.of(2).optMap(x, x * 2).value() == 4 && !optional.none().optMap(x, x).hasValue()",
    "optional.of({'a': 1}).optFlatMap(m, m.?a) == optional.of(1)",
    "optional.ofNonZeroValue('') == optional.none() && optional.ofNonZeroValue(1).hasValue()",
    "optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(1)].unwrapOpt() == [1]",
    "optional.of(1).or(optional.of(1 / 0)).value() == 1 && optional.of(1).orValue(1 / 0) == 1",
    # null goes with values that may be absent
    "null == dyn(null) && dyn(quantity('1')) != null && (true ? null : duration('1s')) == null",
    "optional.of(1) != optional.none() && optional.none() == optional.none() && dyn(null) != optional.none()",
    # a more general type wins
    "[[], [1]].size() == 2 && (false ? [] : [1]) == [1] && [dyn(1), dyn('a')] != [1, 2].map(x, dyn(x))",
    "dyn({'a': 1}).a == 1 && dyn([1])[0] == 1 && dyn('a').size() == 1 && has(dyn({'a': 1}).a)",
    "[1, 2].map(x, dyn(x)).all(x, x > 0) && {'a': 1}.map(k, [k]) == [['a']]",
    # types
    "type(1) == int && type('a') == string && type(type(1)) == type && type([]) == list",
    "type(null) == null_type && type(1u) != int && type({}) == map && type(1.0) == double",
]
FAILING = [
    ("9223372036854775807 + 1 > 0", "integer overflow"),
    ("-9223372036854775808 - 1 < 0", "integer overflow"),
    ("-9223372036854775808 / -1 > 0", "integer overflow"),
    ("-(-9223372036854775808) > 0", "integer overflow"),
    ("5000000000 * 5000000000 > 0", "integer overflow"),
    ("18446744073709551615u + 1u > 0u", "unsigned integer overflow"),
    ("1u - 2u < 1u", "unsigned integer overflow"),
    ("1 / 0 > 0", "division by zero"),
    ("1 % 0 > 0", "modulus by zero"),
    ("[1][5] == 1", "index '5' out of range in list size '1'"),
    ("[1][-1] == 1", "index '-1' out of range"),
    ("[1][dyn('a')] == 1", "unsupported index value"),
    ("{'a': 1}.b == 1", "no such key: b"),
    ("{1: 1}[dyn(true)] == 1", "no such key: true"),
    ("{'a': 1, 'a': 2} == {}", "one key twice"),
    ("{dyn([1]): 1} == {}", "unsupported key type: list"),
    ("dyn(1) + 'a' == 'a'", "no such overload"),
    ("dyn(1) + 1u == 2u", "no such overload"),
    ("dyn(1) < 'a'", "no such overload"),
    ("dyn([1]) < dyn([2])", "no such overload"),
    ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
    ("!dyn(1)", "no such overload"),
    ("dyn(1) && true", "no such overload"),
    ("dyn('a') ? true : false", "no such overload"),
    ("1 / 0 == 0 && true", "division by zero"),
    ("[1, 2].all(x, 1 / (x - 1) == 1)", "division by zero"),
    ("[0, 1].exists_one(x, 1 / x == 1)", "division by zero"),
    ("dyn(1).all(x, true)", "expected iterable type"),
    ("[1].all(x, dyn(1))", "no such overload"),
    ("[1].filter(x, dyn(1)) == []", "no such overload"),
    ("[1, 2].transformMap(i, v, v).transformMapEntry(k, v, {'a': v}) == {}", "insert failed"),
    ("{dyn(1.5): 1, dyn(1.5): 2}.size() == 1", "one key twice"),
    ("[?dyn(1)] == [1]", "no such overload"),
    ("{?'a': dyn(1)} == {}", "no such overload"),
    ("dyn(1).optMap(x, x) == dyn(1)", "no such overload"),
    ("[1].transformMapEntry(i, v, dyn(1)) == {}", "no such overload"),
    ("dyn(1)[0] == 1", "no such overload"),
    ("1 in dyn(1)", "no such overload"),
    ("dyn(1).sortBy(x, x) == [1]", "expected iterable type"),
    ("optional.none().value() == 1", "optional.none\\(\\) dereference"),
    ("dyn(1).value() == 1", "no such overload"),
    ("dyn(1).orValue(2) == 1", "no such overload"),
    ("quantity('1').isGreaterThan(null)", "no such overload"),
]
REFUSED = [
    "1 +",
    "(1",
    "1 1",
    "a b",
    "[1, , 2] == []",
    "f(1,)",
    "{1} == {}",
    "'abc",
    "'a\nb' == ''",
    r"'\q' == ''",
    r"'\ud800' == ''",
    r"b'\u0041' == b''",
    "1.e3 > 0.0",
    "1e999 > 0.0",
    "9223372036854775808 > 0",
    "-9223372036854775809 < 0",
    "18446744073709551616u > 0u",
    "9" * 5000 + " > 0",
    "true & true",
    "package == 1",
    "in == 1",
    "device.true",
    "has(device)",
    "has(device.attributes['a'])",
    "[1].all(x.y, true)",
    "[1].all(1, true)",
    "[1].all(x, x, true)",
    "cel.bind(1, 2, true)",
    # types
    "1 + 1u == 2u",
    "1 + 1.0 == 2.0",
    "1 == 1u",
    "1 == 'a'",
    "1 < 'a'",
    "!1",
    "-1u == 1u",
    "-'a' == 'a'",
    "1 && true",
    "true || 'a'",
    "1 ? true : false",
    "(true ? 1 : 'a') == 1",
    "[1, 'a'] == []",
    "[1, 1.0].size() == 2",
    "{'a': 1, 2: 1}.size() == 2",
    "{'a': 1, 'b': 'c'}.size() == 2",
    "'a' in 'abc'",
    "1 in ['a']",
    "[1].a == 1",
    "'a'.b == 1",
    "1.all(x, true)",
    "[1].all(x, x)",
    "[1].exists_one(x, 'a')",
    "[1].filter(x, x) == []",
    "x == 1",
    "[1].all(x, true) && x == 1",
    "int(1, 2) == 1",
    "size(1) == 1",
    "sets.unknown([1])",
    "optional.of(1) == 1",
    "[?1] == [1]",
    "{?'a': 1} == {}",
    "optional.of(1).optFlatMap(x, x) == optional.of(1)",
    "[[1]].sortBy(x, x) == []",
    "google.protobuf.Int64Value{value: 1} == 1",
]


@pytest.mark.parametrize("expression", TRUE)
def test_the_expression_is_true(expression: str) -> None:
    assert matches(expression)


@pytest.mark.parametrize(("expression", "message"), FAILING)
def test_the_evaluation_fails(expression: str, message: str) -> None:
    selector = DeviceSelector.compile(expression)
    with pytest.raises(EvaluationError, match=message):
        selector.matches(DEVICE)


@pytest.mark.parametrize("expression", REFUSED)
def test_the_expression_is_refused(expression: str) -> None:
    with pytest.raises(ExpressionError):
        DeviceSelector.compile(expression)
