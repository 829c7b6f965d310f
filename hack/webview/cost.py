"""The processor time of a page of the web view for a large cluster."""

import time
from statistics import median

import msgspec

from tidelock.web.query import ViewQuery
from tidelock.web.view import Slices
from webview.scene import large

_NODES, _RESERVATIONS = 5_000, 10_000
_ROUNDS = 15


def measure() -> None:
    """Print the cost of a few queries, in milliseconds of the thread's own time."""
    scene = large(_NODES)
    for number in range(_RESERVATIONS):
        scene.reservation(f"job-{number}", {"cpu": "1", "memory": "2Gi"})
    scene.stage.settle()
    print(f"{_NODES} nodes, {_RESERVATIONS} reservations, medians of {_ROUNDS}:")
    for query in (
        ViewQuery(),
        ViewQuery(sort="water"),
        ViewQuery(text="job-9"),
        ViewQuery(nodes=4000, reservations=9000),
        ViewQuery(namespace="shop"),
        ViewQuery(view="node", name="node-00000"),
        ViewQuery(view="reservation", namespace="shop", name="job-7"),
    ):
        slices, sizes = [], []
        for _ in range(_ROUNDS):
            spent, size = _look(scene.stage.view.look(query, scene.clock.now()))
            slices.append(spent)
            sizes.append(size)
        whole = 1e3 * median(map(sum, slices))
        longest = 1e3 * median(map(max, slices))
        print(f"{query}: {whole:.1f} ms, the longest slice {longest:.1f} ms, {max(sizes)} bytes")


def _look(slices: Slices) -> tuple[list[float], int]:
    """Build a page, and return the seconds of each slice and the number of bytes to send."""
    spent: list[float] = []
    while True:
        started = time.thread_time()
        try:
            next(slices)
        except StopIteration as end:
            size = len(msgspec.json.encode(end.value))
            return [*spent, time.thread_time() - started], size
        spent.append(time.thread_time() - started)
