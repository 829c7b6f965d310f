"""The event loop with fast time."""

import asyncio
import socket
import threading
import time

from devcluster.loopback import HOST
from faults.hasty import run


def test_a_connection_that_the_server_has_not_ended_yet_is_awaited() -> None:
    """The loop ended after a moment of its fast time, which an API server without spare CPU exceeds.

    The transport was then a warning about an unclosed resource, and that an error of a test.
    """
    with socket.create_server((HOST, 0)) as listener:

        def end_late() -> None:
            connection, _ = listener.accept()
            time.sleep(0.2)
            connection.close()

        server = threading.Thread(target=end_late)
        server.start()
        transports = []

        async def connect() -> None:
            transport, _ = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, *listener.getsockname()
            )
            transports.append(transport)

        run(connect())
        server.join()
    assert transports[0].is_closing()
