"""Objects beside their own JSON, for callers that must pass them on whole."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

_T = TypeVar("_T", bound=msgspec.Struct)

_FIELD = "raw"


def keeping_raw(decode: Callable[[bytes | msgspec.Raw], _T]) -> Callable[[bytes | msgspec.Raw], _T]:
    """Return a decoder that keeps the JSON beside its result (a struct with `dict=True`)."""

    def decode_and_keep(raw: bytes | msgspec.Raw) -> _T:
        decoded = decode(raw)
        decoded.__dict__[_FIELD] = raw.copy() if isinstance(raw, msgspec.Raw) else msgspec.Raw(raw)
        return decoded

    return decode_and_keep


def kept_raw(decoded: msgspec.Struct) -> dict[str, msgspec.Raw]:
    """Return the JSON as an attribute for a replacement of the object, if `keeping_raw` kept it."""
    return {_FIELD: decoded.__dict__[_FIELD]} if _FIELD in decoded.__dict__ else {}


def raw_of(decoded: msgspec.Struct) -> msgspec.Raw:
    """Return the JSON of an object, or raise KeyError if it was not decoded by `keeping_raw`."""
    raw: msgspec.Raw = decoded.__dict__[_FIELD]
    return raw
