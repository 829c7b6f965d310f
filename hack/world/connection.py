"""A connection in memory: two ends, each the transport of one side.

Data that is written is cut into pieces, each with a drawn latency. Pieces of one direction arrive in order.
A sender has to wait as with TCP: once so many bytes are on the way or wait for a reader that has paused, its
buffer fills, and its protocol is paused.
"""

import asyncio
import contextvars
import errno
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from world.faults import Effect, Happening

if TYPE_CHECKING:
    from world.host import Host
    from world.network import Network

_WINDOW = 256 * 1024  # bytes that the two kernels hold for one direction
_HIGH_WATER = 64 * 1024  # bytes in the buffer of a transport that pause its protocol, as in asyncio
_LARGEST_PIECE = 64 * 1024
_NEXT = 1e-9  # seconds between two pieces, at least, so that they stay in order
_EOF = b""


class Connection:
    """A connection as a whole.

    Attributes:
        number: its number, by the order of the attempts to connect.
        port: the port of the server.
        held: whether nothing arrives any more.
        ends: of the client and the server.

    """

    def __init__(self, network: "Network", number: int, port: int) -> None:
        self.network, self.number, self.port = network, number, port
        self.held = False
        self.ends: tuple[End, End]

    def cut(self) -> None:
        """Reset it. Each side learns of it after a latency of its own."""
        for end in self.ends:
            end.depart(end.peer.reset)

    def blocked(self) -> bool:
        """Return whether nothing arrives at present."""
        client, server = self.ends
        return self.held or self.network.parted(client.host.name, server.host.name)

    def release(self) -> None:
        """Deliver the data that was held back."""
        if not self.blocked():
            for end in self.ends:
                end.send_again()


