"""Values of expressions that a tenant may choose to make a function slow, by their type and size.

Each is made for a size: the length of a text, or the number of elements. A value of a fixed size is there for
functions that a large one would never reach.
"""

import math
from collections.abc import Callable, Sequence

from tidelock.cel.compiler import Compiler, Variable
from tidelock.cel.functions import COST_LEFT, DEVICE
from tidelock.cel.parser import parse
from tidelock.cel.types import DYN
from tidelock.cel.values import MAX_COST, NONE, Duration, Optional, Timestamp, TypeValue, UInt

Make = Callable[[int], object]
"""Returns a value of a size."""
ARGUMENTS = "abcd"
"""The variables of an expression that is called with values."""


class CompiledCall:
    """An expression over `a`, `b`, `c` and `d`, of which only the values have types."""

    def __init__(self, expression: str) -> None:
        variables = {name: Variable(DYN, slot) for slot, name in enumerate(ARGUMENTS, DEVICE + 1)}
        compiler = Compiler(variables, {}, DEVICE + 1 + len(ARGUMENTS))
        self._run = compiler.compile(parse(expression)).run
        self._slots = compiler.slots

    def frame(self, values: Sequence[object]) -> list[object]:
        """Return the frame of an evaluation with these values of the variables."""
        return [MAX_COST, None, *values, *(None,) * (self._slots - DEVICE - 1 - len(values))]

    def run(self, frame: list[object]) -> object:
        """Return the value of the expression. Raises EvaluationError."""
        return self._run(frame)


def value_of(expression: str, *values: object) -> object:
    """Return the value of an expression over `a`, `b`, `c` and `d`."""
    compiled = CompiledCall(expression)
    return compiled.run(compiled.frame(values))


def cost_of(frame: list[object]) -> int:
    """Return the cost that an evaluation has taken off its frame."""
    left = frame[COST_LEFT]
    assert isinstance(left, int)
    return MAX_COST - left


