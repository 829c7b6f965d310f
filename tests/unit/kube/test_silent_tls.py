import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from devcluster.keys import make_keys
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.config import load_connection
from tidelock.kube.errors import Unreachable
from unit.kube.kubeconfigs import write_kubeconfig
from unit.kube.scripted import ScriptedServer, bookmark


class Wire:
    """What lies between a client and a server; once dead it swallows all, but its connections stay open."""

    def __init__(self, port: int) -> None:
        self.dead = False
        self.left = asyncio.Event()  # the client has closed its end
        self._port = port

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[int]:
        listener = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        async with listener:
            yield listener.sockets[0].getsockname()[1]

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        back = asyncio.create_task(self._pump(far_reader, writer))
        await self._pump(reader, far_writer)
        self.left.set()
        for end in (writer, far_writer):
            end.close()
        await back

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.dead:
                writer.write(data)


async def test_a_stream_that_fell_silent_is_not_asked_to_say_goodbye(tmp_path: Path) -> None:
    """TLS connections are closed by agreement: given up the polite way, a silent server's stays for 30 s."""
    keys = make_keys(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(keys.server_certificate, keys.server_key)
    server = ScriptedServer()
    server.plays(server.quiet_watch(bookmark(6)))
    await server.start(tls)

    wire = Wire(server.port)
    async with wire.laid() as port:
        cluster = {"certificate-authority": str(keys.authority)}
        config = write_kubeconfig(tmp_path / "kubeconfig", f"https://127.0.0.1:{port}", {}, cluster=cluster)
        async with KubeClient(load_connection(config), user_agent="test") as client:
            async with client.stream(PODS.collection(), {}, silence_seconds=0.1) as stream:
                assert await stream.read() == bookmark(6)
                wire.dead = True
                with pytest.raises(Unreachable):
                    await stream.read()
            await asyncio.wait_for(wire.left.wait(), 5)
    await server.close()
