"""Operators that evaluate their operands themselves: logic, equality, and access to elements."""

from collections.abc import Callable, Iterable, Sequence

from tidelock.cel.errors import EvaluationError, LimitError, no_such_overload
from tidelock.cel.functions import Constant, Frame, Overload, Run, lazy, spend
from tidelock.cel.values import (
    NONE,
    Domains,
    Optional,
    UInt,
    checked_int,
    equal,
    footprint,
    key_text,
    map_key,
    same,
    type_name,
)

_LONG_TEXT = 100
_QUALIFIERS = {bool, int, UInt, float, str}


def logic(operands: Sequence[Run], *, decisive: bool) -> Run:
    """Return `&&`, which False decides, or `||`, which True decides."""
    return lambda frame: decided(operands, frame, decisive=decisive)


def decided(operands: Iterable[Run], frame: Frame, *, decisive: bool) -> bool:
    """Return the decisive value if one of the operands has it, which absorbs the errors of the others.

    Raises:
        EvaluationError: none has it, and one has failed or is no boolean.

    """
    fault: EvaluationError | None = None
    for operand in operands:
        try:
            value: object = operand(frame)
        except LimitError:
            raise
        except EvaluationError as error:
            fault = fault or error
            continue
        if value is decisive:
            return decisive
        if value is not (not decisive):
            fault = fault or no_such_overload()
    if fault is not None:
        raise fault
    return not decisive


def _conditional(operands: Sequence[Run]) -> Run:
    condition, if_true, if_false = operands

    def run(frame: Frame) -> object:
        chosen = condition(frame)
        if chosen is True:
            return if_true(frame)
        if chosen is False:
            return if_false(frame)
        raise no_such_overload()

    return run


def _equality(*, expected: bool) -> Callable[[Sequence[Run]], Run]:
    """Return the builder of `==`, or of `!=`, which is true for values that can't be compared."""
    compared = equal if expected else same

    def build(operands: Sequence[Run]) -> Run:
        left, right = operands
        if isinstance(right, Constant) and isinstance(right.value, str):
            text = right.value

            def run_with_text(frame: Frame) -> bool:
                value: object = left(frame)
                matching = value == text if isinstance(value, str) else compared(value, text)
                return matching is expected

            return run_with_text

        def run(frame: Frame) -> bool:
            first, second = left(frame), right(frame)
            if isinstance(first, list | dict | Optional) or (
                isinstance(first, str | bytes) and len(first) > _LONG_TEXT
            ):
                spend(frame, footprint(first))
            return compared(first, second) is expected

        return run

    return build


def _missing(key: object) -> EvaluationError:
    return EvaluationError(f"no such key: {key_text(key)}")


def _check_qualifier(key: object) -> None:
    if type(key) not in _QUALIFIERS:
        raise EvaluationError(f"invalid qualifier type: {type_name(key)}")


def find(container: object, key: object) -> object:
    """Return the optional element of a list or map, or of an optional one. Raises EvaluationError."""
    _check_qualifier(key)
    if isinstance(container, Optional):
        return find(container.value, key) if container.present else NONE
    if isinstance(container, Domains):
        return Optional(container.of(key))
    if isinstance(container, dict):
        try:
            return Optional(container[map_key(key)])
        except (KeyError, EvaluationError):
            return NONE
    if isinstance(container, list):
        index = _index(key)
        return Optional(container[index]) if 0 <= index < len(container) else NONE
    return NONE


def element(container: object, key: object) -> object:
    """Return the element of a list or map, or the optional one of an optional. Raises EvaluationError."""
    _check_qualifier(key)
    if isinstance(container, Optional):
        return find(container, key)
    if isinstance(container, Domains):
        return container.of(key)
    if isinstance(container, dict):
        try:
            return container[map_key(key)]
        except (KeyError, EvaluationError):
            raise _missing(key) from None
    if not isinstance(container, list):
        raise no_such_overload()
    index = _index(key)
    if not 0 <= index < len(container):
        raise EvaluationError(f"index '{index}' out of range in list size '{len(container)}'")
    return container[index]


def _index(key: object) -> int:
    if isinstance(key, int | float) and not isinstance(key, bool):
        index = checked_int(int(key)) if key == key // 1 else None
        if index is not None:
            return index
    raise EvaluationError(f"unsupported index value {key} in list")


def field(operand: Run, name: str) -> Run:
    """Return the value of a text key, as `operand.name` and `operand["name"]` have it."""

    def run(frame: Frame) -> object:
        container = operand(frame)
        if isinstance(container, dict):
            try:
                return container[name]
            except KeyError:
                raise _missing(name) from None
        return element(container, name)

    return run


def along(slot: int, names: tuple[str, ...]) -> Run:
    """Return the value at a path of text keys from a variable: `variable.name["name"]`."""

    def run(frame: Frame) -> object:
        value = frame[slot]
        try:
            for name in names:
                value = value[name]
        except (KeyError, TypeError):
            value = frame[slot]
            for name in names:
                value = element(value, name)
        return value

    return run


def optional_field(operand: Run, name: str) -> Run:
    """Return `operand.?name`."""
    return lambda frame: find(operand(frame), name)


def has_field(operand: Run, name: str) -> Run:
    """Return `has(operand.name)`."""

    def run(frame: Frame) -> bool:
        found = find(operand(frame), name)
        return isinstance(found, Optional) and found.present

    return run


def _at(operands: Sequence[Run]) -> Run:
    container, key = operands
    return lambda frame: element(container(frame), key(frame))


def _optional_at(operands: Sequence[Run]) -> Run:
    container, key = operands
    return lambda frame: find(container(frame), key(frame))


def _or(operands: Sequence[Run]) -> Run:
    first, second = operands

    def run(frame: Frame) -> object:
        optional = first(frame)
        if not isinstance(optional, Optional):
            raise no_such_overload()
        return optional if optional.present else second(frame)

    return run


def _or_value(operands: Sequence[Run]) -> Run:
    first, second = operands

    def run(frame: Frame) -> object:
        optional = first(frame)
        if not isinstance(optional, Optional):
            raise no_such_overload()
        return optional.value if optional.present else second(frame)

    return run


OVERLOADS: tuple[Overload, ...] = (
    lazy("?:", "bool, A, A -> A", _conditional),
    lazy("==", "A, A -> bool", _equality(expected=True)),
    lazy("!=", "A, A -> bool", _equality(expected=False)),
    lazy("[]", "list(A), int -> A", _at),
    lazy("[]", "map(A, B), A -> B", _at),
    lazy("[]", "optional(list(A)), int -> optional(A)", _at),
    lazy("[]", "optional(map(A, B)), A -> optional(B)", _at),
    lazy("[?]", "list(A), int -> optional(A)", _optional_at),
    lazy("[?]", "optional(list(A)), int -> optional(A)", _optional_at),
    lazy("[?]", "map(A, B), A -> optional(B)", _optional_at),
    lazy("[?]", "optional(map(A, B)), A -> optional(B)", _optional_at),
    lazy("or", "optional(A), optional(A) -> optional(A)", _or, is_method=True),
    lazy("orValue", "optional(A), A -> A", _or_value, is_method=True),
)
