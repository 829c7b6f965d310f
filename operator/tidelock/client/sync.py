"""The client for programs without asyncio. One background thread runs the requests of all clusters.

    with blocking(Cluster("east", kubeconfig="east.yaml")) as east:
        with blocking(hold(east, spec, name="web-0")) as held:
            ...
        answer = call(quote(east, spec))

A loss can't interrupt the block of a thread. It sets `Held.lost`, and the end of the block raises Lost.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import cache
from typing import Any, TypeVar

_T = TypeVar("_T")


def call(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine of the client, and return its result or raise its error."""
    running = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return running.result()
    except BaseException:
        running.cancel()
        raise


@contextmanager
def blocking(manager: AbstractAsyncContextManager[_T]) -> Iterator[_T]:
    """Enter a Cluster, `hold` or `race`, and leave it at the end of the block, also after an exception."""
    entered: Future[_T] = Future()
    left = asyncio.Event()

    async def run() -> None:
        try:
            async with manager as value:
                entered.set_result(value)
                await left.wait()
        except BaseException as error:
            if entered.done():
                raise
            entered.set_exception(error)

    loop = _loop()
    task = asyncio.run_coroutine_threadsafe(_spawned(run()), loop).result()
    try:
        yield entered.result()
    except BaseException:
        loop.call_soon_threadsafe(left.set if entered.done() else task.cancel)
        with_errors = False
        raise
    else:
        loop.call_soon_threadsafe(left.set)
        with_errors = True
    finally:
        asyncio.run_coroutine_threadsafe(_finished(task, raising=with_errors), loop).result()


async def _spawned(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work)


async def _finished(task: asyncio.Task[None], *, raising: bool) -> None:
    await asyncio.wait((task,))
    if raising:
        task.result()
    elif not task.cancelled():
        task.exception()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="tidelock-client", daemon=True).start()
    return loop
