"""Wire types of quantities and resource lists, with the rules that the API server applies to them.

Wherever possible a rule is on the single quantity, so the error's path names the resource.
"""

from typing import Annotated

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from tidelock.model.api.wire import PREFIXED_NAME, Rule
from tidelock.model.quantities import parse_resources

_PETA = 10**15
_MEBIBYTE = 2**20
_UNIT_MISSING = "must be at least 1Mi: is its unit missing, as in 4Gi or 512Mi?"
_COUNTABLE = "['cpu', 'memory', 'ephemeral-storage', 'pods']"  # pods are refused with a separate reason


# A replacement for CEL's isQuantity, which computes 1e999999999 digit by digit and so keeps the API server
# busy for minutes. quantity() can read every text that matches.
_GRAMMAR = "[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"


def _is_quantity(amount: str) -> str:
    return f"{amount}.matches('^{_GRAMMAR}$')"


def _whole_or_text(value: object) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("a quantity is a text such as 500m or 4Gi, or a whole number")  # noqa: TRY004
    return value


def _readable(amounts: dict[str, str | int]) -> dict[str, str | int]:
    parse_resources(amounts)
    return amounts


def _both_forms(number: str, text: str) -> str:
    """Return a rule on an amount that is a number or a text. Invalid texts have an error already."""
    return f"type(self) == int ? {number} : !{_is_quantity('self')} || {text}"


def _large_enough(amount: str) -> str:
    """Return the test that an amount of bytes is 0 or at least 1Mi."""
    return (
        f"(type({amount}) == int ? {amount} == 0 || {amount} >= {_MEBIBYTE} : !{_is_quantity(amount)}"
        f" || quantity({amount}).compareTo(quantity('0')) == 0"
        f" || !quantity({amount}).isLessThan(quantity('1Mi')))"
    )


def _with_unit(resource: str) -> Rule:
    amount = f"self['{resource}']"
    return Rule(f"!('{resource}' in self) || {_large_enough(amount)}", f"{resource} {_UNIT_MISSING}")


_AnyQuantity = Annotated[
    str | int,
    PlainValidator(_whole_or_text),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": 32}),
    Rule(f"type(self) == int || {_is_quantity('self')}", "must be a quantity such as 2, 500m or 4Gi"),
]

_NOT_NEGATIVE = Rule(
    _both_forms("self >= 0", "!quantity(self).isLessThan(quantity('0'))"),
    "a quantity must not be negative",
)

IntOrString = Annotated[
    _AnyQuantity,
    Rule(
        _both_forms(f"self < {_PETA}", "quantity(self).isLessThan(quantity('1P'))"),
        "a quantity must be less than 1P",
    ),
]

PositiveQuantity = Annotated[
    IntOrString,
    Rule(
        _both_forms("self > 0", "quantity(self).isGreaterThan(quantity('0'))"),
        "a quantity must be more than 0",
    ),
]

Quantity = Annotated[IntOrString, _NOT_NEGATIVE]

Bytes = Annotated[PositiveQuantity, Rule(_large_enough("self"), f"an amount of bytes {_UNIT_MISSING}")]

_MEMORY = _with_unit("memory")
_STORAGE = _with_unit("ephemeral-storage")
_WHOLE = Rule(
    "self.all(name, !name.contains('/') || type(self[name]) == int"
    f" || !{_is_quantity('self[name]')}"
    " || quantity(self[name]).isInteger())",
    "an extended resource such as nvidia.com/gpu comes in whole numbers",
)

_KNOWN = Rule(
    f"self.all(name, name in {_COUNTABLE} || name.matches('^hugepages-[0-9]+[KMG]i$')"
    f" || name.size() <= 317 && name.matches(r'{PREFIXED_NAME}'))",
    "a resource is cpu, memory, ephemeral-storage, hugepages-2Mi or an extended one: nvidia.com/gpu",
)

ReservedAmounts = Annotated[
    dict[str, PositiveQuantity],
    Field(min_length=1, max_length=16),
    AfterValidator(_readable),
    Rule("!('pods' in self)", "pods are counted separately: every reservation counts as one"),
    _KNOWN,
    _MEMORY,
    _STORAGE,
    _WHOLE,
]
"""Amounts that a reservation requests."""

LimitAmounts = Annotated[
    dict[str, Quantity],
    Field(min_length=1, max_length=16),
    AfterValidator(_readable),
    _KNOWN,
    _MEMORY,
    _STORAGE,
    _WHOLE,
]
"""Upper limits of some resources. The resource `pods` limits the number of reservations."""

LimitProducts = Annotated[
    dict[
        str,
        Annotated[
            _AnyQuantity,
            _NOT_NEGATIVE,
            Rule(
                _both_forms("true", "quantity(self).isLessThan(quantity('9E'))"),
                "a quantity must be less than 9E",
            ),
        ],
    ],
    Field(min_length=1, max_length=16),
    AfterValidator(_readable),
    _KNOWN,
]
"""Upper limits of amounts times seconds."""

PodAmounts = Annotated[
    dict[str, Quantity], Field(max_length=16), AfterValidator(_readable), _MEMORY, _STORAGE, _WHOLE
]
"""Amounts that a pod or container requests, where zero is an ordinary value."""