def text(unit: str, *, before: str = "", after: str = "") -> Callable[[int], str]:
    """Return the maker of a text that repeats a unit, with other texts around it."""

    def make(size: int) -> str:
        length = size - len(before) - len(after)
        return before + (unit * (length // len(unit) + 1))[:length] + after

    return make


def constant(value: object) -> Make:
    """Return the maker of a value of a fixed size."""
    return lambda _size: value


def part_of(make: Callable[[int], str], share: int) -> Callable[[int], str]:
    """Return the maker of a text that is a share of the size long."""
    return lambda size: make(size // share)


# What the functions that parse a text repeat: digits, units, escapes, separators, names.
_REPEATED = [
    text(unit)
    for unit in (
        *("a", "\U0001f600", "ab", "abaab", "1", "9", "0", ".", "1.", "a.", "-", "+", " ", "\0", '"', "\\"),
        *("1h", "1ms", "1.11111h", f"{'1' * 40}.{'1' * 40}ns", "%", "%s", "%.9e", "%.99d", "%20", "%41"),
        *("&", "a=b&", "/", "a/", ":", "a:", "[", "Ab/"),
    )
]
_FRAMED = [
    text("a", after="b"),
    text("a", before="b"),
    text("1", before="-", after="x"),
    text("1", before="0."),
    text("1", after="e-99"),
    text("1", before="v0", after=".0.0"),
    text("a.", before="1.0.0-", after="a"),
    text("1.", before="1.0.0-", after="1"),
    text("1a.", before="1.0.0-", after="$"),
    text("a.", before="1.0.0+", after="a"),
    text("a=b&", before="https://a/?"),
    text("%41=1&", before="https://a/?"),
    text("é", before="https://a/"),
    text("%e9", before="https://", after="/"),
    text("é", before="https://", after="/"),
    text("a%41", before="https://", after="@b/"),
    text(":", before="https://[", after="]/"),
    text("1", before="https://a:", after="/"),
    text("%41", before="/"),
    text("1", before="2020-01-01T00:00:00.", after="Z"),
    text("1h", after="x"),
    text("9", after=":00"),
    text("0", before="01:"),
    text("../", after="Berlin"),
    text("a", before="fe80::1%"),
    text("1", before="1.1.1.1/"),
    text("A", after="$"),
    text("-", before="a"),
]
_SHORT = [
    *("", "a", "b", "aabaa", f"{'a' * 50}b{'a' * 49}", "1.5e300", f"1.{'1' * 900}e-99", f"{'1' * 990}e999"),
    *(f"{'9' * 4000}:00", "Europe/Berlin", "Europe/Nowhere", "a" * 32, "1.0.0", f"1.0.0-{'1.' * 490}1"),
    *("::1", "10.0.0.0/8", "https://a:1/b?c=d", "2020-01-01T00:00:00Z"),
]
_TEXTS: list[Make] = [*_REPEATED, *_FRAMED, *map(constant, _SHORT)]
_PATTERNS = (
    *("(a*)*b", "(.*)(.*)(.*)(.*)(.*)[ab]{50}c", r"\pL{15}", "(a?){30}a{30}", "[a-q][^u-z]{13}x", "a*?$|b"),
    *("(", "[", "a{999}", r"(?i)\pL*b"),
)
PATTERNS: list[Make] = [
    *map(constant, _PATTERNS),
    *map(text, ("a", "a*", "(a|", r"\pL", "[^a]", "(?:", "a?", ".*", "(")),
]
"""Regular expressions, of which some are too large and some are malformed."""
# The other texts of a function: those to search for, to put in, or the name of a time zone.
_PARTS: list[Make] = [
    *map(constant, ("", "a", "b", "aabaa", f"{'a' * 50}b{'a' * 49}", "Europe/Berlin", "Europe/Nowhere")),
    *(text("a"), text("a", after="b"), text("\U0001f600"), text("Ab/"), text("9", after=":00")),
    part_of(text("a"), 2),
    part_of(text("a", after="b"), 3),
    part_of(text("a", before="ab"), 2),
    part_of(text("a", before="b"), 3),
    part_of(text("a", after="ba"), 2),
    text("a", after="ba"),
    part_of(text("abaab"), 4),
]


def _nested(depth: int) -> list[object]:
    value: list[object] = [1]
    for _ in range(depth):
        value = [value]
    return value


def _doubled(depth: int) -> list[object]:
    """Return lists in lists, each twice in the next, so the whole has exponentially many elements."""
    value: list[object] = [1]
    for _ in range(depth):
        value = [value, value]
    return value


def repeated(element: object) -> Make:
    """Return the maker of a list of one element, many times."""
    return lambda size: [element] * size


_LISTS: list[Make] = [
    constant([]),
    constant([1]),
    lambda size: list(range(size)),
    lambda size: list(range(size // 4, 0, -1)),
    *map(repeated, (1, UInt(1), 1.5, math.nan, True, "a", "", b"a", Duration(1), Timestamp(1))),
    *map(repeated, ([1], {1: 2}, Optional(1), NONE, value_of("quantity(a)", "1"))),
    lambda size: ["a" * size] * 100,
    lambda size: ["\U0001f600" * size] * 100,
    lambda size: ["\x01" * size],
    lambda size: ["a" * size] * size,
    lambda size: ["a" * 100] * (size // 100),
    lambda size: [b"a" * size] * 10,
    lambda size: [[1] * size] * 100,
    lambda size: [[1] * 100] * (size // 100),
    lambda size: [1, "a"] * (size // 2),
    constant(_nested(300)),
    constant(_doubled(40)),
]
_MAPS: list[Make] = [
    constant({}),
    lambda size: dict.fromkeys(range(size), 1),
    lambda size: {f"{'a' * 50}{number}": "b" for number in range(size)},
    lambda size: {"a" * size: "a" * size},
    lambda _size: {number: [1] * 1000 for number in range(100)},
]


def _read(expression: str, *texts: str) -> list[Make]:
    """Return the makers of the values that an expression reads from texts."""
    return [constant(value_of(expression, each)) for each in texts]


def _urls() -> list[Make]:
    def make(text_of_url: Make) -> Make:
        return lambda size: value_of("url(a)", text_of_url(size))

    queries = [text(pairs, before="https://a/?") for pairs in ("a=b&", "%41=1&", "a", "&", "é=é&")]
    return [make(each) for each in (*queries, text("é", before="https://a/"), text("a", before="/"))]


_FORMATS = (
    *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix"),
    *(
        "dns1123SubdomainPrefix",
        "dns1035LabelPrefix",
        "labelValue",
        "uri",
        "uuid",
        "byte",
        "date",
        "datetime",
    ),
)


VALUES: dict[str, list[Make]] = {
    "string": _TEXTS,
    "list": _LISTS,
    "map": _MAPS,
    "int": [*map(constant, (0, 1, -1, 2**63 - 1, -(2**63), 65_536, 900_000)), lambda n: n, lambda n: n // 2],
    "uint": list(map(constant, (UInt(0), UInt(2**64 - 1)))),
    "double": list(map(constant, (1.5, math.inf, math.nan, 1e308, 5e-324))),
    "bool": list(map(constant, (True, False))),
    "bytes": [lambda n: b"a" * n, lambda n: b"\xff" * n, lambda n: "é".encode() * (n // 2), constant(b"")],
    "null_type": [constant(None)],
    "type": [constant(TypeValue("int"))],
    "optional_type": [
        constant(NONE),
        lambda size: Optional(list(range(size))),
        lambda size: Optional(dict.fromkeys(range(size), 1)),
        lambda size: Optional("a" * size),
    ],
    "google.protobuf.Duration": list(map(constant, (Duration(1), Duration(2**63 - 1)))),
    "google.protobuf.Timestamp": list(map(constant, (Timestamp(0), Timestamp(253_402_300_799 * 10**9)))),
    "kubernetes.Quantity": _read("quantity(a)", "1", "5m", f"1.{'1' * 900}e-99", f"{'1' * 990}e999"),
    "kubernetes.Semver": _read("semver(a)", "1.0.0", f"1.0.0-{'1.' * 490}1", f"1.0.0-{'a.' * 490}1"),
    "kubernetes.URL": _urls(),
    "kubernetes.NamedFormat": _read("format.named(a).value()", *_FORMATS),
    "net.IP": _read("ip(a)", "1.1.1.1", "::1"),
    "net.CIDR": _read("cidr(a)", "1.1.1.1/8", "::1/64"),
}
"""Values of each type."""
ANY: list[Make] = [
    *(
        text("a"),
        text("a", after="b"),
        text("\U0001f600"),
        constant("a"),
        *VALUES["map"],
        *VALUES["optional_type"],
    ),
    *(
        each
        for name in ("int", "double", "kubernetes.Quantity", "kubernetes.Semver")
        for each in VALUES[name]
    ),
    *_LISTS,
]
"""Values for a parameter that takes any type."""


def values_for(name: str, parameter: str, index: int) -> list[Make]:
    """Return hostile values of a parameter, by its function and the name of its type."""
    if parameter not in VALUES:
        return ANY
    if parameter != "string" or index == 0:
        return VALUES[parameter]
    return PATTERNS if name in {"matches", "find", "findAll"} else _PARTS
