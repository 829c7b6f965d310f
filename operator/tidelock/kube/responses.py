"""Responses of HTTP/1.1, read as their bytes arrive."""

import re
import zlib
from collections.abc import Callable
from http import HTTPStatus

_VERSIONS = (b"HTTP/1.1", b"HTTP/1.0")  # a connection of the latter ends, unless the server says otherwise
_HEAD_END = b"\r\n\r\n"
_LINE_END = b"\r\n"
_LARGEST_HEAD = 64 * 1024  # bytes
# The line before a chunk, with the end of the chunk before it.
_CHUNK_LINE = re.compile(rb"\r\n([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n")
_GZIP = 16 + zlib.MAX_WBITS


class Disconnected(ConnectionError):  # noqa: N818 -- as the states of a connection are called
    """The connection ended before the response, or the response is not HTTP/1."""


class Response:
    """One response, whose body may be chunked, compressed by gzip, and endless.

    Attributes:
        status: the status code, or 0 until the head has arrived.
        headers: the headers by their names in lower case.
        complete: whether the whole response has arrived.
        buffered: bytes of the body that have arrived and were not taken.

    """

    __slots__ = (
        "_chunks",
        "_inflate",
        "_left",
        "_read_body",
        "_unread",
        "buffered",
        "complete",
        "headers",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.complete = False
        self.buffered = 0
        self._unread = b""  # the beginning of the head, or of the line before a chunk
        self._left = 0  # bytes of the body, or of a chunk and its line end, that have not arrived
        self._read_body: Callable[[bytes], None] = self._read_to_the_end
        self._inflate: zlib._Decompress | None = None
        self._chunks: list[bytes] = []

    @property
    def retry_after(self) -> str | None:
        """The value of the header of that name."""
        value = self.headers.get(b"retry-after")
        return None if value is None else value.decode("latin-1")

    @property
    def last(self) -> bool:
        """Whether the server closes the connection."""
        return self.headers.get(b"connection", b"").lower() == b"close"

    def take(self) -> bytes:
        """Return the part of the body that has arrived since the last call."""
        taken = b"".join(self._chunks)
        self._chunks, self.buffered = [], 0
        return taken

    def feed(self, data: bytes) -> None:
        """Read the next bytes.

        Raises:
            Disconnected: they are no response, or more than one.

        """
        if self.complete:
            raise Disconnected("the response is longer than it should be")
        data = self._unread + data
        self._unread = b""
        try:
            body = data if self.status else self._read_head(data)
            if body is not None:
                self._read_body(body)
        except (ValueError, zlib.error) as error:
            raise Disconnected("the response is not HTTP/1") from error

    def end(self) -> None:
        """Note the end of the connection, which ends a response without a length, as some proxies send it."""
        if self._read_body == self._read_to_the_end:
            self.complete = bool(self.status) and (self._inflate is None or self._inflate.eof)

    def _read_head(self, data: bytes) -> bytes | None:
        """Read the head and return the bytes after it, or None if the head is not complete."""
        end = data.find(_HEAD_END)
        if end < 0:
            if len(data) > _LARGEST_HEAD:
                raise Disconnected("the headers of the response do not end")
            self._unread = data
            return None
        status, headers = _parse_head(data[:end])
        rest = data[end + len(_HEAD_END) :]
        if status < HTTPStatus.OK:  # an interim response
            return self._read_head(rest)
        if headers.get(b"content-encoding", b"").lower() == b"gzip":
            self._inflate = zlib.decompressobj(_GZIP)
        if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            self._read_body = self._read_chunks
            rest = _LINE_END + rest  # as if a chunk had ended
        elif status == HTTPStatus.NO_CONTENT or b"content-length" in headers:
            self._left = 0 if status == HTTPStatus.NO_CONTENT else int(headers[b"content-length"])
            self._read_body = self._read_length
        self.status, self.headers = status, headers
        return rest

    def _read_length(self, data: bytes) -> None:
        """Read a part of a body of a known length."""
        if len(data) > self._left:
            raise Disconnected("the response is longer than it should be")
        self._left -= len(data)
        self._add(data)
        if self._left == 0:
            self._complete()

    def _read_to_the_end(self, data: bytes) -> None:
        """Read a part of a body that the end of the connection ends."""
        self._add(data)

    def _read_chunks(self, data: bytes) -> None:
        """Read a part of a chunked body, or raise ValueError."""
        start = 0
        while True:
            part = data[start : start + self._left]
            self._add(part)
            self._left -= len(part)
            start += len(part)
            if self._left:
                return
            line = _CHUNK_LINE.match(data, start)
            if line is None or line[1].strip(b"0") == b"":
                break
            self._left = int(line[1], 16)
            start = line.end()
        if line is not None and (end := data.find(_HEAD_END, line.end() - len(_LINE_END))) >= 0:
            if len(data) > end + len(_HEAD_END):
                raise Disconnected("the response is longer than it should be")
            self._complete()
        elif len(data) - start > _LARGEST_HEAD or (line is None and data.find(_LINE_END, start + 1) >= 0):
            raise ValueError("no chunk")
        else:
            self._unread = data[start:]

    def _complete(self) -> None:
        if self._inflate is not None and not self._inflate.eof:
            raise Disconnected("the compressed body does not end")
        self.complete = True

    def _add(self, data: bytes) -> None:
        if self._inflate is not None:
            data = self._inflate.decompress(data)
        if data:
            self._chunks.append(data)
            self.buffered += len(data)


def _parse_head(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    """Return the status code and the headers, or raise ValueError."""
    first, *lines = head.split(_LINE_END)
    version, code = first.split(b" ", 2)[:2]
    if version not in _VERSIONS:
        raise ValueError(version)
    headers = {} if version == _VERSIONS[0] else {b"connection": b"close"}
    for line in lines:
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip()
    return int(code), headers
