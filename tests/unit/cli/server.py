"""An API server with fixed answers, in a thread of its own because commands run their own event loop."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from builders import Json
from devcluster.loopback import HOST, running
from unit.kube.kubeconfigs import write_kubeconfig

Answers = dict[str, tuple[int, Json | str]]
"""Status and body by method and path, as in `GET /api/v1/pods`. Other requests get a plain 404."""


class FixedServer:
    """The kubeconfig of the server, and its requests: method, path with query, and body."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.asked: list[tuple[str, str, Json]] = []


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # the default of 5 resets connections of a command that opens a dozen at once

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection early. Report every other error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(answers: Answers, folder: Path) -> Iterator[FixedServer]:
    """Serve the answers. The context `x` of the kubeconfig has the namespace `shop`."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else {}
            served.asked.append((self.command, self.path, body))
            code, told = answers.get(
                f"{self.command} {urlsplit(self.path).path}", (404, "404 page not found")
            )
            text = (told if isinstance(told, str) else json.dumps(told)).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer  # noqa: N815 -- the base class' names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = _Server((HOST, 0), Handler)
    url = f"http://{HOST}:{server.server_address[1]}"
    served = FixedServer(write_kubeconfig(folder / "kubeconfig", url, {}, namespace="shop"))
    with running(server):
        yield served


def listed(*objects: Json) -> tuple[int, Json | str]:
    """Return the answer to a list request."""
    return 200, {"kind": "List", "metadata": {"resourceVersion": "9"}, "items": list(objects)}


def failed(code: int, reason: str, message: str) -> tuple[int, Json | str]:
    """Return a failure as a Status object of the API."""
    return code, {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
