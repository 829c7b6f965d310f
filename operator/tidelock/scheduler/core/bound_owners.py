"""Finds owners that were bound before their reservations were seen."""

from tidelock.cluster.cache import Cache
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle.transitions import SETTLED
from tidelock.ledger.owners.matching import is_for_any, may_claim, owner_names, owners_among
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase, ReservationSpec
from tidelock.model.pods import Pod


def look_for_owner(ledger: Ledger, cache: Cache, entry: ReservationInfo, now: float, but: str = "") -> None:
    """Let a bound owner claim a reservation, if it takes the reservation.

    The pod with the UID `but` does not count.
    """
    spec = entry.reservation.spec
    if spec is None or entry.reservation.reusable or entry.phase in SETTLED:
        return
    for pod, node_name in _bound_owners(cache, entry, spec):
        if pod.uid == but:
            continue
        ledger.claims.claim_tentatively(pod, node_name, now)
        if is_for_any(entry, pod):
            continue  # each pod of another binder chooses among such reservations
        if entry.reservation.membership is None or entry.phase is Phase.BOUND:
            return  # else the pod has, or takes, another member of the group


def _bound_owners(cache: Cache, entry: ReservationInfo, spec: ReservationSpec) -> list[tuple[Pod, str]]:
    """Return the bound pods that may take a reservation, in the order of their bindings."""
    names = owner_names(entry.key, spec)
    candidates = (
        cache.pods_in(entry.key.namespace)
        if names is None
        else (placed for name in names if (placed := cache.named(name)) is not None)
    )
    able = [placed for placed in candidates if not placed.assumed and may_claim(entry, placed.pod)]
    owners = owners_among(spec, [placed.pod for placed in able])
    found = [placed for placed in able if placed.pod.uid in owners]
    found.sort(key=lambda placed: (placed.pod.bound_at, placed.pod.key))
    return [(placed.pod, placed.node_name) for placed in found]
