"""Watches a cluster for a shadow run: its connections, its looks in regular intervals, its end."""

import asyncio
import logging
import resource
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, NoReturn

import aiohttp
import msgspec

from tidelock import __version__
from tidelock.clock import SystemClock
from tidelock.framework.config import Configuration
from tidelock.kube.client import NODES, PODS, ApiResource, KubeClient
from tidelock.kube.config import Connection
from tidelock.kube.errors import ApiError, Forbidden, NotFound
from tidelock.kube.watch import Reflector, WatchSettings
from tidelock.load.metrics_server import MetricsServerSource
from tidelock.load.prometheus import PrometheusSource
from tidelock.load.promql import anonymous_access
from tidelock.load.source import Source, SourceError
from tidelock.model.failures import failure_text
from tidelock.model.meta import ObjectMeta
from tidelock.model.unusable import unusable
from tidelock.running import background
from tidelock.scheduler.informers.informers import WATCHED
from tidelock.shadow.observer import Observer
from tidelock.shadow.results import ShadowOptions, ShadowResults

logger = logging.getLogger(__name__)

METRICS_SERVER = "metrics-server"
"""The source of measured use that is the resource metrics API. Any other is the URL of a Prometheus."""

_KIBI = 1024
# A resource that only plugins read is asked for each minute while it may not be read.
_SELDOM = WatchSettings(refused_retry=60.0)
# Seconds after which an object that could not be processed is delivered again.
_AGAIN = 60.0
_SOON = 0.1  # between two looks whether the cluster is known
_TIMEOUT = 30.0  # of one request, as a page of a large list may take long


class ReadOnlyError(ApiError):
    """A write that this process must not send. No part of it tries."""


class NothingSeenError(Exception):
    """The run ended before the whole cluster was known, so there is no report."""


@dataclass(slots=True)
class Watches:
    """The reflectors of pods and nodes, and their lists so far at the last look."""

    reflectors: list[Reflector[Any]]
    relists: int = 0

    def lost(self, now: float) -> tuple[float | None, str]:
        """Return since when there is no news, with the reason, or None if there is no gap now.

        A list since the last look is a gap that has ended already.
        """
        lists = sum(each.relists for each in self.reflectors)
        again, self.relists = self.relists and lists - self.relists, lists
        lost = [each for each in self.reflectors if each.lost is not None or not each.synced.is_set()]
        if lost:
            silence = time.monotonic() - min(each.last_activity for each in lost)
            error = lost[0].lost
            return now - silence, type(error).__name__ if error is not None else "listing"
        return (now, "listed again after a lost watch") if again else (None, "")


async def watch_cluster(
    connection: Connection,
    configuration: Configuration,
    options: ShadowOptions,
    seconds: float,
    stop: asyncio.Event,
    report: Callable[[ShadowResults], None],
) -> ShadowResults:
    """Follow a cluster for some seconds, or until `stop` is set, and return the results.

    `report` gets the results so far from time to time.

    Raises:
        ApiError: pods or nodes can't be listed at the start.
        NothingSeenError: the run ended before the whole cluster was known.

    """
    observer = Observer(configuration, SystemClock(), options)
    client = KubeClient(
        connection,
        user_agent=f"tidelock-shadow/{__version__}",
        timeout_seconds=_TIMEOUT,
        may_write=refuse_writes,
    )
    async with client:
        for needed in (PODS, NODES):
            await client.get(needed.collection(), {"limit": "1"})
        version = await _version(client)
        reflectors = list(_reflectors(client, observer))
        needed_ones, others = reflectors[:2], reflectors[2:]
        observer.live = lambda: all(each.lost is None for each in needed_ones)

        def results(*, finished: bool) -> ShadowResults:
            unread = [each.resource.plural for each in others if _is_unread(each)]
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIBI
            return observer.results(
                server=client.server,
                version=version,
                unread=unread,
                resident_bytes=memory,
                finished=finished,
            )

        async with (
            measuring(client, observer, options) as measure,
            background(*(each.run() for each in reflectors), *measure) as crashed,
        ):
            sampler = _Sampler(observer, Watches(needed_ones), options.look_seconds, stop, crashed)
            until = time.monotonic() + seconds
            try:
                await sampler.until(until, lambda: report(results(finished=False)), options.report_seconds)
            except BaseException:  # whatever ends it, the report is not lost
                if observer.begun:
                    report(results(finished=False))
                raise
        if not observer.begun:
            raise NothingSeenError("the run ended before all pods and nodes were listed")
        return results(finished=True)


