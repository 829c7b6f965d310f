"""A relay before the API server, which records requests and can lose an answer or break a watch."""

import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPSConnection, IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

_HOST = "127.0.0.1"
_OBJECTS = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+(?:/namespaces/[^/]+(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ERROR = b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd leader changed"}}\n'
_OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding"}


class Right(NamedTuple):
    """A verb on a resource as kubectl writes it: plural[.group][/subresource]."""

    verb: str
    resource: str


@dataclass
class Record:
    """The requests that have passed the relay, and the faults to inject.

    Attributes:
        used: the rights that the requests needed.
        refused: requests that were answered with 401 or 403.
        unserved: resources that the API server does not have.
        lose: rights. The next answer for each is dropped after the server has done its work.
        fail: rights to watch. A watch gets an ERROR event at its start, and an open one after its next event.

    """

    used: set[Right] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    unserved: set[str] = field(default_factory=set)
    lose: set[Right] = field(default_factory=set)
    fail: set[Right] = field(default_factory=set)


class _Relay(ThreadingHTTPServer):
    """A server that gives each request its own thread and its own connection to the API server."""

    def __init__(self, server: str, tls: ssl.SSLContext) -> None:
        super().__init__((_HOST, 0), _Handler)
        self.record = Record()
        self._address = urlsplit(server).netloc
        self._tls = tls
        self._upstreams: set[HTTPSConnection] = set()

    @contextmanager
    def upstream(self) -> Iterator[HTTPSConnection]:
        """Connect to the API server."""
        with closing(HTTPSConnection(self._address, context=self._tls)) as connection:
            self._upstreams.add(connection)
            yield connection
            self._upstreams.discard(connection)

    def hang_up(self) -> None:
        """End the watches, which otherwise last for minutes."""
        for connection in tuple(self._upstreams):
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Relay

    def do_GET(self) -> None:
        """Pass the request on, record it, and return its answer as it arrives."""
        record, right = self.server.record, right_of(self.command, self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
        # Either side can close the connection: the operator at its end, the API server when the relay ends.
        with self.server.upstream() as upstream, suppress(ConnectionError, IncompleteRead):
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            if answer.status in {401, 403}:
                record.refused.append(f"{self.command} {self.path}")
            if right is not None:
                record.used.add(right)
                if (right.verb, answer.status) == ("list", 404):
                    record.unserved.add(right.resource)
                if right in record.lose:
                    record.lose.discard(right)
                    return
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OF_ONE_CONNECTION:
                    self.send_header(name, value)
            self.end_headers()
            while right not in record.fail and (chunk := answer.read1()):
                self.wfile.write(chunk)
            if right in record.fail:
                self.wfile.write(_ERROR)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 -- the base class calls these


@contextmanager
def relay(server: str, tls: ssl.SSLContext) -> Iterator[tuple[str, Record]]:
    """Pass requests on to `server` while the context lasts, and yield the relay's URL and its record."""
    with _Relay(server, tls) as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        try:
            yield f"http://{_HOST}:{listener.server_port}", listener.record
        finally:
            listener.shutdown()
            listener.hang_up()
            thread.join()


def through(kubeconfig: Path, url: str) -> Path:
    """Change the server of a kubeconfig to another URL."""
    content = json.loads(kubeconfig.read_text())
    for cluster in content["clusters"]:
        cluster["cluster"] = {"server": url}
    kubeconfig.write_text(json.dumps(content))
    return kubeconfig


def right_of(method: str, target: str) -> Right | None:
    """Return the right that a request needs, or None for discovery, which needs none."""
    url = urlsplit(target)
    found = _OBJECTS.fullmatch(url.path)
    if found is None:
        return None
    group, plural, name, subresource = found.group("group", "plural", "name", "subresource")
    resource = plural + (f".{group}" if group else "") + (f"/{subresource}" if subresource else "")
    if method != "GET":
        return Right(_VERBS[method], resource)
    if parse_qs(url.query).get("watch") == ["true"]:
        return Right("watch", resource)
    return Right("get" if name else "list", resource)
