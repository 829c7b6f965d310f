"""Tokens of an expression, by the lexical grammar of cel-spec."""

import re
from math import isinf

from tidelock.cel.errors import ExpressionError
from tidelock.cel.values import UInt, checked_int, checked_uint

_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n\f]+|//[^\n]*)+)
    |(?P<quote>(?P<prefix>[bB]?[rR]?)(?P<delimiter>\"\"\"|'''|"|'))
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<number>(?:0x[0-9a-fA-F]+|\d+)[uU]?)
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
# Fewer decimal digits certainly fit 64 bits.
_CERTAIN_DIGITS = 19


class Tokens:
    """The tokens of an expression, as lists of equal length. The last one has the kind `end`.

    An expression has up to 10,000 of them, so they are no objects of their own.

    Attributes:
        kinds: the text of each operator. The others are `name`, `number`, `literal`, `end`, or `quoted` for a
            name in backquotes.
        texts: the text of each.
        positions: where each begins.
        values: the value of each literal, by its index.

    """

    def __init__(self, text: str) -> None:
        """Split an expression. Raises ExpressionError."""
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.positions: list[int] = []
        self.values: dict[int, object] = {}
        match, position, length = _TOKEN.match, 0, len(text)
        while position < length:
            found = match(text, position)
            if found is None:
                raise ExpressionError(f"Syntax error at {position}: unexpected character {text[position]!r}")
            kind, start, position = found.lastgroup, position, found.end()
            if kind == "operator":
                operator = found.group()
                self._add(operator, operator, start)
            elif kind == "quote":
                value, position = _string(text, found)
                self._add_literal(found.group(), start, value)
            elif kind != "space":
                self._add_word(str(kind), found.group(), start)
        self._add("end", "", position)

    def _add(self, kind: str, text: str, position: int) -> None:
        self.kinds.append(kind)
        self.texts.append(text)
        self.positions.append(position)

    def _add_literal(self, text: str, position: int, value: object) -> None:
        self.values[len(self.kinds)] = value
        self._add("literal", text, position)

    def _add_word(self, kind: str, text: str, position: int) -> None:
        """Add a number or a name. Some names are literals, and one is an operator."""
        if kind == "float":
            if isinf(number := float(text)):
                raise ExpressionError(f"Syntax error at {position}: the number {text} is too large")
            self._add_literal(text, position, number)
        elif kind == "name" and text in _WORDS:
            self._add_literal(text, position, _WORDS[text])
        else:
            self._add("in" if text == "in" else kind, text, position)


def integer(text: str, position: int, *, negative: bool) -> int | UInt:
    """Return the value of an integer's digits. Raises ExpressionError if it does not fit 64 bits."""
    if text.isdigit() and len(text) < _CERTAIN_DIGITS:  # as nearly always
        return -int(text) if negative else int(text)
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
