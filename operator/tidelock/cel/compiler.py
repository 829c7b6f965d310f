"""Checks the types of a syntax tree and compiles it to closures, both in one walk.

A comprehension takes the cost of its body with each turn, and a function the cost of its values. Nothing else
repeats, so the rest of an evaluation is bounded by the length of the expression.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from tidelock.cel import access
from tidelock.cel.comprehensions import BUILDERS, Loop
from tidelock.cel.errors import EvaluationError, ExpressionError, no_such_overload
from tidelock.cel.functions import Constant, Frame, Overload, Run, call, dispatched_call
from tidelock.cel.libraries import patterns
from tidelock.cel.library import FUNCTION_NAMES, OVERLOADS, QUALIFIED, TYPES
from tidelock.cel.syntax import (
    Call,
    Comprehension,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)
from tidelock.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NOT_NULLABLE,
    NULL,
    STRING,
    UINT,
    Substitution,
    Type,
    is_variable,
    list_of,
    map_of,
    optional_of,
    parametrized,
)
from tidelock.cel.values import Optional, UInt, map_key

STEP = 10
"""The cost of a turn of a comprehension, and of each node of its body. See docs/architecture.md."""
MAX_INSTRUCTIONS = 20_000
"""Instructions of an expression's regular expressions. They are compiled in about 10 ms."""
_FOLDING_LIMIT = 200
_LITERALS = {bool: BOOL, int: INT, UInt: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL}
_ANY = frozenset({"dyn", "null_type"})
_QUALIFIED_TYPES = frozenset({"Duration", "Timestamp"})
_TIMES = frozenset({"duration", "timestamp"})
Fields = Mapping[str, Type]


class Variable(NamedTuple):
    """A variable of the environment or of a comprehension, and its place in the frame."""

    type: Type
    slot: int


class Compiled(NamedTuple):
    """An expression with its type.

    The path of a variable, or of fields of one, is the variable's slot and the names of the fields.
    """

    type: Type
    run: Run
    path: tuple[int, tuple[str, ...]] | None = None


