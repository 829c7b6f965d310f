"""Errors of expressions."""


class ExpressionError(ValueError):
    """A text that is no valid expression: of its syntax, its types, or its size."""


class EvaluationError(Exception):
    """An evaluation without a result, such as a missing key. `&&` and `||` may absorb it.

    Attributes:
        cost: the cost of the whole evaluation, if nothing has absorbed the error.

    """

    cost = 0


class CostLimitError(EvaluationError):
    """An evaluation that costs more than it may. Nothing absorbs it."""


def no_such_overload(call: str = "") -> EvaluationError:
    """Return the error of a function or operator that is not defined for the types of its values."""
    return EvaluationError(f"no such overload: {call}" if call else "no such overload")
