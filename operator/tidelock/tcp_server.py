"""Accepts connections at a port, whatever their protocol."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

_OTHER_PORT = "; choose another port by {option}"
_OTHER_ADDRESS = "; name an address of this machine by --listen"
_ADVICE: Mapping[int, str] = MappingProxyType(
    {errno.EADDRINUSE: _OTHER_PORT, errno.EACCES: _OTHER_PORT, errno.EADDRNOTAVAIL: _OTHER_ADDRESS}
)
_HANDSHAKE = 10.0  # seconds that a client gets for TLS


class ServingError(Exception):
    """A port can't be served as it is configured."""


class ListenError(ServingError):
    """The address cannot be listened on."""


@asynccontextmanager
async def serve_tcp(
    protocols: Callable[[], asyncio.BaseProtocol],
    address: str,
    port: int,
    *,
    option: str,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Accept connections while the context lasts, each with a new protocol, and yield the port.

    Raises:
        ListenError: the port is taken, or the address is not one of this machine's.

    """
    handshake = _HANDSHAKE if tls is not None else None
    try:
        listener = await asyncio.get_running_loop().create_server(
            protocols, address, port, ssl=tls, ssl_handshake_timeout=handshake
        )
    except OSError as error:
        raise ListenError(f"cannot listen on {address}:{port}: {_reason(error, option)}") from error
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()


def _reason(error: OSError, option: str) -> str:
    """Return why an address can't be listened on, with an advice; asyncio's text repeats the address."""
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}{_OTHER_ADDRESS}"
    number = error.errno or errno.EADDRNOTAVAIL  # Python 3.13 leaves it out if no address could be bound
    advice = _ADVICE.get(number, "")
    return f"{os.strerror(number)}{advice.format(option=option)}"
