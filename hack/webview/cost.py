"""What a look at a large cluster takes of the processor."""

import time
from collections.abc import Generator
from statistics import median

import msgspec

from tidelock.web.view import ViewPage, ViewQuery
from webview.scene import large

_NODES, _LOCKS = 5_000, 10_000
_ROUNDS = 15


def measure() -> None:
    """Print it for a few questions; milliseconds are of the thread's own time, whatever else runs."""
    scene = large(_NODES)
    for number in range(_LOCKS):
        scene.reservation(f"lock-{number}", {"cpu": "1", "memory": "2Gi"})
    scene.stage.settle()
    print(f"{_NODES} nodes, {_LOCKS} locks, medians of {_ROUNDS}:")
    for query in (
        ViewQuery(),
        ViewQuery(sort="water"),
        ViewQuery(text="lock-9"),
        ViewQuery(nodes=4000, reservations=9000),
    ):
        slices, sizes = [], []
        for _ in range(_ROUNDS):
            spent, size = _look(scene.stage.view.look(query, scene.clock.now()))
            slices.append(spent)
            sizes.append(size)
        whole = 1e3 * median(map(sum, slices))
        longest = 1e3 * median(map(max, slices))
        print(f"{query}: {whole:.1f} ms, the longest slice {longest:.1f} ms, {max(sizes)} bytes")


def _look(slices: Generator[None, None, ViewPage]) -> tuple[list[float], int]:
    """Make a page; gives the seconds of each slice, and how many bytes are sent."""
    spent: list[float] = []
    while True:
        started = time.thread_time()
        try:
            next(slices)
        except StopIteration as end:
            size = len(msgspec.json.encode(end.value))
            return [*spent, time.thread_time() - started], size
        spent.append(time.thread_time() - started)
