"""A summary of a profiled `tidelock run` by stages: python -m bench.stages FILE.

The file is one of `bench.throughput --profile`. A function's own time counts for the stage of its file. The
time of a built-in function, which has no file, counts for the stages of its callers.
"""

import pstats
import sys
from collections import defaultdict
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path

from bench.figures import columns

Function = tuple[str, int, str]
"""File, line and name. A built-in function has the file "~"."""

Entry = tuple[int, int, float, float, Mapping[Function, tuple[int, int, float, float]]]
"""Primitive calls, calls, own seconds and seconds with callees, and the same by caller."""

WAITING = "waiting for something to do"
_OTHER = "start, and all else"
_BUILT_IN = "~"

# The first key that a path contains counts.
_STAGES: Mapping[str, str] = {
    "tidelock/kube/events": "events",
    "tidelock/kube/correlation": "events",
    "tidelock/scheduler/actions/binding": "bindings",
    "tidelock/scheduler/actions/tasks": "bindings",
    "tidelock/kube/watch": "watch",
    "tidelock/kube/wire": "watch",
    "tidelock/kube/lines": "watch",
    "tidelock/scheduler/informers/event_handlers": "watch",
    "tidelock/model": "decode",
    "tidelock/kube": "HTTP",
    "tidelock/": "decisions",
    "/numpy/": "decisions",
    "/aiohttp/": "HTTP",
    "/yarl/": "HTTP",
    "/multidict/": "HTTP",
    "/asyncio/sslproto": "sockets and TLS",
    "/asyncio/selector_events": "sockets and TLS",
    "/ssl.py": "sockets and TLS",
    "/asyncio/": "event loop",
    "/selectors.py": "event loop",
    "/prometheus_client/": "metrics",
    "/kopf/": "Kopf",
}


def stages(functions: Mapping[Function, Entry]) -> dict[str, float]:
    """Sum own seconds by stage, the largest first."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for (file, _, name), (_, _, own, _, callers) in functions.items():
        if "epoll" in name:
            seconds[WAITING] += own
        elif file == _BUILT_IN:
            for caller, (_, _, share, _) in callers.items():
                seconds[stage_of(caller[0])] += share
        else:
            seconds[stage_of(file)] += own
    return dict(sorted(seconds.items(), key=itemgetter(1), reverse=True))


def stage_of(file: str) -> str:
    """Return the stage of a file."""
    return next((stage for part, stage in _STAGES.items() if part in file), _OTHER)


def report(file: Path) -> str:
    """Format the stages of a profile, with their shares of the time that is not waiting."""
    # The stub of pstats lacks the attribute with the measurements.
    functions: Mapping[Function, Entry] = pstats.Stats(str(file)).stats  # type: ignore[attr-defined]
    seconds = stages(functions)
    busy = sum(spent for stage, spent in seconds.items() if stage != WAITING)
    return columns(
        [
            (stage, f"{spent:.2f} s", "" if stage == WAITING else f"{100 * spent / busy:.1f} %")
            for stage, spent in seconds.items()
        ]
    )


if __name__ == "__main__":
    print(report(Path(sys.argv[1])))
