"""The result of a check of `kubectl tidelock check`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

_NAMED = 3  # of many objects in one finding


class Severity(StrEnum):
    """Severity of a finding. The check of an `unknown` one was not possible."""

    OK = "ok"
    NOTE = "note"
    UNKNOWN = "unknown"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The finding of one check, with an advice, which is empty if none is needed."""

    matter: str
    level: Severity
    found: str
    advice: str = ""


def first_of(texts: Sequence[str], separator: str = ", ") -> str:
    """Join the first few texts, and count the others."""
    others = len(texts) - _NAMED
    return separator.join(texts[:_NAMED]) + (f" and {others} more" if others > 0 else "")
