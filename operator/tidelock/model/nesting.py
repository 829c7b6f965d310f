"""JSON that is nested too deeply, and what of it can be read.

A field that keeps unknown content, such as a Reservation's `spec.template.spec`, may be nested thousands of
levels deep. The API server stores that. Python's decoders, encoders, comparisons and copies give up with a
RecursionError at a depth that follows from the stack at that moment. So the depth is bounded once, where an
object is decoded: what is nested deeper than `DEEPEST` levels is cut out. Any depth below that is safe.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

R = TypeVar("R")
T = TypeVar("T")

DEEPEST = 100
"""Levels of lists and objects that an object may have; the deepest of Kubernetes' own kinds has 20."""

_QUOTE = ord('"')
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = np.zeros(256, np.int8)  # what a byte outside of strings adds to the depth
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1
_NAME = re.compile(rb'"([^"\\]{1,63})"\s*:\s*$')
_NAMES_SHOWN = 5
_NAME_SPAN = 80  # bytes before a value in which its name is looked for


class Cut(NamedTuple):
    """JSON without what is nested too deeply, which a 0 stands for, and where the first such part is."""

    raw: bytes
    path: tuple[str, ...]


def is_flat(raw: bytes) -> bool:
    """Whether it is certain, by the count of brackets alone, that JSON is not nested too deeply."""
    brackets = len(raw.translate(None, _NO_BRACKETS))
    if brackets <= 2 * DEEPEST:
        return True
    empty = raw.count(b"{}") + raw.count(b"[]")  # of these at most one is on the way to any depth
    return brackets // 2 - empty < DEEPEST


def cut(raw: bytes, deepest: int = DEEPEST) -> Cut | None:
    """Cut out what is nested more than `deepest` levels deep; return None if nothing is."""
    marks = np.frombuffer(raw.replace(b"\\\\", b"__").replace(b'\\"', b"__"), np.uint8)
    in_string = np.bitwise_xor.accumulate((marks == _QUOTE).view(np.uint8))
    step = _STEPS[marks] * (1 - in_string).view(np.int8)
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
    """Return JSON without what is nested more than `deepest` levels deep."""
    left = cut(raw, deepest)
    return raw if left is None else left.raw


def bounded(decode: Callable[[R], T]) -> Callable[[R], T]:
    """Make a decoder that raises a ValueError for what is nested too deeply, as for what is no JSON."""

    def decode_bounded(raw: R) -> T:
        try:
            return decode(raw)
        except RecursionError:
            raise msgspec.DecodeError("is nested too deeply") from None

    return decode_bounded


decode_plain: Callable[[bytes | msgspec.Raw], object] = bounded(msgspec.json.decode)
"""Decode JSON to plain values; raises ValueError, also for what is nested too deeply."""


def _path(raw: bytes, step: npt.NDArray[np.int8], depth: npt.NDArray[np.int32]) -> tuple[str, ...]:
    """Name the fields that lead to the end of JSON, down to the first list."""
    names: list[str] = []
    for level in range(2, 2 + _NAMES_SHOWN):
        (at,) = np.nonzero((step == 1) & (depth == level))
        found = _NAME.search(raw, max(int(at[-1]) - _NAME_SPAN, 0), int(at[-1])) if at.size else None
        if found is None:
            break
        names.append(found[1].decode(errors="replace"))
    return tuple(names)
