"""Expressions (CEL) of the API server, compiled by Tidelock's own engine.

Variables have the type `dyn`. The API server checks types before it evaluates, so an expression with a wrong
type fails here only in its evaluation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from tidelock.cel.compiler import Compiler, Variable
from tidelock.cel.errors import EvaluationError, ExpressionError
from tidelock.cel.functions import Run
from tidelock.cel.parser import parse
from tidelock.cel.types import DYN
from tidelock.cel.values import MAX_COST

Json = dict[str, Any]

_FIRST = 1  # slot of the first variable, after the cost that is left


class UnsupportedExpressionError(ValueError):
    """An expression that the engine can't compile."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression over named variables."""

    text: str
    names: tuple[str, ...]
    _run: Run
    _slots: int

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the value of the expression. Raises EvaluationError."""
        frame: list[Any] = [MAX_COST, *(values.get(name) for name in self.names)]
        frame += [None] * (self._slots - len(frame))
        try:
            return self._run(frame)
        except RecursionError:
            raise EvaluationError("a value is nested too deeply") from None


@lru_cache(maxsize=4096)
def compiled(text: str, names: tuple[str, ...]) -> Expression:
    """Return an expression, the same one for all servers of a process. Raises UnsupportedExpressionError."""
    variables = {name: Variable(DYN, _FIRST + index) for index, name in enumerate(names)}
    compiler = Compiler(variables, {}, _FIRST + len(names))
    try:
        node = compiler.compile(parse(text))
    except (ExpressionError, RecursionError) as error:
        raise UnsupportedExpressionError(f"{text}: {error}") from error
    return Expression(text, names, node.run, compiler.slots)


@dataclass(frozen=True)
class Rule:
    """One entry of x-kubernetes-validations."""

    rule: str
    message: str
    message_expression: str
    reason: str
    field_path: str
    transition: bool

    @property
    def compares(self) -> bool:
        """Whether the rule looks at the old value."""
        return "oldSelf" in self.rule

    @classmethod
    def read(cls, plain: Json) -> Self:
        """Return a rule from its JSON."""
        rule = plain["rule"]
        message = plain.get("message") or f"failed rule: {rule}"
        return cls(
            rule,
            message.strip(),
            plain.get("messageExpression", ""),
            plain.get("reason", "FieldValueInvalid"),
            plain.get("fieldPath", ""),
            "oldSelf" in rule and not plain.get("optionalOldSelf"),
        )

    def holds(self, new: Any, old: Any) -> bool:
        """Return whether a value satisfies the rule. Raises EvaluationError."""
        return compiled(self.rule, ("self", "oldSelf")).evaluate({"self": new, "oldSelf": old}) is True
