"""Functions by name, and how a call finds the one for the types of its values."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidelock.cel.errors import EvaluationError, LimitError, no_such_overload
from tidelock.cel.types import DYN, Type, is_variable, read_signature
from tidelock.cel.values import PYTHON_TYPES, name_of_type

Frame = list[Any]
"""The state of one evaluation: the cost that it has left, the device, and the values of its variables."""
Run = Callable[[Frame], Any]
"""A compiled expression. Raises EvaluationError."""
Function = Callable[..., object]
Cost = Callable[..., int]
"""The cost of a call by its arguments. Raises LimitError if the result would be too large.

Without one, the call costs nothing beside the step that makes it. It takes constant time then.
"""

COST_LEFT, DEVICE = 0, 1


def spend(frame: Frame, cost: int) -> None:
    """Take a cost off the rest of an evaluation. Raises LimitError if less is left."""
    frame[COST_LEFT] -= cost
    if frame[COST_LEFT] < 0:
        raise LimitError("actual cost limit exceeded")


@dataclass(frozen=True, slots=True)
class Constant:
    """A compiled expression that always has the same value."""

    value: object

    def __call__(self, _frame: Frame) -> object:
        """Return the value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Overload:
    """A function for certain types. The first parameter of a method is its target.

    A function without `builder` is called with the values of its arguments. A builder is called once instead,
    with the compiled arguments, and returns the compiled call. `generic` says that the signature has type
    parameters.
    """

    name: str
    method: bool
    parameters: tuple[Type, ...]
    result: Type
    function: Function
    cost: Cost | None
    builder: Callable[[Sequence[Run]], Run] | None
    generic: bool

    def accepts(self, python_types: Sequence[type]) -> bool:
        """Return whether values of these types are arguments of the function."""
        return all(
            parameter == DYN or is_variable(parameter) or python_type in PYTHON_TYPES[parameter.name]
            for parameter, python_type in zip(self.parameters, python_types, strict=True)
        )


def _overload(
    name: str, signature: str, implementation: Function, cost: Cost | None, *, is_method: bool
) -> Overload:
    parameters, result = read_signature(signature)
    generic = any(each.generic for each in (*parameters, result))
    return Overload(name, is_method, parameters, result, implementation, cost, None, generic)


def function(name: str, signature: str, implementation: Function, cost: Cost | None = None) -> Overload:
    """Return a function from its row in a table. A signature is such as `string, int -> list(string)`."""
    return _overload(name, signature, implementation, cost, is_method=False)


def method(name: str, signature: str, implementation: Function, cost: Cost | None = None) -> Overload:
    """Return a method from its row in a table. Its first parameter is the target."""
    return _overload(name, signature, implementation, cost, is_method=True)


def lazy(
    name: str, signature: str, builder: Callable[[Sequence[Run]], Run], *, is_method: bool = False
) -> Overload:
    """Return a function that evaluates its arguments itself, from its row in a table."""
    return replace(_overload(name, signature, builder, None, is_method=is_method), builder=builder)


def by_name(overloads: Iterable[Overload]) -> dict[tuple[str, bool, int], list[Overload]]:
    """Return the overloads by their name, whether they are methods, and their number of arguments."""
    table: dict[tuple[str, bool, int], list[Overload]] = {}
    for each in overloads:
        table.setdefault((each.name, each.method, len(each.parameters)), []).append(each)
    return table


def call(overload: Overload, arguments: Sequence[Run]) -> Run:
    """Return a call of a function with arguments that certainly have its types."""
    implementation, cost = overload.function, overload.cost
    if cost is not None:

        def costly(frame: Frame) -> object:
            values = [argument(frame) for argument in arguments]
            spend(frame, cost(*values))
            return implementation(*values)

        return costly
    match arguments:
        case [first]:
            return lambda frame: implementation(first(frame))
        case [first, second]:
            return lambda frame: implementation(first(frame), second(frame))
        case _:
            return lambda frame: implementation(*[argument(frame) for argument in arguments])


def _undefined(overloads: Sequence[Overload], types: Sequence[type]) -> EvaluationError:
    """Return the error of a call that no function is defined for. Operators are not named."""
    name = overloads[0].name
    return no_such_overload(f"{name}({', '.join(map(name_of_type, types))})" if name[-1].isalpha() else "")


def dispatched_call(overloads: Sequence[Overload], arguments: Sequence[Run]) -> Run:
    """Return a call that chooses among functions by the types of its values."""
    chosen: dict[tuple[type, ...], Overload | None] = {}

    def choose(types: tuple[type, ...]) -> Overload:
        if types not in chosen:
            chosen[types] = next((each for each in overloads if each.accepts(types)), None)
        overload = chosen[types]
        if overload is None:
            raise _undefined(overloads, types)
        return overload

    def run(frame: Frame) -> object:
        values = [argument(frame) for argument in arguments]
        types = tuple(map(type, values))
        overload = chosen.get(types) or choose(types)
        if overload.cost is not None:
            spend(frame, overload.cost(*values))
        return overload.function(*values)

    if len(arguments) != 2:  # noqa: PLR2004
        return run
    first, second = arguments

    def run_with_two(frame: Frame) -> object:
        left, right = first(frame), second(frame)
        types = (type(left), type(right))
        overload = chosen.get(types) or choose(types)
        if overload.cost is not None:
            spend(frame, overload.cost(left, right))
        return overload.function(left, right)

    return run_with_two
