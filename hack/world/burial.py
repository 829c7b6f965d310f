"""The end of the tasks that dead processes left behind, after the end of a world.

A process that dies runs none of its cleanup, so its tasks are only kept. Python would run their cleanup when
it collects them, in the midst of other code. Here they get an exception at each await until none is left.
They have no effect any more, as their hosts are dead.
"""

import asyncio
import logging
import sys
import warnings
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from world.host import Host
    from world.loop import WorldTask

_MOST_AWAITS = 1000  # of one cleanup


class WorldOverError(BaseException):
    """The world has ended. It is no Exception, as no program may handle it."""


def bury(loop: asyncio.AbstractEventLoop, hosts: Iterable["Host"]) -> None:
    """End all tasks of dead hosts, without logs and warnings about it."""
    hosts = tuple(hosts)
    with _quietly(loop):
        while left := [task for host in hosts for task in host.take_tasks()]:
            for task in left:
                _end(task)


def end_generator(generator: AsyncGenerator[Any, Any]) -> None:
    """End an asynchronous generator that has lost its consumer."""
    closing = generator.aclose()
    try:
        closing.send(None)
    except BaseException:  # noqa: BLE001, S110 -- it has ended, in whichever way
        pass
    else:
        _exhaust(closing)


def _end(task: "WorldTask[Any]") -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 -- it stays pending
    _exhaust(task.get_coro())


def _exhaust(coroutine: Any) -> None:
    for _ in range(_MOST_AWAITS):
        try:
            coroutine.throw(WorldOverError())
        except BaseException:  # noqa: BLE001 -- it has ended, in whichever way
            return


@contextmanager
def _quietly(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    disabled, hook = logging.root.manager.disable, sys.unraisablehook
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda _: None
    asyncio._set_running_loop(loop)  # noqa: SLF001 -- cleanups ask for it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        asyncio._set_running_loop(None)  # noqa: SLF001
        sys.unraisablehook = hook
        logging.disable(disabled)
