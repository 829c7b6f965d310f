"""Functions of lists, of sets that are lists, and of optional values."""

from collections.abc import Callable
from functools import cmp_to_key, reduce
from itertools import pairwise
from typing import Any

from tidelock.cel.errors import EvaluationError, no_such_overload
from tidelock.cel.functions import Overload, function, method
from tidelock.cel.limits import check_elements
from tidelock.cel.operators import int_or_overflow, uint_or_overflow
from tidelock.cel.types import read_type
from tidelock.cel.values import (
    NONE,
    Duration,
    Optional,
    Timestamp,
    UInt,
    compare,
    contains,
    footprint,
    same,
    type_name,
)

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_COMPARABLE_NAMES = {read_type(each).name for each in _COMPARABLE}
_ZEROS: tuple[object, ...] = (
    None,
    False,
    0,
    UInt(0),
    0.0,
    "",
    b"",
    [],
    {},
    Duration(0),
    Timestamp(-62_135_596_800 * 10**9),
)
List = list[Any]


def _order(left: object, right: object) -> int:
    """Compare two elements. Those of different types, and NaN, are taken for equal, as in Kubernetes."""
    if not {type_name(left), type_name(right)} <= _COMPARABLE_NAMES:
        raise no_such_overload()
    try:
        return compare(left, right)
    except EvaluationError:
        return 0


def _is_sorted(elements: List) -> bool:
    return all(_order(left, right) <= 0 for left, right in pairwise(elements))


def _sum(zero: object) -> Callable[[List], object]:
    """Return a function that adds up elements of the type of the first one. Of none, the sum is `zero`."""

    def total(elements: List) -> object:
        if not elements:
            return zero
        add = _ADDITIONS.get(type(elements[0]))
        if add is None or any(type(each) is not type(elements[0]) for each in elements):
            raise no_such_overload()
        return reduce(add, elements)

    return total


def _least(elements: List, sign: int = 1) -> object:
    if not elements:
        raise EvaluationError(f"{'min' if sign > 0 else 'max'} called on empty list")
    return reduce(lambda least, each: each if sign * _order(least, each) > 0 else least, elements)


def _index_of(elements: List, element: object) -> int:
    return next((index for index, each in enumerate(elements) if same(each, element)), -1)


def _last_index_of(elements: List, element: object) -> int:
    index = _index_of(elements[::-1], element)
    return index if index < 0 else len(elements) - 1 - index


def _includes(target: object, element: object) -> bool:
    return _index_of(target, element) >= 0 if isinstance(target, list) else same(target, element)


def _slice(elements: List, start: int, end: int) -> List:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(elements):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(elements)}")
    return elements[start:end]


def _flatten(elements: List, depth: int = 1) -> List:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    if depth == 0:
        return elements
    flat: List = []
    for each in elements:
        flat += _flatten(each, depth - 1) if isinstance(each, list) else [each]
    return flat


def sort_by(elements: List, by: List) -> List:
    """Return elements in the order of their keys. Raises EvaluationError if the keys have none."""
    if by and any(type(each) is not type(by[0]) for each in by):
        raise EvaluationError("list elements must have the same type")
    if len(by) == 1:
        compare(by[0], by[0])
    order = sorted(zip(by, elements, strict=True), key=cmp_to_key(_compare_keys))
    return [element for _, element in order]


def _compare_keys(left: tuple[object, object], right: tuple[object, object]) -> int:
    return compare(left[0], right[0])


def sort_cost(elements: List) -> int:
    """Return the cost of sorting."""
    return 10 * footprint(elements)


def _distinct(elements: List) -> List:
    distinct: List = []
    for each in elements:
        if not any(same(each, other) for other in distinct):
            distinct.append(each)
    return distinct


def _range(length: int) -> List:
    if length < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {length}")
    return list(range(length))


def _contains_all(elements: List, others: List) -> bool:
    return all(contains(elements, each) for each in others)


