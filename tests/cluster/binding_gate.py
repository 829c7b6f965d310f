"""An admission webhook that holds bindings back. The test decides when it answers, and with which answer."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cluster.api import Api
from devcluster.keys import make_keys
from devcluster.loopback import HOST
from tidelock.kube.client import WEBHOOKS

_TIMEOUT = 30  # seconds, the longest time for which the API server waits for a webhook


class BindingGate:
    """A gate at which all bindings of one namespace wait, as soon as it is set up."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()
        self._allow = True

    def until_reached(self) -> None:
        """Wait until a binding has been posted."""
        assert self._reached.wait(_TIMEOUT), "no binding was posted"

    def open(self, *, allow: bool = True) -> None:
        """Let bindings through from now on, or refuse them."""
        self._allow = allow
        self._opened.set()

    def pass_through(self) -> bool:
        """Wait at the gate, and return whether the binding is allowed."""
        self._reached.set()
        return self._opened.wait(_TIMEOUT) and self._allow


@contextmanager
def binding_gate(api: Api, namespace: str, directory: Path) -> Iterator[BindingGate]:
    """Set up a closed gate. The API server must be able to reach this machine's loopback interface."""
    keys = make_keys(directory / "binding-gate")
    gate = BindingGate()
    server = ThreadingHTTPServer((HOST, 0), _handler(gate))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(keys.server_certificate, keys.server_key)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    name = f"binding-gate-{namespace}"
    authority = base64.b64encode(keys.authority.read_bytes()).decode()
    api.create(WEBHOOKS.collection(), _configuration(name, namespace, server.server_port, authority))
    try:
        yield gate
    finally:
        gate.open()
        api.delete(WEBHOOKS.item(name))
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(gate: BindingGate) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            review["response"] = {"uid": review.pop("request")["uid"], "allowed": gate.pass_through()}
            body = json.dumps(review).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

    return Handler


def _configuration(name: str, namespace: str, port: int, authority: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "binding-gate.test.tidelock.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": _TIMEOUT,
                "clientConfig": {"url": f"https://{HOST}:{port}/", "caBundle": authority},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods/binding", "bindings"],
                    }
                ],
            }
        ],
    }
