"""JSON that is nested too deeply, and its readable rest.

A field that keeps unknown content, such as a Reservation's `spec.template.spec`, may be nested thousands of
levels deep. The API server stores that. Python's decoders, encoders, comparisons and copies give up with a
RecursionError at a depth that depends on the stack at that moment. So the depth is bounded once, where an
object is decoded: content deeper than `DEEPEST` levels is cut out. Any depth below that is safe.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_R = TypeVar("_R")
_T = TypeVar("_T")

DEEPEST = 100
"""Largest number of nested lists and objects in an object. The deepest of Kubernetes' own kinds has 20."""

_QUOTE = ord('"')
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Change of the depth by each byte outside of strings, as signed bytes.
_STEPS = bytes(1 if byte in b"[{" else 255 if byte in b"]}" else 0 for byte in range(256))
_NAME = re.compile(rb'"([^"\\]{1,63})"\s*:\s*$')
_NAMES_SHOWN = 5
_NAME_SPAN = 80  # bytes before a value in which its name is searched


class Cut(NamedTuple):
    """JSON with a 0 for each part that was nested too deeply, and the path of the first such part."""

    raw: bytes
    path: tuple[str, ...]


def is_flat(raw: bytes) -> bool:
    """Return whether the count of brackets alone proves that JSON is not nested too deeply."""
    brackets = len(raw.translate(None, _NO_BRACKETS))
    if brackets <= 2 * DEEPEST:
        return True
    empty = raw.count(b"{}") + raw.count(b"[]")  # at most one of these is on the way to any depth
    return brackets // 2 - empty < DEEPEST


def cut(raw: bytes, deepest: int = DEEPEST) -> Cut | None:
    """Cut out content that is nested more than `deepest` levels deep; return None if there is none."""
    import numpy as np  # noqa: PLC0415 -- a client reads only flat objects, and starts faster without it

    marks = np.frombuffer(raw.replace(b"\\\\", b"__").replace(b'\\"', b"__"), np.uint8)
    in_string = np.bitwise_xor.accumulate((marks == _QUOTE).view(np.uint8))
    step = np.frombuffer(_STEPS, np.int8)[marks] * (1 - in_string).view(np.int8)
    depth = np.cumsum(step, dtype=np.int32)
    deep = depth > deepest
    if not deep.any():
        return None
    begins = (step == 1) & (depth == deepest + 1)
    ends = (step == -1) & (depth == deepest)
    kept = np.frombuffer(raw, np.uint8).copy()
    kept[begins] = ord("0")
    first = int(begins.argmax())
    return Cut(kept[~(deep | ends) | begins].tobytes(), _path(raw, step[:first], depth[:first]))


def shallow(raw: bytes, deepest: int = DEEPEST) -> bytes:
    """Return JSON without content that is nested more than `deepest` levels deep."""
    left = cut(raw, deepest)
    return raw if left is None else left.raw


def depth_bounded(decode: Callable[[_R], _T]) -> Callable[[_R], _T]:
    """Return a decoder that raises a ValueError for JSON that is nested too deeply, as for bad JSON."""

    def decode_bounded(raw: _R) -> _T:
        try:
            return decode(raw)
        except RecursionError:
            raise msgspec.DecodeError("is nested too deeply") from None

    return decode_bounded


decode_plain: Callable[[bytes | msgspec.Raw], object] = depth_bounded(msgspec.json.decode)
"""Decode JSON to plain values. Raises ValueError, also for JSON that is nested too deeply."""


def _path(raw: bytes, step: "npt.NDArray[np.int8]", depth: "npt.NDArray[np.int32]") -> tuple[str, ...]:
    """Return the names of the fields that lead to the end of JSON, down to the first list."""
    names: list[str] = []
    for level in range(2, 2 + _NAMES_SHOWN):
        (at,) = ((step == 1) & (depth == level)).nonzero()
        found = _NAME.search(raw, max(int(at[-1]) - _NAME_SPAN, 0), int(at[-1])) if at.size else None
        if found is None:
            break
        names.append(found[1].decode(errors="replace"))
    return tuple(names)
