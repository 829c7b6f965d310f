"""Hosts and ports in memory, and the ways in which connections begin and fail."""

import asyncio
import contextvars
import errno
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from world.connection import Connection, End
from world.faults import Effect, Happening, Interference, Treatment
from world.history import History

if TYPE_CHECKING:
    from world.host import Host
    from world.loop import WorldLoop

_OWN = frozenset({"", "0.0.0.0", "127.0.0.1", "localhost", "::", "::1"})  # noqa: S104 -- in memory
_EPHEMERAL = 32768  # first port that a listener without a port gets
_SYN_SECONDS = 127.0  # after which Linux gives up an attempt to connect


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds from a piece's departure to its arrival, and the pieces of a chunk.

    Attributes:
        least: shortest latency.
        mean: mean of the part that is drawn, of an exponential distribution.
        split: probability that a chunk arrives in two pieces or more.

    """

    least: float = 0.0001
    mean: float = 0.0003
    split: float = 0.1


class Listener(asyncio.AbstractServer):
    """A port on which a process accepts connections."""

    def __init__(
        self,
        network: "Network",
        host: "Host",
        port: int,
        factory: Callable[[], asyncio.BaseProtocol],
        tls: Any,
    ) -> None:
        self._network, self.host, self.port = network, host, port
        self.factory, self.tls = factory, tls
        self.context = contextvars.copy_context()

    @property
    def sockets(self) -> tuple["_Bound", ...]:
        """Return its address, while it listens."""
        return (_Bound((self._network.address_of(self.host.name), self.port)),) if self.is_serving() else ()

    def is_serving(self) -> bool:
        """Return whether connections are accepted."""
        return self._network.listening(self)

    def close(self) -> None:
        """Accept no more connections."""
        self._network.stop_listening(self)

    async def start_serving(self) -> None:
        """Do nothing: it listens from its creation on."""

    async def serve_forever(self) -> None:
        """Wait until cancelled."""
        try:
            await self._network.loop.create_future()
        finally:
            self.close()

    async def wait_closed(self) -> None:
        """Return at once: the end of connections is up to their protocols."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of the world."""
        return self._network.loop


@dataclass(frozen=True, slots=True)
class _Bound:
    """The address of a listener, as a socket shows it."""

    address: tuple[str, int]

    def getsockname(self) -> tuple[str, int]:
        return self.address


