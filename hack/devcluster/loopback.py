"""The loopback interface, on which all programs listen: free ports, small servers and health checks."""

import http.client
import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from socketserver import BaseServer
from threading import Thread

HOST = "127.0.0.1"
# Below the ephemeral ports of every system. From an ephemeral port, a client's outgoing connection could use
# the port of a component that a test has stopped.
_PORTS = range(20_000, 32_000)
_ANSWER_TIMEOUT = 2.0  # seconds
_LOOK = 0.01  # seconds after which a server notices that it must end


@dataclass(frozen=True)
class Health:
    """The address of a program's health check, over TLS if there is a context for it."""

    port: int
    path: str
    tls: ssl.SSLContext | None

    def ok(self) -> bool:
        """Return whether the program answers 200.

        A program that does not listen or does not answer is not healthy.
        """
        connection = (
            http.client.HTTPSConnection(HOST, self.port, timeout=_ANSWER_TIMEOUT, context=self.tls)
            if self.tls
            else http.client.HTTPConnection(HOST, self.port, timeout=_ANSWER_TIMEOUT)
        )
        try:
            connection.request("GET", self.path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def free_ports(count: int) -> list[int]:
    """Return different TCP ports on which no program listens now."""
    free = (port for port in random.sample(_PORTS, k=len(_PORTS)) if _is_free(port))
    return [next(free) for _ in range(count)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


@contextmanager
def running(server: BaseServer) -> Iterator[None]:
    """Run a server in its own thread while the context lasts, and close it."""
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": _LOOK})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
