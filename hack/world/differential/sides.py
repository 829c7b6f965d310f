"""The two servers that get the same requests: the one in memory, and a real kube-apiserver."""

import http.client
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from tidelock.kube.config import load_connection
from world.api.operations import User
from world.api.server import ApiServer, Request

Json = dict[str, Any]

_TIMEOUT = 30.0  # seconds
_SPAN = 30.0  # seconds after which a watch without the last event has failed, as machines stall


class Sent(NamedTuple):
    """A request with all its values."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Received(NamedTuple):
    """A response. The body of an answer without JSON is a text."""

    code: int
    body: Any


class Side(Protocol):
    """One server."""

    def send(self, sent: Sent) -> Received:
        """Return the response to a request."""

    def events(self, target: str, last: Callable[[Json], bool]) -> list[Json]:
        """Return the events of a watch up to the last one."""


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body.decode(errors="replace")


class InMemory:
    """The server in memory, new for each sequence."""

    def __init__(self, clock: Callable[[], float]) -> None:
        numbers = itertools.count(1)
        self.server = ApiServer(clock, lambda: f"00000000-0000-4000-8000-{next(numbers):012d}")

    def send(self, sent: Sent) -> Received:
        """Return the response to a request."""
        named = sent.headers.get("impersonate-user")
        user = User(named, ("system:authenticated",)) if named else User()
        response = self.server.handle(Request(sent.method, sent.target, sent.headers, sent.body, user))
        return Received(response.code, _decoded(response.body))

    def events(self, target: str, last: Callable[[Json], bool]) -> list[Json]:
        """Return the events of a watch up to the last one."""
        response = self.server.handle(Request("GET", target))
        if response.watch is None:
            return [{"type": "REFUSED", "object": _decoded(response.body)}]
        lines: list[Json] = [msgspec.json.decode(line) for line in response.watch.lines]
        return _until(iter(lines), last)


class Real:
    """A real kube-apiserver, over one connection."""

    def __init__(self, kubeconfig: Path) -> None:
        connection = load_connection(kubeconfig)
        self._address = urlsplit(connection.server)
        self._tls = connection.ssl_context()
        header = connection.credentials.header()
        self._headers = {"Authorization": header} if header else {}
        self._connection = self._connect()

    def _connect(self, seconds: float = _TIMEOUT) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._address.hostname or "", self._address.port, timeout=seconds, context=self._tls
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def send(self, sent: Sent) -> Received:
        """Return the response to a request."""
        self._connection.request(
            sent.method, sent.target, sent.body or None, {**self._headers, **sent.headers}
        )
        response = self._connection.getresponse()
        return Received(response.status, _decoded(response.read()))

    def events(self, target: str, last: Callable[[Json], bool]) -> list[Json]:
        """Return the events of a watch up to the last one."""
        with closing(self._connect(_SPAN)) as connection:
            connection.request("GET", target, headers=self._headers)
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                return [{"type": "REFUSED", "object": _decoded(response.read())}]
            try:
                return _until((msgspec.json.decode(line) for line in response), last)
            except TimeoutError:
                return [{"type": "SILENT", "object": {}}]


def _until(lines: Iterator[Json], last: Callable[[Json], bool]) -> list[Json]:
    found = []
    for line in lines:
        found.append(line)
        if line["type"] == "ERROR" or last(line):
            break
    return found
