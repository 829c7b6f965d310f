"""Connections from anywhere in the network: connections without requests, and floods of probes."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from attacks.tenant import LatencyProbe
from cluster.operator_process import OperatorProcess
from devcluster.loopback import HOST

CONNECTIONS = 1_500
HALF_A_REQUEST = "GET /healthz HTTP/1.1\r\nHost: a\r\nX-Pad: "

# A process of its own. A process with more than 1,024 open descriptors can't run other tests afterwards.
_CLIENT = """
import socket, sys
host, port, count, first = sys.argv[1:]
held = []
for _ in range(int(count)):
    made = socket.create_connection((host, int(port)), timeout=10)
    made.sendall(first.encode())
    held.append(made)
print("connected", flush=True)
sys.stdin.read()
"""


@contextmanager
def connected(port: int, first: str) -> Iterator[None]:
    """Hold connections open, each of which has sent only these first bytes."""
    command = [sys.executable, "-c", _CLIENT, HOST, str(port), str(CONNECTIONS), first]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "connected\n"
        yield
        client.communicate()


@pytest.mark.nightly  # unit/process/test_http_server.py has the same on a socket
def test_idle_connections_do_not_block_probes(operator: OperatorProcess, latency_probe: LatencyProbe) -> None:
    with connected(operator.port, ""):
        for _ in range(20):
            assert operator.healthy()
        latency_probe.check()
    latency_probe.check()


@pytest.mark.nightly  # unit/process/test_http_server.py has the same on a socket
def test_unfinished_requests_do_not_block_probes(
    operator: OperatorProcess, latency_probe: LatencyProbe
) -> None:
    with connected(operator.port, HALF_A_REQUEST):
        for _ in range(20):
            assert operator.healthy()
        latency_probe.check()


def test_a_flood_of_probes_does_not_delay_decisions(
    operator: OperatorProcess, latency_probe: LatencyProbe
) -> None:
    with ThreadPoolExecutor(32) as clients:
        probes = [clients.submit(operator.healthy) for _ in range(CONNECTIONS)]
        latency_probe.check()
        assert all(probe.result() for probe in probes)
    latency_probe.check()
