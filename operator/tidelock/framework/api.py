"""The extension points of the scheduling framework, vectorised: a plugin sees one pod and all nodes at once.

Names and meanings are those of kube-scheduler's framework. A plugin derives from the extension points that it
implements. It keeps its data about a pod in the CycleState, never in itself, and imports no other plugin.
Arrays over nodes have one element for each row of the snapshot.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from tidelock.cluster.arrays import Counts as Counts  # noqa: PLC0414 -- plugins import it from here
from tidelock.cluster.arrays import Mask as Mask  # noqa: PLC0414 -- plugins import it from here
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns, Rows
from tidelock.cluster.objects import Objects
from tidelock.cluster.placed import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.measurements import Measurements
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.device_reports import DeviceReports
from tidelock.framework.events import Registration
from tidelock.framework.reservations import Reservations
from tidelock.framework.waiting_pods import WaitingPods
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.printable import shortened

Scores = npt.NDArray[np.float64]

PatchKind = Literal["merge", "json", "strategic", "apply"]

MAX_NODE_SCORE = 100

MOST_REASONS = 16
"""Most reasons in a status or a message."""


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
    """Outcome with its reasons, which are shown to people. Their number and their lengths are limited."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    cacheable: bool = False
    """Of SKIP: the plugin has nothing to say of any pod with this `placement_key`, and is not asked again.
    Of PreFilter's SUCCESS: its Filter judges this pod as if `per_node` were set.
    """

    @property
    def ok(self) -> bool:
        """Whether the pod may go on."""
        return self.code in (Code.SUCCESS, Code.SKIP)

    def __post_init__(self) -> None:
        if self.reasons:
            object.__setattr__(self, "reasons", tuple(map(shortened, self.reasons[:MOST_REASONS])))


SUCCESS = Status()
SUCCESS_ALIKE = Status(cacheable=True)
SKIP = Status(Code.SKIP)
SKIP_ALIKE = Status(Code.SKIP, cacheable=True)


class Api(Protocol):
    """Writes to the API server, for plugins that act: PreBind, Bind, PostFilter's evictions.

    A body is any JSON value, and paths are those of the API. Errors are ApiErrors of the client.
    """

    async def get(self, path: str) -> bytes:
        """Read an object."""

    async def create(self, path: str, body: object) -> bytes:
        """Create an object, or post to a subresource."""

    async def replace(self, path: str, body: object) -> bytes:
        """Put an object, or its subresource, in the place of the stored one."""

    async def patch(self, path: str, body: object, *, kind: PatchKind = "merge") -> bytes:
        """Change an object."""

    async def delete(self, path: str, *, uid: str | None = None) -> bytes:
        """Delete an object, if it still has that uid."""


@dataclass(frozen=True, slots=True)
class Handle:
    """The parts of the scheduler for plugins. `api` and `device_reports` are None in trials and dry runs."""

    reservations: Reservations
    cache: Cache
    objects: Objects = field(default_factory=Objects)
    api: Api | None = None
    waiting_pods: WaitingPods = field(default_factory=WaitingPods)
    measurements: Measurements = field(default_factory=Measurements)
    device_reports: DeviceReports | None = None

    @property
    def columns(self) -> Columns:
        """The columns of the nodes."""
        return self.cache.columns


class Plugin(ABC):
    """Anything that a profile can enable by name."""

    name: ClassVar[str]

    per_node: ClassVar[bool] = False
    """Whether Filter and Score (before normalization) judge a node by itself, by the pods there and by the
    pod's `placement_key` alone. Equal pods then share the answer, and only changed nodes are judged again.
    """

    depends_on_placement: ClassVar[bool] = True
    """Whether an answer depends on the pods on nodes. A Filter without this is not asked again when only pods
    come and go.
    """

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take the handle and the profile's args. Raises ValueError for unknown args."""
        if args:
            raise ValueError(f"pluginConfig of {self.name}: unknown args {sorted(args)}")
        self.handle = handle


class EnqueueExtensions(Plugin):
    """Registers the events that may help pods which the plugin rejected. Without it any event may."""

    @abstractmethod
    def events_to_register(self) -> Sequence[Registration]:
        """Return the events, with hints that look closer. It is called once."""


