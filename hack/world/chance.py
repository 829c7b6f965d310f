"""Clocks and sources of chance of the whole Python process, replaced while a world runs.

Production gets its clocks and its random generator as arguments (`tidelock.machine`). The replacements are
for libraries, which take theirs from modules. A thread that is not the world's keeps the real ones.
"""

import asyncio
import datetime as dt
import gc
import os
import random
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import CoroutineType, ModuleType, SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import patch

from prometheus_client import ProcessCollector

from world.loop import WorldLoop

_NANO = 1_000_000_000
_KOPF = "kopf."


@contextmanager
def drawn(loop: WorldLoop, seed: str) -> Iterator[None]:
    """Take time and chance from a world while the context lasts.

    The cyclic garbage collector is off meanwhile: its runs depend on the memory of the whole process, and
    call the finalizers of the objects that they find.
    """
    state, collecting = random.getstate(), gc.isenabled()
    gc.disable()
    random.seed(seed)
    try:
        with ExitStack() as stack:
            for target, name, replacement in _replacements(loop, random.Random(f"{seed}/bytes")):  # noqa: S311
                stack.enter_context(patch.object(target, name, replacement))
            yield
    finally:
        random.setstate(state)
        if collecting:
            gc.enable()


def _replacements(loop: WorldLoop, bits: random.Random) -> Iterator[tuple[Any, str, Any]]:
    """Yield each module, the name of its function, and the replacement."""
    world = threading.get_ident()

    def unless_foreign(own: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            return own(*args) if threading.get_ident() == world else real(*args)

        return call

    def sleep(seconds: float) -> None:
        loop.lane.spent += seconds

    def monotonic() -> float:
        return loop.lane.host.monotonic()

    def wall() -> float:
        return loop.lane.host.wall()

    clocks: dict[str, Callable[..., Any]] = {
        "time": wall,
        "time_ns": lambda: int(wall() * _NANO),
        "monotonic": monotonic,
        "monotonic_ns": lambda: int(monotonic() * _NANO),
        "perf_counter": monotonic,
        "perf_counter_ns": lambda: int(monotonic() * _NANO),
        "sleep": sleep,
    }
    for name, own in clocks.items():
        yield time, name, unless_foreign(own, getattr(time, name))
    urandom = unless_foreign(bits.randbytes, os.urandom)
    yield os, "urandom", urandom
    yield random, "_urandom", urandom  # of SystemRandom, and so of secrets
    yield threading.Thread, "start", _refuse_thread
    yield ssl.SSLContext, "load_default_certs", lambda *_: None  # a tenth of a second, and no TLS is spoken
    yield ProcessCollector, "collect", lambda _: ()  # the memory and the CPU time of the real process
    yield asyncio, "as_completed", _in_order(asyncio.as_completed)
    connector = sys.modules.get("aiohttp.connector")
    if connector is not None:  # it has taken the function at its import
        yield connector, "monotonic", monotonic
    shown = _datetime_of(wall)
    for name, module in list(sys.modules.items()):
        if name.startswith(_KOPF) and getattr(module, "datetime", None) is dt:
            yield module, "datetime", shown


def _refuse_thread(_thread: threading.Thread) -> NoReturn:
    raise AssertionError("a thread starts that the world does not drive")


def _in_order(as_completed: Callable[..., Any]) -> Callable[..., Any]:
    """Return `as_completed` that starts a set of coroutines in the order of their names and arguments.

    Kopf passes such a set for each look at the kinds that an API server has. Its own order is that of
    addresses.
    """

    def start(work: Iterable[Any], *, timeout: float | None = None) -> Any:
        if isinstance(work, set):
            work = [asyncio.ensure_future(each) for each in sorted(work, key=_name_of)]
        return as_completed(work, timeout=timeout)

    return start


def _name_of(work: Any) -> str:
    """Return a text that is the same in each run."""
    if not isinstance(work, CoroutineType) or work.cr_frame is None:
        return ""
    texts = {name: value for name, value in work.cr_frame.f_locals.items() if isinstance(value, str)}
    return f"{work.__qualname__} {sorted(texts.items())}"


def _datetime_of(wall: Callable[[], float]) -> ModuleType | SimpleNamespace:
    """Return the module datetime with a `now` of the world."""

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, dt.datetime)

    class Datetime(dt.datetime, metaclass=Kind):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return dt.datetime.fromtimestamp(wall(), tz)

    return SimpleNamespace(**{**vars(dt), "datetime": Datetime})