@dataclass(slots=True)
class _Sampler:
    """Looks in regular intervals, until a run ends or crashes."""

    observer: Observer
    watches: Watches
    seconds: float
    stop: asyncio.Event
    crashed: asyncio.Future[NoReturn]
    told: bool = False
    lost: bool = False

    async def until(self, end: float, report: Callable[[], None], report_seconds: float) -> None:
        """Look until an instant of the monotonic clock, and report from time to time."""
        reported = time.monotonic()
        stopped = asyncio.create_task(self.stop.wait())
        try:
            while not self.stop.is_set() and (left := end - time.monotonic()) > 0:
                ends = (stopped, self.crashed)
                await asyncio.wait(ends, timeout=min(self.seconds, left), return_when=asyncio.FIRST_COMPLETED)
                if self.crashed.done():
                    self.crashed.result()
                self._look()
                if self.observer.begun and time.monotonic() - reported >= report_seconds:
                    reported = time.monotonic()
                    report()
        finally:
            stopped.cancel()

    def _look(self) -> None:
        lost_since, reason = self.watches.lost(SystemClock().now())
        self.observer.look(lost_since, reason)
        if self.observer.begun and not self.told:
            self.told = True
            logger.info("watching the cluster", extra={"nodes": len(self.observer.node_names)})
        if self.told and (lost_since is not None) is not self.lost:
            self.lost = not self.lost
            logger.info("no news of the cluster" if self.lost else "news again", extra={"reason": reason})


def refuse_writes() -> None:
    """Refuse a write before its first byte is sent."""
    raise ReadOnlyError("a shadow run writes nothing")


async def _version(client: KubeClient) -> str:
    """Return the version of the API server, or an empty text if it may not be read."""
    try:
        return str(msgspec.json.decode(await client.get("/version"))["gitVersion"])
    except (ApiError, msgspec.MsgspecError, KeyError, TypeError):
        return ""


def _is_unread(reflector: Reflector[Any]) -> bool:
    """Return whether there may be objects that were never listed. A resource that is not served has none."""
    return not reflector.relists and not isinstance(reflector.lost, NotFound)


def _reflectors(client: KubeClient, observer: Observer) -> Iterator[Reflector[Any]]:
    """Yield the reflectors of pods and nodes, and those of the resources that only plugins read.

    A resource of the latter that the API server does not have, or that may not be read, counts as empty.
    """
    rng = Random()  # noqa: S311 -- for jitter
    handlers: dict[str, Any] = {"pods": observer.pods, "nodes": observer.nodes, **observer.others}
    for name, handler in handlers.items():
        watched, decode = WATCHED[name]
        absent_if = (NotFound, Forbidden) if name in observer.others else ()

        def failed(step: str, about: ApiResource, meta: ObjectMeta, error: Exception) -> float:
            observer.failures += 1
            logger.error(
                "an object failed",
                extra={"step": step, "object": f"{about.plural} {meta.key}", "error": failure_text(error)},
                exc_info=error,
            )
            return _AGAIN

        yield Reflector(
            client,
            watched,
            decode,
            handler,
            rng=rng,
            settings=_SELDOM if absent_if else WatchSettings(),
            absent_if=absent_if,
            on_failure=failed,
            unusable=unusable,
        )


@asynccontextmanager
async def measuring(
    client: KubeClient, observer: Observer, options: ShadowOptions
) -> AsyncIterator[list[Coroutine[Any, Any, NoReturn]]]:
    """Yield the endless work that reads measured use: none without a source."""
    if not options.source:
        yield []
        return
    if options.source == METRICS_SERVER:
        yield [_measure(observer, MetricsServerSource(client, observer.capacity_of), options)]
        return
    async with aiohttp.ClientSession() as session:
        source = PrometheusSource(session, options.source, anonymous_access, lambda: observer.node_names)
        yield [_measure(observer, source, options)]


async def _measure(observer: Observer, source: Source, options: ShadowOptions) -> NoReturn:
    clock = SystemClock()
    while True:
        if observer.begun:
            try:
                reading = await source.read(clock.now())
            except SourceError as error:
                observer.not_measured(str(error))
                logger.warning("use was not measured", extra={"error": str(error)})
            else:
                observer.measured(reading, source.settling)
        await asyncio.sleep(options.measure_seconds if observer.begun else _SOON)
