"""Protocol Buffers on the wire, as far as unary requests of a few kilobytes need them.

The encoding is that of https://protobuf.dev/programming-guides/encoding. A message is read into its fields by
number, and each reader names the field that it wants, so an error has the path of the field. Unknown fields
are skipped, as a newer peer may send them.
"""

from collections.abc import Iterator

MOST_FIELDS = 4096
"""Fields of one message, so that the smallest ones can't keep a reader busy."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_MOST_VARINT_BYTES = 10
_WORD = 2**64
_SIGN = 2**63
_LARGEST_INT32 = 2**31 - 1


class FieldError(ValueError):
    """Bytes that are not the message that they should be. The text begins with the path of the field."""


class Message:
    """The fields of one message.

    Attributes:
        path: the path of the message in its request, or empty for the request itself.

    """

    __slots__ = ("_fields", "path")

    def __init__(self, data: bytes, path: str = "") -> None:
        """Read the fields, or raise FieldError."""
        self.path = path
        self._fields: dict[int, list[int | bytes]] = {}
        for count, (number, value) in enumerate(self._read(data)):
            if count == MOST_FIELDS:
                raise self.error("", f"more than {MOST_FIELDS} fields")
            self._fields.setdefault(number, []).append(value)

    def error(self, name: str, problem: str) -> FieldError:
        """Return an error about a field, or about the message if there is no name."""
        return FieldError(f"{self._named(name) or 'request'}: {problem}")

    def integer(self, number: int, name: str) -> int:
        """Return a signed number, 0 by default. Raises FieldError for another type."""
        value = self._last(number, 0)
        if not isinstance(value, int):
            raise self.error(name, "expected a whole number")
        return value - _WORD if value >= _SIGN else value

    def count(self, number: int, name: str) -> int:
        """Return an int32 that is not negative. Raises FieldError for any other number."""
        value = self.integer(number, name)
        if not 0 <= value <= _LARGEST_INT32:
            raise self.error(name, f"{value} is not between 0 and {_LARGEST_INT32}")
        return value

    def text(self, number: int, name: str) -> str:
        """Return a text, empty by default. Raises FieldError if it is no UTF-8."""
        return self._decoded(self._last(number, b""), name)

    def texts(self, number: int, name: str) -> tuple[str, ...]:
        """Return the texts of a repeated field. Raises FieldError if one is no UTF-8."""
        return tuple(self._decoded(each, name) for each in self._fields.get(number, ()))

    def message(self, number: int, name: str) -> "Message | None":
        """Return a message, or None if it is absent. Raises FieldError if it can't be read.

        Several occurrences are one message that was sent in parts.
        """
        parts = self._fields.get(number)
        if parts is None:
            return None
        return Message(b"".join(self._bytes(each, name) for each in parts), self._named(name))

    def messages(self, number: int, name: str) -> Iterator["Message"]:
        """Yield the messages of a repeated field. Raises FieldError if one can't be read."""
        for index, each in enumerate(self._fields.get(number, ())):
            path = f"{name}[{index}]"
            yield Message(self._bytes(each, path), self._named(path))

    def entries(self, number: int, name: str) -> Iterator[tuple[str, "Message"]]:
        """Yield the entries of a map, each with its key. The value is field 2 of the message."""
        for entry in self.messages(number, name):
            key = entry.text(1, "key")
            entry.path = self._named(f"{name}[{key}]")
            yield key, entry

    def _last(self, number: int, default: int | bytes) -> int | bytes:
        """Return a field without repetition: the last occurrence counts."""
        values = self._fields.get(number)
        return values[-1] if values else default

    def _decoded(self, value: int | bytes, name: str) -> str:
        try:
            return self._bytes(value, name).decode()
        except UnicodeDecodeError as error:
            raise self.error(name, f"is not UTF-8: {error.reason}") from error

    def _bytes(self, value: int | bytes, name: str) -> bytes:
        if not isinstance(value, bytes):
            raise self.error(name, "expected bytes")
        return value

    def _named(self, name: str) -> str:
        return ".".join(filter(None, (self.path, name)))

    def _read(self, data: bytes) -> Iterator[tuple[int, int | bytes]]:
        """Yield the number and the value of each field. Fixed numbers of 4 and 8 bytes are left out."""
        at = 0
        while at < len(data):
            tag, at = self._varint(data, at)
            number, kind = tag >> 3, tag & 7
            if not number:
                raise self.error("", "a field without a number")
            if kind == _VARINT:
                value, at = self._varint(data, at)
                yield number, value
                continue
            if kind == _BYTES:
                size, at = self._varint(data, at)
            elif kind in _FIXED:
                size = _FIXED[kind]
            else:
                raise self.error("", f"field {number} has the unknown wire type {kind}")
            if size > len(data) - at:
                raise self.error("", f"field {number} ends early")
            if kind == _BYTES:
                yield number, data[at : at + size]
            at += size

    def _varint(self, data: bytes, at: int) -> tuple[int, int]:
        """Return the number at an offset, and the offset behind it."""
        value = 0
        for place, byte in enumerate(data[at : at + _MOST_VARINT_BYTES]):
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:  # noqa: PLR2004 -- the last byte of a number
                return value % _WORD, at + place + 1
        raise self.error("", "a number ends early or is too long")


def encode_count(number: int) -> bytes:
    """Encode a message with one field, number 1: an int32 that is not negative."""
    encoded = bytearray(b"\x08")
    while number > 0x7F:  # noqa: PLR2004 -- seven bits a byte
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