@dataclass(slots=True)
class Compiler:
    """Compiles one expression.

    `variables` has those of the environment, `fields` the fields of each type of object, and `slots` the
    length of the frame that an evaluation needs.
    """

    variables: dict[str, Variable]
    fields: Mapping[str, Fields]
    slots: int
    _types: Substitution = field(default_factory=Substitution)
    _formats: int = 0
    _instructions: int = 0
    _resolved: dict[tuple[str, bool, tuple[Type, ...]], tuple[list[Overload], Type]] = field(
        default_factory=dict
    )

    def compile(self, node: Node) -> Compiled:  # noqa: PLR0911 -- one for each kind of node
        """Return a compiled node. Raises ExpressionError."""
        match node:
            case Literal():
                return Compiled(_LITERALS[type(node.value)], Constant(node.value))
            case Identifier():
                return self._identifier(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
        raise TypeError(node)

    def result_type(self, compiled: Compiled) -> Type:
        """Return the type of a compiled expression, `dyn` if any type would do."""
        resolved = self._types.resolve(compiled.type)
        return DYN if is_variable(resolved) else resolved

    def _identifier(self, node: Identifier) -> Compiled:
        variable = self.variables.get(node.name)
        if variable is not None:
            return Compiled(variable.type, itemgetter(variable.slot), (variable.slot, ()))
        if node.name in TYPES:
            return Compiled(parametrized("type", DYN), Constant(TYPES[node.name]))
        raise _undeclared(node, node.name)

    def _select(self, node: Select) -> Compiled:
        if node.name in _QUALIFIED_TYPES and _path(node) in TYPES:
            return Compiled(parametrized("type", DYN), Constant(TYPES[_path(node)]))
        operand = self.compile(node.operand)
        operand_type = self._types.resolve(operand.type)
        is_optional = operand_type.name == "optional_type"
        container = operand_type.parameters[0] if is_optional else operand_type
        if container.name in self.fields:
            if node.name not in self.fields[container.name]:
                raise ExpressionError(f"at {node.position}: undefined field '{node.name}'")
            found = self.fields[container.name][node.name]
        elif container.name == "map":
            found = container.parameters[1]
        elif container == DYN or is_variable(container):
            self._types.assignable([(DYN, container)])
            found = DYN
        else:
            raise ExpressionError(f"at {node.position}: type '{container}' does not support field selection")
        if node.test:
            return Compiled(BOOL, access.has_field(operand.run, node.name))
        if node.optional:
            return Compiled(optional_of(found), access.optional_field(operand.run, node.name))
        return _field(optional_of(found) if is_optional else found, operand, node.name)

    def _call(self, node: Call) -> Compiled:
        if node.function in {"&&", "||"}:
            return self._logic(node)
        name, nodes, method = node.function, node.arguments, node.method
        qualified = f"{_path(nodes[0])}.{name}" if method else ""
        if qualified in QUALIFIED:
            name, nodes, method = qualified, nodes[1:], False
        self._formats += name == "format"
        arguments = [self.compile(each) for each in nodes]
        self._formats -= name == "format"
        candidates, result = self._resolve(node, name, arguments, method=method)
        runs = [each.run for each in arguments]
        if name in patterns.NAMES and isinstance(nodes[1], Literal) and isinstance(nodes[1].value, str):
            candidates = [self._with_pattern(each, nodes[1].value) for each in candidates]
        if name == "[]" and isinstance(runs[1], Constant) and isinstance(runs[1].value, str):
            return _field(result, arguments[0], runs[1].value)
        run = self._built(candidates, arguments)
        if all(isinstance(each, Constant) for each in runs):
            run = _folded(run, invalid=name if name in _TIMES and isinstance(nodes[0], Literal) else "")
        return Compiled(result, run)

    def _with_pattern(self, overload: Overload, pattern: str) -> Overload:
        bound, instructions = patterns.with_pattern(overload, pattern)
        self._instructions += instructions
        if self._instructions > MAX_INSTRUCTIONS:
            raise ExpressionError("the regular expressions are too large")
        return bound

    def _built(self, candidates: Sequence[Overload], arguments: Sequence[Compiled]) -> Run:
        runs, first = [each.run for each in arguments], candidates[0]
        if first.builder is not None:
            return first.builder(runs)
        if len(candidates) == 1 and all(map(self._certain, first.parameters, arguments)):
            return call(first, runs)
        return dispatched_call(candidates, runs)

    def _certain(self, parameter: Type, argument: Compiled) -> bool:
        """Return whether an argument certainly has the type of a parameter, and is not null instead."""
        if parameter == DYN or is_variable(parameter):
            return True
        return parameter.name in NOT_NULLABLE and self._types.resolve(argument.type).name == parameter.name

    def _logic(self, node: Call) -> Compiled:
        operands = [self._boolean(each) for each in node.arguments]
        return Compiled(BOOL, access.logic(operands, decisive=node.function == "||"))

    def _boolean(self, node: Node) -> Run:
        compiled = self.compile(node)
        if compiled.type != BOOL and not self._types.assignable([(compiled.type, BOOL)]):
            raise self._mismatch(node, BOOL, compiled.type)
        return compiled.run

    def _resolve(
        self, node: Node, name: str, arguments: Sequence[Compiled], *, method: bool
    ) -> tuple[list[Overload], Type]:
        """Return the overloads that the arguments fit, and the type of the result: `dyn` if they disagree."""
        types = tuple(self._types.resolve(each.type) for each in arguments)
        key = (name, method, types)
        if (known := self._resolved.get(key)) is not None:
            return known
        candidates: list[Overload] = []
        result: Type | None = None
        for overload in OVERLOADS.get((name, method, len(types)), ()):
            if not _possible(types, overload.parameters):
                continue
            *parameters, returned = (*overload.parameters, overload.result)
            if overload.generic:
                *parameters, returned = self._types.instantiate((*overload.parameters, overload.result))
            if self._types.assignable(list(zip(types, parameters, strict=True))):
                candidates.append(overload)
                returned = self._types.resolve(returned)
                result = returned if result is None or result == returned else DYN
        if result is None:
            raise self._unresolved(node, name, types)
        if not result.generic and not any(each.generic for each in types):
            self._resolved[key] = (candidates, result)
        return candidates, result

    def _unresolved(self, node: Node, name: str, types: Sequence[Type]) -> ExpressionError:
        if name not in FUNCTION_NAMES:
            return _undeclared(node, name)
        shown = ", ".join(str(self._shown(each)) for each in types)
        return ExpressionError(
            f"at {node.position}: found no matching overload for '{name}' applied to '({shown})'"
        )

    def _list(self, node: ListLiteral) -> Compiled:
        elements = [self.compile(each) for each in node.elements]
        types = [each.type for each in elements]
        for index in sorted(node.optional):
            types[index] = self._unwrapped(node.elements[index], types[index])
        run = _list_run([each.run for each in elements], node.optional)
        return Compiled(list_of(self._common(node, types)), run)

    def _map(self, node: MapLiteral) -> Compiled:
        keys, values = (
            [self.compile(each) for each in node.keys],
            [self.compile(each) for each in node.values],
        )
        types = [
            self._unwrapped(child, each.type) if index in node.optional else each.type
            for index, (child, each) in enumerate(zip(node.values, values, strict=True))
        ]
        checked = map_of(self._common(node, [each.type for each in keys]), self._common(node, types))
        return Compiled(
            checked, _map_run([each.run for each in keys], [each.run for each in values], node.optional)
        )

    def _unwrapped(self, node: Node, optional: Type) -> Type:
        """Return the type of an optional element's value."""
        resolved = self._types.resolve(optional)
        if resolved.name == "optional_type":
            return resolved.parameters[0]
        if resolved != DYN:
            raise self._mismatch(node, optional_of(resolved), resolved)
        return DYN

    def _common(self, node: Node, types: Sequence[Type]) -> Type:
        """Return the one type of a literal's elements. Only in the arguments of `format` they may differ."""
        if not types:
            return self._types.new_variable()
        common = types[0]
        for each in types[1:]:
            if each == common:
                continue
            joined = self._types.join(common, each)
            if not self._formats and self._types.resolve(common) != self._types.resolve(each):
                raise self._mismatch(node, common, each)
            common = joined
        return common

    def _comprehension(self, node: Comprehension) -> Compiled:
        target = self.compile(node.target)
        types = self._variable_types(node, target)
        hidden = {name: self.variables.get(name) for name in node.variables}
        slots = tuple(range(self.slots, self.slots + len(types)))
        self.slots += len(types)
        for name, variable_type, slot in zip(node.variables, types, slots, strict=True):
            self.variables[name] = Variable(variable_type, slot)
        condition = None if node.condition is None else self._boolean(node.condition)
        body = self.compile(node.body)
        for name, former in hidden.items():
            if former is None:
                del self.variables[name]
            else:
                self.variables[name] = former
        cost = STEP * (1 + node.body.size + (node.condition.size if node.condition is not None else 0))
        loop = Loop(target.run, slots, condition, body.run, cost)
        return Compiled(self._comprehension_type(node, target, types, body), BUILDERS[node.macro](loop))

    def _variable_types(self, node: Comprehension, target: Compiled) -> list[Type]:
        """Return the types of the variables by that of the range."""
        target_type = self._types.resolve(target.type)
        if node.macro == "bind":
            return [target_type]
        if node.macro in {"optMap", "optFlatMap"}:
            return [self._resolve(node, "value", [target], method=True)[1]]
        match target_type.name:
            case "list":
                pair = [INT, target_type.parameters[0]]
                return pair[-len(node.variables) :]
            case "map":
                return list(target_type.parameters)[: len(node.variables)]
        if target_type != DYN and not is_variable(target_type):
            raise ExpressionError(
                f"at {node.position}: expression of type '{target_type}' cannot be range of a comprehension"
            )
        self._types.assignable([(DYN, target_type)])
        return [DYN] * len(node.variables)

    def _comprehension_type(
        self, node: Comprehension, target: Compiled, types: Sequence[Type], body: Compiled
    ) -> Type:
        body_type, result = self._types.resolve(body.type), self._types.new_variable()
        match node.macro:
            case "all" | "exists" | "exists_one" | "filter":
                self._as(node.body, body_type, BOOL)
                result = list_of(types[0]) if node.macro == "filter" else BOOL
            case "map":
                result = list_of(body_type)
            case "transformMap":
                result = map_of(types[0], body_type)
            case "transformMapEntry":
                result = self._as(node.body, body_type, map_of(result, self._types.new_variable()))
            case "sortBy":
                self._resolve(node, "sort", [Compiled(list_of(body_type), body.run)], method=True)
                result = self._as(node.target, target.type, list_of(result))
            case "optMap":
                result = optional_of(body_type)
            case "optFlatMap":
                result = self._as(node.body, body_type, optional_of(result))
            case "bind":
                result = body_type
        return result

    def _as(self, node: Node, checked: Type, expected: Type) -> Type:
        """Return a type that goes with an expected one. Raises ExpressionError for another."""
        if not self._types.assignable([(checked, expected)]):
            raise self._mismatch(node, expected, checked)
        return self._types.resolve(checked)

    def _shown(self, checked: Type) -> Type:
        """Return a type as error messages show it, with `dyn` for unknown parts."""
        resolved = self._types.resolve(checked)
        if is_variable(resolved):
            return DYN
        return Type(resolved.name, tuple(map(self._shown, resolved.parameters)))

    def _mismatch(self, node: Node, expected: Type, found: Type) -> ExpressionError:
        expected, found = self._shown(expected), self._shown(found)
        return ExpressionError(f"at {node.position}: expected type '{expected}' but found '{found}'")


def _field(checked: Type, operand: Compiled, name: str) -> Compiled:
    if operand.path is None:
        return Compiled(checked, access.field(operand.run, name))
    slot, names = operand.path
    return Compiled(checked, access.along(slot, (*names, name)), (slot, (*names, name)))


def _undeclared(node: Node, name: str) -> ExpressionError:
    return ExpressionError(f"at {node.position}: undeclared reference to '{name}'")


def _path(node: Node) -> str:
    """Return the dotted name of a node that may be a namespace, or an empty text."""
    if isinstance(node, Identifier):
        return node.name
    if isinstance(node, Select) and not node.test and not node.optional:
        parent = _path(node.operand)
        return f"{parent}.{node.name}" if parent else ""
    return ""


def _possible(types: Sequence[Type], parameters: Sequence[Type]) -> bool:
    """Return whether the names of the types alone allow an overload. This spares most of the unifications."""
    for checked, parameter in zip(types, parameters, strict=True):
        names = (checked.name, parameter.name)
        if names[0] != names[1] and not any(name in _ANY or name[0] == "$" for name in names):
            return False
    return True


def _folded(run: Run, *, invalid: str) -> Run:
    """Evaluate a call of constants once. A call with an error keeps its error for the evaluation."""
    try:
        return Constant(run([_FOLDING_LIMIT]))
    except EvaluationError:
        if invalid:
            raise ExpressionError(f"invalid {invalid} argument") from None
        return run


def _list_run(elements: Sequence[Run], optional: frozenset[int]) -> Run:
    if not optional:
        values = [each.value for each in elements if isinstance(each, Constant)]
        if len(values) == len(elements):
            return Constant(values)
        return lambda frame: [each(frame) for each in elements]

    def run_with_optionals(frame: Frame) -> list[object]:
        values = []
        for index, each in enumerate(elements):
            value = each(frame)
            if index not in optional:
                values.append(value)
            elif not isinstance(value, Optional):
                raise no_such_overload()
            elif value.present:
                values.append(value.value)
        return values

    return run_with_optionals


def _map_run(keys: Sequence[Run], values: Sequence[Run], optional: frozenset[int]) -> Run:
    def run(frame: Frame) -> dict[object, object]:
        entries: dict[object, object] = {}
        for index, (key, value) in enumerate(zip(keys, values, strict=True)):
            name, entry = map_key(key(frame)), value(frame)
            if index in optional:
                if not isinstance(entry, Optional):
                    raise no_such_overload()
                if not entry.present:
                    continue
                entry = entry.value
            entries[name] = entry
        return entries

    if all(isinstance(each, Constant) for each in (*keys, *values)):
        return _folded(run, invalid="")
    return run
