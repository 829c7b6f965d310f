"""Errors of expressions."""

from tidelock.model.printable import shortened

_LONGEST_VALUE = 100


def shown(text: str) -> str:
    """Return a text as a message shows it: at most 100 characters, as tenants choose its length."""
    return shortened(text, _LONGEST_VALUE)


class ExpressionError(ValueError):
    """A text that is no valid expression: of its syntax, its types, or its size.

    Its message has at most 200 characters.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class EvaluationError(Exception):
    """An evaluation without a result, such as a missing key. `&&` and `||` may absorb it.

    Its message has at most 200 characters. A value in it is cut before, by `shown`, as a loop may absorb
    thousands of errors.

    Attributes:
        cost: the cost of the whole evaluation, if nothing has absorbed the error.

    """

    cost = 0

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class LimitError(EvaluationError):
    """An evaluation that costs more than it may, or makes a value that is too large. Nothing absorbs it."""


def no_such_overload(call: str = "") -> EvaluationError:
    """Return the error of a function or operator that is not defined for the types of its values."""
    return EvaluationError(f"no such overload: {call}" if call else "no such overload")
