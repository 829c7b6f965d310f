"""Text of other authors for terminals and logs: one line, in which nothing hides or moves its neighbours.

Names, tokens, messages, labels and annotations can have line breaks, which forge a line of a log. ESC and the
controls of C1 are commands to a terminal. Bidirectional overrides and characters without width make a line
look different from its content.
"""

import re

LONGEST_REASON = 200
"""Most characters of a reason or an error that leaves a plugin."""

# All characters that `str.isprintable` accepts stay. It refuses Unicode's categories "Other" and "Separator"
# except for the space.
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")


def printable(text: str) -> str:
    r"""Return a text with escapes, such as `\n` and `\x1b`, for all unprintable characters.

    A lone surrogate, which no encoding can write, is also escaped.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def shortened(text: str, most: int = LONGEST_REASON) -> str:
    """Return a text with at most so many characters. The last of a text that was longer is an ellipsis.

    The result is a plain string, because msgspec refuses to encode a subclass of str.
    """
    plain = str(text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def printable_json(text: str) -> str:
    r"""Return JSON of the same value with escapes, as `\u202e`, in its strings. Its own line breaks stay."""
    return _BEYOND_ASCII.sub(_json_escaped, text)


def _escaped(character: str) -> str:
    if (known := _ESCAPES.get(character)) is not None:
        return known
    code = ord(character)
    if code <= 0xFF:  # noqa: PLR2004 -- as Python writes it
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004


def _json_escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable():
        return character
    code = ord(character)
    if code <= 0xFFFF:  # noqa: PLR2004 -- beyond that JSON writes two surrogates
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
