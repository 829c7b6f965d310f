import gzip

import pytest

from tidelock.kube.responses import Disconnected, Response

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
LIST = b'{"items":[]}' * 100
PACKED = gzip.compress(LIST, mtime=0)  # in names of tests, which must be the same in each process
COMPRESSED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"


def fed(*parts: bytes) -> Response:
    response = Response()
    for part in parts:
        assert not response.complete
        response.feed(part)
    return response


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
@pytest.mark.parametrize(
    ("data", "body"),
    [
        (OK, b"{}"),
        (CHUNKED + b"3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n", b"abcd"),
        (CHUNKED + b"a\r\n012345678\n\r\n0\r\n\r\n", b"012345678\n"),
        (CHUNKED + b"0004\r\n\r\n\r\n\r\n00\r\nAfter: all\r\n\r\n", b"\r\n\r\n"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"{}"),
        (COMPRESSED + b"Content-Length: %d\r\n\r\n%b" % (len(PACKED), PACKED), LIST),
        (
            COMPRESSED
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + chunk(PACKED[:9])
            + chunk(PACKED[9:])
            + chunk(b""),
            LIST,
        ),
    ],
)
def test_an_answer_is_complete_with_its_last_byte(data: bytes, body: bytes, size: int) -> None:
    response = fed(*(data[start : start + size] for start in range(0, len(data), size)))
    assert response.complete
    assert response.take() == body


def test_the_body_is_read_as_it_arrives() -> None:
    response = fed(CHUNKED)
    assert (response.status, response.buffered) == (201, 0)
    response.feed(b"8\r\none\n")
    assert (response.buffered, response.take(), response.buffered) == (4, b"one\n", 0)
    response.feed(b"two\n\r\n")
    assert response.take() == b"two\n"
    assert not response.complete


@pytest.mark.parametrize(
    "data",
    [
        OK + b"{",
        b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"220 mail.example.com ESMTP\r\n\r\n",
        CHUNKED + b"zz\r\n0\r\n\r\n",
        CHUNKED + b"2\r\nabcd0\r\n\r\n",
        CHUNKED + b"0\r\n\r\n" + OK,
        CHUNKED + b"1" * 100_000,
        CHUNKED + b"0\r\n" + b"x" * 100_000,
        COMPRESSED + b"Content-Length: 4\r\n\r\nabcd",
        COMPRESSED + b"Content-Length: 30\r\n\r\n" + PACKED[:30],
        b"x" * 100_000,
    ],
)
def test_other_data_is_no_answer(data: bytes) -> None:
    with pytest.raises(Disconnected):
        fed(data)


def test_nothing_follows_a_complete_answer() -> None:
    response = fed(OK)
    with pytest.raises(Disconnected):
        response.feed(b"H")


def test_without_a_length_the_answer_ends_with_the_connection() -> None:
    response = fed(b"HTTP/1.0 503 Service Unavailable\r\n\r\n<html>")
    assert not response.complete
    response.end()
    assert (response.complete, response.last, response.status) == (True, True, 503)
    assert response.take() == b"<html>"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        OK[:20],
        OK[:-1],
        CHUNKED + b"4\r\nab",
        CHUNKED + b"1\r\na\r\n",
        COMPRESSED + b"\r\n" + PACKED[:20],
    ],
)
def test_the_end_of_the_connection_completes_no_other_answer(data: bytes) -> None:
    response = fed(data)
    response.end()
    assert not response.complete
