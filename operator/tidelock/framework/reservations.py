"""The reservations, as plugins see them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tidelock.cluster.placed import Placed
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import Resources


class SharedCapacity(Protocol):
    """Reservations that pods use: their owners if reusable, borrowers if borrowable."""

    @property
    def lenders(self) -> Mapping[Key, ReservationInfo]:
        """Borrowable reservations with capacity, by name."""

    def __bool__(self) -> bool:
        """Return whether there are any such reservations."""

    def occupied_on(self, node_name: str) -> list[ReservationInfo]:
        """Return the reservations of a node with pods inside, by name."""

    def borrowers_on(self, node_name: str) -> list[Placed]:
        """Return the pods of a node that use, or could use, borrowable reservations."""

    def due_to_owners(self, entry: ReservationInfo) -> Resources:
        """Return the amounts of a reservation for its next owner: those held, and those of borrowers."""

    def released(self, entries: Collection[ReservationInfo], node_name: str) -> Resources:
        """Return how much less would be held on a node without some reservations."""

    def would_hold(
        self, node_name: str, *, without: Collection[ReservationInfo] = (), gone: Collection[str] = ()
    ) -> Resources:
        """Return the sum that would be held on a node without some reservations and pods."""


class Reservations(Protocol):
    """Plugins read these records and never change them. Only `claim` and `unclaim` have an effect."""

    @property
    def any_held(self) -> bool:
        """Whether any capacity is held."""

    @property
    def shared(self) -> SharedCapacity:
        """The reservations that pods use."""

    def own(self, pod: Pod) -> list[ReservationInfo]:
        """Return a pod's own reservations, by name. Of a group there is one for each node."""

    def held_on(self, node_name: str) -> Iterator[ReservationInfo]:
        """Yield the reservations with capacity on a node, by name."""

    def on_hold(self, listener: Callable[[ReservationInfo], None]) -> None:
        """Call a function with each reservation that has capacity, and with each that holds other amounts."""

    def lowest_priority(self) -> float:
        """Return the lowest priority of a reservation with capacity, or infinity."""

    def shares_windows(self, node_name: str) -> bool:
        """Return whether windows share capacity of a node, so that one's end may free nothing."""

    def waiting_reasons(self, pod: Pod) -> tuple[str, ...]:
        """Return which reservations a pod waits for that requires one, or that it has none."""

    def misfit(self, pod: Pod, entries: Sequence[ReservationInfo], node_name: str) -> float | None:
        """Return by how much own reservations on a node miss the requests, or None if they name the pod."""

    def taken(self, pod: Pod, node_name: str) -> list[ReservationInfo]:
        """Return the own reservations that end when a pod is bound to a node, by name."""

    def claim(self, pod: Pod, node_name: str, now: float) -> tuple[list[str], bool]:
        """Claim a pod's own reservations on a node.

        Returns:
            UIDs of the claimed reservations and groups, and whether the binding must name them: the
            namespace has reservations for any pod of a workload.

        """

    def unclaim(self, uid: str, now: float) -> None:
        """Undo the claim of a pod that was not bound."""

    def nominated_on(self, pods: Iterable[Pod], node_name: str) -> list[ReservationInfo]:
        """Return the reservations on a node that belong to pods which are nominated there."""

    def kept_for(
        self, pods: Iterable[Pod], node_name: str, without: Collection[ReservationInfo]
    ) -> Resources:
        """Return the amounts held for pods that are nominated on a node, without some reservations."""

    @property
    def noticeable(self) -> bool:
        """Whether pods may notice reserve pods."""

    def without_reserve_pods(self, entries: Iterable[ReservationInfo]) -> AbstractContextManager[None]:
        """Count the reserve pods of some reservations as gone for as long as the context lasts."""
