import socket
import threading
from pathlib import Path

import pytest

from devcluster.loopback import HOST, Health, free_ports


def test_ports_are_free_different_and_not_ephemeral() -> None:
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = free_ports(6)
    assert len(set(ports)) == 6
    assert max(ports) < first_ephemeral
    for port in ports:
        with socket.create_server((HOST, port)):
            pass


def test_port_in_use_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    used, free = free_ports(2)
    monkeypatch.setattr("devcluster.loopback._PORTS", [used, free])
    with socket.create_server((HOST, used)):
        assert free_ports(1) == [free]


@pytest.mark.parametrize(
    ("answer", "ok"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", False),
        (b"220 mail\r\n\r\n", False),
        (b"", False),
    ],
)
def test_only_200_is_healthy(answer: bytes, ok: bool) -> None:
    with socket.create_server((HOST, 0)) as server:

        def serve_once() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=serve_once)
        thread.start()
        assert Health(server.getsockname()[1], "/healthz", tls=None).ok() is ok
        thread.join()


def test_port_without_a_listener_is_not_healthy() -> None:
    [port] = free_ports(1)
    assert not Health(port, "/healthz", tls=None).ok()
