"""The static types of expressions, and how one is assigned to another.

The rules are those of cel-go's checker: `dyn` goes with every type, and type parameters are unified.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelock.cel.errors import ExpressionError

MAX_TYPE_SIZE = 1_000
"""Parts of a type. Without a limit, a chain of `cel.bind` doubles a type with each of its links."""
MAX_STEPS = 2_500
"""Comparisons of types in one expression. Type parameters could take exponentially many.

An expression of full length takes some 500 without empty lists and maps. A comparison of two empty lists
takes 11.
"""


class Type(NamedTuple):
    """A type by name, with the types of its elements. The name of a type parameter begins with `$`.

    `size` is its number of parts. It is `generic` if a part is a type parameter. Both follow from the rest.
    An expression takes thousands of comparisons, so a type is a tuple.
    """

    name: str
    parameters: tuple["Type", ...] = ()
    size: int = 1
    generic: bool = False

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


def parametrized(name: str, *parameters: Type) -> Type:
    """Return a type with parameters. Raises ExpressionError if it is too large."""
    size, generic = 1, False
    for each in parameters:
        size += each.size
        generic |= each.generic
    if size > MAX_TYPE_SIZE:
        raise ExpressionError(f"a type of more than {MAX_TYPE_SIZE} parts")
    return Type(name, parameters, size, generic)


def type_parameter(name: str) -> Type:
    """Return a type parameter."""
    return Type(f"${name}", generic=True)


BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL, DYN = Type("string"), Type("bytes"), Type("null_type"), Type("dyn")
DEVICE = Type("kubernetes.DRADevice")
_SHORT_NAMES = {
    "optional": "optional_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "Quantity": "kubernetes.Quantity",
    "Semver": "kubernetes.Semver",
    "URL": "kubernetes.URL",
    "Format": "kubernetes.NamedFormat",
    "IP": "net.IP",
    "CIDR": "net.CIDR",
}
NOT_NULLABLE = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "type", "null_type"}
)


def list_of(element: Type) -> Type:
    """Return the type of a list."""
    return parametrized("list", element)


def map_of(key: Type, value: Type) -> Type:
    """Return the type of a map."""
    return parametrized("map", key, value)


def optional_of(value: Type) -> Type:
    """Return the type of an optional value."""
    return parametrized("optional_type", value)


def is_variable(checked: Type) -> bool:
    """Return whether a type is a type parameter."""
    return checked.name[0] == "$"


def read_type(text: str) -> Type:
    """Return a type from its notation in a table of functions, such as `map(A, list(string))`."""
    name, bracket, inner = text.partition("(")
    parameters, depth, start = [], 0, 0
    for index, character in enumerate(inner):
        depth += (character == "(") - (character == ")")
        if depth < 0 or (character == "," and depth == 0):
            parameters.append(read_type(inner[start:index].strip()))
            start = index + 1
    if len(name) == 1:
        return type_parameter(name)
    name = _SHORT_NAMES.get(name, name)
    return parametrized(name, *parameters) if bracket else Type(name)


def read_signature(text: str) -> tuple[tuple[Type, ...], Type]:
    """Return the parameters and the result of a function: `list(A), A -> int`."""
    parameters, _, result = text.partition("->")
    read = read_type(f"tuple({parameters.strip()})") if parameters.strip() else Type("tuple")
    return read.parameters, read_type(result.strip())


class Substitution:
    """The types that stand for type parameters so far."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._former: list[tuple[str, Type | None]] = []
        self._variables = 0
        self._steps = 0

    def new_variable(self) -> Type:
        """Return a type parameter that nothing else has."""
        self._variables += 1
        return type_parameter(str(self._variables))

    def instantiate(self, types: Sequence[Type]) -> list[Type]:
        """Return the types of a signature with parameters of their own."""
        fresh: dict[str, Type] = {}
        return [self._renamed(each, fresh) for each in types]

    def _renamed(self, checked: Type, fresh: dict[str, Type]) -> Type:
        if is_variable(checked):
            if checked.name not in fresh:
                fresh[checked.name] = self.new_variable()
            return fresh[checked.name]
        if not checked.generic:
            return checked
        return parametrized(checked.name, *(self._renamed(each, fresh) for each in checked.parameters))

    def resolve(self, checked: Type) -> Type:
        """Return a type with its known parameters replaced."""
        while checked.generic and (known := self._bound.get(checked.name)) is not None:
            checked = known
        if not checked.generic or is_variable(checked):
            return checked
        self._count()
        return parametrized(checked.name, *map(self.resolve, checked.parameters))

    def assignable(self, pairs: Sequence[tuple[Type, Type]]) -> bool:
        """Return whether each first type goes with its second one. If so, bind their type parameters."""
        mark = len(self._former)
        if all(self._assign(first, second) for first, second in pairs):
            return True
        while len(self._former) > mark:
            name, former = self._former.pop()
            if former is None:
                del self._bound[name]
            else:
                self._bound[name] = former
        return False

    def join(self, first: Type, second: Type) -> Type:
        """Return the type of a list with elements of two types, which is `dyn` if they don't go together."""
        if not self.assignable([(first, second)]):
            return DYN
        return first if _less_specific(first, second) else second

    def _count(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise ExpressionError("the types of the expression are too complex")

    def _assign(self, first: Type, second: Type) -> bool:
        self._count()
        if is_variable(second):
            had_value = second.name in self._bound
            if self._bind(second, first):
                return True
            if had_value:
                return False
        if is_variable(first):
            return self._bind(first, second)
        if first == second or DYN in (first, second):
            return True
        if first.name != second.name:
            return NULL in (first, second) and not {first.name, second.name} <= NOT_NULLABLE
        same_length = len(first.parameters) == len(second.parameters)
        return first.name == "type" or (
            same_length and all(map(self._assign, first.parameters, second.parameters))
        )

    def _bind(self, variable: Type, value: Type) -> bool:
        """Let a parameter stand for a type, or for the more general one of that and its former type."""
        if value == variable:
            return True
        former = self._bound.get(variable.name)
        if former is not None:
            if value == former:
                return True
            if not self._assign(value, former):
                return False
            value = value if _less_specific(value, former) else former
            if value != former and not self._occurs(variable, value):
                self._set(variable.name, value)
            return True
        if self._occurs(variable, value):
            return False
        self._set(variable.name, value)
        return True

    def _set(self, name: str, value: Type) -> None:
        self._former.append((name, self._bound.get(name)))
        self._bound[name] = value

    def _occurs(self, variable: Type, within: Type) -> bool:
        self._count()
        while is_variable(within):
            if within == variable:
                return True
            if within.name not in self._bound:
                return False
            within = self._bound[within.name]
        return within.generic and any(self._occurs(variable, each) for each in within.parameters)


def _less_specific(first: Type, second: Type) -> bool:
    """Return whether the first type is the second one or more general."""
    if first == DYN or is_variable(first):
        return True
    if second == DYN or is_variable(second) or first.name != second.name:
        return False
    if len(first.parameters) != len(second.parameters):
        return False
    return first.name == "type" or all(map(_less_specific, first.parameters, second.parameters))
