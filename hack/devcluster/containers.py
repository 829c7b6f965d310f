"""A client that ends containers of kubemark's kubelets, which have no processes that could end.

kubemark's kubelet talks to a fake container runtime in its own process, by the Container Runtime Interface,
which is gRPC on a socket in /tmp. One call with one message needs a few bytes of HTTP/2 and Protocol Buffers.
"""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from devcluster.errors import DevClusterError

_SOCKETS = "kubelet_remote_*.sock"
_TIMEOUT = 10.0  # seconds
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS = 0, 1, 3, 4
_END_STREAM, _END_HEADERS = 1, 4
_STREAM = 1
_HEAD = 9  # bytes before a frame's payload


def end_container(container_id: str) -> None:
    """End a container as if its process had ended with exit status 0.

    Its kubelet notices within one or two seconds.

    Args:
        container_id: the ID from the pod's status.

    Raises:
        DevClusterError: no runtime of this machine has such a container.

    """
    name = container_id.removeprefix("fakeRuntime://").encode()
    stop = b"\x0a" + bytes([len(name)]) + name  # StopContainerRequest: field 1, a string
    if not any(_call(path, "/runtime.v1.RuntimeService/StopContainer", stop) for path in _runtimes()):
        raise DevClusterError(f"No runtime has the container {container_id}.")


def remove_dead_runtimes() -> None:
    """Delete the sockets of runtimes that have ended."""
    for path in _runtimes():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:
                continue


def _runtimes() -> Iterator[Path]:
    return Path("/tmp").glob(_SOCKETS)  # noqa: S108 -- kubemark puts its sockets there


def _call(path: Path, method: str, message: bytes) -> bool:
    """Return whether a call succeeds. A refusal has no data, and a runtime that has ended does not answer."""
    headers = b"".join(
        _literal(name, value)
        for name, value in (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        )
    )
    body = b"\0" + struct.pack(">I", len(message)) + message
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT)
            connection.connect(str(path))
            connection.sendall(
                _PREFACE
                + _frame(_SETTINGS, 0, 0)
                + _frame(_HEADERS, _END_HEADERS, _STREAM, headers)
                + _frame(_DATA, _END_STREAM, _STREAM, body)
            )
            with connection.makefile("rb") as answer:
                return any(kind == _DATA for kind in _kinds(answer))
    except OSError:
        return False


def _kinds(answer: BinaryIO) -> Iterator[int]:
    """Yield the types of the frames of the call's stream until its end."""
    while len(head := answer.read(_HEAD)) == _HEAD:
        size, kind, flags, stream = struct.unpack(">I", b"\0" + head[:3])[0], *struct.unpack(">BBI", head[3:])
        answer.read(size)
        if stream == _STREAM:
            yield kind
            if kind == _RESET or flags & _END_STREAM:
                return


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _literal(name: str, value: str) -> bytes:
    """Encode a header in full, without the tables of HPACK."""
    return b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))
