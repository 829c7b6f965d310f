"""The size of the values that an expression makes.

It is checked before a value is made, because a copy of a large one holds up all threads. A text can double
with each `cel.bind`.
"""

from collections.abc import Iterable

from tidelock.cel.errors import LimitError

MAX_TEXT = 64 * 1024
"""Characters of a text, and bytes of a value of bytes."""
MAX_ELEMENTS = 64 * 1024
"""Elements of a list, and entries of a map."""


def check_text(length: int) -> int:
    """Return the length of a text or of bytes. Raises LimitError if it is too large."""
    if length > MAX_TEXT:
        raise LimitError(f"a text of more than {MAX_TEXT} characters")
    return length


def check_elements(count: int) -> int:
    """Return the number of elements of a list or map. Raises LimitError if it is too large."""
    if count > MAX_ELEMENTS:
        raise LimitError(f"a list or map of more than {MAX_ELEMENTS} elements")
    return count


def joined(separator: str, parts: Iterable[str]) -> str:
    """Return texts with a separator between them. Raises LimitError at the part that is too much."""
    texts, length = [], -len(separator)
    for each in parts:
        length = check_text(length + len(separator) + len(each))
        texts.append(each)
    return separator.join(texts)
