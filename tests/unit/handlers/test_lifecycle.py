import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import kopf
import pytest

from tidelock.handlers import lifecycle


@asynccontextmanager
async def awaiting_a_pause() -> AsyncIterator[None]:
    """Run a task beside the context and cancel it at the end, as Kopf's streaming_block does."""
    pause = asyncio.create_task(asyncio.Event().wait())
    try:
        yield
    finally:
        with suppress(asyncio.CancelledError):
            pause.cancel()
            await pause


async def watch() -> AsyncIterator[int]:
    """Yield events forever, as Kopf's infinite_watch does."""
    while True:
        async with awaiting_a_pause():
            yield 1


def test_suspended_watches_of_kopf_end_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """The log of a stopped operator once ended with two errors of asyncio.

    They were "an error occurred during closing of asynchronous generator", and
    "RuntimeError: generator didn't stop after athrow()".
    """
    left = [
        watch() for _ in range(50)
    ]  # The loop closes them in an undefined order, which does not always cause the errors.

    async def serve() -> None:
        asyncio.get_running_loop().set_exception_handler(lifecycle.close_quietly)
        for each in left:
            await anext(each)

    caplog.set_level(logging.DEBUG)
    asyncio.run(serve())

    told = [(record.name, record.levelname) for record in caplog.records if record.exc_info]
    assert set(told) == {("tidelock.handlers.lifecycle", "DEBUG")}


async def test_an_unretrieved_error_of_kopf_is_logged_at_debug_level(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Kopf reads several groups at once. Each failure after the first one was once logged as a traceback."""
    caplog.set_level(logging.DEBUG)
    left = asyncio.create_task(kopf.operator(namespace="a", namespaces=["b"]))
    await asyncio.wait((left,))
    lifecycle.close_quietly(asyncio.get_running_loop(), {"message": "never retrieved", "future": left})

    assert isinstance(left.exception(), TypeError)
    assert [
        (record.name, record.levelname) for record in caplog.records if record.message == "never retrieved"
    ] == [("tidelock.handlers.lifecycle", "DEBUG")]


async def test_a_write_to_a_closed_connection_is_logged_at_debug_level(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log of a stopped operator once ended with this error of uvloop's TLS protocol."""
    caplog.set_level(logging.DEBUG)
    left = (
        "unable to perform operation on <TCPTransport closed=True reading=False 0x1>; the handler is closed"
    )
    told = {
        "message": "Fatal error on SSL protocol",
        "exception": RuntimeError(left),
        "transport": asyncio.Transport(),
    }
    lifecycle.close_quietly(asyncio.get_running_loop(), told)

    (record,) = caplog.records
    assert (record.name, record.levelname) == ("tidelock.handlers.lifecycle", "DEBUG")


async def test_other_errors_without_a_task_are_logged_as_usual(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("wrong")
    lifecycle.close_quietly(asyncio.get_running_loop(), {"message": "it broke", "exception": error})

    (record,) = caplog.records
    assert (record.name, record.levelname) == ("asyncio", "ERROR")
    assert record.exc_info is not None
    assert record.exc_info[1] is error


async def test_a_handshake_that_nothing_waits_for_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """A process that was suspended for minutes logged a traceback when it went on."""
    caplog.set_level(logging.INFO)
    loop = asyncio.get_running_loop()
    future, error = loop.create_future(), ConnectionResetError()
    message = "Future exception was never retrieved"
    lifecycle.close_quietly(loop, {"message": message, "exception": error, "future": future})
    assert not caplog.records

    failed = loop.create_task(asyncio.sleep(0))
    lifecycle.close_quietly(loop, {"message": "it broke", "exception": error, "future": failed})
    assert "it broke" in caplog.text
    await failed
