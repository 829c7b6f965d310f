"""Has the pods claim their locks that were bound while no operator looked."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial

from tidelock.cluster.cache import Cache, Placed
from tidelock.ledger.book import Book
from tidelock.ledger.matching import owner_names
from tidelock.model.failures import Attempt
from tidelock.model.meta import ObjectMeta
from tidelock.scheduler.owners import look_for_owner


class Backlog:
    """The pods that may have taken locks for any pod of their workload, and are yet to be heard.

    A pod that is compared with thousands of selectors takes 0.1 s, and a namespace may have thousands of
    such pods. They are heard one by one, of a namespace first the one that was bound first; the namespaces
    with the least to do come first. Until then what their locks hold may be in use already, so nodes with
    these are not judged.
    """

    def __init__(self, book: Book, cache: Cache) -> None:
        self._book = book
        self._cache = cache
        self._left: dict[str, deque[Placed]] = {}  # the pods of a namespace, in their order
        self._awaited: dict[str, set[str]] = {}  # the namespaces with locks on a node of which some are left

    def __bool__(self) -> bool:
        """Whether any pod is left."""
        return bool(self._left)

    def awaits(self, node_name: str) -> bool:
        """Whether a node has locks that pods may use which are yet to be heard."""
        return node_name in self._awaited

    def gather(self, now: float) -> None:
        """Have the pods that locks name claim these, and line up those that may have taken others."""
        locks = Counter[str]()
        for entry in tuple(self._book.entries.values()):
            if owner_names(entry.key, entry.reservation.spec) is None:
                locks[entry.key.namespace] += 1
            else:
                look = partial(look_for_owner, self._book, self._cache, entry, now)
                self._isolate("Reservation", entry.reservation.meta, look, now)
        lines = {namespace: self._line(namespace) for namespace in locks}
        least_first = sorted(
            locks, key=lambda namespace: (locks[namespace] * len(lines[namespace]), namespace)
        )
        self._left = {namespace: lines[namespace] for namespace in least_first if lines[namespace]}
        for node_name in self._book.rooms.nodes_with_locks():
            theirs = {entry.key.namespace for entry in self._book.rooms.held_on(node_name)}
            if theirs := theirs & self._left.keys():
                self._awaited[node_name] = theirs

    def hear_one(self, now: float) -> Iterable[str]:
        """Hear the next pod, and return the nodes that can be judged since then."""
        namespace, line = next(iter(self._left.items()))
        placed = self._cache.get(line.popleft().pod.uid)
        if placed is not None and not placed.assumed:
            hear = partial(self._book.hear_bound, placed.pod, placed.node_name, now)
            self._isolate("Pod", placed.pod.meta, hear, now)
        if line:
            return ()
        del self._left[namespace]
        for theirs in self._awaited.values():
            theirs.discard(namespace)
        clear = [node_name for node_name, theirs in self._awaited.items() if not theirs]
        for node_name in clear:
            del self._awaited[node_name]
        return clear

    def _line(self, namespace: str) -> deque[Placed]:
        bound = [placed for placed in self._cache.pods_in(namespace) if not placed.assumed]
        return deque(sorted(bound, key=lambda placed: (placed.pod.bound_at, placed.pod.key)))

    def _isolate(self, kind: str, meta: ObjectMeta, step: Callable[[], None], now: float) -> None:
        """Have a fault cost its object alone."""
        self._book.checkpoint()
        with Attempt(partial(self._book.on_failure, "owners", kind, meta)) as attempt:
            step()
        if attempt.error is not None:
            self._book.recover(now)
