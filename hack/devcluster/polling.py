import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class WaitTimeoutError(TimeoutError):
    """The expected state was not reached in time."""


def wait_for(
    probe: Callable[[], T],
    until: Callable[[T], object] = bool,
    *,
    what: str,
    timeout: float = 60.0,
    interval: float = 0.1,
) -> T:
    """Probe every `interval` seconds and return the first value that `until` accepts.

    `what` completes the sentence "waited 60 s for ...". Errors of the probe are not caught.

    Raises:
        WaitTimeoutError: no value was accepted within `timeout` seconds. The message has the last one.

    """
    deadline = time.monotonic() + timeout
    while not until(seen := probe()):
        if time.monotonic() >= deadline:
            raise WaitTimeoutError(f"waited {timeout:g} s for {what}; last seen: {seen!r}")
        time.sleep(interval)
    return seen
