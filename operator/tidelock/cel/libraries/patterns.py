"""Regular expressions. They are RE2's, so a match takes time linear in the text, whatever the expression."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any

import re2

from tidelock.cel.errors import EvaluationError, ExpressionError
from tidelock.cel.functions import Cost, Overload, function, method

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
# Bytes of a compiled pattern, for about 4,000 instructions. With 8 MiB, `\pL{300}` is compiled in 120 ms.
_OPTIONS.max_mem = 2**18
# The cost of a compilation: of each one, of each instruction, and of one that fails.
_COMPILATION, _INSTRUCTION, _FAILURE = 1_000, 10, 40_000
# Instructions of a pattern for one unit of cost at each character.
_INSTRUCTIONS_A_UNIT = 16
# The cost of a search from each character.
_MATCH = 100
Pattern = Any


def _compile(pattern: str) -> Pattern:
    """Compile a pattern. Raises ValueError for a bad one and for one that is too large."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error:
        raise ValueError(pattern) from None


@lru_cache(maxsize=128)
def _compiled(pattern: str) -> Pattern | None:
    """Return a pattern that an evaluation has made, or None for a bad one."""
    try:
        return _compile(pattern)
    except ValueError:
        return None


def _dynamic(pattern: str) -> Pattern:
    compiled = _compiled(pattern)
    if compiled is None:
        raise EvaluationError("Illegal regex")
    return compiled


def _matches(pattern: Pattern, text: str) -> bool:
    return pattern.search(text) is not None


def _first(pattern: Pattern, text: str) -> str:
    match = pattern.search(text)
    return match.group() if match else ""


def _all(pattern: Pattern, text: str, limit: int = -1) -> list[str]:
    """Return the matches, without empty ones that follow directly on another match, as Go does."""

    def found() -> Any:
        end = -1
        for match in pattern.finditer(text):
            if match.end() != end or match.start() != end:
                yield match.group()
            end = match.end()

    return list(islice(found(), limit if limit >= 0 else None))


def _scan_cost(pattern: Pattern, text: str) -> int:
    size: int = pattern.programsize
    return 1 + len(text) * (1 + size // _INSTRUCTIONS_A_UNIT)


def _search_cost(pattern: Pattern, text: str, *_limit: int) -> int:
    return _scan_cost(pattern, text) + _MATCH * len(text)


_FUNCTIONS: dict[str, tuple[Callable[..., object], Cost]] = {
    "matches": (_matches, _scan_cost),
    "find": (_first, _scan_cost),
    "findAll": (_all, _search_cost),
}
NAMES = frozenset(_FUNCTIONS)
"""The functions that take a pattern as their second argument."""


def with_pattern(overload: Overload, pattern: str) -> tuple[Overload, int]:
    """Return a function for a pattern that is a literal, and the number of the pattern's instructions.

    Raises:
        ExpressionError: the pattern is no regular expression of RE2, or is too large.

    """
    try:
        compiled = _compile(pattern)
    except ValueError:
        raise ExpressionError(f"invalid {overload.name} argument") from None
    implementation, cost = _FUNCTIONS[overload.name]
    bound = replace(
        overload,
        function=lambda text, _pattern, *limit: implementation(compiled, text, *limit),
        cost=lambda text, _pattern, *limit: cost(compiled, text, *limit),
    )
    return bound, compiled.programsize


def _row(name: str, signature: str, row: Callable[..., Overload] = method) -> Overload:
    """Return a function of any pattern. Its cost includes the compilation of the pattern."""
    implementation, cost = _FUNCTIONS[name]

    def run(text: str, pattern: str, *limit: int) -> object:
        return implementation(_dynamic(pattern), text, *limit)

    def whole_cost(text: str, pattern: str, *limit: int) -> int:
        compiled = _compiled(pattern)
        if compiled is None:
            return _FAILURE
        size: int = compiled.programsize
        return _COMPILATION + _INSTRUCTION * size + cost(compiled, text, *limit)

    return row(name, signature, run, whole_cost)


OVERLOADS: tuple[Overload, ...] = (
    _row("matches", "string, string -> bool", function),
    _row("matches", "string, string -> bool"),
    _row("find", "string, string -> string"),
    _row("findAll", "string, string -> list(string)"),
    _row("findAll", "string, string, int -> list(string)"),
)
