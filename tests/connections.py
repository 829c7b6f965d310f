"""Connections at the end of a test, whose event loop ends with it."""

import asyncio

_PATIENCE = 5.0


async def until_closed() -> None:
    """Wait until no connection of the event loop is open, for some seconds at most.

    A server notices the end of a client that has gone in its handshake a moment later. If the loop ended
    before, the connection would be reported as unclosed, in whichever test runs when it is collected.
    """
    # Neither asyncio nor its servers list connections that are in their handshake.
    transports = asyncio.get_running_loop()._transports  # type: ignore[attr-defined]
    waited = 0.0
    while waited < _PATIENCE and not all(each.is_closing() for each in transports.values()):
        await asyncio.sleep(0.01)
        waited += 0.01
    await asyncio.sleep(0)  # a closing connection closes its socket in the next turn of the loop