class PreEnqueue(Plugin):
    """Decides whether a pod may enter the active queue."""

    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Status:
        """Return a status that is not ok to keep the pod gated.

        It is asked again when the pod is updated, or an event that the plugin has registered may help it.
        """


class QueueSort(Plugin):
    """Orders the active queue. A profile has exactly one."""

    @abstractmethod
    def sort_key(self, pod: Pod, enqueued_at: float) -> tuple[float, ...]:
        """Return a key: pods with smaller keys go first."""


class PreFilter(Plugin):
    """Looks at the pod once, before all nodes."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Return SKIP if the plugin's Filter has nothing to say of this pod, SKIP_ALIKE if of no equal."""

    def allowed(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask | None:
        """Return, after `pre_filter`, the nodes to look at, or None for all nodes.

        The plugin's Filter must reject the others too, with a reason. It is asked before all other filters.
        """
        del state, pod, snapshot
        return None

    def add_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Change the state of `pre_filter` as if another pod were on its node, too.

        Amounts are in the snapshot and not in the state, so most plugins have nothing to do here.
        """

    def remove_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Change the state of `pre_filter` as if another pod were no longer on its node."""


class Filter(Plugin):
    """Rules nodes out."""

    relents: ClassVar[bool] = False
    """Whether a rejected node may fit once equal reservations are on other nodes."""

    @abstractmethod
    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Return for each node whether the pod may run there."""

    def filter_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return the same for one node. Per-node plugins override this with a faster way."""
        return bool(self.filter(state, pod, snapshot.take(np.array([row])))[0])

    @abstractmethod
    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return why a node was rejected, in words that are the same for every such node."""

    def tally(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Counter[str]:
        """Count the reasons of many nodes. Plugins that reject thousands override this with a faster way."""
        return Counter(reason for row in rows for reason in self.reasons(state, pod, snapshot, int(row)))

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return whether evictions may help on a rejected node."""
        return True

    def preemption_may_help_on(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Mask:
        """Return the same for many nodes. Plugins that reject thousands override this with a faster way."""
        helps = (self.preemption_may_help(state, pod, snapshot, int(row)) for row in rows)
        return np.fromiter(helps, np.bool_, len(rows))

    def capacity(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Counts | None:
        """Return for each node how many equal reservations the filter accepts, or None for any number.

        The numbers count for nodes that have passed all filters.
        """
        return None

    def among_equals(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, counts: Counts, first: Node
    ) -> Counts:
        """Return how many equal reservations fit on each node beside each other.

        Args:
            state: the state of `pre_filter`.
            pod: the reserve pod of such a reservation.
            snapshot: all nodes.
            counts: how many fit on each node if they ignore each other, or 0 if the first does not.
            first: the node on which the first would be held.

        """
        del state, pod, snapshot, first
        return counts

    def detail(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
        """Return the numbers by which a node was rejected, or an empty text."""
        return ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """Nodes as filters have judged them: some rows of a snapshot, with the state that goes with it.

    `at` are the same nodes as rows of the whole snapshot.
    """

    state: CycleState
    snapshot: Snapshot
    rows: Rows
    at: Rows


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The result of the filters: the nodes that fit, and the first filter that rejected each other node."""

    fits: Mask
    ruled_out: tuple[tuple[Filter, Mask], ...]
    filters: tuple[Filter, ...]
    """The filters that did not skip the pod, to run again on hypothetical nodes."""
    crowded: tuple[NodeView, ...] = ()
    """The nodes that were ruled out as they would be with the pods that are nominated there."""
    rivals: Mapping[int, Sequence[Pod]] = field(default_factory=dict)
    """The pods that are nominated for nodes and that the pod has to yield to, by row."""

    def views(self, mask: Mask, state: CycleState, snapshot: Snapshot) -> Iterator[NodeView]:
        """Return some of the nodes as they were judged, to ask a filter about them."""
        if self.crowded:
            mask = mask.copy()
            for view in self.crowded:
                places = mask[view.at].nonzero()[0]
                if len(places):
                    yield NodeView(view.state, view.snapshot, view.rows[places], view.at[places])
                    mask[view.at] = False
        rows = mask.nonzero()[0]
        if len(rows):
            yield NodeView(state, snapshot, rows, rows)

    def view(self, state: CycleState, snapshot: Snapshot, row: int) -> NodeView:
        """Return one node in the same way."""
        only = np.zeros(len(self.fits), np.bool_)
        only[row] = True
        return next(self.views(only, state, snapshot))


@dataclass(frozen=True, slots=True)
class Victims:
    """The victims on a node without which a pod fits there, each kind with the most important first."""

    pods: tuple[Placed, ...]
    reservations: tuple[ReservationInfo, ...] = ()
    violations: int = 0
    """Number of the pods that a PodDisruptionBudget protects."""
    borrowers: bool = False
    """Whether they are borrowers that give capacity back, and not victims of a higher priority."""


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """Whether evictions can help, on which node the pod waits for them, and the victims.

    A nominated node of None keeps the pod's nomination, and an empty one removes it. `candidates` returns all
    suitable nodes, about which extenders are asked. Without it they are not. `obstacles` are the filters that
    would reject nodes even without all possible victims. `unfinished` means that another attempt can try more
    nodes. `message` has the numbers of nodes on which evictions don't help, and follows the status' reasons.
    """

    status: Status
    nominated_node_name: str | None = None
    victims: Victims | None = None
    candidates: Callable[[], dict[str, Victims]] | None = None
    obstacles: frozenset[str] = frozenset()
    unfinished: bool = False
    message: str = ""


class SingleReasonFilter(Filter):
    """A filter that rules nodes out for one reason only."""

    reason: ClassVar[str]

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return the only reason."""
        return (self.reason,)

    def tally(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Counter[str]:
        """Count the nodes."""
        return Counter({self.reason: len(rows)})


class PostFilter(Plugin):
    """Tries to free capacity for a pod that fits on no node."""

    @abstractmethod
    def post_filter(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, filter_result: FilterResult
    ) -> PostFilterResult:
        """Return a nomination with victims, or why there is none. The first SUCCESS ends the search.

        It changes nothing: evictions and the nomination follow once the decision is made.
        """


class PreScore(Plugin):
    """Looks at the pod once, before the nodes that were not ruled out are scored."""

    @abstractmethod
    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Return SKIP if the plugin's Score would rate all nodes alike, SKIP_ALIKE if for all equal pods."""


class Score(Plugin):
    """Ranks the nodes that were not ruled out."""

    @abstractmethod
    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score each of these rows, which ascend, from 0 to MAX_NODE_SCORE after `normalize`."""

    def score_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> float:
        """Return the score of one row. Per-node plugins override this with a faster way."""
        return float(self.score(state, pod, snapshot.take(np.array([row])), np.array([0]))[0])

    @property
    def relative(self) -> bool:
        """Whether a node's score depends on the other nodes', through `normalize`."""
        return type(self).normalize is not Score.normalize

    @property
    def scores_per_node(self) -> bool:
        """Whether equal pods share the scores. A plugin with a Filter may judge per node there alone."""
        return self.per_node

    def normalize(self, state: CycleState, pod: Pod, scores: Scores) -> Scores:
        """Bring the scores of all feasible nodes between 0 and MAX_NODE_SCORE (NormalizeScore)."""
        return scores


class Reserve(Plugin):
    """Keeps book of decisions before they are bound."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> Status:
        """Note that the pod is about to be bound. A status that is not ok stops that."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> None:
        """Undo `reserve`. It must be safe even if `reserve` was not called."""


class Permit(Plugin):
    """Lets a reserved pod go on to be bound, refuses it, or has it wait."""

    @abstractmethod
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, float]:
        """Return a status and, with WAIT, for how many seconds to wait before the pod is refused."""


class PreBind(Plugin):
    """Prepares a binding, beside the decision loop."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Return SKIP if `pre_bind` has nothing to do for this pod, so it is not called (PreBindPreFlight).

        Otherwise the pod's status names the node before the binding. That takes a write.
        """
        del state, pod, node_name
        return SUCCESS

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Return once the preparation is done. A status that is not ok undoes the decision."""


class Bind(Plugin):
    """Binds a pod, beside the decision loop."""

    @abstractmethod
    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Bind the pod, or return SKIP to leave it to the next plugin."""


class PostBind(Plugin):
    """Learns that a pod is bound."""

    @abstractmethod
    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Clean up, or notify others. The binding stands."""
