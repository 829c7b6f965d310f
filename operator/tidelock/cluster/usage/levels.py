"""The measured use of the nodes as columns: W windows x R resources x N rows, in percent, or NaN.

Use is read from the nodes' annotation when that changes. The quality of a measurement depends on the time, so
every decision asks for it. Derived amounts are in the units of `tidelock.model.quantities`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidelock.cluster.arrays import Mask
from tidelock.cluster.cache import CacheObserver
from tidelock.cluster.columns import Rows
from tidelock.model.nodes import Node
from tidelock.model.quantities import CPU, MEMORY
from tidelock.model.usage_annotations import (
    NODE_LEVEL,
    Measured,
    PodUsage,
    Stat,
    Unreadable,
    WindowName,
    Windows,
    decode_node_level,
)

LevelArray = npt.NDArray[np.float64]

WINDOWS: tuple[WindowName, ...] = ("15m", "1h", "1d")
MEASURED_RESOURCES: tuple[Measured, ...] = ("cpu", "memory")
STATISTICS = Stat.__struct_fields__
UNITS = np.array([1000.0, 1.0])
"""How many units of each resource a core, and a byte, are."""

NEVER = -np.inf
"""The time of a sample that there is not."""
_UNREADABLE = np.inf

_CELLS = tuple((window, resource) for window in WINDOWS for resource in MEASURED_RESOURCES)
_SHAPE = (len(STATISTICS), len(WINDOWS), len(MEASURED_RESOURCES))
_HEAD = 1 + len(MEASURED_RESOURCES)
_NOTHING = (np.nan,) * int(np.prod(_SHAPE))
_WIDTH = _HEAD + len(_NOTHING)


class NodeColumns(CacheObserver, ABC):
    """Numbers that are read off each node: `width` a row, NaN where there are none."""

    def __init__(self, width: int, keys: Sequence[str]) -> None:
        """Read a node again when one of these annotations changes, or its capacity."""
        self._keys = tuple(keys)
        self._values: LevelArray = np.full((width, 64), np.nan)
        self._count = 0
        self._changed_rows: set[int] = set()
        self._all_changed = True

    @abstractmethod
    def read(self, node: Node) -> Sequence[float] | LevelArray:
        """Return the numbers of a node."""

    @property
    def values(self) -> LevelArray:
        """All numbers, width x N: a view that is not to be written."""
        view: LevelArray = self._values[:, : self._count]
        view.flags.writeable = False
        return view

    def put_node(self, row: int, old: Node | None, new: Node) -> None:
        """Read a node that may have changed."""
        self._count = max(self._count, row + 1)
        if row >= self._values.shape[1]:
            self._values = np.concatenate((self._values, np.full_like(self._values, np.nan)), axis=1)
        if old is None or self._of_interest(old) != self._of_interest(new):
            self._values[:, row] = self.read(new)
            self._changed_rows.add(row)

    def drop_node(self, row: int, end: int) -> None:
        """Move the last row to where a node has gone."""
        self._values[:, row] = self._values[:, end]
        self._count = end
        self._all_changed = True

    def take_changed_rows(self) -> Rows | None:
        """Return the rows that were read since the last call, or None if all may have changed."""
        changed = None if self._all_changed else np.array(sorted(self._changed_rows), np.intp)
        self._all_changed = False
        self._changed_rows.clear()
        return changed

    def _of_interest(self, node: Node) -> tuple[object, ...]:
        annotations = node.meta.annotations
        return (*(annotations.get(key) for key in self._keys), node.capacity)


class NodeLevels(NodeColumns):
    """The annotation `tidelock.dev/water-level` of every node."""

    def __init__(self) -> None:
        super().__init__(_WIDTH, (NODE_LEVEL,))

    def read(self, node: Node) -> Sequence[float]:
        """Return time, capacity and use. An unreadable measurement is from the future, and so never fresh."""
        capacity = node.capacity
        head = capacity.get(CPU, 0), capacity.get(MEMORY, 0)
        text = node.meta.annotations.get(NODE_LEVEL)
        if text is None:
            return (NEVER, *head, *_NOTHING)
        level = decode_node_level(text)
        if isinstance(level, Unreadable):
            return (_UNREADABLE, *head, *_NOTHING)
        return (level.at, *head, *_figures(level.windows))

    @property
    def at(self) -> LevelArray:
        """When each node was measured: N. NEVER without a measurement, infinite if it is unreadable."""
        at: LevelArray = self.values[0]
        return at

    @property
    def capacity(self) -> LevelArray:
        """The total capacity of each node: R x N."""
        capacity: LevelArray = self.values[1:_HEAD]
        return capacity

    def use(self, statistic: str) -> LevelArray:
        """Return the mean, max or p95 of each node: W x R x N, in percent of its capacity."""
        count = self._count
        start = _HEAD + STATISTICS.index(statistic) * len(WINDOWS) * len(MEASURED_RESOURCES)
        part = self.values[start : start + len(WINDOWS) * len(MEASURED_RESOURCES)]
        use: LevelArray = part.reshape(len(WINDOWS), len(MEASURED_RESOURCES), count)
        return use

    def is_fresh(self, row: int, now: float, staleness: LevelArray) -> bool:
        """Return whether a row has a node with a measurement of the last `staleness` (N) seconds."""
        return row < self._count and abs(self._values.item(0, row) - now) <= staleness.item(row)

    def fresh(self, now: float, staleness: float | LevelArray) -> Mask:
        """Return the nodes with a measurement of the last `staleness` seconds."""
        at = self.at
        if at.max(initial=NEVER) == NEVER:  # nothing was ever measured
            return np.zeros(len(at), np.bool_)
        fresh: Mask = np.less_equal(np.abs(at - now), staleness)
        return fresh


def use_of(windows: Windows, statistic: str) -> LevelArray:
    """Return one statistic as W x R. A missing window gets the value of the nearest longer one.

    Without a longer one it gets the value of the nearest shorter one. NaN means that no window was measured.
    """
    laid: LevelArray = np.array(
        [
            _filled([_figure(windows, window, resource, statistic) for window in WINDOWS])
            for resource in MEASURED_RESOURCES
        ]
    )
    return laid.T


def mean_use(usage: PodUsage) -> LevelArray:
    """Lay out a pod's mean use as W x R, in units."""
    use: LevelArray = np.array(means(usage)).reshape(len(WINDOWS), len(MEASURED_RESOURCES)) * UNITS
    return use


