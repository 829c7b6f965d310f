"""The part of an event loop that opens connections and ports, on the network of a world."""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from world.loop import WorldLoop

if TYPE_CHECKING:
    from world.network import Listener, Network

_TCP = 6
_Info = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int]]


class SocketLoop(WorldLoop):
    """An event loop with sockets in memory. Options of sockets and of TLS have no effect."""

    network: "Network"

    async def getaddrinfo(  # type: ignore[override]
        self, host: str | None, port: int | str | None, **_: Any
    ) -> list[_Info]:
        """Return the address of a host of the world, or raise gaierror."""
        address = await self.network.resolve(host or "")
        return [(socket.AF_INET, socket.SOCK_STREAM, _TCP, "", (address, int(port or 0)))]

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: socket.socket | None = None,
        **_: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to a port of the world, or take over the connection of a socket.

        Raises:
            OSError: there is no connection.

        """
        if sock is not None:
            end = self.network.take_socket(sock)
        else:
            end = await self.network.connect(await self.network.resolve(host or ""), port or 0)
        end.shake_hands(ssl or None)
        protocol = protocol_factory()
        end.begin(protocol)
        return end, protocol

    def remove_reader(self, fd: Any) -> bool:
        """Return that no file of this name was watched: sockets in memory have none."""
        del fd
        return False

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect a socket, which `create_connection` then takes."""
        name, port = address[:2]
        self.network.keep_socket(sock, await self.network.connect(name, port))

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        **_: Any,
    ) -> "Listener":
        """Listen at a port of the running host.

        Raises:
            OSError: the port is taken, or the address is another machine's.

        """
        return self.network.listen(protocol_factory, host, port, ssl or None)