class End(asyncio.Transport):
    """One end of a connection.

    Args:
        connection: the connection.
        host: the process of this end.
        context: the context of its callbacks.
        tls: whether the process believes that it speaks TLS, and with which settings.

    """

    peer: "End"
    protocol: asyncio.Protocol

    def __init__(
        self, connection: Connection, host: "Host", context: contextvars.Context, *, address: Any, tls: Any
    ) -> None:
        super().__init__()
        self.connection, self.host, self.context = connection, host, context
        self.address, self.tls = address, tls
        self._network = connection.network
        self._arrival = 0.0  # of the last piece that this end has sent
        self._held: deque[Callable[[], None]] = deque()  # arrivals at this end that are held back
        self._inbox: deque[bytes] = deque()  # pieces for a reader that has paused
        self._outstanding = 0  # bytes that the peer has not read
        self._low, self._high = _HIGH_WATER // 4, _HIGH_WATER
        self._writing_paused, self._reading_paused = False, True  # until it has a protocol
        self._error: Exception | None = None  # that ended it before
        self._closing = self._eof_sent = self._lost = False

    # The transport, as asyncio has it

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return addresses and TLS settings. There is no socket."""
        known = {"sockname": self.address, "peername": self.peer.address, "sslcontext": self.tls}
        return known.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Replace the protocol."""
        assert isinstance(protocol, asyncio.Protocol), "only streaming protocols are known"  # noqa: S101
        self.protocol = protocol

    @property
    def _begun(self) -> bool:
        return hasattr(self, "protocol")

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        return self.protocol

    def is_closing(self) -> bool:
        """Return whether it is closed, or about to be."""
        return self._closing

    def is_reading(self) -> bool:
        """Return whether arrivals are passed on."""
        return not (self._closing or self._reading_paused)

    def pause_reading(self) -> None:
        """Let arrivals wait."""
        self._reading_paused = True

    def resume_reading(self) -> None:
        """Pass on arrivals."""
        if self._reading_paused and not self._closing:
            self._reading_paused = False
            self._network.loop.call_soon(self._read, context=self.context)

    def get_write_buffer_size(self) -> int:
        """Return the bytes that the kernel has not taken yet."""
        return max(0, self._outstanding - _WINDOW)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and the high water mark."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the water marks."""
        self._high = high if high is not None else _HIGH_WATER if low is None else 4 * low
        self._low = low if low is not None else self._high // 4

    def can_write_eof(self) -> bool:
        """Return whether one direction can be closed alone, as TLS can't."""
        return self.tls is None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data."""
        if self._eof_sent:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not data or not self.host.alive:
            return
        whole = bytes(data)
        if not self._interfered(whole):
            return
        self._outstanding += len(whole)
        for piece in self._network.pieces(whole, _LARGEST_PIECE):
            self.depart(lambda piece=piece: self.peer.take(piece))  # type: ignore[misc]
        if not self._writing_paused and self.get_write_buffer_size() > self._high:
            self._writing_paused = True
            self.protocol.pause_writing()

    def write_eof(self) -> None:
        """Close the direction from this end."""
        if not (self._closing or self._eof_sent):
            self._eof_sent = True
            self.depart(lambda: self.peer.take(_EOF))

    def close(self) -> None:
        """Close the connection once all data has left."""
        if self._closing:
            return
        self._closing = True
        if not self._eof_sent:
            self._eof_sent = True
            self.depart(lambda: self.peer.take(_EOF))
        if not self.get_write_buffer_size():
            self._network.loop.call_soon(self._lose, None, context=self.context)

    def abort(self) -> None:
        """Close the connection at once. It is drawn whether the other side learns of a reset or of an end."""
        if self._lost:
            return
        self._closing = True
        self._network.loop.call_soon(self._lose, None, context=self.context)
        self.vanish()

    # The network's side

    @property
    def gone(self) -> bool:
        """Whether it is closed, or its process dead."""
        return self._lost or not self.host.alive

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Take the protocol, and announce the connection to it."""
        self.set_protocol(protocol)
        self.protocol.connection_made(self)
        if self._error is not None:
            self._network.loop.call_soon(self._lose, self._error, context=self.context)
        else:
            self.resume_reading()

    def shake_hands(self, tls: Any) -> None:
        """Begin TLS, or begin without it. Raises ConnectionResetError if the server expects the other."""
        self.tls = tls
        if (tls is None) != (self.peer.tls is None):
            self.vanish()
            self.die()
            raise ConnectionResetError(errno.ECONNRESET, "one side speaks TLS")

    def die(self) -> None:
        """Close it without any effect, as its process is no more."""
        self._closing = self._lost = True

    def vanish(self) -> None:
        """Let the other side learn that this end is gone."""
        if self._network.rng.random() < 0.5:  # noqa: PLR2004 -- either
            self.depart(self.peer.reset)
        elif not self._eof_sent:
            self._eof_sent = True
            self.depart(lambda: self.peer.take(_EOF))

    def depart(self, arrive: Callable[[], None], delay: float = 0.0) -> None:
        """Let something arrive at the other end after a latency, behind all that left before."""
        when = self._network.loop.instant() + self._network.latency() + delay
        self._arrival = when = max(self._arrival + _NEXT, when)
        self._network.loop.occur(when, self.peer.reach, arrive)

    def reach(self, arrive: Callable[[], None]) -> None:
        """Pass on an arrival to the process of this end, unless it is held back."""
        if self._held or self.connection.blocked():
            self._held.append(arrive)
        elif self.host.alive:
            self._network.loop.make_ready(self.context, arrive)

    def send_again(self) -> None:
        """Pass on all arrivals that were held back, after the latency of their repetition."""
        if self._held:
            self._network.loop.occur(self._network.loop.now + self._network.latency(), self._reach_again)

    def _reach_again(self) -> None:
        if not self.connection.blocked():
            held, self._held = self._held, deque()
            for arrive in held:
                self.reach(arrive)

    def take(self, piece: bytes) -> None:
        """Get a piece, in a step of this end's process."""
        if self._lost or self._closing:
            if piece:  # the kernel has no reader for it any more
                self.depart(self.peer.reset)
            return
        self._inbox.append(piece)
        if not self._reading_paused:
            self._read()

    def reset(self) -> None:
        """Lose the connection by a reset."""
        if self._lost:
            return
        self._closing = True
        self._inbox.clear()
        error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        if self._begun:
            self._lose(error)
        else:
            self._error = error

    def _interfered(self, data: bytes) -> bool:
        """Let faults treat data that is sent, and return whether it is sent."""
        happening = Happening(
            kind="send",
            source=self.host.name,
            target=self.peer.host.name,
            port=self.connection.port,
            size=len(data),
            data=data,
        )
        treatment = self._network.treat(happening)
        if treatment is None:
            return True
        self._arrival = max(self._arrival, self._network.loop.instant()) + treatment.delay
        match treatment.effect:
            case Effect.CUT:
                self.connection.cut()
            case Effect.SILENCE:
                self.connection.held = True
            case Effect.KILL_SENDER:
                self.host.kill()
                return False
            case Effect.KILL_RECEIVER:
                self.peer.host.kill()
        return True

    def _read(self) -> None:
        """Pass on pieces until the reader pauses."""
        while self._inbox and not (self._reading_paused or self._lost or self._closing):
            piece = self._inbox.popleft()
            kind = "data" if piece else "eof"
            self._note(kind, piece)
            try:
                if piece:
                    self.peer.consumed(len(piece))
                    self.protocol.data_received(piece)
                elif not (self.protocol.eof_received() and self.tls is None):
                    self.close()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 -- as asyncio's transports do
                context = {"message": f"Fatal error: {kind}", "exception": error, "transport": self}
                self._network.loop.call_exception_handler({**context, "protocol": self.protocol})
                self.abort()

    def consumed(self, size: int) -> None:
        """Note that the other side has read bytes."""
        self._outstanding -= size
        buffered = self.get_write_buffer_size()
        if self._lost or not self.host.alive:
            return
        if self._writing_paused and buffered <= self._low:
            self._writing_paused = False
            self.peer.depart(self._resume)
        if self._closing and not buffered:
            self._network.loop.call_soon(self._lose, None, context=self.context)

    def _resume(self) -> None:
        if not self._lost and not self._writing_paused:
            self.protocol.resume_writing()

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._note("reset" if error else "lost")
        self._network.closed(self.connection)
        self.protocol.connection_lost(error)

    def _note(self, kind: str, data: bytes = b"") -> None:
        self._network.history.note(
            self._network.loop.now, self.connection.number, self.peer.host.name, self.host.name, kind, data
        )
