"""JSON that is nested too deeply, and its readable rest.

A field that keeps unknown content, such as a Reservation's `spec.template.spec`, may be nested thousands of
levels deep. The API server stores that. Python's decoders, encoders, comparisons and copies give up with a
RecursionError at a depth that depends on the stack at that moment. So the depth is bounded once, where an
object is decoded: content deeper than `DEEPEST` levels is cut out. Any depth below that is safe.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

_R = TypeVar("_R")
_T = TypeVar("_T")

DEEPEST = 100
"""Largest number of nested lists and objects in an object. The deepest of Kubernetes' own kinds has 20."""

_QUOTE = ord('"')
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Change of the depth by each byte outside of strings, as signed bytes.
_STEPS = bytes(1 if byte in b"[{" else 255 if byte in b"]}" else 0 for byte in range(256))
_OPENING = b"[{"
_RUNS = re.compile(rb"[\[{]+|[\]}]+")
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
    try:
        return _cut_by_arrays(raw, deepest)
    except ModuleNotFoundError:  # only the operator and the command line need numpy
        return _cut_by_runs(raw, deepest)


def _cut_by_arrays(raw: bytes, deepest: int) -> Cut | None:
    """Cut in a few milliseconds per megabyte, so no object of any size can stall the operator."""
    import numpy as np  # noqa: PLC0415 -- which a client does not have, and a short command does not need

    marks = np.frombuffer(_without_escapes(raw), np.uint8)
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
    opened = [
        int(((step[:first] == 1) & (depth[:first] == level)).nonzero()[0][-1])
        for level in range(1, 1 + min(deepest, 1 + _NAMES_SHOWN))
    ]
    return Cut(kept[~(deep | ends) | begins].tobytes(), _path(raw, opened))


def _cut_by_runs(raw: bytes, deepest: int) -> Cut | None:
    """Cut without numpy, by runs of brackets of one direction. It takes up to 20 times as long."""
    parts = _without_escapes(raw).split(b'"')
    parts[1::2] = [b" " * len(text) for text in parts[1::2]]
    kept: list[bytes] = []
    opened: list[int] = []  # positions of the brackets that enclose the first cut
    depth = start = 0
    for run in _RUNS.finditer(b" ".join(parts)):
        first, last = run.span()
        length = last - first
        if raw[first] in _OPENING:
            if not kept:
                opened += range(first, last)
            if depth <= deepest < depth + length:
                kept += [raw[start : first + deepest - depth], b"0"]
            depth += length
        else:
            if not kept:
                del opened[max(len(opened) - length, 0) :]
            depth -= length
            if depth <= deepest < depth + length:
                start = last - deepest + depth
    if not kept:
        return None
    rest = b"" if depth > deepest else raw[start:]
    return Cut(b"".join([*kept, rest]), _path(raw, opened[:deepest]))


def _without_escapes(raw: bytes) -> bytes:
    """Replace escapes of JSON, so every quote begins or ends a string."""
    return raw.replace(b"\\\\", b"__").replace(b'\\"', b"__")


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


def _path(raw: bytes, opened: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the fields that lead to a cut, down to the first list.

    `opened` has the positions of the brackets around the cut, the outermost first.
    """
    names: list[str] = []
    for at in opened[1 : 1 + _NAMES_SHOWN]:
        found = _NAME.search(raw, max(at - _NAME_SPAN, 0), at)
        if found is None:
            break
        names.append(found[1].decode(errors="replace"))
    return tuple(names)
