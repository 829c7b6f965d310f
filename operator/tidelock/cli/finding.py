"""The result of a check of `kubectl tidelock check`."""

from dataclasses import dataclass
from enum import StrEnum


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
