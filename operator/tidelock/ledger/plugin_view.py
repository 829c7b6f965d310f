"""The reservations as plugins see them: the ledger's side of `framework.reservations.Reservations`."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.capacity.sharing import Sharing
from tidelock.ledger.owners.awaited import awaited_reasons
from tidelock.ledger.owners.claims import Claims
from tidelock.ledger.owners.ownership import Ownership
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod
from tidelock.model.quantities import Resources


class PluginView:
    """Reads holdings and owners, and claims reservations for a pod."""

    def __init__(self, holdings: Holdings, ownership: Ownership, claims: Claims) -> None:
        self._holdings = holdings
        self._ownership = ownership
        self._claims = claims
        self.shared: Sharing = holdings.sharing
        self.own: Callable[[Pod], list[ReservationInfo]] = ownership.of

    @property
    def any_held(self) -> bool:
        """Whether any capacity is held."""
        return self._holdings.holds_any

    @property
    def noticeable(self) -> bool:
        """Whether pods may notice reserve pods."""
        return bool(self._holdings.reserve_pods)

    def held_on(self, node_name: str) -> Iterator[ReservationInfo]:
        """Yield the reservations with capacity on a node, by name."""
        return self._holdings.held_on(node_name)

    def on_hold(self, listener: Callable[[ReservationInfo], None]) -> None:
        """Call a function with each reservation that has capacity, and with each that holds other amounts."""
        self._holdings.on_hold(listener)

    def lowest_priority(self) -> float:
        """Return the lowest priority of a reservation with capacity, or infinity."""
        return self._holdings.lowest()

    def shares_windows(self, node_name: str) -> bool:
        """Return whether windows share capacity of a node."""
        return self._holdings.timeline.shares(node_name)

    def waiting_reasons(self, pod: Pod) -> tuple[str, ...]:
        """Return which reservations a pod waits for, or that it has none."""
        return awaited_reasons(self._ownership, pod)

    def misfit(self, pod: Pod, entries: Sequence[ReservationInfo], node_name: str) -> float | None:
        """Return by how much own reservations on a node miss the requests, or None if they name the pod."""
        return self._ownership.misfit(pod, entries, node_name)

    def taken(self, pod: Pod, node_name: str) -> list[ReservationInfo]:
        """Return the own reservations that end when a pod is bound to a node, by name."""
        return self._ownership.taken(pod, node_name)

    def claim(self, pod: Pod, node_name: str, now: float) -> tuple[list[str], bool]:
        """Claim a pod's own reservations on a node. Return UIDs, and whether the binding must name them."""
        claim = self._claims.claim(pod, node_name, now)
        for_workloads = self._ownership.used_by_workloads(pod.meta.namespace)
        return [] if claim is None else claim.uids, for_workloads

    def unclaim(self, uid: str, now: float) -> None:
        """Undo the claim of a pod that was not bound."""
        self._claims.unclaim(uid, now)

    def nominated_on(self, pods: Iterable[Pod], node_name: str) -> list[ReservationInfo]:
        """Return the reservations on a node that belong to pods which are nominated there."""
        return self._ownership.on_node(pods, node_name)

    def kept_for(
        self, pods: Iterable[Pod], node_name: str, without: Collection[ReservationInfo]
    ) -> Resources:
        """Return the amounts held for pods that are nominated on a node, without some reservations."""
        return self._ownership.kept_for(pods, node_name, without)

    def without_reserve_pods(self, entries: Iterable[ReservationInfo]) -> AbstractContextManager[None]:
        """Count the reserve pods of some reservations as gone for as long as the context lasts."""
        return self._holdings.trials.without_reserve_pods(entries)