class Network:
    """All hosts and the connections between them.

    Attributes:
        rng: random generator.
        history: each delivery so far.
        interfere: functions that may treat each use of the network. The first treatment is taken.

    """

    def __init__(
        self, loop: "WorldLoop", rng: Random, history: History, fired: Callable[[str], None], latency: Latency
    ) -> None:
        self.loop, self.rng, self.history = loop, rng, history
        self.interfere: list[Interference] = []
        self._fired, self._latency = fired, latency
        self._hosts: dict[str, Host] = {}
        self._addresses: dict[str, str] = {}
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._connections: dict[int, Connection] = {}
        self._attempts: dict[int, Callable[[], None]] = {}  # that wait for the end of a partition
        self._sockets: dict[int, tuple[socket.socket, End]] = {}
        self._parted: set[tuple[str, str]] = set()
        self._numbers, self._ports = count(1), count(_EPHEMERAL)

    # Faults

    def part(self, one: str, other: str) -> None:
        """Hold back everything between two hosts, as a broken link does. Neither side learns of it."""
        self._parted |= {(one, other), (other, one)}

    def join(self, one: str, other: str) -> None:
        """End a partition. Data that was sent meanwhile arrives, as TCP sends it again."""
        self._parted -= {(one, other), (other, one)}
        for connection in list(self._connections.values()):
            connection.release()
        attempts, self._attempts = self._attempts, {}
        for again in attempts.values():
            again()

    def parted(self, one: str, other: str) -> bool:
        """Return whether nothing gets from one host to the other."""
        return (one, other) in self._parted

    def connections(self, one: str, other: str | None = None) -> list[Connection]:
        """Return the open connections of a host, or those with another one."""
        return [
            each
            for each in self._connections.values()
            if one in (names := [end.host.name for end in each.ends]) and (other is None or other in names)
        ]

    def treat(self, happening: Happening) -> Treatment | None:
        """Return the fault that a use of the network meets, and count it."""
        for interference in self.interfere:
            if (treatment := interference(happening)) is not None:
                self._fired(treatment.name)
                return treatment
        return None

    def latency(self) -> float:
        """Draw the latency of one piece, in seconds."""
        return self._latency.least + self.rng.expovariate(1.0) * self._latency.mean

    def pieces(self, data: bytes, largest: int) -> Iterator[bytes]:
        """Cut data at drawn places."""
        start = 0
        while start < len(data):
            size = min(largest, len(data) - start)
            if size > 1 and self.rng.random() < self._latency.split:
                size = self.rng.randint(1, size - 1)
            yield data[start : start + size]
            start += size

    # Hosts

    def add(self, host: "Host") -> None:
        """Add a process. Its name must not be that of a living one."""
        former = self._hosts.get(host.name)
        if former is not None and former.alive:
            raise ValueError(f"{host.name} is alive")
        self._hosts[host.name] = host
        self._addresses.setdefault(host.name, f"10.0.0.{len(self._addresses) + 1}")

    def forget(self, host: "Host") -> None:
        """Free the ports of a dead process, and end its connections. If it is dark, they fall silent."""
        for listener in [each for each in self._listeners.values() if each.host is host]:
            self.stop_listening(listener)
        for connection in list(self._connections.values()):
            for end in connection.ends:
                if end.host is host:
                    if host.dark:
                        connection.held = True
                    else:
                        end.vanish()
                    end.die()
                    self.closed(connection)

    def closed(self, connection: Connection) -> None:
        """Forget a connection with an end that is gone."""
        if all(end.gone for end in connection.ends):
            self._connections.pop(connection.number, None)

    def address_of(self, name: str) -> str:
        """Return the address of a host."""
        return self._addresses[name]

    async def resolve(self, name: str) -> str:
        """Return the address of a name, or raise gaierror. It takes a latency."""
        own = self.loop.lane.host.name
        address = self._address(name, own)
        treatment = self.treat(Happening(kind="resolve", source=own, target=name, port=0))
        await asyncio.sleep(2 * self.latency() + (treatment.delay if treatment else 0.0))
        if address is None or (treatment and treatment.effect is not Effect.NONE):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return address

    def _address(self, name: str, own: str) -> str | None:
        if name in _OWN:
            return self._addresses[own]
        return self._addresses.get(name, name if name in self._addresses.values() else None)

    # Servers

    def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], name: str | None, port: int | None, tls: Any
    ) -> Listener:
        """Accept connections at a port of the running host, or at any free one.

        Raises:
            OSError: the port is taken, or the address is another machine's.

        """
        host = self.loop.lane.host
        if name and self._address(name, host.name) != self._addresses[host.name]:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        number = port or next(self._ports)
        if (host.name, number) in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        listener = self._listeners[host.name, number] = Listener(self, host, number, factory, tls)
        return listener

    def listening(self, listener: Listener) -> bool:
        """Return whether a listener accepts connections."""
        return self._listeners.get((listener.host.name, listener.port)) is listener

    def stop_listening(self, listener: Listener) -> None:
        """Free the port of a listener."""
        if self.listening(listener):
            del self._listeners[listener.host.name, listener.port]

    # Clients

    async def connect(self, address: str, port: int) -> End:
        """Open a connection from the running host.

        Raises:
            OSError: it is refused, or nothing answers in 127 s.

        """
        loop, host, number = self.loop, self.loop.lane.host, next(self._numbers)
        name = next((name for name, known in self._addresses.items() if known == address), address)
        context, outcome = contextvars.copy_context(), loop.create_future()
        treatment = self.treat(Happening(kind="connect", source=host.name, target=name, port=port))
        delay = treatment.delay if treatment else 0.0
        effect = treatment.effect if treatment else Effect.NONE
        if effect is Effect.KILL_SENDER:
            host.kill()
        attempt = _Attempt(self, number, host, name, port, context, outcome)
        if effect is not Effect.SILENCE:
            refused = effect is Effect.CUT
            loop.occur(loop.instant() + self.latency() + delay, attempt.reach, refused)
        timer = loop.call_later(_SYN_SECONDS, attempt.give_up)
        try:
            end: End = await outcome
        finally:
            timer.cancel()
            attempt.over = True
            self._attempts.pop(number, None)
        return end

    def keep_socket(self, sock: socket.socket, end: End) -> None:
        """Note the connection of a socket, which `take_socket` returns."""
        self._sockets[sock.fileno()] = (sock, end)

    def take_socket(self, sock: socket.socket) -> End:
        """Return the connection of a socket, which is closed, as it has no use any more."""
        known, end = self._sockets.pop(sock.fileno())
        assert known is sock, "each connected socket is taken once"  # noqa: S101 -- a mistake of the world
        sock.close()
        return end

    def end(self) -> None:
        """Close all connections without any effect, and the sockets that no transport took."""
        for connection in self._connections.values():
            for end in connection.ends:
                end.die()
        for sock, _ in self._sockets.values():
            sock.close()
        self._sockets.clear()


