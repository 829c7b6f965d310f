"""Connections in memory: their order, their flow control and their ends."""

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from world import Effect, Happening, Host, Latency, Treatment, World
from world.network import Listener

PORT = 80
SPLIT = Latency(split=0.9)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back all that comes, and end when the client ends."""
    try:
        while data := await reader.read(1000):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()


class Pair:
    """A server and a client."""

    def __init__(self, seed: int = 1, latency: Latency = SPLIT) -> None:
        self.world = World(seed, latency=latency)
        self.server, self.client = self.world.host("server"), self.world.host("client")

    def run(
        self,
        client: Callable[[], Coroutine[Any, Any, Any]],
        converse: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]] = echo,
    ) -> Any:
        """Run a client before a server, and return its result."""

        async def main() -> Any:
            await self.server.spawn(asyncio.start_server(converse, port=PORT))
            return await self.client.spawn(client())

        result = self.world.run(main())
        assert self.world.unhandled() == []
        return result

    async def fault(self, name: str, effect: Effect, after: float = 0.0, delay: float = 0.0) -> None:
        """Let a fault meet the next data that the client sends."""
        await asyncio.sleep(after)

        def interfere(happening: Happening) -> Treatment | None:
            if happening.kind != "send" or happening.source != "client":
                return None
            self.world.network.interfere.remove(interfere)
            return Treatment(name=name, effect=effect, delay=delay)

        self.world.network.interfere.append(interfere)


@pytest.mark.parametrize("seed", range(10))
def test_all_data_arrives_in_order_and_in_pieces(seed: int) -> None:
    sent = bytes(range(256)) * 4000

    async def client() -> bytes:
        reader, writer = await asyncio.open_connection("server", PORT)
        writer.write(sent)
        writer.write_eof()
        received = await reader.read()
        writer.close()
        await writer.wait_closed()
        return received

    pair = Pair(seed)
    assert pair.run(client) == sent
    assert len(pair.world.history) > 20


def test_a_writer_waits_for_a_reader_that_does_not_read() -> None:
    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(10)
        assert len(await reader.readexactly(2**20)) == 2**20
        writer.close()

    async def client() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        reader, writer = await asyncio.open_connection("server", PORT)
        writer.write(b"x" * 2**20)
        await writer.drain()
        waited = loop.time() - start
        assert await reader.read() == b""
        writer.close()
        return waited

    assert Pair().run(client, ignore) == pytest.approx(10, abs=0.1)


def test_a_port_without_a_listener_refuses() -> None:
    async def client() -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("server", PORT + 1)

    Pair().run(client)


def test_an_unknown_name_is_not_found() -> None:
    async def client() -> None:
        with pytest.raises(socket.gaierror, match="not known"):
            await asyncio.open_connection("nowhere", PORT)

    Pair().run(client)


def test_an_unknown_address_does_not_answer() -> None:
    async def client() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        with socket.socket() as sock, pytest.raises(TimeoutError):
            await loop.sock_connect(sock, ("10.9.9.9", PORT))
        return loop.time() - start

    assert Pair().run(client) == pytest.approx(127, abs=0.1)


def test_a_taken_port_and_a_foreign_address_are_refused() -> None:
    async def client() -> list[int | None]:
        errors = []
        listener = await asyncio.start_server(echo, port=PORT)
        for host in ("", "server"):
            with pytest.raises(OSError, match="ddress") as caught:
                await asyncio.start_server(echo, host, PORT)
            errors.append(caught.value.errno)
        listener.close()
        free = await asyncio.get_running_loop().create_server(asyncio.Protocol, "localhost", PORT)
        assert isinstance(free, Listener)
        assert free.sockets[0].getsockname()[1] == PORT
        return errors

    assert Pair().run(client) == [errno.EADDRINUSE, errno.EADDRNOTAVAIL]


def test_a_connection_that_is_cut_is_reset_on_both_sides() -> None:
    ends: list[str] = []

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        except ConnectionResetError:
            ends.append("server")
        writer.close()

    pair = Pair()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("server", PORT)
        (connection,) = pair.world.network.connections("client", "server")
        connection.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        ends.append("client")
        await asyncio.sleep(1)
        assert not pair.world.network.connections("client")
        writer.close()

    pair.run(client, converse)
    assert sorted(ends) == ["client", "server"]


def test_a_partition_holds_data_and_attempts_back_until_it_ends() -> None:
    pair = Pair()

    async def client() -> tuple[float, float]:
        loop, network = pair.world.loop, pair.world.network
        reader, writer = await asyncio.open_connection("server", PORT)
        network.part("client", "server")
        loop.call_later(30, network.join, "client", "server")
        opening = asyncio.create_task(asyncio.open_connection("server", PORT))
        for number in range(10):
            writer.write(b"%d" % number)
        assert await reader.readexactly(10) == b"0123456789"
        answered = loop.now
        other, more = await opening
        more.write(b"also")
        assert await other.readexactly(4) == b"also"
        for each in (writer, more):
            each.close()
        return answered, loop.now

    assert pair.run(client) == pytest.approx((30, 30), abs=0.1)


def test_a_silent_connection_delivers_nothing_and_fails_neither_side() -> None:
    pair = Pair()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("server", PORT)
        await pair.fault("silence", Effect.SILENCE)
        writer.write(b"any")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 1000)
        writer.transport.abort()

    pair.run(client)
    assert pair.world.counts == {"silence": 1}


def test_a_slow_chunk_delays_all_behind_it() -> None:
    pair = Pair()

    async def client() -> float:
        reader, writer = await asyncio.open_connection("server", PORT)
        await pair.fault("slow", Effect.NONE, delay=7)
        writer.write(b"first")
        writer.write(b"second")
        assert await reader.readexactly(11) == b"firstsecond"
        writer.close()
        return pair.world.loop.now

    assert pair.run(client) == pytest.approx(7, abs=0.1)


@pytest.mark.parametrize(
    ("effect", "victim"), [(Effect.KILL_SENDER, "client"), (Effect.KILL_RECEIVER, "server")]
)
def test_a_process_dies_in_the_midst_of_a_request(effect: Effect, victim: str) -> None:
    pair, answered = Pair(), []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("server", PORT)
        await pair.fault("death", effect)
        writer.write(b"any")
        answered.append(await reader.read(1))

    async def main() -> list[Host]:
        await pair.server.spawn(asyncio.start_server(echo, port=PORT))
        pair.client.launch(client(), expected=(ConnectionResetError,))
        await asyncio.sleep(100)
        return [host for host in (pair.server, pair.client) if host.status is None and not host.alive]

    assert [host.name for host in pair.world.run(main())] == [victim]
    assert answered in ([], [b""])


@pytest.mark.parametrize("silent", [True, False])
def test_the_connections_of_a_dead_process_end_or_fall_silent(silent: bool) -> None:
    pair = Pair()

    async def client() -> str:
        reader, writer = await asyncio.open_connection("server", PORT)
        pair.server.kill(silent=silent)
        try:
            async with asyncio.timeout(100):
                await reader.read()
        except ConnectionResetError:
            return "reset"
        except TimeoutError:
            return "silent"
        finally:
            writer.transport.abort()
        return "end"

    assert pair.run(client) in ({"silent"} if silent else {"reset", "end"})


def test_a_machine_that_died_answers_no_attempt_until_another_process_runs() -> None:
    pair = Pair()

    async def client() -> float:
        pair.server.kill(silent=True)
        with pytest.raises(TimeoutError):
            await asyncio.open_connection("server", PORT)
        passed = pair.world.loop.now
        await pair.world.host("server").spawn(asyncio.start_server(echo, port=PORT))
        _, writer = await asyncio.open_connection("server", PORT)
        writer.close()
        return passed

    assert pair.run(client) == pytest.approx(127, abs=0.1)


def test_another_process_takes_the_place_of_a_dead_one() -> None:
    pair = Pair()

    async def client() -> bytes:
        pair.server.kill(silent=False)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("server", PORT)
        with pytest.raises(ValueError, match="client is alive"):
            pair.world.host("client")
        await pair.world.host("server").spawn(asyncio.start_server(echo, port=PORT))
        reader, writer = await asyncio.open_connection("server", PORT)
        writer.write(b"again")
        answer = await reader.readexactly(5)
        writer.close()
        return answer

    assert pair.run(client) == b"again"


@pytest.mark.parametrize("sides", [("server",), ("client",), ("server", "client")])
def test_tls_is_spoken_by_both_sides_or_fails(sides: tuple[str, ...]) -> None:
    async def main() -> bytes:
        world = pair.world
        tls: Any = object()
        await pair.server.spawn(asyncio.start_server(echo, port=PORT, ssl=tls if "server" in sides else None))
        opening = asyncio.open_connection("server", PORT, ssl=tls if "client" in sides else None)
        reader, writer = await world.host("other").spawn(opening)
        writer.write(b"any")
        try:
            return await reader.readexactly(3)
        finally:
            writer.transport.abort()

    pair = Pair()
    if len(sides) == 2:
        assert pair.world.run(main()) == b"any"
    else:
        with pytest.raises(ConnectionResetError, match="one side speaks TLS"):
            pair.world.run(main())


def test_aiohttp_serves_and_asks() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text=f"{request.remote} {(await request.read()).decode()}")

    async def main() -> tuple[int, str]:
        async def serve() -> None:
            server = web.Server(answer, access_log=None)
            await asyncio.get_running_loop().create_server(server, port=PORT)

        async def ask() -> tuple[int, str]:
            async with (
                aiohttp.ClientSession() as session,
                session.post("http://server", data="body") as response,
            ):
                return response.status, await response.text()

        await pair.server.spawn(serve())
        return await pair.client.spawn(ask())

    pair = Pair()
    assert pair.world.run(main()) == (200, "10.0.0.3 body")