def _pairs(left: List, right: List) -> int:
    """Return the cost of comparing each element with each of another list. It is one a pair in cel-go."""
    return footprint(left) * (1 + len(right)) + footprint(right)


def _walk(elements: Any, *others: Any) -> int:
    return footprint(elements) + sum(map(footprint, others))


def _length(elements: List, *_others: object) -> int:
    return len(elements)


def _value(optional: Optional) -> object:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _of_non_zero(value: object) -> Optional:
    is_zero = any(type(value) is type(zero) and value == zero for zero in _ZEROS)
    return NONE if is_zero else Optional(value)


def _unwrap(optionals: List) -> List:
    if not all(isinstance(each, Optional) for each in optionals):
        raise EvaluationError("a value of the list is not optional")
    return [each.value for each in optionals if each.present]


def _at(index: int) -> Any:
    return lambda elements: Optional(elements[index]) if elements else NONE


_ADDITIONS: dict[type, Callable[[Any, Any], object]] = {
    int: lambda left, right: int_or_overflow(left + right),
    UInt: lambda left, right: uint_or_overflow(left + right),
    float: lambda left, right: left + right,
    Duration: lambda left, right: Duration(int_or_overflow(left.nanoseconds + right.nanoseconds)),
}
_SUMS = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}

OVERLOADS: tuple[Overload, ...] = (
    *(method("isSorted", f"list({each}) -> bool", _is_sorted, _walk) for each in _COMPARABLE),
    *(method("sum", f"list({each}) -> {each}", _sum(zero), _walk) for each, zero in _SUMS.items()),
    *(method("min", f"list({each}) -> {each}", _least, _walk) for each in _COMPARABLE),
    *(
        method("max", f"list({each}) -> {each}", lambda elements: _least(elements, -1), _walk)
        for each in _COMPARABLE
    ),
    *(
        method("sort", f"list({each}) -> list({each})", lambda a: sort_by(a, a), sort_cost)
        for each in _COMPARABLE
    ),
    method("indexOf", "list(A), A -> int", _index_of, _walk),
    method("lastIndexOf", "list(A), A -> int", _last_index_of, _walk),
    method("includes", "dyn, dyn -> bool", _includes, _walk),
    method("slice", "list(A), int, int -> list(A)", _slice, _length),
    method("flatten", "list(list(A)) -> list(A)", _flatten, _walk),
    method("flatten", "list(dyn), int -> list(dyn)", _flatten, _walk),
    method("reverse", "list(A) -> list(A)", lambda elements: elements[::-1], _length),
    method("distinct", "list(A) -> list(A)", _distinct, lambda elements: _pairs(elements, elements)),
    method("first", "list(A) -> optional(A)", _at(0)),
    method("last", "list(A) -> optional(A)", _at(-1)),
    function("lists.range", "int -> list(int)", _range, lambda length: check_elements(max(length, 0))),
    function("sets.contains", "list(A), list(A) -> bool", _contains_all, _pairs),
    function(
        "sets.intersects",
        "list(A), list(A) -> bool",
        lambda a, b: any(contains(b, each) for each in a),
        _pairs,
    ),
    function(
        "sets.equivalent",
        "list(A), list(A) -> bool",
        lambda a, b: _contains_all(a, b) and _contains_all(b, a),
        lambda a, b: _pairs(a, b) + _pairs(b, a),
    ),
    function("optional.of", "A -> optional(A)", Optional),
    function("optional.ofNonZeroValue", "A -> optional(A)", _of_non_zero),
    function("optional.none", "-> optional(A)", lambda: NONE),
    function("optional.unwrap", "list(optional(A)) -> list(A)", _unwrap, _length),
    method("unwrapOpt", "list(optional(A)) -> list(A)", _unwrap, _length),
    method("value", "optional(A) -> A", _value),
    method("hasValue", "optional(A) -> bool", lambda optional: optional.present),
)