class _Attempt:
    """An attempt to connect: it reaches the server's machine, and the answer comes back."""

    def __init__(
        self,
        network: Network,
        number: int,
        host: "Host",
        target: str,
        port: int,
        context: contextvars.Context,
        outcome: asyncio.Future[End],
    ) -> None:
        self.over = False
        self._network, self._number, self._host = network, number, host
        self._target, self._port = target, port
        self._context, self._outcome = context, outcome

    def reach(self, refused: bool = False) -> None:
        """Reach the machine of the server."""
        network = self._network
        if network.parted(self._host.name, self._target):
            network._attempts[self._number] = self.reach  # noqa: SLF001 -- a part of it
            return
        server = network._hosts.get(self._target)  # noqa: SLF001
        listener = network._listeners.get((self._target, self._port))  # noqa: SLF001
        if server is None or (server.dark and not server.alive):
            return  # no machine answers at this address
        if refused or listener is None:
            error = ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            self._answer(lambda: self._outcome.set_exception(error))
            return
        self._accept(listener)

    def give_up(self) -> None:
        """Fail, as no answer has come."""
        if not self._outcome.done():
            self._outcome.set_exception(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    def _accept(self, listener: Listener) -> None:
        network = self._network
        connection = Connection(network, self._number, self._port)
        addresses = network.address_of(self._host.name), network.address_of(self._target)
        client = End(connection, self._host, self._context, address=(addresses[0], self._number), tls=None)
        server = End(
            connection, listener.host, listener.context, address=(addresses[1], self._port), tls=listener.tls
        )
        client.peer, server.peer = server, client
        connection.ends = client, server
        network._connections[self._number] = connection  # noqa: SLF001 -- a part of it
        now = network.loop.now
        network.history.note(now, self._number, self._host.name, self._target, "connect")

        def accept() -> None:
            server.begin(listener.factory())

        network.loop.make_ready(listener.context, accept)
        self._answer(lambda: self._outcome.set_result(client), otherwise=client.vanish)

    def _answer(self, answer: Callable[[], None], otherwise: Callable[[], None] = lambda: None) -> None:
        """Bring the answer to the client, if it still waits."""
        loop = self._network.loop

        def arrived() -> None:
            (otherwise if self._outcome.done() else answer)()

        loop.arrive(loop.now + self._network.latency(), self._context, arrived)
