"""Backlog of pods that were bound before the operator started, and may claim reservations."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable

from tidelock.cluster.cache import Cache
from tidelock.cluster.placed import Placed
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.owners.matching import owner_names
from tidelock.scheduler.core.bound_owners import look_for_owner


class Backlog:
    """The pods that may have taken reservations for any pod of their workload, and are not processed yet.

    Comparing a pod with thousands of selectors takes 0.1 s, and a namespace may have thousands of such pods.
    They are processed one by one, in each namespace by the time of their binding. The namespaces with the
    least work are first. Until then the capacity of their reservations may be in use already, so nodes with
    these reservations are not judged.
    """

    def __init__(self, ledger: Ledger, cache: Cache) -> None:
        self._ledger = ledger
        self._cache = cache
        self._left: dict[str, deque[Placed]] = {}  # the pods of a namespace, in their order
        self._nodes: defaultdict[str, list[str]] = defaultdict(list)  # with reservations of a namespace
        self._awaited = Counter[str]()  # number of unfinished namespaces with reservations on a node

    def __bool__(self) -> bool:
        """Return whether any pod is left."""
        return bool(self._left)

    def awaits(self, node_name: str) -> bool:
        """Return whether a node has reservations that unprocessed pods may use."""
        return self._awaited[node_name] > 0

    def gather(self, now: float) -> None:
        """Let pods claim the reservations that name them, and queue those that may have taken others."""
        self._nodes.clear()
        self._awaited.clear()
        reservations = Counter[str]()
        for entry in tuple(self._ledger.entries.values()):
            with self._ledger.recovery.isolated("owners", "Reservation", entry.reservation.meta, now):
                if owner_names(entry.key, entry.reservation.spec) is None:
                    reservations[entry.key.namespace] += 1
                else:
                    look_for_owner(self._ledger, self._cache, entry, now)
        queues = {namespace: self._queue_of(namespace) for namespace in reservations}
        least_first = sorted(
            reservations, key=lambda namespace: (reservations[namespace] * len(queues[namespace]), namespace)
        )
        self._left = {namespace: queues[namespace] for namespace in least_first if queues[namespace]}
        for node_name in self._ledger.holdings.nodes_with_reservations():
            for namespace in {entry.key.namespace for entry in self._ledger.holdings.held_on(node_name)}:
                if namespace in self._left:
                    self._nodes[namespace].append(node_name)
                    self._awaited[node_name] += 1

    def process_one(self, now: float) -> Iterable[str]:
        """Process the next pod, and return the nodes that can be judged since then."""
        namespace, queue = next(iter(self._left.items()))
        placed = self._cache.get(queue.popleft().pod.uid)
        if placed is not None and not placed.assumed:
            with self._ledger.recovery.isolated("owners", "Pod", placed.pod.meta, now):
                self._ledger.claims.claim_tentatively(placed.pod, placed.node_name, now)
        if queue:
            return ()
        del self._left[namespace]
        nodes = self._nodes.pop(namespace, [])
        self._awaited.subtract(nodes)
        return [node_name for node_name in nodes if not self.awaits(node_name)]

    def _queue_of(self, namespace: str) -> deque[Placed]:
        bound = [placed for placed in self._cache.pods_in(namespace) if not placed.assumed]
        return deque(sorted(bound, key=lambda placed: (placed.pod.bound_at, placed.pod.key)))
