import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from devcluster.keys import make_keys
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.config import load_connection
from tidelock.kube.errors import Unreachable
from unit.kube.kubeconfigs import write_kubeconfig
from unit.kube.scripted import ScriptedServer, bookmark


class Wire:
    """The wire between a client and a server. Once dead it drops all data, but its connections stay open."""

    def __init__(self, port: int) -> None:
        self.dead = False
        self.used = asyncio.Event()  # something was sent
        self.left = asyncio.Event()  # the client has closed its end
        self._port = port
        self._carried: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[int]:
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        async with listener:
            yield listener.sockets[0].getsockname()[1]
        # The server does not know connections in the handshake. Their sockets would outlive the event loop.
        await asyncio.wait_for(asyncio.gather(*self._carried), 20)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._carried.add(asyncio.create_task(self._carry(reader, writer)))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        back = asyncio.create_task(self._pump(far_reader, writer))
        await self._pump(reader, far_writer)
        self.left.set()
        writer.close()
        far_writer.write_eof()
        await back  # until the server has closed its end
        far_writer.close()
        await far_writer.wait_closed()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.used.set()
            if not self.dead:
                writer.write(data)


@dataclass
class Far:
    """A TLS server, the wire to it, and a client."""

    server: ScriptedServer
    wire: Wire
    client: KubeClient


@pytest.fixture
async def far(tmp_path: Path) -> AsyncIterator[Far]:
    keys = make_keys(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(keys.server_certificate, keys.server_key)
    server = ScriptedServer()
    await server.start(tls)
    wire = Wire(server.port)
    async with wire.laid() as port:
        cluster = {"certificate-authority": str(keys.authority)}
        config = write_kubeconfig(tmp_path / "kubeconfig", f"https://127.0.0.1:{port}", {}, cluster=cluster)
        yield Far(server, wire, KubeClient(load_connection(config), user_agent="test"))
        await server.close()


async def test_a_silent_stream_is_closed_without_waiting_for_the_tls_shutdown(far: Far) -> None:
    """A TLS shutdown waits for the other end, so the connection of a silent server would stay for 30 s."""
    far.server.replays(far.server.quiet_watch(bookmark(6)))

    async with far.client as client:
        async with client.stream(PODS.collection(), {}, silence_seconds=0.5) as stream:
            assert await stream.read() == bookmark(6)
            far.wire.dead = True
            with pytest.raises(Unreachable):
                await stream.read()
        await asyncio.wait_for(far.wire.left.wait(), 20)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("moment", ["in the handshake", "before the answer"])
async def test_closing_the_client_ends_the_connection_of_a_cancelled_request(
    far: Far, moment: str, method: str
) -> None:
    """aiohttp forgets such a connection, so its socket could outlive the event loop: a ResourceWarning."""
    far.wire.dead = moment == "in the handshake"

    async with far.client as client:
        request = asyncio.create_task(client.request(method, PODS.collection()))
        await asyncio.wait_for((far.wire.used if far.wire.dead else far.server.finished).wait(), 20)
        far.wire.dead = True
        request.cancel()
        await asyncio.wait((request,))

    await asyncio.wait_for(far.wire.left.wait(), 20)
