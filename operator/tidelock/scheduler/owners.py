"""Finds the owners of a lock that are bound already, as when they were seen before it."""

from collections.abc import Iterator

from tidelock.cluster.cache import Cache
from tidelock.ledger.book import Book
from tidelock.ledger.entry import Entry
from tidelock.ledger.matching import may_claim, owner_names, owns
from tidelock.ledger.transitions import SETTLED
from tidelock.model.pods import Pod
from tidelock.model.reservations import Phase, ReservationSpec


def look_for_owner(book: Book, cache: Cache, entry: Entry, now: float, but: str = "") -> None:
    """Have a lock whose owner seems to be bound already be claimed by it.

    Not by the pod with the uid `but`, if one is given.
    """
    spec = entry.reservation.spec
    if spec is None or entry.sticky or entry.phase in SETTLED:
        return
    for pod, node_name in _bound_owners(cache, entry, spec):
        if pod.uid == but:
            continue
        book.hear_bound(pod, node_name, now)
        if entry.membership is None or entry.phase is Phase.BOUND:
            return  # else the pod has, or takes, another member of the group


def _bound_owners(cache: Cache, entry: Entry, spec: ReservationSpec) -> Iterator[tuple[Pod, str]]:
    names = owner_names(entry.key, spec)
    candidates = (
        cache.pods_in(entry.key.namespace)
        if names is None
        else (placed for name in names if (placed := cache.named(name)) is not None)
    )
    for placed in candidates:
        if not placed.assumed and may_claim(entry, placed.pod) and owns(spec, placed.pod):
            yield placed.pod, placed.node_name
