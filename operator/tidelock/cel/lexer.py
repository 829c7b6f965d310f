"""Tokens of an expression, by the lexical grammar of cel-spec."""

import re
from collections.abc import Iterator
from math import isinf
from typing import NamedTuple

from tidelock.cel.errors import ExpressionError
from tidelock.cel.values import UInt, checked_int, checked_uint

_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n\f]+|//[^\n]*)+)
    |(?P<quote>(?P<prefix>[bB]?[rR]?)(?P<delimiter>\"\"\"|'''|"|'))
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<int>(?:0x[0-9a-fA-F]+|\d+)[uU]?)
    |(?P<quoted>`[A-Za-z0-9_./\ -]+`)
    |(?P<name>[A-Za-z_][A-Za-z_0-9]*)
    |(?P<operator>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.ASCII,
)
_END = {
    delimiter: re.compile(rf"(?:(?!{delimiter})[^\\]|\\.)*{delimiter}", re.DOTALL)
    for delimiter in ('"""', "'''")
}
_END |= {
    delimiter: re.compile(rf"(?:[^\\\n\r{delimiter}]|\\[^\n\r])*{delimiter}") for delimiter in ('"', "'")
}
_RAW_END = {delimiter: re.compile(rf"(.*?){delimiter}", re.DOTALL) for delimiter in ('"""', "'''")}
_RAW_END |= {delimiter: re.compile(rf"([^\n\r{delimiter}]*){delimiter}") for delimiter in ('"', "'")}
_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_SIMPLE = dict(zip("abfnrtv\"'\\?`", "\a\b\f\n\r\t\v\"'\\?`", strict=True))
_WORDS = {"true": True, "false": False, "null": None}
_SURROGATES = range(0xD800, 0xE000)
_LARGEST_CODE_POINT = 0x10FFFF
_LONGEST_NUMBER = 1000


class Token(NamedTuple):
    """An operator, a name, a literal with its value, or the end of the text."""

    kind: str
    text: str
    position: int
    value: object = None


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of an expression and a last one of the kind `end`. Raises ExpressionError."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ExpressionError(f"Syntax error at {position}: unexpected character {text[position]!r}")
        kind, found_text, start = str(found.lastgroup), found.group(), position
        position = found.end()
        if kind == "quote":
            value, position = _string(text, found)
            yield Token("literal", found_text, start, value)
        elif kind == "float":
            if isinf(number := float(found_text)):
                raise ExpressionError(f"Syntax error at {start}: the number {found_text} is too large")
            yield Token("literal", found_text, start, number)
        elif kind == "int":
            yield Token("number", found_text, start)
        elif kind == "name" and found_text in _WORDS:
            yield Token("literal", found_text, start, _WORDS[found_text])
        elif kind != "space":
            yield Token("operator" if found_text == "in" else kind, found_text, start)
    yield Token("end", "", position)


def integer(text: str, position: int, *, negative: bool) -> int | UInt:
    """Return the value of an integer's digits. Raises ExpressionError if it does not fit 64 bits."""
    digits = text.rstrip("uU")
    number = int(digits, 16 if digits.startswith("0x") else 10) if len(digits) < _LONGEST_NUMBER else 2**64
    fitted = checked_uint(number) if digits != text else checked_int(-number if negative else number)
    if fitted is None:
        raise ExpressionError(f"Syntax error at {position}: the number {text} does not fit 64 bits")
    return fitted


def _string(text: str, opening: re.Match[str]) -> tuple[str | bytes, int]:
    """Return the value of a string or bytes literal, and the position after it."""
    prefix, delimiter = opening["prefix"].lower(), opening["delimiter"]
    ending = (_RAW_END if "r" in prefix else _END)[delimiter].match(text, opening.end())
    if ending is None:
        raise ExpressionError(f"Syntax error at {opening.start()}: a string without an end")
    content = text[opening.end() : ending.end() - len(delimiter)]
    try:
        if "r" in prefix:
            return (content.encode() if "b" in prefix else content), ending.end()
        return (_unescaped_bytes(content) if "b" in prefix else _unescaped(content)), ending.end()
    except ValueError as error:
        raise ExpressionError(f"Syntax error at {opening.start()}: {error}") from None


def _code_point(escape: re.Match[str]) -> tuple[int, bool]:
    """Return the number that an escape sequence stands for, and whether a byte can be written so."""
    hexadecimal, short, long, octal, simple = escape.groups()
    if simple is not None:
        if simple not in _SIMPLE:
            raise ValueError(f"unknown escape sequence \\{simple}")
        return ord(_SIMPLE[simple]), True
    if octal is not None:
        return int(octal, 8), True
    return int(hexadecimal or short or long, 16), hexadecimal is not None


def _unescaped(content: str) -> str:
    def replaced(escape: re.Match[str]) -> str:
        code_point, _ = _code_point(escape)
        if code_point > _LARGEST_CODE_POINT or code_point in _SURROGATES:
            raise ValueError(f"{escape.group()} is no code point")
        return chr(code_point)

    return _ESCAPE.sub(replaced, content)


def _unescaped_bytes(content: str) -> bytes:
    parts, position = [], 0
    for escape in _ESCAPE.finditer(content):
        code_point, is_byte = _code_point(escape)
        if not is_byte:
            raise ValueError(f"{escape.group()} can't be part of bytes")
        parts += [content[position : escape.start()].encode(), bytes([code_point])]
        position = escape.end()
    return b"".join([*parts, content[position:].encode()])
