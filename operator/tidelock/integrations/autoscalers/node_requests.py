"""The nodes that reservations and pods need of an autoscaler: how many, and for pods of which shape.

An autoscaler adds a node for a pod that fits on no present one. It knows too little in two cases:

- A reservation that waits is no pod.
- A pod that only reservations keep from a node seems to fit there, because the autoscaler counts pods alone.

Both ask for room of their shape on any other node than those that seem to have it. The pipeline names these
nodes: of all plugins only Reservation rules them out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import FilterResult
from tidelock.framework.profile import Profile
from tidelock.integrations.autoscalers.placeholder_pods import (
    HOSTNAME,
    Template,
    beside,
    encoded,
    placeholder_of,
)
from tidelock.isolation import Isolation
from tidelock.kube.client import PODS, RESERVATIONS
from tidelock.ledger.queue.quotas import Charge
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.plugins.reservation.plugin import ReservationPlugin
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.pipeline import FilterPipeline
from tidelock.scheduler.core.queued_pod import QueuedPodInfo, QueueName

# Most reservations of the queue, and pods, that ask at once, and most shapes of theirs.
_MOST_ASKERS = 1000
_MOST_SHAPES = 100
_ASKERS_A_SLICE = 100
# Reservations with these reasons fit on no present node, and may fit on a new one.
_MAY_FIT_ELSEWHERE = frozenset(
    {
        *(reasons.INSUFFICIENT_CAPACITY, reasons.NO_MATCHING_NODE),
        *(reasons.OVERCOMMITTED, reasons.PREEMPTED, reasons.VIOLATED, reasons.NODE_LOST),
    }
)


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """Room for some equal pods beside all present nodes that only seem to have it.

    Attributes:
        template: the pods, as an autoscaler must see them.
        replicas: their number.

    """

    template: Template
    replicas: int


class _Asker(NamedTuple):
    """A pod, or the reserve pod of a reservation."""

    pod: Pod
    profile: Profile
    entry: ReservationInfo | None


class NodeRequests:
    """Finds the reservations and pods that need nodes, in the order of their queues.

    Reservations ask where a quota of their namespace says so, and together only for as much as its quotas
    would allow.
    """

    def __init__(self, decider: Decider, isolation: Isolation) -> None:
        self._decider = decider
        self._isolation = isolation
        # Its pods would crowd out the cached results of pods that wait.
        self._pipeline = FilterPipeline(decider.cache, decider.ledger)
        self._shapes: dict[str, tuple[Pod, Key, Template]] = {}
        self._refused: dict[str, None] = {}
        self._excluded: dict[Key, frozenset[str]] = {}
        self._resting: dict[Key, float] = {}  # until when a shape is left alone after a fault
        self._asking: list[_Asker] = []

    def collect(self, now: float, into: dict[Key, NodeRequest]) -> Iterator[None]:
        """Fill a dictionary with the requests by namespace and a name of their shape, and yield between."""
        self._shapes, shapes = {}, self._shapes
        self._asking = []
        groups: dict[Key, list[_Asker]] = {}
        for count, asker in enumerate((*self._reservations(), *self._pods())):
            if count % _ASKERS_A_SLICE == 0:
                yield
            known = shapes.get(asker.pod.uid)
            if known is None or known[0] is not asker.pod:
                known = asker.pod, *_shape_of(asker.pod)
            self._shapes[asker.pod.uid] = known
            groups.setdefault(known[1], []).append(asker)
        for kept in (self._excluded, self._resting):
            for key in kept.keys() - groups.keys():
                del kept[key]
        for key, askers in islice(groups.items(), _MOST_SHAPES):
            yield
            seemingly_free = self._seemingly_free(key, askers[0], now)
            # Without such a node the autoscaler sees for itself that the pods fit nowhere.
            asking = askers if seemingly_free else [asker for asker in askers if asker.entry is not None]
            if seemingly_free is not None and asking:
                self._asking += asking
                template = self._shapes[asking[0].pod.uid][2]
                into[key] = NodeRequest(beside(template, self._exclude(key, seemingly_free)), len(asking))

    @property
    def outdated(self) -> bool:
        """Whether something that asked in the last collection needs no node any more."""
        waiting, queue = self._decider.ledger.waiting_reservations.waiting, self._decider.queue
        return not all(
            _waits(queue.get(pod.uid)) if entry is None else waiting.get(entry.key) is entry
            for pod, _, entry in self._asking
        )

    def _reservations(self) -> Iterator[_Asker]:
        ledger, quotas = self._decider.ledger, self._decider.ledger.quotas
        asked: dict[str, Charge] = {}
        sets = set[tuple[str, str]]()
        for entry in islice(ledger.queue_positions.in_order(), _MOST_ASKERS):
            namespace, pod, spec = entry.key.namespace, entry.reservation.pod, entry.reservation.spec
            if (
                pod is None
                or spec is None
                or not _waits_for_a_node(entry)
                or not quotas.requests_nodes(namespace)
            ):
                continue
            if spec.any_of is not None and (namespace, spec.any_of) in sets:
                continue  # one alternative of a set suffices
            before = asked.get(namespace, Charge())
            if quotas.problem(entry, before):
                continue
            asked[namespace] = before + quotas.asked(entry)
            if spec.any_of is not None:
                sets.add((namespace, spec.any_of))
            yield _Asker(pod, self._decider.profile, entry)

    def _pods(self) -> Iterator[_Asker]:
        """Yield the pods that reservations have kept from a node, until they have one."""
        queue, nominator = self._decider.queue, self._decider.cache.nominator
        refused = queue.kept_by(ReservationPlugin.name, QueueName.UNSCHEDULABLE)
        uids = dict.fromkeys((*self._refused, *(waiting.pod.uid for waiting in refused)))
        self._refused = {}
        for uid in uids:
            waiting = queue.get(uid)
            if waiting is None or ReservationPlugin.name not in waiting.plugins:
                continue
            self._refused[uid] = None
            if not _waits(waiting):
                continue
            # A nominated pod gets the capacity of pods that are being evicted.
            if len(self._refused) <= _MOST_ASKERS and not (
                waiting.pod.of_daemon_set or nominator.node_of(uid)
            ):
                yield _Asker(waiting.pod, waiting.profile, None)

    def _seemingly_free(self, key: Key, asker: _Asker, now: float) -> set[str] | None:
        """Return the hosts that only reservations make unfit, or None if no new node would help."""
        if now < self._resting.get(key, 0.0):
            return None
        pod, profile, entry = asker
        groups = self._decider.ledger.groups
        found: set[str] | None = None
        about = (PODS, pod.meta) if entry is None else (RESERVATIONS, entry.reservation.meta)
        with self._isolation.attempt("node request", *about) as attempt:
            own = None if entry is None else (entry,)
            with self._pipeline.evaluate(profile, pod, now, own=own) as evaluation:
                result = evaluation.filter()
                # A member of a group may fit alone. The autoscaler counts that node for one of the members.
                needs_more = not result.fits.any() or (
                    entry is not None and groups.awaited(entry) is not None
                )
                if evaluation.rejection is None and needs_more:
                    found = set(_ruled_out_by_reservations(result, evaluation.snapshot))
        self._resting[key] = now + attempt.pause
        return found

    def _exclude(self, key: Key, hosts: set[str]) -> list[str]:
        """Return the hosts to exclude, sorted.

        A host stays excluded as long as it holds reservations, or each pod that comes or goes would be a
        write.
        """
        if before := self._excluded.get(key):
            hosts |= before & self._hosts_with_reservations()
        self._excluded[key] = frozenset(hosts)
        return sorted(hosts)

    def _hosts_with_reservations(self) -> frozenset[str]:
        columns, holdings = self._decider.columns, self._decider.ledger.holdings
        rows = (columns.row_of.get(name) for name in holdings.nodes_with_reservations())
        nodes = (columns.nodes[row] for row in rows if row is not None)
        return frozenset(map(_hostname, nodes))


def _ruled_out_by_reservations(result: FilterResult, snapshot: Snapshot) -> Iterator[str]:
    for plugin, mask in result.ruled_out:
        if plugin.name == ReservationPlugin.name:
            for row in mask.nonzero()[0]:
                yield _hostname(snapshot.nodes[int(row)])


def _waits(pod: QueuedPodInfo | None) -> bool:
    """Return whether a pod waits. Between two decisions, one that is in flight has a node."""
    return pod is not None and pod.queue is not QueueName.IN_FLIGHT


def _waits_for_a_node(entry: ReservationInfo) -> bool:
    return (
        not entry.ahead
        and not entry.unseen
        and not entry.reservation.pinned
        and entry.reason in _MAY_FIT_ELSEWHERE
    )


def _shape_of(pod: Pod) -> tuple[Key, Template]:
    template = placeholder_of(pod)
    digest = sha256(encoded(template)).hexdigest()[:16]
    return Key(pod.meta.namespace, f"tidelock-{digest}"), template


def _hostname(node: Node) -> str:
    return node.meta.labels.get(HOSTNAME, node.name)
