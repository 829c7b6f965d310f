"""The errors of fields, in the words of the real API server."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import msgspec


@dataclass(frozen=True, slots=True)
class Cause:
    """An error of one field, as `field.Error` of apimachinery."""

    reason: str
    field: str
    message: str

    @property
    def text(self) -> str:
        """The error with its field, as the message of the Status lists it."""
        return f"{self.field}: {self.message}"

    @classmethod
    def required(cls, field: str, detail: str = "") -> Self:
        """Return the error of a field that is absent."""
        return cls("FieldValueRequired", field, "Required value" + (f": {detail}" if detail else ""))

    @classmethod
    def forbidden(cls, field: str, detail: str) -> Self:
        """Return the error of a field that may not be set or changed."""
        return cls("FieldValueForbidden", field, f"Forbidden: {detail}")

    @classmethod
    def invalid(cls, field: str, value: object, detail: str) -> Self:
        """Return the error of a wrong value. A value of None is left out of the message."""
        shown = "" if value is None else f"{show(value)}: "
        return cls("FieldValueInvalid", field, f"Invalid value: {shown}{detail}")

    @classmethod
    def duplicate(cls, field: str, value: object) -> Self:
        """Return the error of a value that another entry has, too."""
        return cls("FieldValueDuplicate", field, f"Duplicate value: {show(value)}")

    @classmethod
    def unsupported(cls, field: str, value: object, supported: Sequence[str]) -> Self:
        """Return the error of a value that is none of those supported."""
        known = ", ".join(map(show, supported))
        return cls(
            "FieldValueNotSupported", field, f"Unsupported value: {show(value)}: supported values: {known}"
        )


def show(value: object) -> str:
    """Return a value as `field.Error` prints it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case dict() | list() | None:
            return msgspec.json.encode(value, order="sorted").decode()
        case _:
            return str(value)
