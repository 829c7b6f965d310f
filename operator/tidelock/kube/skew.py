"""Comparison of the API server's clock with this process' clock, which is the only authority."""

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

from tidelock.kube.client import KubeClient
from tidelock.kube.errors import ApiError

logger = logging.getLogger(__name__)

PERIOD = 60.0
"""Seconds between two comparisons."""

TOLERANCE = 2.0
"""Seconds of skew below which no warning is worthwhile, as the API server's time has whole seconds."""


async def watch_skew(
    client: KubeClient, now: Callable[[], float], observe: Callable[[float], None]
) -> NoReturn:
    """Compare the clocks forever: `observe` gets the API server's minus ours, in seconds."""
    while True:
        try:
            sent = now()
            theirs = await client.time_of_day()
        except ApiError as error:
            logger.info("the API server's clock is not known", extra={"error": str(error)})
        else:
            apart = skew_of(theirs, sent, now())
            observe(apart)
            if abs(apart) > TOLERANCE:
                logger.warning(
                    "clocks differ: reservations expire by this one", extra={"skew_seconds": round(apart, 1)}
                )
        await asyncio.sleep(PERIOD)


def skew_of(theirs: float, sent: float, received: float) -> float:
    """Return by how much `theirs`, cut to whole seconds, lies outside the request's time, otherwise 0."""
    if theirs > received:
        return theirs - received
    return min(theirs + 1.0 - sent, 0.0)
