"""Anybody on the network: connections that ask nothing, and more probes than anybody needs."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from attacks.tenant import Canary
from cluster.operator_process import OperatorProcess
from devcluster.loopback import HOST

CONNECTIONS = 1_500
HALF_A_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Pad: "


@contextmanager
def connected(port: int, first: bytes) -> Iterator[list[socket.socket]]:
    """Hold connections open that have sent so much."""
    with ExitStack() as stack:
        held = []
        for _ in range(CONNECTIONS):
            made = stack.enter_context(socket.create_connection((HOST, port), timeout=10))
            made.sendall(first)
            held.append(made)
        yield held


def test_idle_connections_keep_no_probe_out(operator: OperatorProcess, canary: Canary) -> None:
    with connected(operator.port, b""):
        for _ in range(20):
            assert operator.healthy()
        canary.answered()
    canary.answered()


def test_half_requests_keep_no_probe_out(operator: OperatorProcess, canary: Canary) -> None:
    with connected(operator.port, HALF_A_REQUEST):
        for _ in range(20):
            assert operator.healthy()
        canary.answered()


def test_more_probes_than_anybody_needs_hold_up_no_decision(
    operator: OperatorProcess, canary: Canary
) -> None:
    with ThreadPoolExecutor(32) as clients:
        probes = [clients.submit(operator.healthy) for _ in range(CONNECTIONS)]
        canary.answered()
        assert all(probe.result() for probe in probes)
    canary.answered()
