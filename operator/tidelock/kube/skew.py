"""The one authority over time is this process' clock; this tells how far the API server's is from it."""

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

from tidelock.kube.client import KubeClient
from tidelock.kube.errors import ApiError

logger = logging.getLogger(__name__)

PERIOD = 60.0
"""Seconds between two looks."""

TOLERANCE = 2.0
"""Seconds of skew that are not worth a warning; the API server tells whole seconds."""


async def watch_skew(
    client: KubeClient, now: Callable[[], float], observe: Callable[[float], None]
) -> NoReturn:
    """Compare the clocks for ever: `observe` gets the API server's minus ours, in seconds."""
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
                    "clocks differ: locks expire by this one", extra={"skew_seconds": round(apart, 1)}
                )
        await asyncio.sleep(PERIOD)


def skew_of(theirs: float, sent: float, received: float) -> float:
    """Tell by how much `theirs`, cut to whole seconds, lies outside of the time of the question; else 0."""
    if theirs > received:
        return theirs - received
    return min(theirs + 1.0 - sent, 0.0)