def means(usage: PodUsage) -> Sequence[float]:
    """Return a pod's mean use window by window, cpu before memory, in cores and bytes.

    This runs for each pod at each reading.
    """
    windows = usage.windows
    try:
        quarter, hour, day = windows["15m"], windows["1h"], windows["1d"]
        return [
            quarter["cpu"].mean,
            quarter["memory"].mean,
            hour["cpu"].mean,
            hour["memory"].mean,
            day["cpu"].mean,
            day["memory"].mean,
        ]
    except KeyError:
        laid: list[float] = use_of(windows, "mean").ravel().tolist()
        return laid


def bridged(use: LevelArray) -> LevelArray:
    """Fill gaps between windows of S x W x R in place, as `use_of` does."""
    if np.isnan(use).any():
        last = use.shape[1] - 1
        longer = ((window, window + 1) for window in reversed(range(last)))
        shorter = ((window, window - 1) for window in range(1, last + 1))
        for window, other in (*longer, *shorter):
            gap = np.isnan(use[:, window])
            use[:, window][gap] = use[:, other][gap]
    return use


def _figures(windows: Windows) -> Sequence[float]:
    """Yield all statistics, each window by window. This runs for each node's reading."""
    try:
        stats = [windows[window][resource] for window, resource in _CELLS]
    except KeyError:
        laid: list[float] = np.array([use_of(windows, name) for name in STATISTICS]).ravel().tolist()
        return laid
    return [
        *[stat.mean for stat in stats],
        *[stat.max for stat in stats],
        *[stat.p95 for stat in stats],
    ]


def _figure(windows: Windows, window: WindowName, resource: Measured, statistic: str) -> float:
    stat = windows.get(window, {}).get(resource)
    return np.nan if stat is None else float(getattr(stat, statistic))


def _filled(figures: list[float]) -> list[float]:
    """Fill gaps from behind, then from before."""
    for place in (*reversed(range(len(figures) - 1)), *range(1, len(figures))):
        if np.isnan(figures[place]):
            behind = figures[place + 1] if place + 1 < len(figures) else np.nan
            figures[place] = figures[place - 1] if place and np.isnan(behind) else behind
    return figures
