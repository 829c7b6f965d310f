"""The extension points of the scheduling framework, vectorised: a plugin sees one pod and all nodes at once.

Names and meanings are those of kube-scheduler's framework. A plugin derives from the extension points that it
implements; it keeps what it learns of a pod in the CycleState, never in itself, and imports no other plugin.
Arrays over nodes have one element a row of the snapshot.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Columns, Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.cyclestate import CycleState
from tidelock.ledger.book import Book
from tidelock.model.pods import Pod

Mask = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.float64]

MAX_NODE_SCORE = 100


class Code(IntEnum):
    """Outcome of an extension point."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6


@dataclass(frozen=True, slots=True)
class Status:
    """Outcome with its reasons, which are shown to people."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the pod may go on."""
        return self.code in (Code.SUCCESS, Code.SKIP)


SUCCESS = Status()
SKIP = Status(Code.SKIP)


@dataclass(frozen=True, slots=True)
class Handle:
    """What plugins may use of the scheduler."""

    book: Book
    columns: Columns


class Plugin(ABC):
    """Anything that a profile can enable by name."""

    name: ClassVar[str]

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take the handle and the profile's args; raises ValueError for args that the plugin has not."""
        if args:
            raise ValueError(f"pluginConfig of {self.name}: unknown args {sorted(args)}")
        self.handle = handle


class PreEnqueue(Plugin):
    """Decides whether a pod may enter the active queue."""

    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Status:
        """Return a status that is not ok to keep the pod gated until its next update."""


class QueueSort(Plugin):
    """Orders the active queue; a profile has exactly one."""

    @abstractmethod
    def sort_key(self, pod: Pod, enqueued_at: float) -> tuple[float, ...]:
        """Return a key: pods with smaller keys go first."""


class PreFilter(Plugin):
    """Looks at the pod once, before all nodes."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Return SKIP if the plugin's Filter has nothing to say of this pod."""


class Filter(Plugin):
    """Rules nodes out."""

    @abstractmethod
    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Tell for each node whether the pod may run there."""

    @abstractmethod
    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Say why the node was ruled out, in words that are the same for every such node."""

    def numbers(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
        """Say by which numbers the node was ruled out; empty if there are none."""
        del state, pod, snapshot, row
        return ""


class Score(Plugin):
    """Ranks the nodes that were not ruled out."""

    @abstractmethod
    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score each of these rows from 0 to MAX_NODE_SCORE."""


class Reserve(Plugin):
    """Keeps book of decisions before they are bound."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> Status:
        """Note that the pod is about to be bound; a status that is not ok stops that."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> None:
        """Undo reserve; must be safe even if reserve was not called."""
